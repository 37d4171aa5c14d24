"""The programs of the CUDA kernels, run thread by thread on the host, against float64.

Every index, barrier, mask and formula is that of the GPU; what is not tested here is the GPU: its
arithmetic (approximate division), its memory and its scheduling.
"""

import math
from collections.abc import Iterator

import pytest
import torch
from cuda_cases import DEFAULTS, Case, normalised_weights, reference, run, run_with
from host_kernels import host_library, needs_compiler
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.ops.reference import log_sinc_slope

pytestmark = needs_compiler
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """Deterministic torch fills new memory with NaN: what a kernel does not write, shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


BOOLEAN = draw(1, 2, 70, 90, seed=5).detach() > 0.3
EMPTY_ROWS = torch.zeros(2, 1, 70, 1, dtype=torch.bool).index_fill(2, torch.arange(0, 70, 3), True)
CASES = {
    "plain": Case(),
    "one tile exactly": Case(n=64, m=64),
    "one query": Case(n=1),
    "one key": Case(m=1),
    "few features and columns": Case(dim=3, columns=1),
    "larger than the size needs": Case(dim=20, columns=10, size=64),
    "features beyond columns": Case(dim=50, columns=7, size=64, scale=0.5),
    "columns beyond features": Case(dim=4, columns=60, size=64),
    "four chunks": Case(dim=64, columns=64, size=64, scale=0.5),
    "causal": Case(n=150, m=150, options={"causal": True}),
    "causal, more queries": Case(n=150, m=70, options={"causal": True}),
    "causal, more keys": Case(n=70, m=150, options={"causal": True}),
    "boolean mask": Case(options={"mask": BOOLEAN}),
    "padding": Case(options={"mask": draw(2, 1, 1, 90, seed=6).detach() > 0}),
    "empty rows": Case(options={"mask": EMPTY_ROWS}),
    "additive mask": Case(options={"mask": 3 * draw(1, 1, 70, 90, seed=7).detach()}),
    "additive mask per head": Case(options={"mask": draw(2, 2, 1, 90, seed=7).detach()}),
    "mask of finite minima": Case(
        options={"mask": torch.zeros(1, 2, 70, 90).masked_fill(~BOOLEAN, -3e38)}
    ),
    "mask and causal": Case(options={"mask": BOOLEAN, "causal": True}),
    "eps": Case(options={"eps": 1e-6}, scale=0.2),
    "eps above all weights": Case(options={"eps": 1e-6}),
    "second power": Case(options={"power": 2}),
    "sixth power": Case(options={"power": 6}),
    "first power": Case(dim=4, options={"power": 1}, scale=0.3),
    "third power": Case(dim=5, options={"power": 3}, scale=0.3),
    "common offset": Case(offset=1e4),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_output_and_gradients_are_those_of_the_reference(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    output, _, _, gradients, grad = run(case, dtype)
    expected, expected_gradients = reference(case, case.leaves(dtype), grad)
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]
    assert relative_error(output, expected) < tolerance["fast"]
    noises = rounding(case, case.leaves(dtype), grad)
    for actual, exact, noise in zip(gradients, expected_gradients, noises, strict=True):
        assert actual.shape == exact.shape
        assert (actual - exact).norm() <= tolerance["gradient"] * exact.norm() + noise


def rounding(case: Case, leaves: list[Tensor], grad: Tensor) -> list[float]:
    """What must be expected of the gradients l R P (dO·v - dO·h) t, t = d log sinc / dx.

    The difference cancels where one key has all the weight, and t is known as well as x = u - v is:
    u = R q and v = R k are rounded, and dt/dx is 1/sin² x near the zeros of the kernel.
    """
    unit = 2 * torch.finfo(leaves[0].dtype).eps
    query, key, value, radius = (leaf.double() for leaf in leaves)
    weights, grad = normalised_weights(case, query, key, radius).abs(), grad.double()
    centre = key.mean(2, keepdim=True)
    u, v = (radius[:, None] * (side - centre) for side in (query, key))
    x = u[..., :, None, :] - v[..., None, :, :]
    dot = grad @ value.mT
    difference = (dot - (weights * dot).sum(-1, keepdim=True)).abs()
    argument = 1 + u[..., :, None, :].abs() + v[..., None, :, :].abs()
    steep = torch.where(x.abs() < 0.5, 1.0, 1 / torch.sin(x).square())
    size = (grad.abs() @ value.abs().mT)[..., None] * log_sinc_slope(x).abs()
    size = unit * weights[..., None] * (size + difference[..., None] * steep * argument)
    size = (DEFAULTS | case.options)["power"] * size
    along = (size * (x / radius[:, None, None]).abs()).sum((0, 2, 3))
    sides = (radius[:, None] * size.sum(dim) for dim in (3, 2))
    return [*(float(each.norm()) for each in sides), 0.0, float(along.norm())]


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_have_no_races_any_order_of_threads_gives_the_same_bits(dtype: torch.dtype) -> None:
    case = Case(dim=40, columns=40, size=64, options={"causal": True})
    library, results = host_library(dtype, case.size), []
    for order in (1, 255, 37, 101):
        library.handle.fk_set_order(order)
        results.append(run(case, dtype))
    library.handle.fk_set_order(1)
    for output, significand, exponent, gradients, _ in results[1:]:
        first = results[0]
        assert torch.equal(output, first[0])
        assert torch.equal(significand, first[1])
        assert torch.equal(exponent, first[2])
        assert all(map(torch.equal, gradients, first[3]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_larger_library_gives_the_same_bits(dtype: torch.dtype) -> None:
    small, large = (run(Case(size=size), dtype) for size in (16, 64))
    assert torch.equal(small[0], large[0])
    assert all(map(torch.equal, small[3], large[3]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_saved_row_sums_are_significand_times_power_of_two(dtype: torch.dtype) -> None:
    case = Case(scale=0.2, options={"eps": 1e-3})
    _, significand, exponent, _, _ = run(case, dtype)
    query, key, _, radius = (leaf.double() for leaf in case.leaves(dtype))
    x = radius[:, None, None] * (query[..., None, :] - key[..., None, :, :])
    sums = (torch.sinc(x / math.pi) ** 4).prod(-1).sum(-1) + 1e-3
    actual = torch.ldexp(significand.double(), exponent)
    assert relative_error(actual, sums) < TOLERANCE[str(dtype).removeprefix("torch.")]["fast"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_without_keys_are_zero_and_pass_no_gradient(dtype: torch.dtype) -> None:
    output, significand, _, (dq, *others), _ = run(CASES["empty rows"], dtype)
    empty = ~EMPTY_ROWS.expand(2, 2, 70, 1)[..., 0]
    assert (output[empty] == 0).all()
    assert (dq[empty] == 0).all()
    assert torch.isinf(significand[empty]).all()
    assert all(torch.isfinite(other).all() for other in others)


@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_equal_to_keys_have_weight_and_no_slope(dtype: torch.dtype) -> None:
    case = Case(n=40, m=40, dim=64, columns=8, size=64)
    leaves = case.leaves(dtype)
    leaves[0] = leaves[1].clone()  # 64 features, R = 1.3: nearly one key each
    output, _, _, gradients, grad = run(case, dtype, leaves)
    expected, expected_gradients = reference(case, leaves, grad)
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]
    assert relative_error(output, expected) < tolerance["fast"]
    assert relative_error(gradients[2], expected_gradients[2]) < tolerance["gradient"]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [1, 2, 4])
def test_keys_at_zeros_of_the_sine_give_finite_results(dtype: torch.dtype, power: int) -> None:
    case = Case(n=5, m=6, dim=3, columns=2, options={"power": power})
    leaves = case.leaves(dtype)
    leaves[0] = torch.zeros_like(leaves[0])
    leaves[1] = math.pi * (1 + torch.arange(6, dtype=dtype))[:, None].expand(2, 2, 6, 3)
    leaves[3] = torch.ones_like(leaves[3])
    output, _, _, gradients, _ = run(case, dtype, leaves)
    assert torch.isfinite(output).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def near_zeros_of_the_sine(dtype: torch.dtype) -> list[Tensor]:
    """Differences close to multiples of pi: the sines of float32 have few digits, or none."""
    place = draw(2, 2, 1, 2, seed=8, dtype=dtype).detach()
    steps = torch.arange(1, 61, dtype=dtype)[:, None] * math.pi
    query, key = place - 1e-4 * draw(2, 2, 50, 2, seed=1, dtype=dtype).detach(), place + steps
    return [query, key, torch.eye(60, dtype=dtype).expand(2, 2, 60, 60), torch.ones(2, 2).to(dtype)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [2, 4])
def test_all_passes_use_the_same_weights_near_zeros_of_the_sine(
    dtype: torch.dtype, power: int
) -> None:
    """Of the values 1 the gradient is Σ_i P_ij; with values that are a unit matrix, O is P."""
    case = Case(n=50, m=60, dim=2, columns=60, size=64, options={"power": power})
    leaves = near_zeros_of_the_sine(dtype)
    rows, gradients = run_with(case, leaves, torch.ones(2, 2, 50, 60, dtype=dtype))
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]["exact"]
    assert relative_error(gradients.value[..., 0], rows.output.sum(2)) < tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [2, 4])
def test_gradients_of_queries_and_keys_have_opposite_sums(dtype: torch.dtype, power: int) -> None:
    """Queries and keys may be moved together; near zeros of the sine the slope has its poles."""
    case = Case(n=50, m=60, dim=2, columns=60, size=64, options={"power": power})
    grad = draw(2, 2, 50, 60, seed=9, dtype=dtype).detach()
    _, gradients = run_with(case, near_zeros_of_the_sine(dtype), grad)
    dq, dk = gradients.query, gradients.key
    scale = dk.abs().sum(2) + dq.abs().sum(2)
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]["exact"]
    assert ((dq.sum(2) + dk.sum(2)).abs() <= 4 * tolerance * scale).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_of_ten_thousand_have_finite_results(dtype: torch.dtype) -> None:
    case = Case(scale=1e4, dim=8, columns=8)
    output, _, _, gradients, _ = run(case, dtype)
    assert torch.isfinite(output).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_inputs_of_ten_thousand_err_no_more_than_twice_the_reference() -> None:
    """Differences of 1e4 are known to 1e-3, whoever takes the sine: an error is one of luck.

    Of one draw the two errors differ by factors of up to five, so sixteen are averaged.
    """
    case, errors = Case(scale=1e4, dim=8, columns=8), []
    for seed in range(16):
        sides = (1e4 * draw(2, 2, n, 8, seed=seed, dtype=torch.float32) for n in (70, 91))
        query, key = (side.detach() for side in sides)
        leaves = [query, key[:, :, 1:], *case.leaves(torch.float32)[2:]]
        output, _, _, _, grad = run(case, torch.float32, leaves)
        plain = fourier_attention(*leaves, implementation="reference")
        expected, _ = reference(case, leaves, grad)
        errors.append([relative_error(rows, expected) for rows in (output, plain)])
    ours, theirs = torch.tensor(errors).log().mean(0).exp()
    assert ours < 2 * theirs


def test_weights_far_below_the_smallest_float_are_kept() -> None:
    """Unit normal, R = 2, D = 128: the median weight is 1e-243."""
    case = Case(n=40, m=50, dim=128, columns=16, size=128)
    leaves = [*case.leaves(torch.float32)[:3], torch.full((2, 128), 2.0)]
    output, _, exponent, _, grad = run(case, torch.float32, leaves)
    assert exponent.max() < -126  # every row sum is below the normal numbers
    expected, _ = reference(case, leaves, grad)
    assert relative_error(output, expected) < TOLERANCE["float32"]["fast"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_masks_are_read_through_their_strides(dtype: torch.dtype) -> None:
    mask = (draw(90, 70, 2, seed=5).detach() > 0).permute(2, 1, 0)[None]  # (1, 2, 70, 90)
    assert not mask.is_contiguous()
    strided = run(Case(options={"mask": mask}), dtype)
    plain = run(Case(options={"mask": mask.contiguous()}), dtype)
    assert torch.equal(strided[0], plain[0])
    assert all(map(torch.equal, strided[3], plain[3]))


@pytest.mark.parametrize("shape", ["no queries", "no batch"])
def test_empty_problems_give_empty_results(shape: str) -> None:
    case = Case()
    leaves = case.leaves(torch.float32)
    if shape == "no queries":
        leaves[0] = leaves[0][:, :, :0]
    else:
        leaves[:3] = [leaf[:0] for leaf in leaves[:3]]
    output, significand, exponent, gradients, _ = run(case, torch.float32, leaves)
    assert output.numel() == significand.numel() == exponent.numel() == 0
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert torch.equal(gradient, torch.zeros_like(leaf))
