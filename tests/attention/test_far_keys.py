"""Digits of Fourier attention far from 0: whatever is hidden, and whatever other heads do."""

from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.attention import fourier_attention, fourier_features, linear_fourier_attention
from fourierkernels.attention.linear import linear_fourier_state, linear_fourier_step

B, H, N, D = 2, 3, 12, 4


def inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [draw(B, H, N, D, seed=i, dtype=dtype).detach() for i in range(3)]


def radius(kind: str) -> Tensor:
    numbers = torch.tensor([[0.4, 0.7, 0.3, 0.6]] * H)
    if kind == "features":
        return numbers
    return numbers.diag_embed() + draw(H, D, D, seed=5, scale=0.2, dtype=torch.float32).detach()


def far(rows: Tensor, by: float) -> Tensor:
    """Rows moved, after rounding that makes moving them exact."""
    return (64 * rows).round() / 64 + by


MASKS = {
    "boolean": torch.arange(N).gt(0).expand(N, N),
    "keys": torch.arange(N).gt(0).expand(B, 1, 1, N),
    "additive": torch.zeros(N).index_fill(0, torch.tensor([0]), -torch.inf).expand(1, H, N, N),
    "finite": torch.zeros(N).index_fill(0, torch.tensor([0]), -1e9).expand(N, N),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", ["features", "matrix"])
@pytest.mark.parametrize("by", [0.0, 4096.0])
def test_a_hidden_first_key_that_is_far_from_the_others_costs_no_digits(
    kind: str, by: float, mask: str
) -> None:
    """Of padding on the left, for example: a rounding of each of the l D factors of a weight."""
    query, key, value = inputs()
    query, key = far(query, by), far(key, by)
    key[:, :, 0] += 8192.0
    given = (query, key, value, radius(kind))
    seen = MASKS[mask]
    wide = [t.double() for t in given]
    hidden = seen if seen.dtype is torch.bool else seen.double()
    expected = fourier_attention(*wide, attn_mask=hidden, implementation="reference")
    bound = 4 * D * torch.finfo(torch.float32).eps * float(value.abs().max())
    for how in ("fused", "reference"):
        found = fourier_attention(*given, attn_mask=seen, implementation=how)
        assert float((found - expected).abs().max()) < bound, how


def test_gradients_of_rows_whose_first_key_is_hidden_keep_their_digits() -> None:
    query, key, value = inputs()
    key[:, :, 0] += 8192.0
    for kind in ("features", "matrix"):
        given = [t.requires_grad_() for t in (query.clone(), key.clone(), value, radius(kind))]
        wide = [t.detach().double().requires_grad_() for t in given]
        options: dict[str, Any] = {"attn_mask": MASKS["keys"]}
        found = torch.autograd.grad(fourier_attention(*given, **options).sin().sum(), given)
        total = fourier_attention(*wide, **options, implementation="reference").sin().sum()
        for actual, exact in zip(found, torch.autograd.grad(total, wide), strict=True):
            assert relative_error(actual, exact) < TOLERANCE["float32"]["gradient"]


@pytest.mark.parametrize("by", [0.0, 1e4])
def test_a_head_with_a_matrix_is_the_same_alone_and_among_others_to_the_bit(by: float) -> None:
    """Others of huge matrices, or of zeros, included."""
    query, key, value = (t + by for t in inputs())
    matrices = radius("matrix")
    matrices[0] *= 1e9
    matrices[2] = 0.0
    together = fourier_attention(query, key, value, matrices)
    for head in range(H):
        one = slice(head, head + 1)
        alone = fourier_attention(query[:, one], key[:, one], value[:, one], matrices[one])
        assert torch.equal(together[:, one], alone)


@pytest.mark.parametrize("by", [0.0, 1e4])
def test_a_matrix_of_zeros_gives_means_and_a_column_of_zeros_leaves_its_feature_out(
    by: float,
) -> None:
    query, key, value = inputs()
    query, key = far(query, by), far(key, by)
    found = fourier_attention(query, key, value, torch.zeros(1, D, D))
    assert relative_error(found, value.mean(dim=-2, keepdim=True).expand_as(found)) < 1e-6
    matrices = radius("matrix").index_fill(2, torch.tensor([1]), 0.0)
    given = (query, key, value, matrices)
    expected = fourier_attention(*(t.double() for t in given), implementation="reference")
    assert relative_error(fourier_attention(*given), expected) < TOLERANCE["float32"]["fast"]


@pytest.mark.parametrize("is_causal", [False, True])
def test_features_of_far_points_are_as_exact_with_a_matrix_as_with_numbers(is_causal: bool) -> None:
    query, key, value = inputs()
    draws = fourier_features(D, 64, generator=torch.Generator().manual_seed(0))
    numbers = 0.4 * radius("features")
    options: dict[str, Any] = {"frequencies": draws.double(), "is_causal": is_causal}
    near = [far(0.5 * t, 0.0).double() for t in (query, key)]
    expected = linear_fourier_attention(*near, value.double(), numbers.double(), **options)
    options["frequencies"] = draws
    moved = [t.float() + 65536.0 for t in near]
    for given in (numbers, numbers.diag_embed()):
        found = linear_fourier_attention(*moved, value, given, **options)
        assert relative_error(found, expected) < 4 * TOLERANCE["float32"]["fast"]


def test_decoding_of_far_points_with_a_matrix_is_the_whole_pass() -> None:
    query, key, value = inputs()
    query, key = far(0.5 * query, 65536.0), far(0.5 * key, 65536.0)
    matrices = 0.4 * radius("matrix")
    options = {"frequencies": fourier_features(D, 64, generator=torch.Generator().manual_seed(0))}
    wide = [t.double() for t in (query, key, value, matrices, options["frequencies"])]
    whole = linear_fourier_attention(*wide[:4], frequencies=wide[4], is_causal=True)
    state = linear_fourier_state(key[..., :4, :], value[..., :4, :], matrices, **options)
    for t in range(4, N):
        step = (x[..., t : t + 1, :] for x in (query, key, value))
        found, state = linear_fourier_step(*step, matrices, state, **options)
        error = relative_error(found, whole[..., t : t + 1, :])
        assert error < 4 * TOLERANCE["float32"]["fast"]
