# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Weighted kernel sums over all pairs, compiled by Numba in double or single precision.

Threads share out blocks of queries, never a sum: results do not depend on their number. A block
goes through the tiles of samples one after the other, so that a tile is read from the cache by all
its queries. Within a tile sums are taken in the working precision, across tiles in float64.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.ops.cpu.compiling import allocating, entry, inner
from fourierkernels.ops.cpu.pairs import (
    NOWHERE,
    SUMMING,
    WHOLE,
    gaussian_pairs,
    highest_exponent,
    sinc_pairs,
)
from fourierkernels.ops.cpu.scalar import constant, power_of_two
from fourierkernels.ops.shapes import QUERIES, TILE, Shape

_SERIAL_BELOW = 4e6  # pairs times dimensions: about a millisecond, what it takes to wake a thread

_Array = NDArray[np.floating]


class Samples(NamedTuple):
    """Samples in tiles, as the loops read them; t tiles of 256.

    Attributes
    ----------
    rows : array of shape (t, 3 · dim · 256), or (t, dim · 256) for the Gaussian
        Scaled coordinates; see :mod:`fourierkernels.ops.cpu.pairs`.
    columns : array of shape (t, (1 + k) · 256)
        Weights, then weights times responses.
    """

    rows: _Array
    columns: _Array


class Queries(NamedTuple):
    """Queries as the loops read them.

    Attributes
    ----------
    rows : array of shape (m, 3 · dim), or (m, dim) for the Gaussian
    base : array of shape (m,)
        Added to log2 of the Gaussian weights of a query.
    reach : array of shape (m,)
        Error of its scaled differences.
    """

    rows: _Array
    base: _Array
    reach: _Array


class Sums(NamedTuple):
    """What the loops write: `KernelSums` field by field, zeros to begin with."""

    numerator: FloatArray  # (m, k)
    denominator: FloatArray  # (m,)
    error: FloatArray  # (m,)
    exponent: NDArray[np.int64]  # (m,)


def sum_pairs(queries: Queries, samples: Samples, shape: Shape, rounding: np.floating) -> Sums:
    """Return the sums over all samples at every query; `rounding` is that of a term."""
    m, k = len(queries.rows), samples.columns.shape[1] // TILE - 1
    sums = Sums(np.zeros((m, k)), np.zeros(m), np.zeros(m), np.zeros(m, np.int64))
    run = _sum_serially if is_small(queries, samples, shape) else _sum_in_parallel
    run(queries, samples, shape, rounding, sums)
    return sums


def is_small(queries: Queries, samples: Samples, shape: Shape, monomials: int = 1) -> bool:
    """Return whether sums are done sooner than threads wake."""
    dims = queries.rows.size if shape.gaussian else queries.rows.size // 3
    return float(dims) * TILE * len(samples.rows) * monomials < _SERIAL_BELOW


@entry(error_model="numpy")
def _sum_serially(queries, samples, shape, rounding, sums):
    for start in range(0, len(queries.rows), QUERIES):
        _sum_block(start, queries, samples, shape, rounding, sums)


@entry(parallel=True, error_model="numpy")
def _sum_in_parallel(queries, samples, shape, rounding, sums):
    for block in prange((len(queries.rows) + QUERIES - 1) // QUERIES):
        _sum_block(block * QUERIES, queries, samples, shape, rounding, sums)


@allocating(error_model="numpy")
def _sum_block(start, queries, samples, shape, rounding, sums):
    stop = min(start + QUERIES, len(queries.rows))
    like = queries.rows
    mantissas = np.empty(TILE, like.dtype)  # unpacked from one array they would lose, for the
    noise = np.empty(TILE, like.dtype)  # compiler, the contiguous layout and with it the vectors
    exponents = np.empty(TILE, np.int32)
    sums.exponent[start:stop] = NOWHERE  # the first pair that counts sets the scale
    for tile in range(len(samples.rows)):
        columns = samples.columns[tile]
        for i in range(start, stop):
            query, row, reach = queries.rows[i], samples.rows[tile], queries.reach[i]
            base = queries.base[i]
            pair_weights(query, row, base, reach, shape, rounding, mantissas, exponents, noise)
            used = columns[:TILE]
            top = highest_exponent(TILE, mantissas, exponents, sums.exponent[i], used)
            if top > sums.exponent[i]:
                _rescale(i, top, sums)
            total, doubt = _add_weights(used, rounding, top, mantissas, exponents, noise)
            sums.denominator[i] += total
            sums.error[i] += doubt
            for k in range(sums.numerator.shape[1]):
                sums.numerator[i, k] += _dot(k + 1, columns, mantissas)


@inner(error_model="numpy", forceinline=True)
def pair_weights(query, row, base, reach, shape, rounding, mantissas, exponents, noise):
    """Fill mantissas and exponents of a tile's weights, and bounds on their relative errors."""
    if shape.gaussian:
        gaussian_pairs(query, row, base, mantissas, exponents, noise)
        _gaussian_noise(len(query), reach, rounding, noise)
    else:
        sinc_pairs(query, row, WHOLE, shape.power, False, mantissas, exponents, noise)
        _sinc_noise(shape.power * (len(query) // 3), reach, noise)


@inner(error_model="numpy")
def _rescale(i, top, sums):
    """Bring the sums of a query to a higher exponent."""
    shrink = math.ldexp(1.0, max(sums.exponent[i] - top, -2000))  # 0 there; ldexp takes 32 bits
    for k in range(sums.numerator.shape[1]):
        sums.numerator[i, k] *= shrink
    sums.denominator[i] *= shrink
    sums.error[i] *= shrink
    sums.exponent[i] = top


@inner(fastmath=SUMMING, error_model="numpy")
def _sinc_noise(factors, reach, noise):
    """Turn the least |sin u| into relative errors: |cot u - 1/u| <= 2 / |sin u| per factor."""
    one, most = constant(1.0, reach), constant(2.0 * factors, reach) * reach
    for j in range(TILE):
        noise[j] = min(one, most / noise[j])


@inner(fastmath=SUMMING, error_model="numpy")
def _gaussian_noise(dim, reach, rounding, noise):
    """Turn squared distances into relative errors: from Σ|u_d| and the rounding of the square."""
    one = constant(1.0, reach)
    for j in range(TILE):
        square = noise[j]
        noise[j] = min(one, reach * np.sqrt(constant(dim, reach) * square) + rounding * square)


@inner(fastmath=SUMMING, error_model="numpy")
def _add_weights(used, rounding, top, mantissas, exponents, noise):
    """Scale the mantissas to one exponent; return the sum of weights and the bound on its error."""
    total = error = constant(0.0, rounding)
    for j in range(TILE):
        scaled = mantissas[j] * power_of_two(exponents[j] - np.int32(top), rounding)
        mantissas[j] = scaled
        weighted = scaled * used[j]
        total += weighted
        error += abs(weighted) * (noise[j] + rounding)
    return total, error


@inner(fastmath=SUMMING, error_model="numpy")
def _dot(k, columns, mantissas):
    total = constant(0.0, mantissas[0])
    for j in range(TILE):
        total += mantissas[j] * columns[k * TILE + j]
    return total
