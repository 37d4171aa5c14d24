# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Weights of attention, compiled: what the forward and the backward pass share."""

import math

import numpy as np
from numba import njit

from fourierkernels.ops.bits import constant
from fourierkernels.ops.pairs import TILE, exp2_parts, sinc_pairs

_LOG2_E = 1.0 / math.log(2.0)


@njit(cache=True, error_model="numpy")
def interleaved(head, start, stop, layout):
    """Rows [u, sin u, cos u] per feature, shape ``(rows, 3D)``."""
    u = layout.u
    rows = np.empty((stop - start, 3 * u.shape[2]), u.dtype)
    for i in range(stop - start):
        for d in range(u.shape[2]):
            rows[i, 3 * d] = u[head, start + i, d]
            rows[i, 3 * d + 1] = layout.sines[head, start + i, d]
            rows[i, 3 * d + 2] = layout.cosines[head, start + i, d]
    return rows


@njit(cache=True)
def tiles_in_sight(row, tiles, causal):
    """Return how many tiles of keys a row sees."""
    return min(tiles, row // TILE + 1) if causal else tiles


@njit(cache=True, error_model="numpy", forceinline=True)
def weigh(place, query, keys, mask, m, power, causal, mantissas, exponents):
    """Fill in the weights of one query and a tile of keys: zero where masked or beyond the end.

    `place` is (head, row, tile), `query` the row's [u, sin u, cos u] per feature, `keys` the tile;
    the layout itself would cost a count of references per call.
    """
    head, row, tile = place
    sinc_pairs(query, keys, power, mantissas, exponents, None)
    start = tile * TILE
    in_sight = min(TILE, m - start)
    if causal:
        in_sight = min(in_sight, row + 1 - start)
    if in_sight < TILE:
        for j in range(max(in_sight, 0), TILE):
            mantissas[j] = constant(0.0, mantissas[0])
    if mask.size > 0:
        heads = mask.shape[1]
        bias = mask[head // heads, head % heads, row]
        for j in range(in_sight):
            factor, shift = exp2_parts(bias[start + j] * constant(_LOG2_E, mantissas[0]))
            mantissas[j] *= constant(0.0, factor) if bias[start + j] == -np.inf else factor
            exponents[j] += shift
