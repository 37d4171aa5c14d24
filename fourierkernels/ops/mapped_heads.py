"""Mapped dimensions of `vmap` become more heads."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

Dims = Sequence[int | None]


def as_heads(tensor: Tensor, dim: int | None, size: int, *, axis: int) -> Tensor:
    """Return `tensor` with the mapped dimension merged into that of the heads, at `axis`."""
    if dim is None:
        tensor, dim = (
            tensor.unsqueeze(axis).expand(*tensor.shape[:axis], size, *tensor.shape[axis:]),
            axis,
        )
    return tensor.movedim(dim, axis).flatten(axis, axis + 1)


def _mask_as_heads(mask: Tensor | None, dim: int | None, size: int, heads: int) -> Tensor | None:
    if mask is None or (dim is None and mask.shape[1] == 1):
        return mask
    if dim is not None:  # (B, size, H or 1, N, M): one head of the mask serves all of an entry
        mask = mask.movedim(dim, 1)
        mask, dim = mask.expand(-1, -1, heads, -1, -1), 1
    return as_heads(mask, dim, size, axis=1)


def count_heads(query: Tensor, dim: int | None) -> int:
    """Return the number of heads beside the mapped dimension."""
    return query.shape[1] if dim is None else query.movedim(dim, 0).shape[2]


def inputs_as_heads(
    inputs: Sequence[Any], in_dims: Dims, size: int, heads: int
) -> tuple[Tensor | None, ...]:
    """Return query, key, value, radius and mask with the mapped dimension among the heads."""
    *tensors, radius, mask = inputs
    three = [as_heads(t, d, size, axis=1) for t, d in zip(tensors, in_dims[:3], strict=True)]
    radius = as_heads(radius, in_dims[3], size, axis=0)
    return (*three, radius, _mask_as_heads(mask, in_dims[4], size, heads))
