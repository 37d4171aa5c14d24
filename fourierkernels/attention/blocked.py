"""Fourier attention in torch operations, a block of queries at a time: formulas for any device.

The forward and the backward formula as the fused kernels have them, without an N x M x D array:
a block holds at most `_ENTRIES` of its differences.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from fourierkernels.attention.reference import Scores, fourier_scores, log_sinc_slope

_ENTRIES = 2**22
_LOG2 = math.log(2)


def forward(
    query: Tensor, key: Tensor, value: Tensor, radius: Tensor, bias: Tensor | None, *, power: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return output ``(B, H, N, C)`` and Σ_j w_ij + eps as significand and exponent, ``(B, H, N)``.

    Parameters
    ----------
    query, key, value : Tensor
        ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, C)``.
    radius : Tensor
        ``(H, D)``.
    bias : Tensor or None
        Added to log|w|; broadcastable to ``(B, H, N, M)``.
    """
    output = query.new_empty((*query.shape[:3], value.shape[-1]))
    significand = query.new_empty(query.shape[:3])
    exponent = torch.empty(query.shape[:3], dtype=torch.int32, device=query.device)
    for rows, log_abs, sign in _blocks(query, key, radius, bias, power):
        peak = log_abs.amax(dim=-1, keepdim=True)
        if eps > 0:
            peak = peak.clamp(min=math.log(eps))
        empty = peak == -math.inf
        whole = torch.floor(peak / _LOG2).masked_fill(empty, 0.0)
        weights = sign * torch.exp(log_abs - whole * _LOG2)
        total = weights.sum(dim=-1, keepdim=True)
        if eps > 0:
            total = total + torch.exp(math.log(eps) - whole * _LOG2)
        total = total.masked_fill(empty, math.inf)
        output[:, :, rows] = (weights / total) @ value
        significand[:, :, rows], exponent[:, :, rows] = total[..., 0], whole[..., 0].int()
    return output, significand, exponent


def backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, radius: Tensor, bias: Tensor | None,
    output: Tensor, significand: Tensor, exponent: Tensor, *, power: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key, value and radius."""
    scale = radius[:, None, None, :]
    dq, dk, dv = (query.new_zeros(leaf.shape) for leaf in (query, key, value))
    dr = torch.zeros_like(radius, memory_format=torch.contiguous_format)
    for rows, log_abs, sign in _blocks(query, key, radius, bias, power):
        base = exponent[:, :, rows, None].to(query.dtype) * _LOG2
        weights = sign * torch.exp(log_abs - base) / significand[:, :, rows, None]  # (B, H, n, M)
        part = grad[:, :, rows]
        delta = (part * output[:, :, rows]).sum(dim=-1, keepdim=True)
        pull = power * weights * (part @ value.mT - delta)
        difference = query[:, :, rows, None] - key[:, :, None]
        slopes = pull[..., None] * log_sinc_slope(scale * difference)  # (B, H, n, M, D)
        dv += weights.mT @ part
        dq[:, :, rows] = radius[:, None] * slopes.sum(dim=3)
        dk -= radius[:, None] * slopes.sum(dim=2)
        dr += (slopes * difference).sum(dim=(0, 2, 3))
    return dq, dk, dv, dr


def _blocks(
    query: Tensor, key: Tensor, radius: Tensor, bias: Tensor | None, power: int
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    batch, heads, n, dim = query.shape
    length = max(1, _ENTRIES // max(1, batch * heads * key.shape[2] * dim))
    for start in range(0, n, length):
        rows = slice(start, min(start + length, n))
        scores: Scores = fourier_scores(
            query[:, :, rows], key, radius=radius[:, None, None, :], power=power
        )
        log_abs = scores.log_abs
        if bias is not None:
            log_abs = log_abs + (bias[..., rows, :] if bias.shape[-2] > 1 else bias)
        yield rows, log_abs, torch.ones_like(log_abs) if scores.sign is None else scores.sign
