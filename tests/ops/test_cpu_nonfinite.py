"""NaN and infinity on the CPU: they show in all that they touch, and in nothing else.

What is touched follows from which pairs a mask leaves: a hidden pair touches nothing.
"""

import math
from typing import NamedTuple

import pytest
import torch
from exact_attention import both_ways, make_inputs
from torch import Tensor

from fourierkernels.ops.arguments import Gradients, Inputs, Options, Rows

B, H, N, M, D, C = 1, 2, 20, 300, 6, 3  # two tiles of keys
NAN, INF = math.nan, math.inf


class Spoilt(NamedTuple):
    """Which entries are not finite: of queries, keys, mask, values and gradients."""

    query: Tensor  # (B, H, N)
    key: Tensor  # (B, H, M)
    bias: Tensor  # (B, H, N, M)
    value: Tensor  # (B, H, M, C)
    grad: Tensor  # (B, H, N, C)


def spoil(inputs: Inputs, grad: Tensor) -> Spoilt:
    query, key, value, radius, mask, _ = inputs
    rotten = ~torch.isfinite(radius).all(dim=-1)[:, None]  # a radius spoils all of its head
    bias = torch.zeros(1, 1, 1, 1, dtype=torch.bool)
    if mask is not None and mask.dtype is not torch.bool:
        bias = mask.isnan() | (mask == INF)
    return Spoilt(
        ~torch.isfinite(query).all(dim=-1) | rotten,
        ~torch.isfinite(key).all(dim=-1) | rotten,
        bias.expand(B, H, N, M),
        ~torch.isfinite(value),
        ~torch.isfinite(grad),
    )


def pairs_in_sight(mask: Tensor | None, causal: bool) -> Tensor:
    seen = torch.ones(B, H, N, M, dtype=torch.bool)
    if mask is not None:
        seen &= mask if mask.dtype is torch.bool else mask != -INF
    return seen.tril() if causal else seen


def touched(spoilt: Spoilt, seen: Tensor) -> tuple[Rows, Gradients]:
    """Return which results and gradients must be NaN or infinite; significand for exponent."""
    pairs = seen & (spoilt.query[..., None] | spoilt.key[..., None, :] | spoilt.bias)
    rows = pairs.any(dim=-1)
    output = rows[..., None] | _any(seen, spoilt.value)
    bad = (output | spoilt.grad).any(dim=-1) & seen.any(dim=-1)  # Δ_i is not finite
    weights = seen & rows[..., None]
    dkey = (seen & bad[..., None]).any(dim=-2)
    dvalue = _any(seen.mT, rows[..., None] | spoilt.grad)
    everywhere = (slice(None),) * 3 + (None,)
    return (
        Rows(output, rows, rows, weights, rows[..., :0]),
        Gradients(
            bad[everywhere].expand(B, H, N, D),
            dkey[everywhere].expand(B, H, M, D),
            dvalue,
            bad.any(dim=2).any(dim=0)[:, None].expand(H, D),
            seen & bad[..., None],
        ),
    )


def _any(seen: Tensor, spoilt: Tensor) -> Tensor:
    return (seen.double() @ spoilt.double()) > 0


PLACES = {
    "nothing": (),
    "query": (("query", (0, 0, 7, 2), NAN),),
    "infinite query": (("query", (0, 1, 3, 0), INF),),
    "key": (("key", (0, 0, 5, 1), NAN),),
    "infinite key of the second tile": (("key", (0, 1, 290, 1), -INF),),
    "first key": (("key", (0, 0, 0, 0), NAN),),
    "value": (("value", (0, 1, 6, 2), NAN),),
    "infinite value of the second tile": (("value", (0, 0, 270, 0), INF),),
    "radius": (("radius", (1, 3), NAN),),
    "gradient": (("grad", (0, 0, 11, 1), NAN),),
    "several": (
        ("query", (0, 0, 19, 5), NAN),
        ("key", (0, 0, 2, 1), INF),
        ("value", (0, 1, 4, 0), NAN),
        ("grad", (0, 1, 8, 2), INF),
    ),
}


def masks() -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.rand(B, H, N, M, generator=generator) < 0.4
    padding = torch.arange(M).lt(280).expand(B, 1, 1, M).clone()
    padding[..., [0, 5, 270]] = False
    additive = torch.randn(B, H, N, M, generator=generator).masked_fill(hidden, -INF)
    return {"none": None, "boolean": ~hidden, "padding": padding, "additive": additive}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mask", masks())
def test_what_is_not_finite_shows_where_it_touches_and_nowhere_else(
    mask: str, place: str, causal: bool, dtype: torch.dtype
) -> None:
    inputs = make_inputs(B, H, (N, M), (D, C), dtype, masks()[mask])
    grad = torch.randn(B, H, N, C, generator=torch.Generator().manual_seed(2), dtype=dtype)
    for name, index, number in PLACES[place]:
        (grad if name == "grad" else getattr(inputs, name))[index] = number
    check(inputs, grad, causal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", [NAN, INF])
@pytest.mark.parametrize("shape", [(B, H, N, M), (1, 1, N, M), (1, 1, 1, M), (1, H, N, 1)])
def test_a_mask_that_is_not_finite_shows_in_the_rows_it_touches(
    shape: tuple[int, ...], number: float, dtype: torch.dtype
) -> None:
    mask = torch.zeros(shape)
    mask[..., min(3, shape[2] - 1), min(9, shape[3] - 1)] = number
    inputs = make_inputs(B, H, (N, M), (D, C), dtype, mask)
    grad = torch.randn(B, H, N, C, generator=torch.Generator().manual_seed(2), dtype=dtype)
    check(inputs, grad, causal=False)


def check(inputs: Inputs, grad: Tensor, causal: bool) -> None:
    mask = inputs.mask
    wanted = mask is not None and mask.is_floating_point()
    rows, gradients = both_ways(inputs, Options(4, causal, 0.0, 0.0, True, wanted), grad)
    seen = pairs_in_sight(mask, causal)
    expected, dexpected = touched(spoil(inputs, grad), seen)
    wrong = [
        name
        for found, should in ((rows, expected), (gradients, dexpected))
        for name in found._fields
        if name not in ("exponent", "packed", "mask")
        and not torch.equal(_shows(getattr(found, name)), getattr(should, name))
    ]
    assert not wrong
    if wanted:
        axes = [axis for axis in range(4) if mask.shape[axis] < seen.shape[axis]]
        summed = dexpected.mask.amax(dim=axes, keepdim=True) if axes else dexpected.mask
        assert torch.equal(_shows(gradients.mask), summed)


def _shows(x: Tensor) -> Tensor:
    """NaN or, but for the totals of empty rows, infinity."""
    return x.isnan() if x.ndim == 3 else ~torch.isfinite(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout_does_not_hide_what_is_not_finite(dtype: torch.dtype) -> None:
    """Even a row whose only bad key is dropped has a total that is not finite."""
    inputs = make_inputs(B, H, (N, M), (D, C), dtype)
    inputs.key[0, 0, 5, 1] = NAN
    inputs.value[0, 1, 5, 1] = NAN
    grad = torch.ones(B, H, N, C, dtype=dtype)
    rows, gradients = both_ways(inputs, Options(4, False, 0.0, 0.5), grad)
    assert rows.output[0, 0].isnan().all()
    assert rows.output[0, 1, :, 1].isnan().all()
    assert torch.isfinite(rows.output[0, 1, :, [0, 2]]).all()
    assert gradients.query.isnan().all()
