"""Softmax attention as a function, the control beside Fourier attention, with its weights."""

from functools import partial
from typing import Literal, overload

from torch import Tensor

from fourierkernels.attention.estimator import additive_bias, estimate, torch_dropout
from fourierkernels.attention.validation import check_dropout, check_inputs, check_mask
from fourierkernels.foundation.validation import check_number
from fourierkernels.ops.reference import softmax_scores


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
    check_inputs(query, key, value)
    scale = query.shape[-1] ** -0.5 if scale is None else check_number("scale", scale)
    attn_mask = check_mask(attn_mask, is_causal=is_causal, query=query, key=key)
    bias = additive_bias(attn_mask, is_causal, query, key)
    score = partial(softmax_scores, scale=scale)
    drop = torch_dropout(check_dropout("dropout_p", dropout_p))
    output, weights = estimate(score, query, key, value, bias, drop, 0.0)
    return (output, weights) if return_weights else output
