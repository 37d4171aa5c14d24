"""Many short heads: each computed as if it were alone, in little memory."""

from dataclasses import dataclass

import pytest
import torch
from exact_attention import SEED, as_double, backward_of, exact
from several_threads import printed_by
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.operator import attend, attend_backward

DTYPES = [torch.float32, torch.float64]
# Across the steps of 16 and 64 that loops take, and beyond a tile of 256.
LENGTHS = [(1, 1), (7, 9), (9, 7), (31, 33), (63, 65), (255, 257), (257, 255)]


@dataclass(frozen=True)
class Case:
    """Options, and which mask: none, of a head, of its keys, or of what is hidden in it."""

    name: str
    causal: bool = False
    dropout_p: float = 0.0
    mask: str = ""
    power: int = 4
    return_weights: bool = False


CASES = [
    Case("plain"),
    Case("causal", causal=True),
    Case("dropout", dropout_p=0.3),
    Case("mask", mask="rows"),
    Case("keys", mask="keys", causal=True),
    Case("weights", return_weights=True, power=6),
]


def drawn(heads: int, lengths: tuple[int, int], case: Case, dtype: torch.dtype) -> Inputs:
    """Normal draws of five features and three columns; every third head is far from 0."""
    n, m = lengths
    generator = torch.Generator().manual_seed(4)
    shapes = [(1, heads, n, 5), (1, heads, m, 5), (1, heads, m, 3)]
    query, key, value = (torch.randn(s, generator=generator, dtype=dtype) for s in shapes)
    query[:, 1::3] += 100
    key[:, 1::3] += 100
    mask = None
    if case.mask:
        seen = (1, heads, n if case.mask == "rows" else 1, m)
        mask = torch.randn(seen, generator=generator, dtype=dtype)
        mask = mask.masked_fill(mask > 1, -torch.inf)
    radius = 0.5 + torch.rand((heads, 5), generator=generator, dtype=dtype)
    return Inputs(query, key, value, radius, mask, SEED)


def passes(inputs: Inputs, options: Options) -> list[Tensor]:
    """Return output, totals and weights, and the gradients of rows.

    That of the radius is a sum of R q or of q, as centring has it. From 128 queries on those of
    keys and values are sums over slabs, of which few heads have more.
    """
    rows = attend(*inputs, *options[:-1])
    output, significand, exponent, weights = rows
    grad = torch.cos(torch.arange(output[0, 0].numel(), dtype=output.dtype)).view(output.shape[2:])
    grad = grad.expand(output.shape)
    weights_grad = torch.ones_like(weights) / 3 if options.return_weights else None
    delta = (grad * output).sum(dim=-1)
    if weights_grad is not None:
        delta = delta + (weights_grad * weights).sum(dim=-1)
    saved = significand, exponent
    asked = (*options[:4], options.mask_grad)
    dq, dk, dv, _, dmask = attend_backward(grad, weights_grad, delta, *inputs, *saved, *asked)
    whole = [dk, dv, *([dmask] if options.mask_grad else [])]
    return [*rows, dq, *(whole if inputs.query.shape[2] < 128 else [])]


def of_head(inputs: Inputs, head: int) -> Inputs:
    one = slice(head, head + 1)
    query, key, value, radius, mask, seed = inputs
    mask = None if mask is None else mask[:, one]
    return Inputs(query[:, one], key[:, one], value[:, one], radius[one], mask, seed)


def bits(x: Tensor) -> Tensor:
    """Return numbers as integers, for which NaN is itself; of zeros the sign is dropped."""
    return (x + 0).contiguous().view({4: torch.int32, 8: torch.int64}[x.element_size()])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_head_alone_is_the_same_among_others_to_the_bit(case: Case, dtype: torch.dtype) -> None:
    """Others that overflow, are not finite or are centred included; the draw counts heads."""
    options = Options(
        case.power, case.causal, 0.0, case.dropout_p, case.return_weights, bool(case.mask)
    )
    for lengths in LENGTHS:
        inputs = drawn(7, lengths, case, dtype)
        inputs.query[:, 2] *= 1e9
        inputs.value[:, 3] = torch.inf
        inputs.key[:, 5, 0] = torch.nan
        together = passes(inputs, options)
        for head in (0, 4) if not case.dropout_p else (0,):
            alone = passes(of_head(inputs, head), options)
            for many, one in zip(together, alone, strict=True):
                assert torch.equal(bits(many[:, head : head + 1]), bits(one)), lengths


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_head_among_two_thousand_is_the_same_alone_to_the_bit(dtype: torch.dtype) -> None:
    inputs, options = drawn(2048, (8, 8), CASES[0], dtype), Options(4, False, 0.0)
    together = passes(inputs, options)
    for head in (0, 1, 1000, 2047):
        for many, one in zip(together, passes(of_head(inputs, head), options), strict=True):
            assert torch.equal(bits(many[:, head : head + 1]), bits(one))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_heads_are_those_of_the_formulas(lengths: tuple[int, int], dtype: torch.dtype) -> None:
    """A weight is a product of 20 rounded factors; a mean of M values adds at most M roundings."""
    inputs = drawn(40, lengths, Case("keys", mask="keys"), dtype)
    inputs = inputs._replace(query=inputs.query % 1, key=inputs.key % 1)
    options, double = Options(4, False, 0.0), as_double(inputs)
    bound = (2 * 20 + lengths[1]) * torch.finfo(dtype).eps / 2
    output, _ = exact(double, options)
    rows = Rows(*attend(*inputs, *options[:-1]))
    largest = inputs.value.abs().amax(dim=-2, keepdim=True)
    assert float(((rows.output - output.detach()) / largest).abs().max()) < bound
    expected = torch.autograd.grad(output.sum(), double[:4])
    gradients = backward_of(rows, torch.ones_like(rows.output), None, inputs, options)
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]["gradient"]
    for actual, truth in zip(gradients, expected, strict=False):
        assert float((actual - truth).norm() / truth.norm().clamp(min=1.0)) < tolerance


# Peaks of a process never fall: that of many heads is above that of what was compiled before.
_PEAK = """
import resource
import torch
from fourierkernels.attention import fourier_attention

def peak(heads):
    leaves = [torch.randn(heads, 8, 64, requires_grad=True) for _ in range(3)]
    output = fourier_attention(*leaves, 0.5)
    forward = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output.sum().backward()
    return forward, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

torch.set_num_threads(1)
_, before = peak(2)
print(*(found - before for found in peak(2048)))
"""


def test_two_thousand_heads_of_eight_rows_take_less_than_the_differences_of_the_formula() -> None:
    """Which are 34 MB, four arrays of them at a time forward and eight backward."""
    forward, backward = map(int, printed_by(_PEAK))
    assert forward < 100_000
    assert backward < 200_000
