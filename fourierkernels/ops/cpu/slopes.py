# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Sums of the derivative over a query and a tile of keys, compiled."""

import numpy as np

from fourierkernels.ops.cpu.compiling import inner
from fourierkernels.ops.cpu.pairs import SUMMING
from fourierkernels.ops.cpu.scalar import constant, guard, slope_series
from fourierkernels.ops.cpu.weights import HIDDEN, drop
from fourierkernels.ops.shapes import TILE

# Unsigned: see `pairs`.
_SINES, _COSINES = np.uintp(TILE), np.uintp(2 * TILE)
_ONE, _TWO, _THREE = np.uintp(1), np.uintp(2), np.uintp(3)
_NEAR = 0.25  # square of the distance below which the slope is its series


@inner(fastmath=SUMMING, error_model="numpy")
def fill_pull(width, grad, dweight, columns, dropout, words, pull):
    """Fill in dP = W/P (dO·v + dW) of a query and a tile; `dweight` is empty if dW = 0."""
    for j in range(width):
        pull[j] = constant(0.0, grad[0])
    for c in range(0, len(grad), 2):
        _add_pair(width, grad[c], grad[c + 1], np.uintp(c * TILE), columns, pull)
    for j in range(len(dweight)):
        pull[j] += dweight[j]
    if dropout.least > 0:
        for j in range(width):
            pull[j] *= dropout.scale
        drop(dropout, width, words, pull, pull)


@inner(fastmath=SUMMING, error_model="numpy")
def finish_pull(width, delta, weights, exponents, pull):
    """Turn dP into B = P (dP - Δ); 0 for hidden pairs, whatever the query's Δ is."""
    for j in range(width):
        part = weights[j] * (pull[j] - delta)
        pull[j] = part if exponents[j] != HIDDEN else constant(0.0, delta)


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _add_pair(width, left, right, start, columns, pull):
    # Two columns in one pass: `pull` is read and written half as often.
    for j in range(width):
        first, second = columns[start + np.uintp(j)], columns[start + np.uintp(TILE + j)]
        pull[j] += left * first + right * second


@inner(fastmath=SUMMING, error_model="numpy")
def add_outer(width, grad, weights, exponents, columns):
    """Add a query's W dO to a tile of dv."""
    for c in range(len(grad)):
        if np.isfinite(grad[c]):
            _add_multiple(width, grad[c], weights, np.uintp(c * TILE), columns)
        else:
            for j in range(width):  # zero weights of hidden pairs must not meet it
                if exponents[j] != HIDDEN:
                    columns[c * TILE + j] += grad[c] * weights[j]


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _add_multiple(width, factor, weights, start, columns):
    for j in range(width):
        columns[start + np.uintp(j)] += factor * weights[j]


@inner(error_model="numpy")
def add_to_mask(count, first, pull, row):
    """Add B of the first keys of a tile to a row of the mask's gradient, or to its one entry."""
    if len(row) == 1:
        for j in range(count):
            row[0] += pull[j]
    else:
        for j in range(count):
            row[first + j] += pull[j]


@inner(fastmath=SUMMING, error_model="numpy")
def add_slopes(width, d, query, row, pull, dk):
    """Add B t to a feature of dk (its sign, R and l are applied at the end); return Σ_j B t."""
    u, sin_u, cos_u = query[_THREE * d], query[_THREE * d + _ONE], query[_THREE * d + _TWO]
    start, key = np.uintp(TILE) * d, np.uintp(3 * TILE) * d
    total = constant(0.0, u)
    for j in range(width):
        i = np.uintp(j)
        x = u - row[key + i]
        sin_v, cos_v = row[key + _SINES + i], row[key + _COSINES + i]
        s = sin_u * cos_v - cos_u * sin_v
        c = cos_u * cos_v + sin_u * sin_v
        y = x * x
        near = -x * slope_series(y)  # both are computed, so that the choice is no branch
        far = (c * x - s) / (s * x + guard(x))
        part = pull[j] * (near if y < constant(_NEAR, y) else far)
        total += part
        dk[start + i] += part
    return total
