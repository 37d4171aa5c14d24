"""Rows far apart: eight factors of 1/|x| leave the range of float32 together, none does alone."""

import pytest
import torch
from cuda_cases import Case, reference, run_with
from host_kernels import needs_compiler
from plain_attention import draw, relative_error
from torch import Tensor

pytestmark = needs_compiler


def distant(dim: int, distance: float, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Integers, so that differences are exact in every precision; R = 1."""
    sides = (
        (distance * draw(2, 2, n, dim, seed=n, dtype=dtype).detach()).round() for n in (30, 40)
    )
    value = draw(2, 2, 40, 6, seed=3, dtype=dtype).detach()
    return [*sides, value, torch.ones(2, dim, dtype=dtype)]


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
    assert relative_error(rows.output, output) < 2e-5
    assert relative_error(gradients.value, expected[2]) < 2e-5
    assert relative_error(gradients.query, expected[0]) < 5e-5
    assert relative_error(gradients.key, expected[1]) < 5e-5


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
