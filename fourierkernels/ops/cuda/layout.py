"""The inputs of Fourier attention as its CUDA kernels read them: one buffer per head.

A head has its queries, its keys and its values one after the other, padded and transposed; see
``csrc/problem.cuh``. Its size follows from shapes and dtype, without a library or a GPU.
"""

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Inputs
from fourierkernels.ops.cuda.library import Library, Packing
from fourierkernels.ops.offsets import common_offset

REALS = {torch.float32: "float", torch.float64: "double"}
_CHUNK = 16  # features are padded to its multiples
_TILE_BYTES = 256  # of a number of each row of a tile
_LONGEST = 2**31 - 2**10  # rows that an int can count, padding included


def packed_size(query: Tensor, key: Tensor, value: Tensor) -> int:
    """Return the numbers per head of the packed inputs: K of `Rows.packed`, ``(B, H, K)``.

    Examples
    --------
    >>> x = torch.empty(1, 2, 100, 16)
    >>> packed_size(x, x, x)
    14720
    """
    lines = 3 * padded_width(query) + 1
    rows = padded_rows(query.shape[2], query) + padded_rows(key.shape[2], query)
    return lines * rows + columns_size(key.shape[2], value)


def columns_size(rows: int, value: Tensor) -> int:
    """Return the numbers per head of packed values, or of packed gradients of the output."""
    return (padded_width(value) + 1) * padded_rows(rows, value)


def padded_rows(rows: int, query: Tensor) -> int:
    """Return the number of rows up to a whole tile."""
    return _up(rows, _TILE_BYTES // query.element_size())


def padded_width(rows: Tensor) -> int:
    """Return the number of features or columns up to a whole chunk."""
    return _up(rows.shape[3], _CHUNK)


def parts_of(packed: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Return where the queries, keys and values of ``(B, H, K)`` begin, as views of all heads.

    Queries and keys as ``(B, H, 3 D' + 1, rows')``: u, sin u, cos u of each feature, and a last
    line; values as ``(B, H, C' + 1, rows')``.
    """
    query, key, value, *_ = inputs
    features, columns = 3 * padded_width(query) + 1, padded_width(value) + 1
    queries, keys = (padded_rows(side.shape[2], query) for side in (query, key))
    shapes = (features, queries), (features, keys), (columns, keys)
    parts = torch.split(packed, [lines * rows for lines, rows in shapes], dim=-1)
    first, second, third = map(Tensor.unflatten, parts, (-1, -1, -1), shapes)
    return first, second, third


def pack(library: Library, inputs: Inputs, packed: Tensor) -> None:
    """Fill in ``(B, H, K)`` for contiguous inputs."""
    query, key, value, radius, *_ = inputs
    # No feature of a head is moved by a first key that is not a number: the other keys are.
    centre = common_offset(key, radius).nan_to_num(0.0, 0.0, 0.0).contiguous()
    parts = parts_of(packed, inputs)
    for side, part in zip((query, key), parts[:2], strict=True):
        _run(library, side, part, radius=radius, centre=centre)
    _run(library, value, parts[2])


def pack_columns(library: Library, columns: Tensor) -> Tensor:
    """Return gradients of the output, ``(B, H, N, C)``, as ``(B, H, C' + 1, rows')``."""
    lines = padded_width(columns) + 1
    rows = padded_rows(columns.shape[2], columns)
    packed = columns.new_empty((*columns.shape[:2], lines, rows))
    _run(library, columns, packed)
    return packed


def _run(library: Library, rows: Tensor, packed: Tensor, **scaling: Tensor) -> None:
    batch, heads, n, width = rows.shape
    if n > _LONGEST:
        raise ValueError(f"query and key must have at most {_LONGEST} rows on cuda, got {n}")
    lines = packed.shape[2] - 1
    packing = Packing(
        rows=rows.data_ptr(),
        packed=packed.data_ptr(),
        # Of an axis of one torch may give any stride.
        stride=packed.stride(0) // heads if batch > 1 else packed.stride(1),
        batches_heads=batch * heads,
        heads=heads,
        n=n,
        width=width,
        padded_n=packed.shape[-1],
        padded_width=lines // 3 if scaling else lines,
        **{name: tensor.data_ptr() for name, tensor in scaling.items()},
    )
    library.call("fk_pack", packing, rows.device)


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
