# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Compiled copying of queries, keys and values into the layout of the loops.

Queries and keys with an entry that is not finite become zeros there, values entry by entry; what
is recorded beside them brings NaN back where it belongs.
"""

import numpy as np

from fourierkernels.ops.cpu.pairs import LANES, SUMMING, TILE
from fourierkernels.ops.cpu.scalar import constant, entry, inner

_BLOCK = LANES  # keys transposed together: a line of the cache


@inner(error_model="numpy")
def pack_queries(parts, head, start, stop):
    """Return rows [u, sin u, cos u] per feature, ``(rows, 3D)``, and reaches, ``(rows,)``.

    `parts` is ``(3, H, N, D)``. The reach is the largest abs(u), NaN if one is not finite.
    """
    u, sines, cosines = parts[0, head], parts[1, head], parts[2, head]
    rows = np.empty((stop - start, 3 * u.shape[1]), u.dtype)
    reaches = np.empty(stop - start, u.dtype)
    for i in range(stop - start):
        most, doubt = _reach(u[start + i])
        reaches[i] = most + doubt
        for d in range(u.shape[1]):
            rows[i, 3 * d] = u[start + i, d]
            rows[i, 3 * d + 1] = sines[start + i, d]
            rows[i, 3 * d + 2] = cosines[start + i, d]
        if doubt != 0:
            rows[i] = 0
    return rows, reaches


@entry(error_model="numpy")
def pack_keys(parts):
    """Return rows, reach, doubts and spoilt tiles of v, sin v, cos v ``(3, H, M, D)``."""
    _, heads, m, dim = parts.shape
    tiles = (m + TILE - 1) // TILE
    rows = np.empty((heads, tiles, 3 * dim * TILE), parts.dtype)
    reach = np.zeros((heads, tiles, TILE), parts.dtype)
    doubts = np.zeros((heads, tiles, TILE), parts.dtype)
    spoilt = np.zeros((heads, tiles), np.bool_)
    for head in range(heads):
        for tile in range(tiles):
            first, row = tile * TILE, rows[head, tile]
            count = min(TILE, m - first)
            _transpose(parts, (head, first, count), row)
            farthest = constant(0.0, row[0])
            for j in range(count):
                most, doubts[head, tile, j] = _reach(parts[0, head, first + j])
                if doubts[head, tile, j] != 0:
                    spoilt[head, tile] = True
                    row[j::TILE] = 0
                else:
                    farthest = max(farthest, most)
                reach[head, tile, j] = farthest  # of the first keys alone: causal rows see no more
    return rows, reach, doubts, spoilt


@entry(error_model="numpy")
def pack_values(values):
    """Return columns, an even number of them, and spoilt tiles of values ``(1, H, M, C)``."""
    _, heads, m, width = values.shape
    tiles = (m + TILE - 1) // TILE
    columns = np.zeros((heads, tiles, (width + width % 2) * TILE), values.dtype)
    spoilt = np.zeros((heads, tiles), np.bool_)
    for head in range(heads):
        for tile in range(tiles):
            first, column = tile * TILE, columns[head, tile]
            _transpose(values, (head, first, min(TILE, m - first)), column)
            if not np.isfinite(np.sum(column)):  # a finite sum has finite terms alone
                for k in range(len(column)):
                    if not np.isfinite(column[k]):
                        spoilt[head, tile] = True
                        column[k] = 0
    return columns, spoilt


@inner(error_model="numpy")
def _transpose(parts, place, row):
    """Copy some of ``(p, H, M, k)`` into a tile, ``(k · p · 256,)``; zeros to a vector's end."""
    (several, _, _, width), (head, first, count) = parts.shape, place
    for start in range(0, count, _BLOCK):
        used = min(_BLOCK, count - start)
        for part in range(several):
            source = parts[part, head, first + start : first + start + used]
            for k in range(width):
                column = row[(several * k + part) * TILE + start :]
                for j in range(used):
                    column[j] = source[j, k]
                for j in range(used, _BLOCK):
                    column[j] = 0


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _reach(x):
    """Return the largest size of a row's entries, and 0, or NaN if one is not finite."""
    most = doubt = constant(0.0, x[0])
    for d in range(len(x)):
        doubt += constant(0.0, most) * x[d]  # zero times what is not finite is NaN
        most = max(most, abs(x[d]))
    return most, doubt
