"""The operator under `vmap`: mapped dimensions become more heads, or entries run one by one.

Dropout counts heads, so with it more heads would be another draw: each entry is then computed as it
would be alone, with the seed that is its own (``randomness="different"``) or shared ("same").
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fourierkernels.ops.arguments import BackwardCall, Cotangents, ForwardCall, Inputs, Saved

Dims = Sequence[int | None]
Results = tuple[Tensor, ...]


def map_forward(
    attend: Callable[..., Results], info: Any, in_dims: Dims, *arguments: Any
) -> tuple[Results, Dims]:
    """Return results of the forward pass and where their mapped dimensions are."""
    size, call, dims = info.batch_size, ForwardCall.of(arguments), _dims(ForwardCall, in_dims)
    if call.options.dropout_p:
        return _one_by_one(attend, size, in_dims, arguments)
    heads = count_heads(call.inputs.query, dims.inputs.query)
    inputs = inputs_as_heads(call.inputs, dims.inputs, size, heads)
    results = attend(*call._replace(inputs=inputs).arguments)
    return tuple(_split(part, 1, size, heads) for part in results), (1,) * len(results)


def map_backward(
    attend_backward: Callable[..., Results], info: Any, in_dims: Dims, *arguments: Any
) -> tuple[Results, Dims]:
    """Return results of the backward pass and where their mapped dimensions are."""
    size, call, dims = info.batch_size, BackwardCall.of(arguments), _dims(BackwardCall, in_dims)
    if call.options.dropout_p:
        return _one_by_one(attend_backward, size, in_dims, arguments)
    heads, mask_grad = count_heads(call.inputs.query, dims.inputs.query), call.options.mask_grad
    mapped = call._replace(
        cotangents=Cotangents(*_parts_as_heads(call.cotangents, dims.cotangents, size)),
        inputs=inputs_as_heads(call.inputs, dims.inputs, size, heads, own_masks=mask_grad),
        saved=Saved(*_parts_as_heads(call.saved, dims.saved, size)),
    )
    dq, dk, dv, dr, dmask = attend_backward(*mapped.arguments)
    four = (*(_split(part, 1, size, heads) for part in (dq, dk, dv)), _split(dr, 0, size, heads))
    if not mask_grad:
        return (*four, dmask), (1, 1, 1, 0, None)
    dmask = _split(dmask, 1, size, heads)  # (B, size, H, N, M)
    mask, dim = call.inputs.mask, dims.inputs.mask
    if mask is not None and (mask if dim is None else mask.select(dim, 0)).shape[1] == 1:
        dmask = dmask.sum(dim=2, keepdim=True)
    return (*four, dmask), (1, 1, 1, 0, 1)


def _dims(kind: type[ForwardCall | BackwardCall], in_dims: Dims) -> Any:
    """Return the mapped dimension of each argument, or None, by the argument's name."""
    return kind.of(in_dims)


def as_heads(tensor: Tensor, dim: int | None, size: int, *, axis: int) -> Tensor:
    """Return `tensor` with the mapped dimension merged into that of the heads, at `axis`."""
    if dim is None:
        tensor, dim = (
            tensor.unsqueeze(axis).expand(*tensor.shape[:axis], size, *tensor.shape[axis:]),
            axis,
        )
    return tensor.movedim(dim, axis).flatten(axis, axis + 1)


def _split(tensor: Tensor, axis: int, size: int, heads: int) -> Tensor:
    """Return `tensor` with the mapped dimension at `axis`, before that of the heads."""
    return tensor.reshape(*tensor.shape[:axis], size, heads, *tensor.shape[axis + 1 :])


def _parts_as_heads(parts: Sequence[Tensor | None], dims: Dims, size: int) -> list[Any]:
    return [
        None if part is None else as_heads(part, dim, size, axis=1)
        for part, dim in zip(parts, dims, strict=True)
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
    inputs: Inputs, dims: Any, size: int, heads: int, *, own_masks: bool = False
) -> Inputs:
    """Return the inputs with the mapped dimension among the heads; the seed as it is.

    Parameters
    ----------
    dims : Inputs
        The mapped dimension of each, or None: dimensions in place of tensors.
    own_masks : bool
        Whether each entry and head must have a mask of its own, as gradients of masks need.
    """
    *three, radius, mask, seed = inputs
    *three_dims, radius_dim, mask_dim, _ = dims
    query, key, value = map(partial(as_heads, size=size, axis=1), three, three_dims)
    mask = _mask_as_heads(mask, mask_dim, size, heads, own_masks)
    return Inputs(query, key, value, as_heads(radius, radius_dim, size, axis=0), mask, seed)


def _one_by_one(
    run: Callable[..., Results], size: int, in_dims: Dims, arguments: Sequence[Any]
) -> tuple[Results, Dims]:
    entries = (
        run(*(x if d is None else x.select(d, i) for x, d in zip(arguments, in_dims, strict=True)))
        for i in range(size)
    )
    results = tuple(torch.stack(parts) for parts in zip(*entries, strict=True))
    return results, (0,) * len(results)
