"""Numbers that are not finite, in the CUDA kernels: NaN where they are seen, and only there."""

import math
from typing import NamedTuple

import pytest
import torch
from cuda_cases import Case, run_with
from host_kernels import needs_compiler
from plain_attention import draw
from torch import Tensor

from fourierkernels.ops.arguments import Gradients, Rows

pytestmark = needs_compiler
DTYPES = [torch.float32, torch.float64]
N, M, D, C = 70, 90, 5, 3
ROW, KEY = 40, 33  # of the query and the key that are spoilt: the key is later than some queries
BOOLEAN = draw(2, 2, N, M, seed=5).detach() > 0.3
PADDING = (torch.arange(M) < 30).expand(2, 1, 1, M)  # the spoilt key and its tile are hidden
MASKS = {
    "none": {},
    "causal": {"causal": True},
    "boolean": {"mask": BOOLEAN},
    "additive": {"mask": torch.zeros(2, 2, N, M).masked_fill(~BOOLEAN, -math.inf)},
    "padding": {"mask": PADDING},
    "padding and causal": {"mask": PADDING, "causal": True},
}


class Spoilt(NamedTuple):
    """Which entries must be NaN in head (0, 1); others must be as they were."""

    output: Tensor  # (N, C)
    query: Tensor  # (N,): rows
    key: Tensor  # (M,)
    value: Tensor  # (M, C)


def seen_pairs(options: dict[str, object]) -> Tensor:
    """Of head (0, 1), ``(N, M)``."""
    mask = options.get("mask")
    seen = torch.ones(N, M, dtype=torch.bool)
    if isinstance(mask, Tensor):
        shown = mask if mask.dtype is torch.bool else mask == 0
        seen &= shown.expand(2, 2, N, M)[0, 1]
    return seen.tril() if options.get("causal") else seen


def spoilt_rows(rows: Tensor, seen: Tensor) -> Spoilt:
    """All that a row of NaN weights touches: rows ``(N,)``."""
    keys = (seen & rows[:, None]).any(0)
    return Spoilt(rows[:, None].expand(N, C), rows, keys, keys[:, None].expand(M, C))


def spoil_query(leaves: list[Tensor], grad: Tensor, seen: Tensor) -> Spoilt:
    leaves[0][0, 1, ROW, 2] = math.inf
    return spoilt_rows((torch.arange(N) == ROW) & seen.any(1), seen)


def spoil_key(leaves: list[Tensor], grad: Tensor, seen: Tensor) -> Spoilt:
    leaves[1][0, 1, KEY, 4] = math.nan
    return spoilt_rows(seen[:, KEY], seen)


def spoil_value(leaves: list[Tensor], grad: Tensor, seen: Tensor) -> Spoilt:
    leaves[2][0, 1, KEY, 1] = math.inf
    output = seen[:, KEY, None] & (torch.arange(C) == 1)
    nothing = torch.zeros(M, C, dtype=torch.bool)
    return Spoilt(output, seen[:, KEY], spoilt_rows(seen[:, KEY], seen).key, nothing)


def spoil_grad(leaves: list[Tensor], grad: Tensor, seen: Tensor) -> Spoilt:
    grad[0, 1, ROW, 1] = math.nan
    keys = seen[ROW]
    value = keys[:, None] & (torch.arange(C) == 1)
    rows = (torch.arange(N) == ROW) & seen.any(1)
    return Spoilt(torch.zeros(N, C, dtype=torch.bool), rows, keys, value)


SPOILERS = {"query": spoil_query, "key": spoil_key, "value": spoil_value, "grad": spoil_grad}


def drawn(dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    case = Case(n=N, m=M, dim=D, columns=C, scale=0.3)
    return case.leaves(dtype), draw(2, 2, N, C, seed=9, dtype=dtype).detach()


def results(
    options: dict[str, object], leaves: list[Tensor], grad: Tensor
) -> tuple[Rows, Gradients]:
    return run_with(Case(n=N, m=M, dim=D, columns=C, options=options), leaves, grad)


def check(actual: Tensor, before: Tensor, nan: Tensor) -> None:
    """Tensors of all heads; `nan` of head (0, 1)."""
    expected = torch.zeros(before.shape, dtype=torch.bool)
    expected[0, 1] = nan
    assert not torch.isfinite(actual[expected]).any()
    assert torch.equal(actual[~expected], before[~expected])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", MASKS)
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_what_is_not_finite_touches_all_that_sees_it_and_no_bit_else(
    spoiler: str, masked: str, dtype: torch.dtype
) -> None:
    leaves, grad = drawn(dtype)
    options = MASKS[masked]
    rows_before, before = results(options, leaves, grad)
    expected = SPOILERS[spoiler](leaves, grad, seen_pairs(options))
    rows, after = results(options, leaves, grad)
    check(rows.output, rows_before.output, expected.output)
    check(after.query, before.query, expected.query[:, None].expand(N, D))
    check(after.key, before.key, expected.key[:, None].expand(M, D))
    check(after.value, before.value, expected.value)
    touched = bool(expected.query.any())
    assert torch.isfinite(after.radius[0]).all()
    assert torch.isfinite(after.radius[1]).all() == (not touched)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("entry", [math.nan, math.inf])
def test_a_mask_of_nan_or_plus_infinity_makes_its_row_nan(entry: float, dtype: torch.dtype) -> None:
    leaves, grad = drawn(dtype)
    mask = torch.zeros(2, 2, N, M).masked_fill(~BOOLEAN, -math.inf)
    mask[0, 1, ROW, KEY] = entry
    rows, gradients = results({"mask": mask}, leaves, grad)
    shown = BOOLEAN[0, 1, ROW].clone()
    shown[KEY] = True
    assert torch.isnan(rows.output[0, 1, ROW]).all()
    assert torch.isnan(rows.significand[0, 1, ROW])
    assert torch.isnan(rows.output).sum() == C
    assert torch.isnan(gradients.query).sum() == D
    assert torch.equal(torch.isnan(gradients.key[0, 1]).all(1), shown)
    assert torch.equal(torch.isnan(gradients.value[0, 1]).all(1), shown)
    assert torch.isnan(gradients.value).sum() == C * shown.sum()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_radius_that_is_not_finite_touches_its_head(dtype: torch.dtype) -> None:
    leaves, grad = drawn(dtype)
    leaves[3][1, 0] = math.nan
    rows, gradients = results({}, leaves, grad)
    for part in (rows.output, *gradients[:3]):
        assert torch.isnan(part[:, 1]).all()
        assert torch.isfinite(part[:, 0]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_first_key_of_nan_is_not_the_offset_of_others(dtype: torch.dtype) -> None:
    leaves, grad = drawn(dtype)
    leaves[1] += 100.0
    leaves[0] += 100.0
    leaves[1][:, :, 0] = math.nan
    mask = torch.arange(M).expand(1, 1, 1, M) > 0
    rows, gradients = results({"mask": mask}, leaves, grad)
    assert torch.isfinite(rows.output).all()
    assert all(torch.isfinite(each).all() for each in gradients[:4])
