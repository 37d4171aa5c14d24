"""Gaussian attention without an N x M array: a softmax of one feature more."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    check_dropout,
    check_inputs,
    check_mask,
)


def fused_gaussian_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    sigma: float | Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:
    """Nadaraya-Watson regression with w_ij = exp(-|q_i - k_j|²/(2σ²)), by torch's fused softmax.

    In the row of a query |q|² cancels, which leaves the dot product (q, 1)·(k, -|k|²/2) over σ².
    :func:`gaussian_attention` is its reference. Half precision is computed in float32, because
    |k|² cancels against q·k.

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``.
    sigma : float or Tensor
        σ, positive; differentiable, broadcastable to ``(..., H, 1, 1)``.
    attn_mask, is_causal, dropout_p
        Of scaled_dot_product_attention. Queries left without any key get zero.

    Examples
    --------
    >>> query, key = torch.ones(1, 1, 1, 1), torch.tensor([[[[0.0], [1.0]]]])
    >>> fused_gaussian_attention(query, key, key, sigma=1.0)
    tensor([[[[0.6225]]]])
    """
    check_inputs(query, key, value)
    mask = check_mask(attn_mask, is_causal=is_causal, query=query, key=key)
    working = WORKING_DTYPE[query.dtype]
    q, k, v = query.to(working), key.to(working), value.to(working)
    half = -k.square().sum(dim=-1, keepdim=True) / 2
    if mask is not None and mask.is_floating_point():
        mask = mask.to(working)
    with torch.autocast(query.device.type, enabled=False):
        output = scaled_dot_product_attention(
            torch.cat([q, torch.ones_like(q[..., :1])], dim=-1) / sigma**2,
            torch.cat([k, half], dim=-1),
            v,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=check_dropout("dropout_p", dropout_p),
            scale=1.0,
        )
    return output.to(query.dtype)
