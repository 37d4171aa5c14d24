# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Compiled copying of queries, keys and values into what the loops read, and back.

A task copies each tile of a head when it comes to it, into the same place: a tile of 256 keys for
each of many short heads would take many times the memory of the keys.

Queries and keys with an entry that is not finite become zeros there, values entry by entry; what
is recorded beside them brings NaN back where it belongs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.ops.cpu.compiling import allocating, inner
from fourierkernels.ops.cpu.pairs import LANES
from fourierkernels.ops.cpu.scalar import constant, from_magnitude, magnitude
from fourierkernels.ops.shapes import TILE

Array = NDArray[np.floating]

_BLOCK = LANES  # keys transposed together: a line of the cache


class Tile(NamedTuple):
    """Keys and values of a head, up to 256 of them; what lies beyond them is finite.

    Attributes
    ----------
    rows : array of shape (3D · 256,)
        Feature by feature [v | sin v | cos v]; zeros for what is not finite.
    reach : array of shape (256,)
        The largest of all abs(v) of the tile up to a key.
    doubts : array of shape (256,)
        NaN for a key that is not finite, else 0.
    columns : array of shape (C · 256,), C even
        Values, zeros for what is not finite.
    spoilt : boolean array of shape (2,)
        Whether any key and any value is not finite.
    """

    rows: Array
    reach: Array
    doubts: Array
    columns: Array
    spoilt: NDArray[np.bool_]


@allocating(error_model="numpy")
def new_tile(layout):
    """Return room for a tile of a head."""
    keys, values = layout.keys, layout.values
    width = values.shape[3]
    return Tile(
        np.zeros(3 * keys.shape[3] * TILE, keys.dtype),
        np.zeros(TILE, keys.dtype),
        np.zeros(TILE, keys.dtype),
        np.zeros((width + width % 2) * TILE, keys.dtype),
        np.zeros(2, np.bool_),
    )


@inner(error_model="numpy")
def pack_queries(parts, head, start, rows, reaches):
    """Fill in rows [u, sin u, cos u] per feature, ``(n, 3D)``, and reaches, ``(n,)``.

    `parts` is ``(3, H, N, D)``. The reach is the largest abs(u), NaN if one is not finite.
    """
    for i in range(len(rows)):
        reach = _reach(parts, head, start + i)
        reaches[i] = reach + (reach - reach)
        for d in range(parts.shape[3]):
            for part in range(3):
                finite = reach - reach == 0
                given = parts[part, head, start + i, d]
                rows[i, 3 * d + part] = given if finite else constant(0.0, reach)


@inner(error_model="numpy")
def pack_tile(layout, head, index, tile):
    """Copy the keys and values of a head's tile into a :class:`Tile`."""
    first = index * TILE
    place = head, first, min(TILE, layout.keys.shape[2] - first)
    tile.spoilt[0] = _pack_keys(layout.keys, place, tile)
    tile.spoilt[1] = _pack_values(layout.values, place, tile.columns)


@inner(error_model="numpy")
def _pack_keys(keys, place, tile):
    """Copy v, sin v, cos v ``(3, H, M, D)``; return whether any is not finite."""
    (head, first, count), spoilt = place, False
    _transpose(keys, place, tile.rows)
    farthest = constant(0.0, tile.reach[0])
    for j in range(count):
        reach = _reach(keys, head, first + j)
        tile.doubts[j] = reach - reach
        if reach - reach == 0:
            farthest = max(farthest, reach)
        else:
            spoilt = True
            tile.rows[j::TILE] = 0
        tile.reach[j] = farthest  # of the first keys alone: causal rows see no more
    return spoilt


@inner(error_model="numpy")
def _pack_values(values, place, columns):
    """Copy values ``(1, H, M, C)``; return whether any is not finite."""
    (head, first, count), spoilt = place, False
    _transpose(values, place, columns)
    for j in range(count):
        reach = _reach(values, head, first + j)
        if reach - reach != 0:
            spoilt = True
            for k in range(j, len(columns), TILE):
                if not np.isfinite(columns[k]):
                    columns[k] = 0
    return spoilt


@inner(error_model="numpy")
def _transpose(parts, place, row):
    """Copy some of ``(p, H, M, k)`` into a tile, ``(k · p · 256,)``; zeros to a vector's end."""
    # Entry by entry: each slice would be counted, at the price of the copy of some keys.
    (several, _, _, width), (head, first, count) = parts.shape, place
    for start in range(0, count, _BLOCK):
        used = min(_BLOCK, count - start)
        for part in range(several):
            for k in range(width):
                column = (several * k + part) * TILE + start
                for j in range(used):
                    row[column + j] = parts[part, head, first + start + j, k]
                for j in range(used, _BLOCK):
                    row[column + j] = 0


@inner(error_model="numpy")
def clear(tile, rows):
    """Fill a tile with zeros as far as loops go that add to so many rows."""
    width = -(-len(rows) // LANES) * LANES
    for start in range(0, len(tile), TILE):
        for j in range(start, start + width):
            tile[j] = 0


@inner(error_model="numpy")
def add_transposed(tile, rows):
    """Add a tile, ``(k · 256,)``, to its rows, ``(at most 256, k)``."""
    for j in range(len(rows)):
        for k in range(rows.shape[1]):
            rows[j, k] += tile[k * TILE + j]


@inner(error_model="numpy", forceinline=True)
def _reach(parts, head, row):
    """Return the largest size of the entries of a row of the first part; one may not be finite."""
    most = magnitude(constant(0.0, parts[0, 0, 0, 0]))
    for d in range(parts.shape[3]):
        most = max(most, magnitude(parts[0, head, row, d]))
    return from_magnitude(most, parts[0, 0, 0, 0])
