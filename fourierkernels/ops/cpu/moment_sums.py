# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Kernel sums of monomials over all pairs, Σ_i w_i y_i ∏_d u_d^{a_d} shape(u_d), compiled by Numba.

A weight is computed once for all monomials. Each of these is another one times a coordinate, and
its error is carried along by the product rule. Threads share out queries, as in
:mod:`fourierkernels.ops.cpu.kernel_sums`.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.ops.cpu.compiling import allocating, entry, inner
from fourierkernels.ops.cpu.kernel_sums import Queries, Samples, is_small, pair_weights
from fourierkernels.ops.cpu.pairs import NOWHERE, SUMMING, highest_exponent
from fourierkernels.ops.cpu.scalar import power_of_two
from fourierkernels.ops.shapes import TILE, Shape

_QUERIES = 4  # that go through a tile together


class Monomials(NamedTuple):
    """Monomials in order: the first is 1, each other one an earlier one times a coordinate.

    Attributes
    ----------
    parent : integer array of shape (a,)
    coordinate : integer array of shape (a,)
    """

    parent: NDArray[np.int64]
    coordinate: NDArray[np.int64]


class MomentTotals(NamedTuple):
    """What the loops write, zeros to begin with; one exponent for all monomials of a query."""

    numerator: FloatArray  # (m, t, k), of the first t monomials
    denominator: FloatArray  # (m, a)
    error: FloatArray  # (m, a)
    exponent: NDArray[np.int64]  # (m,)


def sum_moments(
    queries: Queries,
    samples: Samples,
    shape: Shape,
    monomials: Monomials,
    *,
    with_responses: int,
    rounding: float,
) -> MomentTotals:
    """Return the sums over all samples at every query, in double precision.

    Parameters
    ----------
    queries, samples, shape
        As :func:`fourierkernels.ops.cpu.kernel_sums.sum_pairs` takes them.
    monomials : Monomials
    with_responses : int
        How many of them, from the first, are summed with the responses too.
    rounding : float
        Relative error of a term besides that of its coordinates.
    """
    m, a = len(queries.rows), len(monomials.parent)
    columns = samples.columns.shape[1] // TILE - 1
    sums = MomentTotals(
        np.zeros((m, with_responses, columns)),
        np.zeros((m, a)),
        np.zeros((m, a)),
        np.zeros(m, np.int64),
    )
    run = _sum_serially if is_small(queries, samples, shape, a) else _sum_in_parallel
    run(queries, samples, shape, monomials, rounding, sums)
    return sums


@entry(error_model="numpy")
def _sum_serially(queries, samples, shape, monomials, rounding, sums):
    for start in range(0, len(queries.rows), _QUERIES):
        _sum_block(start, queries, samples, shape, monomials, rounding, sums)


@entry(parallel=True, error_model="numpy")
def _sum_in_parallel(queries, samples, shape, monomials, rounding, sums):
    for block in prange((len(queries.rows) + _QUERIES - 1) // _QUERIES):
        _sum_block(block * _QUERIES, queries, samples, shape, monomials, rounding, sums)


@allocating(error_model="numpy")
def _sum_block(start, queries, samples, shape, monomials, rounding, sums):
    stop = min(start + _QUERIES, len(queries.rows))
    mantissas, noise = np.empty(TILE), np.empty(TILE)
    exponents = np.empty(TILE, np.int32)
    values = np.ones((len(monomials.parent), TILE))
    doubts = np.zeros((len(monomials.parent), TILE))
    sums.exponent[start:stop] = NOWHERE
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
            _bring_to(top, mantissas, exponents)
            for a in range(1, len(values)):  # parents come first: one product for each monomial
                d, parent = monomials.coordinate[a], monomials.parent[a]
                place = d if shape.gaussian else 3 * d
                x, points = query[place], row[place * TILE : (place + 1) * TILE]
                _multiply(x, points, reach, values[parent], doubts[parent], values[a], doubts[a])
            for a in range(len(values)):
                total, error = _dots(used, mantissas, noise, values[a], doubts[a], rounding)
                sums.denominator[i, a] += total
                sums.error[i, a] += error
            for a in range(sums.numerator.shape[1]):
                for k in range(sums.numerator.shape[2]):
                    responses = columns[(k + 1) * TILE : (k + 2) * TILE]
                    sums.numerator[i, a, k] += _dot(responses, mantissas, values[a])


@inner(error_model="numpy")
def _rescale(i, top, sums):
    """Bring the sums of a query to a higher exponent."""
    shrink = math.ldexp(1.0, max(sums.exponent[i] - top, -2000))  # 0 there; ldexp takes 32 bits
    for a in range(sums.numerator.shape[1]):
        for k in range(sums.numerator.shape[2]):
            sums.numerator[i, a, k] *= shrink
    for a in range(sums.denominator.shape[1]):
        sums.denominator[i, a] *= shrink
        sums.error[i, a] *= shrink
    sums.exponent[i] = top


@inner(fastmath=SUMMING, error_model="numpy")
def _bring_to(top, mantissas, exponents):
    for j in range(TILE):
        mantissas[j] *= power_of_two(exponents[j] - np.int32(top), mantissas[j])


@inner(fastmath=SUMMING, error_model="numpy")
def _multiply(x, points, reach, old, old_doubt, value, doubt):
    """Multiply a monomial by u = x - point, which has the absolute error `reach` unless it is 0."""
    for j in range(TILE):
        u = x - points[j]
        value[j] = old[j] * u
        doubt[j] = old_doubt[j] * abs(u) + (abs(old[j]) * reach if u != 0.0 else 0.0)


@inner(fastmath=SUMMING, error_model="numpy")
def _dots(used, mantissas, noise, values, doubts, rounding):
    total = error = 0.0
    for j in range(TILE):
        weight = used[j] * mantissas[j]
        total += weight * values[j]
        error += abs(weight) * (abs(values[j]) * (noise[j] + rounding) + doubts[j])
    return total, error


@inner(fastmath=SUMMING, error_model="numpy")
def _dot(responses, mantissas, values):
    total = 0.0
    for j in range(TILE):
        total += responses[j] * mantissas[j] * values[j]
    return total
