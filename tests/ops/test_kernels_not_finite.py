"""NaN and infinity in the kernels of CPU and CUDA: they show where they touch, and only there.

What is touched follows from which pairs a mask leaves: a hidden pair touches nothing. One contract
for both: a row of `KERNELS` takes inputs, options and a gradient and returns results and gradients.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import torch
from attention_problems import AttentionProblem
from exact_attention import both_ways, make_inputs
from host_kernels import host_library, needs_compiler
from torch import Tensor

from fourierkernels.ops.arguments import Gradients, Inputs, Options, Rows, Saved
from fourierkernels.ops.cuda import attention as cuda

B, H, D, C = 2, 2, 6, 3
NAN, INF = math.nan, math.inf
Kernels = Callable[[Inputs, Options, Tensor], tuple[Rows, Gradients]]


def by_cuda(inputs: Inputs, options: Options, grad: Tensor) -> tuple[Rows, Gradients]:
    """Run the programs of the CUDA kernels on the host."""
    library = host_library(inputs.query.dtype, 16)
    rows = cuda.forward(library, inputs, options)
    problem = AttentionProblem(inputs, options, grad)
    cotangents = problem.cotangents(rows.output, rows.weights)
    saved = Saved(rows.significand, rows.exponent)
    return rows, cuda.backward(library, cotangents, inputs, saved, options)


KERNELS: dict[str, Kernels] = {"cpu": both_ways, "cuda": by_cuda}
LENGTHS = {"cpu": (20, 300), "cuda": (70, 90)}  # N and M: two tiles of keys, on CUDA of queries too
ROWS = [
    pytest.param(kernels, dtype, marks=needs_compiler if kernels == "cuda" else ())
    for kernels in KERNELS
    for dtype in (torch.float32, torch.float64)
]


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
        bias.expand(B, H, query.shape[2], key.shape[2]),
        ~torch.isfinite(value),
        ~torch.isfinite(grad),
    )


def pairs_in_sight(mask: Tensor | None, causal: bool, lengths: tuple[int, int]) -> Tensor:
    seen = torch.ones(B, H, *lengths, dtype=torch.bool)
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
        Rows(output, rows, rows, weights),
        Gradients(
            bad[everywhere].expand(*bad.shape, D),
            dkey[everywhere].expand(*dkey.shape, D),
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
    "infinite key of the second tile": (("key", (0, 1, -10, 1), -INF),),
    "first key": (("key", (0, 0, 0, 0), NAN),),
    "value": (("value", (0, 1, 6, 2), NAN),),
    "infinite value of the second tile": (("value", (0, 0, -20, 0), INF),),
    "radius": (("radius", (1, 3), NAN),),
    "gradient": (("grad", (0, 0, 11, 1), NAN),),
    "several": (
        ("query", (0, 0, 19, 5), NAN),
        ("key", (0, 0, 2, 1), INF),
        ("value", (0, 1, 4, 0), NAN),
        ("grad", (0, 1, 8, 2), INF),
    ),
}


def masks(n: int, m: int) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.rand(B, H, n, m, generator=generator) < 0.4
    padding = torch.arange(m).lt(m - 15).expand(B, 1, 1, m).clone()
    padding[..., [0, 5, -20]] = False
    tiles = torch.arange(m).lt(min(30, m)).expand(B, 1, 1, m)  # hides the second tile as a whole
    additive = torch.randn(B, H, n, m, generator=generator).masked_fill(hidden, -INF)
    return {
        "none": None,
        "boolean": ~hidden,
        "padding": padding,
        "first tile": tiles,
        "additive": additive,
    }


def drawn(kernels: str, dtype: torch.dtype, mask: Tensor | None) -> tuple[Inputs, Tensor]:
    """Return inputs, and a gradient of the output."""
    n, m = LENGTHS[kernels]
    grad = torch.randn(B, H, n, C, generator=torch.Generator().manual_seed(2), dtype=dtype)
    return make_inputs(B, H, (n, m), (D, C), dtype, mask), grad


@cache
def clean_results(
    kernels: str, dtype: torch.dtype, mask: str, causal: bool
) -> tuple[Rows, Gradients]:
    inputs, grad = drawn(kernels, dtype, masks(*LENGTHS[kernels])[mask])
    return KERNELS[kernels](inputs, options_for(inputs.mask, causal), grad)


def options_for(mask: Tensor | None, causal: bool) -> Options:
    return Options(4, causal, 0.0, 0.0, True, mask is not None and mask.is_floating_point())


@pytest.mark.parametrize(("kernels", "dtype"), ROWS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mask", masks(100, 100))
def test_what_is_not_finite_shows_where_it_touches_and_nowhere_else(
    mask: str, place: str, causal: bool, kernels: str, dtype: torch.dtype
) -> None:
    inputs, grad = drawn(kernels, dtype, masks(*LENGTHS[kernels])[mask])
    for name, index, number in PLACES[place]:
        (grad if name == "grad" else getattr(inputs, name))[index] = number
    results, expected = check(kernels, inputs, grad, causal)
    if place == "radius":
        check_nan(results, expected)
    if kernels == "cuda":  # and leaves the bits of all others
        for part in ("output", "query", "key", "value"):
            for found, should, before in zip(
                results, expected, clean_results(kernels, dtype, mask, causal), strict=True
            ):
                if part in found._fields:
                    rest = ~getattr(should, part)
                    assert torch.equal(getattr(found, part)[rest], getattr(before, part)[rest])


@pytest.mark.parametrize(("kernels", "dtype"), ROWS)
@pytest.mark.parametrize("number", [NAN, INF])
@pytest.mark.parametrize("shared", [(), (0, 1), (0, 1, 2), (0, 3)], ids=str)
@pytest.mark.parametrize("hiding", [False, True])
def test_a_mask_that_is_not_finite_shows_as_nan_in_the_rows_it_touches(
    hiding: bool, shared: tuple[int, ...], number: float, kernels: str, dtype: torch.dtype
) -> None:
    """The rest of the mask is 0, or hides keys, which a row of NaN leaves as they are."""
    axes = (slice(1) if axis in shared else slice(None) for axis in range(4))
    mask = masks(*LENGTHS[kernels])["additive"][*axes].clone()
    if not hiding:
        mask.zero_()
    mask[..., min(3, mask.shape[2] - 1), min(9, mask.shape[3] - 1)] = number
    inputs, grad = drawn(kernels, dtype, mask)
    check_nan(*check(kernels, inputs, grad, causal=False))


def check(
    kernels: str, inputs: Inputs, grad: Tensor, causal: bool
) -> tuple[tuple[Rows, Gradients], tuple[Rows, Gradients]]:
    """Compare with what must be touched; return results and that."""
    mask, options = inputs.mask, options_for(inputs.mask, causal)
    results = KERNELS[kernels](inputs, options, grad)
    seen = pairs_in_sight(mask, causal, LENGTHS[kernels])
    expected = touched(spoil(inputs, grad), seen)
    if (
        kernels == "cuda"
    ):  # multiplies by the radius at the end, also where nothing is seen: 0 · NaN
        rotten = ~torch.isfinite(inputs.radius)[:, None]  # (H, 1, D)
        query, key = (side | rotten for side in expected[1][:2])
        expected = expected[0], expected[1]._replace(query=query, key=key)
    wrong = [
        name
        for found, should in zip(results, expected, strict=True)
        for name in found._fields
        if name not in ("exponent", "mask")
        and not torch.equal(_shows(getattr(found, name)), getattr(should, name))
    ]
    assert not wrong
    if options.mask_grad:
        axes = [axis for axis in range(4) if mask.shape[axis] < seen.shape[axis]]
        touched_mask = expected[1].mask
        summed = touched_mask.amax(dim=axes, keepdim=True) if axes else touched_mask
        assert torch.equal(_shows(results[1].mask), summed)
    return results, expected


def check_nan(results: tuple[Rows, Gradients], expected: tuple[Rows, Gradients]) -> None:
    """Outputs and gradients show as NaN, not as infinity, where they must be touched."""
    for found, should in zip(results, expected, strict=True):
        for part in {"output", "query", "key", "value"} & set(found._fields):
            assert torch.equal(getattr(found, part).isnan(), getattr(should, part)), part


def _shows(x: Tensor) -> Tensor:
    """NaN or, but for the totals of empty rows, infinity."""
    return x.isnan() if x.ndim == 3 else ~torch.isfinite(x)


@pytest.mark.parametrize(("kernels", "dtype"), ROWS)
def test_dropout_does_not_hide_what_is_not_finite(kernels: str, dtype: torch.dtype) -> None:
    """Even a row whose only bad key is dropped has a total that is not finite."""
    inputs, grad = drawn(kernels, dtype, None)
    inputs.key[0, 0, 5, 1] = NAN
    inputs.value[0, 1, 5, 1] = NAN
    rows, gradients = KERNELS[kernels](inputs, Options(4, False, 0.0, 0.5), grad)
    assert rows.output[0, 0].isnan().all()
    assert rows.output[0, 1, :, 1].isnan().all()
    assert torch.isfinite(rows.output[0, 1, :, [0, 2]]).all()
    assert gradients.query[0].isnan().all()
    assert all(torch.isfinite(part[1]).all() for part in (rows.output, *gradients[:3]))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_first_key_of_nan_is_not_the_offset_of_others(dtype: torch.dtype) -> None:
    mask = torch.arange(LENGTHS["cuda"][1]).expand(1, 1, 1, -1) > 0
    inputs, grad = drawn("cuda", dtype, mask)
    inputs.query.add_(100.0)
    inputs.key.add_(100.0)
    inputs.key[:, :, 0] = NAN
    rows, gradients = by_cuda(inputs, Options(4, False, 0.0), grad)
    assert torch.isfinite(rows.output).all()
    assert all(torch.isfinite(each).all() for each in gradients[:4])
