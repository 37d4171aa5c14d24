"""The operator under `vmap`: mapped dimensions become more heads, or entries run one by one.

Dropout counts heads, so with it more heads would be another draw: each entry is then computed as it
would be alone, with the seed that is its own (``randomness="different"``) or shared ("same").
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Dims = Sequence[int | None]
Results = tuple[Tensor, ...]
_COTANGENTS, _INPUTS, _SAVED = 3, 5, 3  # tensors of the backward pass; a seed follows the inputs


def map_forward(
    attend: Callable[..., Results], info: Any, in_dims: Dims, *arguments: Any
) -> tuple[Results, Dims]:
    """Return results of the forward pass and where their mapped dimensions are."""
    size, dropout_p = info.batch_size, arguments[-2]
    if dropout_p:
        return _one_by_one(attend, size, in_dims, arguments)
    heads = count_heads(arguments[0], in_dims[0])
    tensors = inputs_as_heads(arguments[:_INPUTS], in_dims, size, heads)
    results = attend(*tensors, *arguments[_INPUTS:])
    return tuple(part.unflatten(1, (size, heads)) for part in results), (1,) * len(results)


def map_backward(
    attend_backward: Callable[..., Results], info: Any, in_dims: Dims, *arguments: Any
) -> tuple[Results, Dims]:
    """Return results of the backward pass and where their mapped dimensions are."""
    size, dropout_p, mask_grad = info.batch_size, *arguments[-2:]
    if dropout_p:
        return _one_by_one(attend_backward, size, in_dims, arguments)
    first, last = _COTANGENTS, _COTANGENTS + _INPUTS
    seed, *saved = arguments[last : last + 1 + _SAVED]
    heads = count_heads(arguments[first], in_dims[first])
    given, dims = arguments[first:last], in_dims[first:last]
    dq, dk, dv, dr, dmask = attend_backward(
        *_parts_as_heads(arguments[:first], in_dims[:first], size),
        *inputs_as_heads(given, dims, size, heads, own_masks=mask_grad),
        seed,
        *_parts_as_heads(saved, in_dims[last + 1 :], size),
        *arguments[last + 1 + _SAVED :],
    )
    split = (size, heads)
    four = (*(part.unflatten(1, split) for part in (dq, dk, dv)), dr.unflatten(0, split))
    if not mask_grad:
        return (*four, dmask), (1, 1, 1, 0, None)
    dmask, mask, dim = dmask.unflatten(1, split), given[-1], dims[-1]  # (B, size, H, N, M)
    if (mask if dim is None else mask.select(dim, 0)).shape[1] == 1:
        dmask = dmask.sum(dim=2, keepdim=True)
    return (*four, dmask), (1, 1, 1, 0, 1)


def as_heads(tensor: Tensor, dim: int | None, size: int, *, axis: int) -> Tensor:
    """Return `tensor` with the mapped dimension merged into that of the heads, at `axis`."""
    if dim is None:
        tensor, dim = (
            tensor.unsqueeze(axis).expand(*tensor.shape[:axis], size, *tensor.shape[axis:]),
            axis,
        )
    return tensor.movedim(dim, axis).flatten(axis, axis + 1)


def _parts_as_heads(parts: Sequence[Tensor | None], dims: Dims, size: int) -> list[Tensor | None]:
    return [
        None if part is None else as_heads(part, dim, size, axis=1)
        for part, dim in zip(parts, dims, strict=False)
    ]


def _mask_as_heads(
    mask: Tensor | None, dim: int | None, size: int, heads: int, own: bool
) -> Tensor | None:
    if mask is None or (dim is None and mask.shape[1] == 1 and not own):
        return mask
    if dim is None:
        mask = mask.expand(-1, heads, -1, -1)
    else:  # (B, size, H or 1, N, M): one head of the mask serves all of an entry
        mask = mask.movedim(dim, 1)
        mask, dim = mask.expand(-1, -1, heads, -1, -1), 1
    return as_heads(mask, dim, size, axis=1)


def count_heads(query: Tensor, dim: int | None) -> int:
    """Return the number of heads beside the mapped dimension."""
    return query.shape[1] if dim is None else query.movedim(dim, 0).shape[2]


def inputs_as_heads(
    inputs: Sequence[Any], in_dims: Dims, size: int, heads: int, *, own_masks: bool = False
) -> tuple[Tensor | None, ...]:
    """Return query, key, value, radius and mask with the mapped dimension among the heads.

    Parameters
    ----------
    own_masks : bool
        Whether each entry and head must have a mask of its own, as gradients of masks need.
    """
    *tensors, radius, mask = inputs
    three = [as_heads(t, d, size, axis=1) for t, d in zip(tensors, in_dims[:3], strict=True)]
    radius = as_heads(radius, in_dims[3], size, axis=0)
    return (*three, radius, _mask_as_heads(mask, in_dims[4], size, heads, own_masks))


def _one_by_one(
    run: Callable[..., Results], size: int, in_dims: Dims, arguments: Sequence[Any]
) -> tuple[Results, Dims]:
    entries = (
        run(*(x if d is None else x.select(d, i) for x, d in zip(arguments, in_dims, strict=True)))
        for i in range(size)
    )
    results = tuple(torch.stack(parts) for parts in zip(*entries, strict=True))
    return results, (0,) * len(results)
