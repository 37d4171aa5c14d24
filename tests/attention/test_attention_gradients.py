"""Derivatives: against finite differences, against the plain product, and at the hard points."""

import math

import pytest
import torch
from plain_attention import ATTENTIONS, draw, plain_fourier, relative_error
from tolerances import TOLERANCE
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from fourierkernels.attention import fourier_attention, gaussian_attention

GRADIENT = TOLERANCE["float64"]["gradient"]
MASK = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)  # one empty row


def inputs(scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-attention of 3 queries to 4 keys, two heads, D = 3, D_v = 2."""
    return draw(2, 3, 3, scale=scale), draw(2, 4, 3, seed=1, scale=scale), draw(2, 4, 2, seed=2)


@pytest.mark.parametrize("power", [2, 4, 6])
@pytest.mark.parametrize("shape", [(), (3,), (2, 1), (2, 3)])
@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_gradcheck_for_every_shape_of_radius(
    power: int, shape: tuple[int, ...], eps: float
) -> None:
    radius = (1.5 + draw(*shape, seed=3, scale=0.1).detach()).requires_grad_()
    assert gradcheck(lambda *x: fourier_attention(*x, power=power, eps=eps), (*inputs(), radius))


@pytest.mark.parametrize("power", [1, 3])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_gradcheck_for_signed_powers_away_from_vanishing_sums(
    power: int, shape: tuple[int, ...]
) -> None:
    radius = torch.full(shape, 1.5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda *x: fourier_attention(*x, power=power, allow_signed=True), (*inputs(0.3), radius)
    )


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("options", [{"attn_mask": MASK}, {"is_causal": True}], ids=["mask", "tri"])
def test_gradcheck_with_masks_that_empty_a_row(name: str, options: dict[str, object]) -> None:
    assert gradcheck(lambda *x: ATTENTIONS[name](*x, **options), inputs())


def test_gradcheck_of_an_additive_mask() -> None:
    mask = draw(3, 4, seed=5)
    assert gradcheck(lambda mask, *x: fourier_attention(*x, 1.0, attn_mask=mask), (mask, *inputs()))


def test_gradcheck_of_gaussian_attention_with_eps() -> None:
    assert gradcheck(lambda *x: gaussian_attention(*x, eps=1e-2), inputs())


@pytest.mark.parametrize("power", [1, 2, 4])
def test_gradcheck_where_queries_meet_keys(power: int) -> None:
    points = draw(2, 3, 3, scale=0.4)
    value = draw(2, 3, 2, seed=2)
    radius = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    copy = points.detach().clone().requires_grad_()
    assert gradcheck(
        lambda *x: fourier_attention(*x, power=power, allow_signed=True),
        (points, copy, value, radius),
    )


def test_second_derivatives_pass_gradgradcheck() -> None:
    query, key, value = draw(1, 2, 2), draw(1, 3, 2, seed=1), draw(1, 3, 1, seed=2)
    radius = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(fourier_attention, (query, key, value, radius))


def test_gradient_equals_that_of_the_plain_product() -> None:
    leaves = (*inputs(), torch.tensor(1.2, dtype=torch.float64, requires_grad=True))
    ours = torch.autograd.grad(fourier_attention(*leaves).sin().sum(), leaves)
    plain = torch.autograd.grad(plain_fourier(*leaves).sin().sum(), leaves)
    for actual, expected in zip(ours, plain, strict=True):
        assert relative_error(actual, expected) < GRADIENT


def test_radius_gradient_follows_from_the_others_by_homogeneity() -> None:
    """The weights depend on R q and R k only: R dR = Σ q dq + Σ k dk, feature by feature."""
    query, key, value = inputs()
    radius = torch.tensor([0.8, 1.0, 1.3], dtype=torch.float64, requires_grad=True)
    loss = fourier_attention(query, key, value, radius).sin().sum()
    dq, dk, dr = torch.autograd.grad(loss, (query, key, radius))
    euler = (query * dq).sum(dim=(0, 1)) + (key * dk).sum(dim=(0, 1))
    torch.testing.assert_close(radius * dr, euler, rtol=GRADIENT, atol=GRADIENT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [2, 4])
def test_gradient_at_a_zero_of_the_kernel_is_that_of_the_plain_product(
    dtype: torch.dtype, power: int
) -> None:
    query = torch.zeros(1, 1, 2, dtype=dtype, requires_grad=True)
    key = torch.tensor([[[math.pi, 0.3], [0.2, 0.1], [0.0, 2 * math.pi]]], dtype=dtype)
    value = draw(1, 3, 2, dtype=dtype).detach()
    (ours,) = torch.autograd.grad(
        fourier_attention(query, key, value, 1.0, power=power)[0, 0, 0], query
    )
    (plain,) = torch.autograd.grad(plain_fourier(query, key, value, 1.0, power)[0, 0, 0], query)
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]["gradient"]
    torch.testing.assert_close(ours, plain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("power", [1, 2, 4])
def test_gradient_is_finite_when_every_key_sits_at_a_zero_of_the_kernel(power: int) -> None:
    query = torch.zeros(1, 1, 2, requires_grad=True)
    key = math.pi * torch.tensor([[[1.0, 2.0], [3.0, -1.0]]])
    radius = torch.ones(2, requires_grad=True)
    options = {"power": power, "allow_signed": True}
    fourier_attention(query, key, torch.ones(1, 2, 1), radius, **options).sum().backward()
    assert torch.isfinite(query.grad).all()
    assert torch.isfinite(radius.grad).all()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_empty_rows_are_zero_and_pass_no_gradient(name: str) -> None:
    query, key, value = inputs()
    output = ATTENTIONS[name](query, key, value, attn_mask=MASK)
    assert (output[:, 2] == 0).all()
    output.sum().backward()
    assert (query.grad[:, 2] == 0).all()
    assert all(torch.isfinite(leaf.grad).all() for leaf in (query, key, value))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_keys_that_nobody_attends_to_get_zero_gradient(name: str) -> None:
    query, key, value = inputs()
    mask = torch.zeros(3, 4, dtype=torch.float64).index_fill(1, torch.tensor([1]), -math.inf)
    ATTENTIONS[name](query, key, value, attn_mask=mask).square().sum().backward()
    assert (key.grad[:, 1] == 0).all()
    assert (value.grad[:, 1] == 0).all()
    assert (key.grad[:, 0] != 0).all()
