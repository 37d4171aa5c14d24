"""Softmax and Gaussian attention as functions, the controls beside Fourier attention.

Both are the reference, with its weights. The fused form of Gaussian attention stores no N x M
array: it is torch's softmax attention with one more feature.
"""

from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention.fourier import (
    NEAR,
    additive_bias,
    estimate,
    mask_with_batch,
    torch_dropout,
    with_batch,
)
from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    check_dropout,
    check_eps,
    check_inputs,
    check_mask,
    without_autocast,
)
from fourierkernels.foundation.validation import check_number
from fourierkernels.ops.arguments import first_seen, seen_by_any
from fourierkernels.ops.reference import gaussian_scores, softmax_scores


@overload
def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = ...,
    attn_mask: Tensor | None = ...,
    is_causal: bool = ...,
    dropout_p: float = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...
@overload
def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = ...,
    attn_mask: Tensor | None = ...,
    is_causal: bool = ...,
    dropout_p: float = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Dot-product attention, w_ij = exp(scale q_i·k_j): the control for Fourier attention.

    Source: [vaswani2017attention]_, eq. 1. Options, shapes and errors as
    :func:`fourier_attention`; unlike torch's scaled_dot_product_attention it can return the
    weights.

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``.
    scale : float or None
        1/√D if None.

    Examples
    --------
    >>> import torch
    >>> query, key = torch.ones(1, 1, 1), torch.tensor([[[0.0], [1.0]]])
    >>> softmax_attention(query, key, key)
    tensor([[[0.7311]]])
    """
    query, key, value = check_inputs(query, key, value)
    scale = query.shape[-1] ** -0.5 if scale is None else check_number("scale", scale)
    attn_mask = check_mask(attn_mask, is_causal=is_causal, query=query, key=key)
    bias = additive_bias(attn_mask, is_causal, query, key)
    score = partial(softmax_scores, scale=scale)
    drop = torch_dropout(check_dropout("dropout_p", dropout_p))
    output, weights = estimate(score, query, key, value, bias, drop, 0.0)
    return (output, weights) if return_weights else output


@overload
def gaussian_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    sigma: float | None = ...,
    attn_mask: Tensor | None = ...,
    is_causal: bool = ...,
    dropout_p: float = ...,
    eps: float = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...
@overload
def gaussian_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    sigma: float | None = ...,
    attn_mask: Tensor | None = ...,
    is_causal: bool = ...,
    dropout_p: float = ...,
    eps: float = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def gaussian_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    sigma: float | None = None,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    eps: float = 0.0,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Nadaraya-Watson regression with the Gaussian kernel, w_ij = exp(-|q_i - k_j|² / (2σ²)).

    Source: [nguyen2022fourierformer]_, eq. 7. With σ² = √D and keys of one common norm it equals
    :func:`softmax_attention`; the norms of the queries cancel. Options, shapes and errors as
    :func:`fourier_attention`.

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``.
    sigma : float or None
        σ, positive; D^(1/4) if None.

    Examples
    --------
    >>> query, key = torch.ones(1, 1, 1), torch.tensor([[[0.0], [1.0]]])
    >>> gaussian_attention(query, key, key)
    tensor([[[0.6225]]])
    """
    query, key, value = check_inputs(query, key, value)
    sigma = query.shape[-1] ** 0.25 if sigma is None else check_number("sigma", sigma, above=0.0)
    attn_mask = check_mask(attn_mask, is_causal=is_causal, query=query, key=key)
    bias = additive_bias(attn_mask, is_causal, query, key)
    score = partial(gaussian_scores, sigma=sigma)
    drop, eps = torch_dropout(check_dropout("dropout_p", dropout_p)), check_eps(eps)
    output, weights = estimate(score, query, key, value, bias, drop, eps)
    return (output, weights) if return_weights else output


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
    :func:`gaussian_attention` is its reference. Because |k|² cancels against q·k, half precision is
    computed in float32, and the first key seen is subtracted from all if it is far from 0 and every
    key seen is nearer to it than to 0.

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``.
    sigma : float or Tensor
        σ, positive; differentiable, broadcastable to ``(..., H, 1, 1)``.
    attn_mask, is_causal, dropout_p
        As scaled_dot_product_attention takes them. Queries left without any key get zero.

    Examples
    --------
    >>> query, key = torch.ones(1, 1, 1, 1), torch.tensor([[[[0.0], [1.0]]]])
    >>> fused_gaussian_attention(query, key, key, sigma=1.0)
    tensor([[[[0.6225]]]])
    """
    query, key, value = check_inputs(query, key, value)
    mask = check_mask(attn_mask, is_causal=is_causal, query=query, key=key)
    working = WORKING_DTYPE[query.dtype]
    q, k, v = query.to(working), key.to(working), value.to(working)
    q, k = _near_zero(q, k, sigma, mask)
    half = -k.square().sum(dim=-1, keepdim=True) / 2  # (..., M, 1)
    if mask is not None and mask.is_floating_point():
        mask = mask.to(working)
    with without_autocast(query.device.type):
        output = scaled_dot_product_attention(
            torch.cat([q, torch.ones_like(q[..., :1])], dim=-1) / sigma**2,  # (..., N, D + 1)
            torch.cat([k, half], dim=-1),  # (..., M, D + 1)
            v,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=check_dropout("dropout_p", dropout_p),
            scale=1.0,
        )
    return output.to(query.dtype)


def _near_zero(
    query: Tensor, key: Tensor, sigma: float | Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return q - c and k - c: c is the first key seen if that is far and serves all, else 0.

    It serves if no key seen is nearer to 0: about a first key far from all others, as of a token
    that sinks attention, they would lose the digits that they have.
    """
    if not key.shape[-2]:
        return query, key
    keys, mask = with_batch(key.detach()), None if mask is None else mask_with_batch(mask, query)
    first = first_seen(keys, mask)  # (B, H, 1, D)
    away = 2.0 * (keys * first).sum(dim=-1) < first.square().sum(dim=-1)  # |k| < |k - c|
    if mask is not None:
        away = away & seen_by_any(mask)
    lead = key.shape[:-2]
    first, away = first.reshape(*lead, 1, key.shape[-1]), away.any(dim=-1).reshape(*lead, 1, 1)
    far = (first.abs() > NEAR * sigma).any(dim=-1, keepdim=True) & ~away
    offset = torch.where(far & torch.isfinite(first), first, 0.0)
    return query - offset, key - offset


def weighted_gaussian_attention(
    query: Tensor, key: Tensor, value: Tensor, *, sigma: float | Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """Return :func:`gaussian_attention` and its weights, for one σ or a trained one per head.

    Parameters
    ----------
    sigma : float or Tensor
        σ, positive; a tensor is broadcastable to ``(..., H, 1, 1)`` and divides queries and keys.
    """
    if not isinstance(sigma, Tensor):
        return gaussian_attention(query, key, value, sigma=sigma, return_weights=True, **options)
    q, k = query / sigma, key / sigma
    output, weights = gaussian_attention(
        q, k, value.to(q.dtype), sigma=1.0, return_weights=True, **options
    )
    return output.to(query.dtype), weights
