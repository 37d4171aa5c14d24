"""The CPU kernels against the reference's formulas in float64: options, masks, lengths."""

from itertools import product

import pytest
import torch
from exact_attention import as_double, backward_of, both_ways, exact, make_inputs
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.ops.arguments import Gradients, Inputs, Options
from fourierkernels.ops.cpu.forward import forward

B, H = 2, 3
DTYPES = [torch.float32, torch.float64]
# From one key to beyond a tile of 256, across the steps of 16 and 64 that loops take.
LENGTHS = [(1, 1), (5, 7), (17, 16), (8, 65), (70, 257), (140, 300)]


def masks(n: int, m: int) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(1)

    def hide(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) > 0.4

    def add(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    empty = hide(B, H, n, m)
    empty[:, 1, n // 2] = False  # rows without a key
    return {
        "none": None,
        "padding": torch.arange(m).lt(max(1, 2 * m // 3)).expand(B, 1, 1, m),
        "boolean": empty,
        "additive": add(B, H, n, m).masked_fill(~empty, -torch.inf),
        "per head": add(1, H, n, m),
        "shared": add(1, 1, n, m),
        "expanded": add(1, 1, 1, m).expand(B, H, n, m),
        "per key": add(B, 1, 1, m),
        "per query": add(1, H, n, 1),
        "one": add(1, 1, 1, 1),
    }


def error(found: Tensor, expected: Tensor, unit: float) -> float:
    """Error relative to the norm, or to `unit` where that is larger: some sums are exactly 0."""
    difference = (found.detach().double() - expected.detach()).norm()
    return float(difference / expected.detach().norm().clamp(min=unit))


def compare(inputs: Inputs, options: Options) -> None:
    """Compare output, weights and all gradients, with the weights in the loss.

    A weight is a product of as many rounded factors as there are features times the power.
    """
    tolerance = TOLERANCE[str(inputs.query.dtype).removeprefix("torch.")]
    rounding = torch.finfo(inputs.query.dtype).eps / 2 * inputs.query.shape[-1] * options.power
    fast = max(tolerance["fast"], rounding)
    double = as_double(inputs)
    output, weights = exact(double, options)
    rows = forward(inputs, options)
    assert error(rows.output, output, 1e-3) < fast
    assert error(rows.weights, weights, 1e-3) < fast
    generator = torch.Generator().manual_seed(2)
    grad = torch.randn(output.shape, generator=generator, dtype=inputs.query.dtype)
    weights_grad = torch.randn(weights.shape, generator=generator, dtype=inputs.query.dtype)
    loss = (output * grad).sum() + (weights * weights_grad).sum()
    leaves = [leaf for leaf in double[:5] if leaf is not None and leaf.requires_grad]
    expected = torch.autograd.grad(loss, leaves)
    found = backward_of(rows, grad, weights_grad, inputs, options)
    for name, actual, truth in zip(Gradients._fields, found, expected, strict=False):
        assert actual.shape == truth.shape
        assert error(actual, truth, 1.0) < tolerance["gradient"], name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", masks(1, 1))
def test_results_and_gradients_are_those_of_the_formulas(
    mask: str, causal: bool, dropout_p: float, dtype: torch.dtype
) -> None:
    for n, m in LENGTHS:
        inputs = make_inputs(B, H, (n, m), (6, 3), dtype, masks(n, m)[mask])
        wanted = inputs.mask is not None and inputs.mask.is_floating_point()
        compare(inputs, Options(4, causal, 0.0, dropout_p, True, wanted))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 64])
@pytest.mark.parametrize("power", [2, 4, 6])
def test_every_width_and_power_and_eps(power: int, dim: int, dtype: torch.dtype) -> None:
    for eps, width in product((0.0, 1e-3), (1, 4)):
        inputs = make_inputs(B, H, (9, 40), (dim, width), dtype)
        compare(inputs, Options(power, False, eps, 0.2, True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_seeds_and_heads_draw_each_their_own(dtype: torch.dtype) -> None:
    inputs = make_inputs(B, H, (12, 280), (4, 4), dtype)
    options = Options(4, False, 0.0, 0.5, True)
    first, again = forward(inputs, options).weights, forward(inputs, options).weights
    other = forward(inputs._replace(seed=inputs.seed + 1), options).weights
    assert torch.equal(first, again)
    kept = (first != 0).double()
    assert not torch.equal(first, other)
    assert abs(float(kept.mean()) - 0.5) < 4 * 0.5 / kept.numel() ** 0.5
    heads = kept.flatten(0, 1).flatten(1)
    assert float(torch.corrcoef(heads).fill_diagonal_(0).abs().max()) < 4 / heads.shape[1] ** 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_passes_have_the_same_weights_to_the_bit(dtype: torch.dtype) -> None:
    """With dO the identity, dv is the transposed weights: every sine has the same sign and bits."""
    inputs = make_inputs(1, 2, (40, 300), (16, 40), dtype)
    inputs = inputs._replace(query=4 * inputs.query, key=4 * inputs.key)
    options = Options(1, False, 0.0, 0.0, True)
    grad = torch.eye(40, dtype=dtype).expand(1, 2, 40, 40)
    rows, gradients = both_ways(inputs, options, grad)
    assert torch.equal(gradients.value, rows.weights.mT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_comes_later_changes_no_bit_of_causal_rows(dtype: torch.dtype) -> None:
    inputs = make_inputs(1, 2, (300, 300), (5, 3), dtype)
    later = [inputs.query.clone(), inputs.key.clone(), inputs.value.clone()]
    for tensor in later:
        tensor[:, :, 100:] *= 1e6
    options = Options(4, True, 0.0, 0.1)
    outputs = [
        forward(case, options).output[:, :, :100]
        for case in (
            inputs,
            inputs._replace(query=later[0], key=later[1], value=later[2]),
            Inputs(*(x[:, :, :100] for x in inputs[:3]), inputs.radius, None, inputs.seed),
        )
    ]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [8, 9, 64, 256])
@pytest.mark.parametrize("scale", [1e2, 1e5, 1e9, 1e12])
def test_distant_rows_neither_overflow_nor_vanish(
    scale: float, dim: int, dtype: torch.dtype
) -> None:
    """Products of four distances are 1e40 at 1e10; the sines of 1e12 are known all the same."""
    inputs = make_inputs(1, 2, (6, 40), (dim, 3), dtype)
    ones = torch.ones_like(inputs.radius)
    inputs = inputs._replace(query=scale * inputs.query, key=scale * inputs.key, radius=ones)
    options = Options(2, False, 0.0, 0.0, True)
    grad = torch.ones(1, 2, 6, 3, dtype=dtype)
    rows, gradients = both_ways(inputs, options, grad)
    _, weights = exact(as_double(inputs), options)
    assert (rows.weights.sum(dim=-1) - 1).abs().max() < 1e-5
    # Errors of sines, which count as much as the sine is small, and of the formula's own distances.
    bound = 1000 * dim**0.5 * torch.finfo(dtype).eps + 100 * scale * torch.finfo(torch.float64).eps
    assert float((rows.weights - weights.detach()).abs().max()) < bound
    assert all(torch.isfinite(part).all() for part in gradients)
