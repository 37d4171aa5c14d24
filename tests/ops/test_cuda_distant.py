"""Rows far apart: eight factors of 1/|x| leave the range of float32 together, none does alone."""

import pytest
import torch
from cuda_cases import Case, reference, run_with
from host_kernels import needs_compiler
from plain_attention import draw
from torch import Tensor

pytestmark = needs_compiler


def distant(dim: int, distance: float, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Integers, so that differences are exact in every precision; R = 1."""
    sides = (
        (distance * draw(2, 2, n, dim, seed=n, dtype=dtype).detach()).round() for n in (30, 40)
    )
    value = draw(2, 2, 40, 6, seed=3, dtype=dtype).detach()
    return [*sides, value, torch.ones(2, dim, dtype=dtype)]


def rounding(leaves: list[Tensor], grad: Tensor) -> list[Tensor]:
    """One unit of rounding of each reduced argument, carried to output and gradients; R = 1.

    Near zeros of the sine log sinc has the slope cot x and the slope itself 1/sin² x, so that one
    unit grows without limit; which draw comes near them depends on the processor.
    """
    query, key, value = (leaf.double() for leaf in leaves[:3])
    grad = grad.double().abs()
    x = query[..., :, None, :] - key[..., None, :, :]  # (..., n, m, dim)
    x = torch.where(x == 0, torch.nan, x)
    slope = (1 / x.tan() - 1 / x).abs().nan_to_num(0.0)
    bend = (1 / x.sin() ** 2).nan_to_num(1 / 3)
    log = 4 * (x.sin() / x).abs().nan_to_num(1.0).log().sum(-1)
    weights = log.softmax(-1)  # (..., n, m)
    growth = 1 + 4 * slope.sum(-1)
    growth = growth + (weights * growth).sum(-1, keepdim=True)
    shares = grad @ value.abs().mT + (grad * (weights @ value.abs())).sum(-1, keepdim=True)
    pairs = 4 * (weights * shares)[..., None] * (slope * growth[..., None] + bend)
    carried = weights * growth
    parts = carried @ value.abs(), pairs.sum(-2), pairs.sum(-3), carried.mT @ grad
    return [torch.finfo(torch.float32).eps / 2 * part for part in parts]


@pytest.mark.parametrize("dim", [8, 16, 64])
@pytest.mark.parametrize("distance", [1e3, 5e4, 1e6, 1e9])
def test_distant_rows_have_the_output_and_gradients_of_the_reference(
    dim: int, distance: float
) -> None:
    case = Case(n=30, m=40, dim=dim, columns=6, size=64)
    leaves = distant(dim, distance)
    leaves[1][:, :, 0] = 0  # no offset in common: it would round
    grad = draw(2, 2, 30, 6, seed=9, dtype=torch.float32).detach()
    rows, gradients = run_with(case, leaves, grad)
    output, expected = reference(case, leaves, grad)
    assert (rows.output != 0).all()
    found = rows.output, gradients.query, gradients.key, gradients.value
    for ours, exact, unit in zip(found, (output, *expected), rounding(leaves, grad), strict=False):
        assert (ours.double() - exact).norm() < 2 * unit.norm()


def test_distant_keys_change_no_bit_of_those_before_them() -> None:
    case = Case(n=40, m=40, dim=16, columns=6, size=16, options={"causal": True})
    leaves, grad = (
        case.leaves(torch.float32),
        draw(2, 2, 40, 6, seed=9, dtype=torch.float32).detach(),
    )
    before, _ = run_with(case, leaves, grad)
    leaves[1][:, :, 21:] *= 1e5  # 20 is of the same four
    after, _ = run_with(case, leaves, grad)
    assert torch.equal(after.output[:, :, :21], before.output[:, :, :21])
    assert not torch.equal(after.output[:, :, 21:], before.output[:, :, 21:])
