# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Weights of attention, compiled: what the forward and the backward pass share."""

import math

import numpy as np

from fourierkernels.ops.cpu.bits import constant
from fourierkernels.ops.cpu.compiled import inner
from fourierkernels.ops.cpu.dropout import Dropout
from fourierkernels.ops.cpu.layout import Keys, Layout, Mask, Values
from fourierkernels.ops.cpu.pairs import LANES, STRETCH, TILE, Extent, exp2_parts, sinc_pairs
from fourierkernels.ops.cpu.series import far_limit
from fourierkernels.ops.cpu.settings import Settings

HIDDEN = -(2**30)  # the exponent of a pair that a mask hides; that of no other is so low
_LOG2_E = 1.0 / math.log(2.0)
_LARGEST_BIAS = 1e9  # in log2: beyond it exponents leave their 32 bits


@inner()
def tiles_in_sight(row, layout, causal):
    """Return how many tiles of keys a row sees."""
    tiles = layout.keys.reach.shape[1]
    return min(tiles, row // TILE + 1) if causal else tiles


@inner()
def keys_in_sight(row, tile, layout, causal):
    """Return how many keys of a tile, from its first, a row may see; at most 0 if none."""
    start = tile * TILE
    count = min(TILE, layout.m - start)
    return min(count, row + 1 - start) if causal else count


@inner()
def extent(count):
    """Return how far loops go that take the first keys of a tile."""
    return Extent(-(-count // LANES) * LANES, -(-count // STRETCH) * STRETCH)


@inner(error_model="numpy")
def read_mask(place, count, mask, factors, shifts):
    """Fill in exp(bias) = factor 2^shift, 0 where hidden; return the end of the keys in sight.

    `place` is (head, row, tile).
    """
    (head, row, tile), (bias, heads, strides), end = place, mask, 0
    start = head // heads * strides[0] + head % heads * strides[1] + row * strides[2]
    start += tile * TILE * strides[3]
    limit = constant(_LARGEST_BIAS, factors[0])
    for j in range(count):
        given = bias[start + j * strides[3]]  # asked below, because log2 of a finite one overflows
        factor, shift = exp2_parts(min(given * constant(_LOG2_E, limit), limit))
        factor = factor if given < np.inf else constant(np.nan, limit)
        factors[j] = factor if given != -np.inf else constant(0.0, limit)
        shifts[j] = shift if abs(given) < np.inf else np.int32(0)
        end = max(end, 0 if given == -np.inf else j + 1)
    return end


@inner(error_model="numpy", forceinline=True)
def weigh(query, reach, keys, count, power, mask, mantissas, exponents):
    """Fill in the weights of a query and the first keys of a tile; 0 to the stretch's end.

    Parameters
    ----------
    query, reach
        A row of :func:`~fourierkernels.ops.cpu.packing.pack_queries`.
    keys : tuple of arrays
        A tile of :class:`~fourierkernels.ops.cpu.layout.Keys`: rows, reach and doubts, which are
        empty if no key is spoilt.
    count : int
        Keys in sight, at least 1.
    mask : tuple of arrays
        Factors and shifts of :func:`read_mask`; no factors without a mask.
    mantissas, exponents : array and int32 array of shape (256,)
        The exponent of a hidden pair is HIDDEN.
    """
    (columns, reaches, doubts), (factors, shifts) = keys, mask
    part = extent(count)
    distant = reach + reaches[count - 1] > far_limit(reach)
    sinc_pairs(query, columns, part, power, distant, mantissas, exponents, None)
    if len(doubts) > 0 or reach != reach:
        for j in range(count):
            mantissas[j] += (reach - reach) + (doubts[j] if len(doubts) > 0 else reach - reach)
    if len(factors) > 0:
        _apply_mask(count, factors, shifts, mantissas, exponents)
    for j in range(count, part.stretch):
        mantissas[j] = constant(0.0, reach)
        exponents[j] = np.int32(HIDDEN)


@inner(error_model="numpy", forceinline=True)
def _apply_mask(count, factors, shifts, mantissas, exponents):
    for j in range(count):
        hidden = factors[j] == 0
        mantissas[j] = constant(0.0, factors[j]) if hidden else mantissas[j] * factors[j]
        exponents[j] = np.int32(HIDDEN) if hidden else exponents[j] + shifts[j]


@inner()
def nested(layout, settings):
    """Return a layout and settings of their leaves: see `cpu_layout.flattened`."""
    q, a, b, c, d, e, f, g, bias, heads, s0, s1, s2, s3, m = layout
    power, causal, eps, weights, low, high, least, scale = settings
    mask = Mask(bias, heads, (s0, s1, s2, s3))
    whole = Layout(q, Keys(a, b, c, d), Values(e, f, g), mask, m)
    dropout = Dropout(low, high, least, scale)
    return whole, Settings(power, causal, eps, weights, dropout)
