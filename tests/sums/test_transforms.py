"""Transforms between points and modes, axes, threads and windows: against sums over all terms."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from fourierkernels.kernels import FourierKernel
from fourierkernels.sums import kernel_sum, lattices, transforms
from fourierkernels.sums.coordinates import Box, Grid, product_axes
from fourierkernels.sums.lattices import Moments, Windows
from fourierkernels.sums.series import fourier_series, ramp_band, window
from fourierkernels.sums.transforms import (
    backward,
    choice,
    forward,
    loop_threads,
    on_axes,
    transform_threads,
)

GRIDS = {
    1: ((2.0, 40),),
    2: ((3.0, 20), (2.5, 34)),
    3: ((2.0, 10), (2.2, 12), (5.0, 8)),
}
BOX = {dim: Box((-1.0,) * dim, (1.0,) * dim) for dim in GRIDS}
WAYS = [0, *range(4, 17, 3)]  # moments, and widths of windows
EPS = [1e-13, 1e-10, 1e-6, 1e-3]


def points(dim: int, n: int, seed: int = 0) -> np.ndarray:
    """Return points in the box, two of them in its corners and three in one place."""
    found = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, dim))
    found[0], found[1], found[2:5] = -1.0, 1.0, 0.25
    return found


def waves(at: np.ndarray, grid: Grid) -> np.ndarray:
    """Return exp(i ω_k·x) at the modes that are kept, shape ``(points, *modes)``."""
    first = [0, *(1 - m // 2 for _, m in grid[1:])]
    ks = np.meshgrid(
        *(np.arange(k, m // 2) for k, (_, m) in zip(first, grid, strict=True)), indexing="ij"
    )
    angle = sum(
        np.multiply.outer(x * (2.0 * math.pi / p), k)
        for x, k, (p, _) in zip(at.T, ks, grid, strict=True)
    )
    return np.exp(1j * angle)


def real_modes(dim: int, columns: int) -> np.ndarray:
    """Return modes of real sums: those with k_0 = 0 are conjugates in pairs."""
    strengths = np.random.default_rng(5).normal(size=(columns, 12))
    return np.tensordot(strengths, waves(points(dim, 12, seed=6), GRIDS[dim]).conj(), 1)


def summed(halves: np.ndarray, at: np.ndarray, grid: Grid) -> np.ndarray:
    """Return the real sums over all modes, shape ``(t, m)``."""
    doubled = 2.0 * halves
    doubled[:, 0] *= 0.5
    return np.tensordot(doubled, waves(at, grid), (range(1, halves.ndim),) * 2).real


def way(dim: int, width: int, eps: float) -> Windows | Moments:
    """Return a way to the modes by moments, width 0, or by a window of a width."""
    modes = tuple(m for _, m in GRIDS[dim])
    if not width:
        chosen = transforms._moments(modes[0], 1, 1, eps)
        return Moments(GRIDS[dim], BOX[dim], cells=chosen.sizes[0])
    sizes = transforms._windows(modes, width, transforms._oversampling(width, eps), 1, 1).sizes
    return Windows(GRIDS[dim], BOX[dim], width=width, sizes=sizes, threads=1)


def cases() -> list[tuple[int, int, float]]:
    return [
        (dim, width, eps)
        for dim in GRIDS
        for width in WAYS
        for eps in EPS
        if (width or dim == 1) and transforms._oversampling(width or 16, eps) < 3
    ]


@pytest.mark.parametrize(("dim", "width", "eps"), cases())
def test_modes_are_the_sums_of_their_terms(dim: int, width: int, eps: float) -> None:
    at = points(dim, 30)
    strengths = np.random.default_rng(1).normal(size=(3, 30))  # of both signs
    found = way(dim, width, eps).forward(at, strengths)
    exact = np.tensordot(strengths, waves(at, GRIDS[dim]).conj(), 1)
    assert np.abs(found - exact).max() <= eps * np.abs(strengths).sum(axis=1).max()


@pytest.mark.parametrize(("dim", "width", "eps"), cases())
def test_sums_at_queries_are_those_over_the_modes(dim: int, width: int, eps: float) -> None:
    at, halves = points(dim, 30, seed=2), real_modes(dim, 2)
    found = way(dim, width, eps).backward(at, halves)
    size = 2.0 * np.abs(halves).sum(axis=tuple(range(1, halves.ndim))).max()
    assert np.abs(found - summed(halves, at, GRIDS[dim])).max() <= eps * size


@pytest.mark.parametrize(("width", "eps"), [(7, 1e-3), (16, 1e-13)])
def test_points_in_blocks_have_the_same_sums(
    width: int, eps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, strengths = points(3, 500), np.random.default_rng(1).normal(size=(2, 500))
    plain = way(3, width, eps)
    modes, sums = plain.forward(at, strengths), plain.backward(at, real_modes(3, 2))
    assert plain._order(at) is None
    monkeypatch.setattr(lattices, "_CACHED", 0)
    order = plain._order(at)
    assert order is not None
    assert not np.array_equal(order, np.sort(order))
    np.testing.assert_allclose(plain.forward(at, strengths), modes, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(plain.backward(at, real_modes(3, 2)), sums)


@pytest.mark.parametrize("dim", GRIDS)
def test_a_period_hardly_wider_than_the_points_wraps_round(dim: int) -> None:
    """Windows at both ends of the box overlap the same cells."""
    grid = tuple((2.0, m) for _, m in GRIDS[dim])
    at, strengths = points(dim, 30), np.random.default_rng(1).normal(size=(2, 30))
    modes = forward(at, strengths, grid, BOX[dim], eps=1e-12)
    np.testing.assert_allclose(
        modes, np.tensordot(strengths, waves(at, grid).conj(), 1), atol=1e-11
    )
    sums = backward(at, modes, grid, BOX[dim], eps=1e-12)
    np.testing.assert_allclose(sums, summed(modes, at, grid), atol=1e-10 * np.abs(modes).sum())


@pytest.mark.parametrize("dim", GRIDS)
def test_moved_points_have_the_same_modes(dim: int) -> None:
    """Places are taken from the centre of the box, so that a distant sample loses no digits."""
    at, strengths = np.round(points(dim, 30) * 2.0**20) / 2.0**20, np.ones((1, 30))
    far = Box((2.0**30 - 1.0,) * dim, (2.0**30 + 1.0,) * dim)
    near = forward(at, strengths, GRIDS[dim], BOX[dim], eps=1e-13)
    moved = forward(at + 2.0**30, strengths, GRIDS[dim], far, eps=1e-13)
    np.testing.assert_array_equal(near, moved)


@pytest.mark.parametrize("dim", GRIDS)
@pytest.mark.parametrize("columns", [1, 3])
def test_sums_where_axes_meet_are_those_at_the_points(dim: int, columns: int) -> None:
    halves = real_modes(dim, columns)
    axes = [np.sort(np.random.default_rng(d).uniform(-1, 1, 4 + d)) for d in range(dim)]
    at = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim)
    found = on_axes(axes, halves, GRIDS[dim], BOX[dim]).reshape(columns, -1)
    exact = summed(halves, at, GRIDS[dim])
    np.testing.assert_allclose(found, exact, atol=1e-13 * np.abs(halves).sum())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_axes_are_found_in_any_order(order: tuple[int, ...]) -> None:
    axes = [np.linspace(0.0, 1.0 + d, 2 + d) ** 2 for d in range(3)]
    grids = np.meshgrid(*(axes[d] for d in order), indexing="ij")
    at = np.empty((grids[0].size, 3))
    for d, values in zip(order, grids, strict=True):
        at[:, d] = values.ravel()
    found = product_axes(at)
    assert found is not None
    assert found.order == order
    for mine, axis in zip(found.axes, axes, strict=True):
        np.testing.assert_array_equal(mine, axis)
    at[7, 1] = np.nextafter(at[7, 1], 9.0)
    assert product_axes(at) is None


@pytest.mark.parametrize("shape", [(1, 2), (5, 2), (4, 1), (1, 3)])
def test_other_points_have_no_axes(shape: tuple[int, int]) -> None:
    assert product_axes(np.random.default_rng(0).normal(size=shape)) is None


@pytest.mark.parametrize("dim", GRIDS)
@pytest.mark.parametrize("tol", [1e-12, 1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier4"])
def test_sums_keep_their_error_on_and_off_a_grid(dim: int, tol: float, kernel: str) -> None:
    """Clustered points, a far one, weights of all sizes, few and many queries, no responses."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=(40, dim)), 1e-6 * rng.normal(size=(9, dim))])
    x[0] = 9.0
    axes = [np.linspace(-9.5, 9.5, count) for count in (12, 9, 7)[:dim]]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, dim)
    responses = rng.normal(size=(49, 2))
    options = {"kernel": kernel, "radius": 1.5, "weights": rng.uniform(size=49) ** 4}
    queries = (grid, grid[rng.permutation(len(grid))], grid[:1])
    for at, options["responses"] in itertools.product(queries, (None, responses)):
        exact = kernel_sum(x, at, method="reference", **options)
        fast = kernel_sum(x, at, method="bandlimited", tol=tol, refine=False, **options)
        assert np.all(np.abs(fast.totals() - exact.totals()) <= fast.error)
        gap = np.abs(fast.numerator - exact.numerator * np.ldexp(1.0, exact.exponent)[:, None])
        assert np.all(gap <= 4.0 * fast.error[:, None] * np.abs(responses).max())


def test_the_choice_is_moments_for_many_points_on_the_line_alone() -> None:
    assert choice((300,), 10**6, 1, 1e-13).width == 0
    assert choice((10**6,), 10**3, 1, 1e-13).width > 0
    assert choice((300, 300), 10**6, 1, 1e-13).width > 0
    assert choice((300, 300), 10**6, 1, 1e-4).width < choice((300, 300), 10**6, 1, 1e-13).width


@pytest.mark.parametrize("tol", [1e-16, 1e-13, 1e-7, 1e-3])
def test_window_is_one_then_falls_to_zero(tol: float) -> None:
    u = np.linspace(-1.0, 2.0, 601)
    values = window(u, tol)
    assert np.all(values[u <= 0] == 1.0)
    assert np.all(values[u >= 1] == 0.0)
    assert np.all(np.diff(values) <= 1e-15)
    np.testing.assert_allclose(values + window(1.0 - u, tol), 1.0, atol=1e-14)


@pytest.mark.parametrize("tol", [1e-12, 1e-7, 1e-3])
def test_ramp_ends_in_frequency_where_its_band_says(tol: float) -> None:
    """The spectrum of the window's ramps, sampled finely, beyond the band it is said to have."""
    size, period = 4096, 8.0
    x = period / size * (np.arange(size) - size // 2)
    spectrum = np.abs(np.fft.fftshift(np.fft.fft(window(np.abs(x) - 1.0, tol)))) / size
    frequency = 2.0 * math.pi / period * np.abs(np.arange(size) - size // 2)
    assert spectrum[frequency > ramp_band(tol)].max() < tol


def test_windows_take_fewer_modes_than_error_functions_did() -> None:
    """212 modes at band times reach 157, where a ramp ½ erfc took 262 [measured]."""
    series = fourier_series(FourierKernel(4), 1.0, 157.0 / 4.0, tol=1e-12)
    assert len(series.coefficients) <= 216


_THREADS = """
import sys
import numpy as np
from fourierkernels.sums.transforms import loop_threads, transform_threads
print(loop_threads(), transform_threads(), "numba" in sys.modules)
import numba
numba.set_num_threads(1)
print(loop_threads(), transform_threads())
"""


def test_threads_are_those_given_to_numba_and_to_openmp() -> None:
    environment = {"NUMBA_NUM_THREADS": "3", "OMP_NUM_THREADS": "2", "PATH": ""}
    environment["PYTHONPATH"] = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _THREADS],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.split("\n")[:2] == ["3 2 False", "1 1"]
    assert loop_threads() >= transform_threads() >= 1
