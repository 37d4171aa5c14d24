# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Weights of attention, compiled, with their options and dropout: what both passes share.

The draw is that of :mod:`fourierkernels.ops.dropout`: the same bits, tile by tile.
"""

import math
from typing import NamedTuple

import numpy as np
from torch import Tensor

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.cpu.compiling import allocating, inner
from fourierkernels.ops.cpu.layout import Layout, Mask
from fourierkernels.ops.cpu.pairs import LANES, STRETCH, Extent, exp2_parts, sinc_pairs
from fourierkernels.ops.cpu.scalar import constant, exponent, far_limit, mantissa
from fourierkernels.ops.dropout import threshold
from fourierkernels.ops.shapes import TILE

# Philox4x32-10, as in `ops.dropout`; written out, for numba keeps loops until a file here changes.
_ROUNDS = 10
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEP_0, _STEP_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_WORD, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
HIDDEN = -(2**30)  # the exponent of a pair that a mask hides; that of no other is so low
_LOG2_E = 1.0 / math.log(2.0)
_LARGEST_BIAS = 2**28  # in log2: beyond it a mask's exponent is `_rank`, that of CUDA's `rank_of`
_RANKS = 32  # from one power of two to the next,
_APART = 2**14  # of which neighbours are so far apart: the smaller weight is zero
_TASK = 2.5e5  # pairs times dimensions of a task: less would not be worth the arrays it works in


class Dropout(NamedTuple):
    """A seed's two words; the least word that keeps a weight, 0 to keep all; the factor 1/(1-p)."""

    low: np.uint64
    high: np.uint64
    least: np.uint32
    scale: np.floating


def prepare_dropout(p: float, seed: Tensor | None, dtype: np.dtype) -> Dropout:
    """Return dropout as the loops read it."""
    bits = 0 if seed is None or not p else int(seed) % 2**64
    low, high = np.uint64(bits % 2**32), np.uint64(bits >> 32)
    return Dropout(low, high, np.uint32(threshold(p)), dtype.type(1 / (1 - p)))


@inner(error_model="numpy")
def drop(dropout, width, words, weights, kept):
    """Fill `kept` with the weights, and zeros for those that are dropped."""
    zero = constant(0.0, weights[0])
    for j in range(width):
        kept[j] = weights[j] if np.uint32(words[j]) >= dropout.least else zero


@inner(error_model="numpy")
def draw(dropout, place, width, words):
    """Fill in the words of the first keys of a tile, four to a counter; counters fill vectors.

    `place` is (head, row, first key), `width` a multiple of 4.
    """
    head, row, first = place
    for g in range(width // 4):
        a, b = np.uint64(first // 4 + g), np.uint64(row)
        c, d = np.uint64(head), np.uint64(0)
        low, high = dropout.low, dropout.high
        for _ in range(_ROUNDS):
            left, right = _FIRST * a, _SECOND * c
            a, c = (right >> _HALF) ^ b ^ low, (left >> _HALF) ^ d ^ high
            b, d = right & _WORD, left & _WORD
            low, high = (low + _STEP_0) & _WORD, (high + _STEP_1) & _WORD
        words[4 * g], words[4 * g + 1] = np.int32(a), np.int32(b)
        words[4 * g + 2], words[4 * g + 3] = np.int32(c), np.int32(d)


class Settings(NamedTuple):
    """`Options`, with eps in the working precision and the dropout drawn from its seed."""

    power: int
    causal: bool
    eps: np.floating
    weights: bool
    dropout: Dropout


def prepare(inputs: Inputs, options: Options, dtype: np.dtype) -> Settings:
    """Return the options as the loops read them."""
    dropout = prepare_dropout(options.dropout_p, inputs.seed, dtype)
    eps = dtype.type(options.eps)
    return Settings(options.power, options.causal, eps, options.return_weights, dropout)


@inner()
def share(rows, layout):
    """Return how many times so many queries of a head are enough for a task."""
    work = float(rows) * layout.keys.shape[2] * layout.keys.shape[3]
    return max(1, int(_TASK / work))


@inner()
def tiles_in_sight(row, layout, causal):
    """Return how many tiles of keys a row sees."""
    tiles = (layout.keys.shape[2] + TILE - 1) // TILE
    return min(tiles, row // TILE + 1) if causal else tiles


@inner()
def keys_in_sight(row, tile, layout, causal):
    """Return how many keys of a tile, from its first, a row may see; at most 0 if none."""
    start = tile * TILE
    count = min(TILE, layout.keys.shape[2] - start)
    return min(count, row + 1 - start) if causal else count


@inner()
def extent(count):
    """Return how far loops go that take the first keys of a tile."""
    return Extent(-(-count // LANES) * LANES, -(-count // STRETCH) * STRETCH)


@inner(error_model="numpy")
def read_mask(place, count, mask, factors, shifts):
    """Fill in exp(bias) = factor 2^shift, 0 where hidden; return the end of the keys in sight.

    `place` is (head, row, tile). The factor of a finite bias beyond 32 bits is the bias itself.
    """
    (head, row, tile), (bias, heads, strides), end = place, mask, 0
    start = head // heads * strides[0] + head % heads * strides[1] + row * strides[2]
    start += tile * TILE * strides[3]
    limit = constant(_LARGEST_BIAS, factors[0])
    for j in range(count):
        given = bias[start + j * strides[3]]  # asked below, because log2 of a finite one overflows
        log2 = given * constant(_LOG2_E, limit)
        large = abs(log2) > limit
        factor, shift = exp2_parts(min(log2, limit))
        factor = (given if large else factor) if given < np.inf else constant(np.nan, limit)
        factors[j] = factor if given != -np.inf else constant(0.0, limit)
        shifts[j] = (_rank(given) if large else shift) if abs(given) < np.inf else np.int32(0)
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
        Those of :class:`~fourierkernels.ops.cpu.packing.Tile`: rows, reach and doubts, which are
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
    if len(doubts) > 0 or reach != reach:  # adds NaN of a row or key that is not finite, else 0
        for j in range(count):
            mantissas[j] += (reach - reach) + (doubts[j] if len(doubts) > 0 else reach - reach)
    if len(factors) > 0:
        _apply_mask(count, factors, shifts, mantissas, exponents)
    for j in range(count, part.stretch):
        mantissas[j] = constant(0.0, reach)
        exponents[j] = np.int32(HIDDEN)


@inner()
def _rank(bias):
    """Return an exponent in place of that of exp(bias): in order, and beyond 2^28."""
    steps = exponent(bias) * _RANKS + int(abs(mantissa(bias)) * _RANKS)
    size = np.int32(_LARGEST_BIAS + steps * _APART)
    return size if bias > 0 else -size


@inner(error_model="numpy", forceinline=True)
def _apply_mask(count, factors, shifts, mantissas, exponents):
    one, zero, any_large = constant(1.0, factors[0]), constant(0.0, factors[0]), False
    for j in range(count):
        any_large |= _is_large(factors[j])
    if any_large:
        _round_scores(count, factors, mantissas, exponents)
    for j in range(count):
        hidden, factor = factors[j] == 0, one if _is_large(factors[j]) else factors[j]
        mantissas[j] = zero if hidden else mantissas[j] * factor
        exponents[j] = np.int32(HIDDEN) if hidden else exponents[j] + shifts[j]


@inner(error_model="numpy", forceinline=True)
def _is_large(factor):
    return abs(factor) > constant(2.0, factor)


@inner(error_model="numpy")
def _round_scores(count, factors, mantissas, exponents):
    """Keep of weights what a sum of their logarithm and a large bias keeps, as it is rounded."""
    log_2, log2_e = constant(math.log(2.0), factors[0]), constant(_LOG2_E, factors[0])
    for j in range(count):
        bias, size = factors[j], abs(mantissas[j])
        if _is_large(bias) and size > 0:
            score = np.log(size) + constant(exponents[j], bias) * log_2
            kept, exponents[j] = exp2_parts(((score + bias) - bias) * log2_e)
            mantissas[j] = kept if mantissas[j] > 0 else -kept


@allocating()
def nested(layout, settings):
    """Return a layout and settings of their leaves: see `layout.flattened`."""
    queries, keys, values, bias, heads, s0, s1, s2, s3 = layout
    power, causal, eps, weights, low, high, least, scale = settings
    mask = Mask(bias, heads, (s0, s1, s2, s3))
    dropout = Dropout(low, high, least, scale)
    whole = Layout(queries, keys, values, mask)
    return whole, Settings(power, causal, eps, weights, dropout)
