"""The emulation of CUDA itself: what its kernels can do, and the faults that it must report."""

import ctypes
import subprocess

import numpy as np
import pytest
from host_kernels import EMULATION, SMALL, as_cpp, compiled, needs_compiler
from numpy.typing import NDArray

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def toys() -> ctypes.CDLL:
    source = (EMULATION / "toys.cu").read_text("utf-8")
    library = ctypes.CDLL(str(compiled("toys", SMALL, files={"attention.cu": source})))
    library.message.restype = ctypes.c_char_p
    return library


def pointer(array: NDArray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def in_order(toys: ctypes.CDLL, order: int) -> NDArray:
    """Return the lanes as they came, before the barrier and after it."""
    seen, count = np.zeros(128, np.int32), np.zeros(1, np.int32)
    toys.fk_set_order(order)
    assert toys.run_orders(pointer(seen), pointer(count)) == 0
    toys.fk_set_order(1)
    return seen.reshape(2, 64)


@pytest.mark.parametrize("order", [1, -1, 5])
def test_lanes_meet_at_barriers_and_exchange_through_shared_memory(
    toys: ctypes.CDLL, order: int
) -> None:
    given = np.arange(3 * 256, dtype=np.float32)
    found = np.full_like(given, np.nan)
    toys.fk_set_order(order)
    assert toys.run_reverse(pointer(given), pointer(found), 3, 256) == 0
    toys.fk_set_order(1)
    np.testing.assert_array_equal(found.reshape(3, 256), given.reshape(3, 256)[:, ::-1])


def test_orders_of_lanes_are_ascending_descending_or_drawn_anew_at_each_barrier(
    toys: ctypes.CDLL,
) -> None:
    ascending = np.arange(64)
    np.testing.assert_array_equal(in_order(toys, 1), [ascending, ascending])
    np.testing.assert_array_equal(in_order(toys, -1), [ascending[::-1], ascending[::-1]])
    drawn = in_order(toys, 7)
    np.testing.assert_array_equal(np.sort(drawn), [ascending, ascending])
    assert (drawn[0] != drawn[1]).any()
    np.testing.assert_array_equal(in_order(toys, 7), drawn)
    assert (in_order(toys, 8) != drawn).any()


def test_shuffles_and_shared_arrays_add_up_a_block(toys: ctypes.CDLL) -> None:
    given, found = np.random.default_rng(0).normal(size=256), np.zeros(1)
    toys.fk_set_order(3)
    assert toys.run_total(pointer(given), pointer(found)) == 0
    toys.fk_set_order(1)
    assert found[0] == pytest.approx(given.sum(), rel=1e-13)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_votes_count_blocks_warps_and_parts_of_warps(toys: ctypes.CDLL, chance: float) -> None:
    given = (np.random.default_rng(1).random(64) < chance).astype(np.int32)
    found = np.zeros((64, 8), np.int32)
    assert toys.run_votes(pointer(given), pointer(found)) == 0
    bits = [int(sum(int(v) << i for i, v in enumerate(warp))) for warp in given.reshape(2, 32)]
    for lane in range(64):
        warp, half = bits[lane // 32], (0x55555555, 0xAAAAAAAA)[lane % 2]
        expected = [given.any(), given.all(), given.sum(), warp, warp > 0, warp == 0xFFFFFFFF]
        assert [int(v) & 0xFFFFFFFF for v in found[lane]] == [*map(int, expected), warp & half, 1]


def test_shuffles_stay_within_their_groups(toys: ctypes.CDLL) -> None:
    found = np.zeros((32, 4), np.int32)
    assert toys.run_shuffles(pointer(found)) == 0
    lane = np.arange(32)
    expected = [
        lane // 8 * 8 + 3,
        np.where(lane % 16 < 2, lane, lane - 2),
        np.where(lane + 5 > 31, lane, lane + 5),
        lane ^ 9,
    ]
    np.testing.assert_array_equal(found.T, expected)


def test_atomics_count_what_all_blocks_add(toys: ctypes.CDLL) -> None:
    given = np.random.default_rng(2).integers(0, 5, 64).astype(np.int32)
    counts, total = np.zeros(5, np.int32), np.zeros(1, np.float32)
    assert toys.run_count(pointer(given), pointer(counts), pointer(total)) == 0
    np.testing.assert_array_equal(counts, 3 * np.bincount(given, minlength=5))
    assert total[0] == 96


def test_memory_that_nobody_wrote_is_nan(toys: ctypes.CDLL) -> None:
    shared, own = np.zeros(32, np.float32), np.zeros(32, np.float32)
    assert toys.run_unwritten(pointer(shared), pointer(own)) == 0
    assert np.isnan(shared).all()
    assert np.isnan(own).all()


FAULTS = {
    0: "a lane returns while others wait|after another has returned",
    1: "lanes wait at two barriers",
    2: "wrote outside its shared memory",
    3: "wrote outside its shared memory",
    4: "no lane can go on",
    5: "not in the mask",
}


@pytest.mark.parametrize("order", [1, -1, 11])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_end_the_launch_with_a_message(toys: ctypes.CDLL, fault: int, order: int) -> None:
    toys.fk_set_order(order)
    error = toys.run_faulty(fault)
    toys.fk_set_order(1)
    assert error == 719
    assert any(part in toys.message(error).decode() for part in FAULTS[fault].split("|"))
    assert toys.run_faulty(6) == 0  # the next launch is not affected


def test_shared_memory_beyond_what_was_asked_for_or_exists_is_refused(toys: ctypes.CDLL) -> None:
    limits = [(0, 48 << 10, 0), (0, (48 << 10) + 1, 1), (99 << 10, 99 << 10, 0)]
    limits += [((99 << 10) + 1, 64, 1), (50 << 10, (50 << 10) + 1, 1)]
    for asked_for, launched_with, error in limits:
        assert toys.run_greedy(asked_for, launched_with) == error, (asked_for, launched_with)


def quotients(toys: ctypes.CDLL, a: NDArray, b: NDArray) -> tuple[NDArray, NDArray]:
    found = np.zeros_like(a), np.zeros_like(a)
    toys.run_quotients(*map(pointer, (a, b, *found)), len(a))
    return found


def test_approximate_division_errs_but_within_its_documented_bound(toys: ctypes.CDLL) -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=10_000).astype(np.float32)
    b = (rng.normal(size=10_000) * 10.0 ** rng.uniform(-30, 30, 10_000)).astype(np.float32)
    quotient, inverse = quotients(toys, a, b)
    bounds = (quotient, a.astype(float) / b, 2), (inverse, 1 / b.astype(float), 1)
    for found, exact, bound in bounds:
        normal = np.abs(exact) > np.finfo(np.float32).tiny
        units = np.abs(found - exact)[normal] / np.spacing(np.abs(exact[normal]).astype(np.float32))
        assert 0.6 < units.max() < bound


def test_approximate_division_is_zero_where_the_card_says_so(toys: ctypes.CDLL) -> None:
    a = np.array([1.0, np.inf, 3.0, 0.5, 1.0], np.float32)
    b = np.array([2.0**127, 2.0**127, 2.0**126, 2.0**-127, np.inf], np.float32)
    quotient, inverse = quotients(toys, a, b)
    assert quotient[0] == quotient[4] == 0
    assert np.isnan(quotient[1])
    assert quotient[2] == np.float32(3.0) / np.float32(2.0**126)
    assert quotient[3] == pytest.approx(2.0**126, rel=3e-7)
    np.testing.assert_array_equal(inverse, [0, 0, 2.0**-126, np.inf, 0])


def test_unknown_instructions_do_not_compile(capfd: pytest.CaptureFixture[str]) -> None:
    source = (
        'inline void f(float& y, float x) { asm("sin.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); }'
    )
    assert "ptx_sin_approx_f32(y, x)" in as_cpp(source)
    with pytest.raises(subprocess.CalledProcessError):
        compiled("unknown", SMALL, files={"attention.cu": source})
    assert "ptx_sin_approx_f32" in capfd.readouterr().err
