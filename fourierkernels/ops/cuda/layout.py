"""The inputs of Fourier attention as its CUDA kernels read them: one buffer per head.

A head has its queries, its keys and its values one after the other, padded and transposed; see
``csrc/problem.cuh``. Its size follows from shapes and dtype, without a library or a GPU.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Inputs, first_seen
from fourierkernels.ops.cuda.library import Library, Packing, Packings

REALS = {torch.float32: "float", torch.float64: "double"}
_CHUNK = 16  # features are padded to its multiples
_TILE_BYTES = 256  # of a number of each row of a tile
_LONGEST = 2**31 - 2**10  # rows that an int can count, padding included
_ENTRIES = 2**24  # of a buffer, unless the mask itself or one head is larger

_SPLITS = 32  # of the keys of a head, at most
_BLOCKS = 256  # launched together, at least: a card runs about as many at a time

Run = Callable[[int, int, Tensor], None]


def packed_shape(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, int, int]:
    """Return the shape of the packed inputs, ``(B, H, K)``.

    Examples
    --------
    >>> x = torch.empty(1, 2, 100, 16)
    >>> packed_shape(x, x, x)
    (1, 2, 14720)
    """
    shapes = _shapes_of_parts(query, key, value)
    return (*query.shape[:2], sum(lines * rows for lines, rows in shapes))


def columns_size(rows: int, value: Tensor) -> int:
    """Return the numbers per head of packed values, or of packed gradients of the output."""
    return (padded_width(value) + 1) * padded_rows(rows, value)


def padded_rows(rows: int, query: Tensor) -> int:
    """Return the number of rows up to a whole tile."""
    return _up(rows, _TILE_BYTES // query.element_size())


def padded_width(rows: Tensor) -> int:
    """Return the number of features or columns up to a whole chunk."""
    return _up(rows.shape[3], _CHUNK)


def splits_of(padded_keys: int, query: Tensor) -> int:
    """Return how many blocks share out the keys of a head in the backward pass.

    It depends on nothing but the head, so that the sums of its queries have one order in any batch.

    Examples
    --------
    >>> [splits_of(keys, torch.empty(1)) for keys in (64, 2048, 2112, 65536)]
    [1, 32, 17, 32]
    """
    tiles = padded_keys * query.element_size() // _TILE_BYTES
    return -(-tiles // max(1, -(-tiles // _SPLITS)))


def heads_at_once(shape: tuple[int, ...]) -> int:
    """Return for how many heads to keep sums of the queries, ``(splits, D', N')`` for each."""
    return max(_ENTRIES // max(1, math.prod(shape)), -(-_BLOCKS // max(1, shape[0])))


def parts_of(packed: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Return where the queries, keys and values of ``(B, H, K)`` begin, as views of all heads.

    Queries and keys as ``(B, H, 3 D' + 1, rows')``: u, sin u, cos u of each feature, and a last
    line; values as ``(B, H, C' + 1, rows')``.
    """
    shapes = _shapes_of_parts(*inputs[:3])
    parts = torch.split(packed, [lines * rows for lines, rows in shapes], dim=-1)
    first, second, third = map(Tensor.unflatten, parts, (-1, -1, -1), shapes)
    return first, second, third


def starts_of(packed: Tensor, inputs: Inputs) -> tuple[int, int, int]:
    """Return the addresses at which queries, keys and values of the first head begin."""
    (first, rows), (second, keys), _ = _shapes_of_parts(*inputs[:3])
    start, size = packed.data_ptr(), packed.element_size()
    key = start + size * first * rows
    return start, key, key + size * second * keys


def _shapes_of_parts(query: Tensor, key: Tensor, value: Tensor) -> tuple[tuple[int, int], ...]:
    features, columns = 3 * padded_width(query) + 1, padded_width(value) + 1
    queries, keys = (padded_rows(side.shape[2], query) for side in (query, key))
    return (features, queries), (features, keys), (columns, keys)


def pack(library: Library, inputs: Inputs, grad: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return contiguous inputs as the kernels read them, and gradients of the output likewise.

    Returns
    -------
    packed : Tensor
        ``(B, H, K)``.
    grad : Tensor
        Those of ``(C' + 1, rows')`` of each head, ``(B, H, K')``; empty if there are none.
    """
    query, key, value, radius, mask, _ = inputs
    packed = query.new_empty(packed_shape(query, key, value))
    origin = key if mask is None else first_seen(key, mask).contiguous()
    scaling = {"radius": radius.data_ptr(), "origin": origin.data_ptr()}
    scaling["origin_stride"] = origin.shape[2] * origin.shape[3]
    of_query, of_key, of_value = starts_of(packed, inputs)
    parts = [
        _packing(query, of_query, packed.shape[2], **scaling),
        _packing(key, of_key, packed.shape[2], **scaling),
        _packing(value, of_value, packed.shape[2]),
    ]
    packed_grad = query.new_empty((0,))
    if grad is not None:
        packed_grad = query.new_empty((*grad.shape[:2], columns_size(grad.shape[2], grad)))
        parts.append(_packing(grad, packed_grad.data_ptr(), packed_grad.shape[2]))
    library.call("fk_pack", Packings((Packing * 4)(*parts)), query.device)
    return packed, packed_grad


def _packing(rows: Tensor, start: int, stride: int, **scaling: int) -> Packing:
    batch, heads, n, width = rows.shape
    if n > _LONGEST:
        raise ValueError(f"query and key must have at most {_LONGEST} rows on cuda, got {n}")
    return Packing(
        rows=rows.data_ptr(),
        packed=start,
        stride=stride,
        batches_heads=batch * heads,
        heads=heads,
        n=n,
        width=width,
        padded_n=padded_rows(n, rows),
        padded_width=padded_width(rows),
        **scaling,
    )


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def mask_gradient(mask: Tensor, shape: tuple[int, int, int, int], run: Run) -> Tensor:
    """Return the gradient of a mask in its shape.

    Parameters
    ----------
    mask : Tensor
        Four dimensions, each 1 or that of `shape`.
    shape : tuple of int
        ``(B, H, N, M)``.
    run : callable
        From the first head, counted over batches, the number of heads and a buffer ``(B', H', N,
        M)`` of zeros for them; fills in the gradients of the pairs.
    """
    batch, heads, n, m = shape
    result, whole = mask.new_zeros(mask.shape), mask.shape == shape
    most = max(mask.numel(), _ENTRIES) // (n * m)
    for batches, some in _pieces(batch, heads, max(1, most)):
        part = result[
            batches if mask.shape[0] > 1 else slice(None),
            some if mask.shape[1] > 1 else slice(None),
        ]
        sizes = batches.stop - batches.start, some.stop - some.start, n, m
        buffer = part if whole else mask.new_zeros(sizes)
        run(batches.start * heads + some.start, sizes[0] * sizes[1], buffer)
        if not whole:
            part += buffer.sum_to_size(part.shape)
    return result


def _pieces(batch: int, heads: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Cut batches and heads into pieces of at most so many heads, each contiguous in memory."""
    batches, some = max(1, most // heads), min(most, heads)
    for b in range(0, batch, batches):
        for h in range(0, heads, some):
            yield slice(b, min(b + batches, batch)), slice(h, min(h + some, heads))
