"""Softmax attention whose causal mask acts after the softmax."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def masked_after(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    dropout_p: float = 0.0,
    scale: float | None = None,
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return M ⊙ softmax(scale QKᵀ) V, ``(B, H, N, D)``, and, if asked for, the weights.

    Its causal mask acts after the softmax ([chen_attention]_ section 3.1.2): a row is divided by
    the sum over all tokens, later ones included, and not normalised again. The weights are
    ``(B, H, N, N)``. Without them the map is never formed: torch's fused attention gets each key
    twice, once with its value, for the tokens that see it, and once with zeros, for those before
    it. Each pair is then counted once in the sum, and later values add nothing.

    Parameters
    ----------
    attn_mask : Tensor or None
        True at the keys that count at all, ``(B, 1, 1, N)``: what is no padding.
    is_causal : bool
        Must be True.
    scale : float or None
        Factor of the dot products; 1/√D if None.

    Examples
    --------
    >>> x = torch.zeros(1, 1, 2, 1)
    >>> masked_after(x, x, torch.ones(1, 1, 2, 1))[0].flatten()
    tensor([0.5000, 1.0000])
    """
    if not is_causal:
        raise ValueError("is_causal must be True where the mask acts after the softmax, got False")
    seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=key.device).tril()
    if return_weights:
        weights = masked_weights(query, key, attn_mask, scale=scale) * seen
        return torch.dropout(weights, dropout_p, dropout_p > 0.0) @ value, weights
    both = torch.cat([seen, ~seen], dim=-1)  # (N, 2N)
    if attn_mask is not None:
        both = both & torch.cat([attn_mask, attn_mask], dim=-1)
    keys = torch.cat([key, key], dim=-2)  # (B, H, 2N, D)
    values = torch.cat([value, torch.zeros_like(value)], dim=-2)  # (B, H, 2N, D)
    mixed = scaled_dot_product_attention(
        query, keys, values, attn_mask=both, dropout_p=dropout_p, scale=scale
    )
    return mixed, None


def masked_weights(
    query: Tensor, key: Tensor, attn_mask: Tensor | None, *, scale: float | None = None
) -> Tensor:
    """Return softmax(scale QKᵀ) over all keys that count."""
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    weights: Tensor = scores.softmax(dim=-1)
    return weights
