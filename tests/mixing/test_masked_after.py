"""Softmax attention whose causal mask acts after the softmax, and what that does to time."""

import pytest
import torch
from tiny_models import doubles

from fourierkernels.mixing import SoftmaxMixer

N, E, H = 11, 8, 2


def mixer(mask: str = "after", scale: float | None = None) -> SoftmaxMixer:
    torch.manual_seed(0)
    return SoftmaxMixer(E, heads=H, causal=True, mask=mask, scale=scale).double()


def obvious(mixer: SoftmaxMixer, x: torch.Tensor) -> torch.Tensor:
    """M ⊙ softmax(QKᵀ/√D) V, head by head, as section 3.1.2 writes it, or by another scale."""
    scale = (E // H) ** -0.5 if mixer.scale is None else mixer.scale
    heads = []
    for h in range(H):
        part = slice(h * E // H, (h + 1) * E // H)
        query, key, value = (
            projection(x)[..., part]
            for projection in (
                mixer.query_projection,
                mixer.key_projection,
                mixer.value_projection,
            )
        )
        weights = torch.softmax(scale * query @ key.mT, dim=-1)
        heads.append((torch.ones(N, N, dtype=x.dtype).tril() * weights) @ value)
    return mixer.output_projection(torch.cat(heads, dim=-1))


@pytest.mark.parametrize("scale", [None, 0.7])
def test_mask_after_is_the_formula_with_and_without_its_map(scale: float | None) -> None:
    layer, x = mixer(scale=scale), doubles(2, N, E)
    torch.testing.assert_close(layer(x), obvious(layer, x), rtol=1e-12, atol=1e-12)
    slow = layer.combine(layer.mixing_matrix(x) @ layer.values(x))
    torch.testing.assert_close(layer(x), slow, rtol=1e-12, atol=1e-12)


def test_gradients_of_both_ways_agree() -> None:
    layer, x = mixer(), doubles(1, N, E).requires_grad_()
    found, expected = (
        torch.autograd.grad(y.square().sum(), x)[0] for y in (layer(x), obvious(layer, x))
    )
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)


def test_a_later_token_leaks_through_the_sum_it_is_divided_by() -> None:
    """Another last token moves earlier outputs by 4.5 % of their size; masked before, by none."""
    x = doubles(1, N, E)
    changed = x.clone()
    changed[:, -1] += 3.0
    moved = {}
    for mask in ("before", "after"):
        layer = mixer(mask)
        gap = (layer(changed) - layer(x))[:, :-1].abs().max()
        moved[mask] = (gap / layer(x).abs().max()).item()
    assert moved["before"] == 0.0
    assert 0.03 < moved["after"] < 0.06


def test_rows_sum_to_one_in_the_last_row_only() -> None:
    sums = mixer().mixing_matrix(doubles(1, N, E)).sum(dim=-1)
    torch.testing.assert_close(sums[..., -1], torch.ones_like(sums[..., -1]))
    assert (sums[..., :-1] < 1.0).all()


def test_the_last_row_is_that_of_a_mask_before() -> None:
    x = doubles(2, N, E)
    torch.testing.assert_close(mixer("after")(x)[:, -1], mixer("before")(x)[:, -1])


def test_padded_tokens_are_in_no_sum() -> None:
    layer, x = mixer(), doubles(2, N, E)
    padding = torch.zeros(2, N, dtype=torch.bool)
    padding[1, 7:] = True
    alone = layer(x[1:, :7])[0]
    torch.testing.assert_close(layer(x, padding=padding)[1, :7], alone, rtol=1e-12, atol=1e-12)


def test_it_has_no_steps_and_needs_an_order_of_time() -> None:
    layer, x = mixer(), doubles(1, 1, E)
    with pytest.raises(ValueError, match="step needs outputs that later tokens leave alone, got m"):
        layer.step(x)
    with pytest.raises(ValueError, match="prefill needs outputs that later tokens leave alone"):
        layer.prefill(x)
    with pytest.raises(ValueError, match="mask must be before without a causal order, got 'after'"):
        SoftmaxMixer(E, heads=H, mask="after")
    with pytest.raises(ValueError, match="mask must be one of before, after, got 'late'"):
        SoftmaxMixer(E, heads=H, causal=True, mask="late")
