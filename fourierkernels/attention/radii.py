"""R of a call: a number for each head and feature, or a matrix that maps queries and keys.

With a matrix the kernel is that of :class:`~fourierkernels.estimators.NadarayaWatson` with one:
∏_d sinc^l((R (q - k))_d), so attention is that of R q and R k with a radius of 1. Its determinant
would stand before every weight of a row, and cancels.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    broadcasts,
    check_option,
    readable,
    without_autocast,
)
from fourierkernels.foundation.validation import check_number


class Radius(NamedTuple):
    """R of a call in the working precision: of each feature, or a matrix times that.

    Attributes
    ----------
    scale : Tensor
        Broadcastable to ``(..., H, N, M, D)``; 1 beside a matrix.
    matrix : Tensor or None
        ``(H, D, D)``, ``(1, D, D)`` or, without heads, ``(D, D)``.
    """

    scale: Tensor
    matrix: Tensor | None = None

    def times(self, rows: Tensor) -> Tensor:
        """Return R x of rows ``(..., H, N, D)`` in the working precision."""
        if self.matrix is not None:
            return map_rows(rows, self.matrix)
        return (self.scale if self.scale.ndim < 2 else self.scale[:, 0]) * rows


def check_radius(radius: Tensor | float, query: Tensor, scale: float | None = None) -> Radius:
    """Return R times the scale.

    One dimension is one radius per feature, as everywhere in this package; one radius per head is
    ``(H, 1)``. A vector is never guessed to be per head: with H = D nothing could tell. Nor is
    ``(D, D)`` guessed to be a matrix there: it is refused.
    """
    tensor = _as_radius(radius, query).to(WORKING_DTYPE[query.dtype])
    if scale is not None:
        tensor = tensor * _check_scale(scale)
    if _is_matrix(tensor, query):
        if readable(tensor) and not torch.isfinite(tensor).all():
            bad = tensor[~torch.isfinite(tensor)]
            raise ValueError(f"radius must be finite, got {bad[0].item()} in a matrix")
        matrix = tensor[0] if query.ndim == 2 and tensor.ndim == 3 else tensor
        return Radius(torch.ones((), dtype=tensor.dtype, device=tensor.device), matrix)
    return Radius(_check_scales(tensor, query))


def _is_matrix(radius: Tensor, query: Tensor) -> bool:
    """Whether R is a matrix, one for all heads or one each."""
    dim, heads = query.shape[-1], (query.shape[-3] if query.ndim > 2 else 1)
    if radius.ndim < 2 or radius.shape[-2:] != (dim, dim):
        return False
    if radius.ndim == 2 and query.ndim > 2 and 1 < heads == dim:
        raise ValueError(
            f"radius must be (1, {dim}, {dim}) for a matrix or ({heads}, 1, {dim}) for heads by "
            f"features where these are as many, got shape {tuple(radius.shape)}"
        )
    if radius.ndim == 2:
        return dim > 1  # else what one number says
    return radius.ndim == 3 and (radius.shape[0] == 1 or radius.shape[0] == heads)


def _check_scales(tensor: Tensor, query: Tensor) -> Tensor:
    """Return positive radii of heads and features."""
    target = (*query.shape[-3:-2], query.shape[-1])
    spelled_out = tensor.ndim == 3 and query.ndim > 2 and tensor.shape[1] == 1  # (H, 1, D)
    shape = (tensor.shape[0], tensor.shape[2]) if spelled_out else tensor.shape
    if not broadcasts(shape, target):
        dim = query.shape[-1]
        raise ValueError(
            f"radius must broadcast to {target}, heads by features (per head: (H, 1)), or be a "
            f"matrix, (H or 1, {dim}, {dim}), got shape {tuple(tensor.shape)}"
        )
    if readable(tensor) and not _all_positive(tensor.detach()):
        bad = tensor[~(torch.isfinite(tensor) & (tensor > 0))]
        raise ValueError(f"radius must be positive and finite, got {bad[0].item()}")
    if tensor.ndim < 2:
        return tensor
    return tensor[:, None] if spelled_out else tensor[:, None, None, :]  # (H or 1, 1, 1, D or 1)


def _all_positive(tensor: Tensor) -> bool:
    """Whether numbers are positive and finite, in one pass: the ends of NaN are NaN."""
    if not tensor.numel():
        return True
    low, high = tensor.aminmax()
    return low.item() > 0 and high.item() < math.inf


def _check_scale(scale: float) -> float:
    number = check_option("scale", scale)
    if number <= 0:
        raise ValueError(f"scale must be positive and finite, got {scale}")
    return number


def _as_radius(radius: object, query: Tensor) -> Tensor:
    if isinstance(radius, Tensor):
        if not radius.is_floating_point():
            raise TypeError(f"radius must be floating point, got {radius.dtype}")
        if radius.device != query.device:
            raise ValueError(f"radius must be on {query.device}, as query, got {radius.device}")
        return radius
    number, dtype = check_number("radius", radius), WORKING_DTYPE[query.dtype]
    if number <= 0:
        raise ValueError(f"radius must be positive and finite, got {radius}")
    if number > (largest := torch.finfo(dtype).max):
        raise ValueError(f"radius must be at most {largest:.3g} in {dtype}, got {radius}")
    # Filled there: a copy to a card would wait for all that the card has to do.
    return torch.full((), number, dtype=dtype, device=query.device)


def map_rows(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return R x of rows ``(..., H, N, D)``, in the working precision.

    Where values cannot be read, a row that is not finite becomes NaN and leaves no trace in the
    gradient of R: a mask may hide it.
    """
    with without_autocast(rows.device.type):
        rows = rows.to(matrix.dtype)
        if readable(rows):  # they are finite
            return rows @ matrix.mT
        finite = torch.isfinite(rows).all(dim=-1, keepdim=True)
        mapped = torch.where(finite, rows, 0.0) @ matrix.mT
        return torch.where(finite, mapped, torch.nan)
