"""Masks of multi-head attention: padding, time and the caller's, merged into one.

Two conventions meet here. A mask is boolean and True where a query attends, as in
scaled_dot_product_attention, or floating and added to log|w|; padding is True at the keys to be
ignored, as in `torch.nn.MultiheadAttention`, or likewise floating.
"""

import math

import torch
from torch import Tensor

from fourierkernels.attention.validation import check_mask_kind


def merge_masks(
    attn_mask: Tensor | None, padding: Tensor | None, is_causal: bool, query: Tensor, key: Tensor
) -> tuple[Tensor | None, bool]:
    """Return one mask for the three, and whether the causal one is still to be applied.

    Parameters
    ----------
    attn_mask : Tensor or None
        Broadcastable to ``(B, H, N, M)``.
    padding : Tensor or None
        ``(B, M)``.
    query, key : Tensor
        ``(B, N, ·)`` and ``(B, M, ·)``.
    """
    if padding is None or (is_causal and attn_mask is not None):
        return attn_mask, is_causal  # attention refuses a mask beside is_causal
    padding = padding[:, None, None, :]  # (B, 1, 1, M)
    if is_causal:
        attn_mask = causal_mask(query, key)
    if padding.dtype is torch.bool:
        padding = padding.logical_not()
    return (padding if attn_mask is None else _both(padding, attn_mask, query)), False


def merge_checked(
    attn_mask: Tensor | None,
    padding: Tensor | None,
    is_causal: bool,
    query: Tensor,
    key: Tensor,
    *,
    batched: bool,
) -> tuple[Tensor | None, bool]:
    """Return :func:`merge_masks` of masks that a caller gave, the padding as `key_padding_mask`.

    Parameters
    ----------
    batched : bool
        Whether the padding has a batch as `query` and `key` do.
    """
    if attn_mask is not None:
        check_mask_kind(attn_mask, query)
    if padding is not None:
        if isinstance(padding, Tensor) and not batched:
            padding = padding[None]
        check_padding(padding, key)
    return merge_masks(attn_mask, padding, is_causal, query, key)


def causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """Return True where j <= i, ``(N, M)``."""
    shape = (query.shape[1], key.shape[1])
    return torch.ones(shape, dtype=torch.bool, device=key.device).tril()


def widen_mask(
    mask: Tensor | None, is_causal: bool, extra: int, query: Tensor, key: Tensor
) -> Tensor | None:
    """Return the mask with `extra` more keys, which every query attends to."""
    if is_causal:
        if mask is not None:
            raise ValueError(
                "attn_mask must be None when is_causal=True, "
                f"got a mask of shape {tuple(mask.shape)}"
            )
        mask = causal_mask(query, key)
    if mask is None:
        return None
    mask = mask.expand(*mask.shape[:-1], key.shape[1])  # (..., N, M)
    seen = mask.new_ones if mask.dtype is torch.bool else mask.new_zeros
    return torch.cat([mask, seen((*mask.shape[:-1], extra))], dim=-1)


def check_padding(padding: Tensor, key: Tensor) -> None:
    """Refuse a `key_padding_mask` that is not a boolean or floating ``(B, M)`` beside the keys."""
    if not isinstance(padding, Tensor):
        raise TypeError(f"key_padding_mask must be a tensor, got {type(padding).__name__}")
    if padding.dtype is not torch.bool and not padding.is_floating_point():
        raise TypeError(f"key_padding_mask must be boolean or floating point, got {padding.dtype}")
    if padding.device != key.device:
        raise ValueError(f"key_padding_mask must be on {key.device}, as key, got {padding.device}")
    if padding.shape != key.shape[:2]:
        raise ValueError(
            f"key_padding_mask must have shape {tuple(key.shape[:2])}, "
            f"got shape {tuple(padding.shape)}"
        )


def _both(first: Tensor, second: Tensor, query: Tensor) -> Tensor:
    if first.dtype is torch.bool and second.dtype is torch.bool:
        return first & second
    return _additive(first, query) + _additive(second, query)


def _additive(mask: Tensor, query: Tensor) -> Tensor:
    """Return a mask as what is added to log|w|."""
    if mask.dtype is not torch.bool:
        return mask
    return query.new_zeros(mask.shape).masked_fill(~mask, -math.inf)
