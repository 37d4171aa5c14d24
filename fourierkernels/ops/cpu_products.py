# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Products of weights and values, compiled: eight rows share a tile of values."""

import numpy as np
from numba import njit

from fourierkernels.ops.bits import constant
from fourierkernels.ops.cpu_weights import HIDDEN
from fourierkernels.ops.pairs import SUMMING, TILE


@njit(cache=True, error_model="numpy")
def add_products(rows, width, weights, columns, sums):
    """Add weights (8, 256) times a tile of C columns to the first sums (8, C)."""
    for c in range(0, sums.shape[1], 2):
        left, right = columns[c * TILE :], columns[(c + 1) * TILE :]
        for i in range(0, rows, 4):
            parts = _eight_products(width, weights[i:], left, right)
            for k in range(4):
                sums[i + k, c] += parts[2 * k]
                sums[i + k, c + 1] += parts[2 * k + 1]


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _eight_products(width, weights, first, second):
    """Sum the products of four rows of weights and two columns, all in registers."""
    a, b, c, d = weights[0], weights[1], weights[2], weights[3]
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = constant(0.0, a[0])
    for j in range(width):
        left, right = first[j], second[j]
        a0 += a[j] * left
        a1 += a[j] * right
        b0 += b[j] * left
        b1 += b[j] * right
        c0 += c[j] * left
        c1 += c[j] * right
        d0 += d[j] * left
        d1 += d[j] * right
    return a0, a1, b0, b1, c0, c1, d0, d1


@njit(cache=True, error_model="numpy")
def add_spoilt_values(given, exponents, weights, sums):
    """Add what :class:`Values` left out: values ``(count, C)`` not finite of pairs not hidden."""
    for j in range(len(given)):
        if exponents[j] != HIDDEN:
            for c in range(given.shape[1]):
                if not np.isfinite(given[j, c]):
                    sums[c] += weights[j] * given[j, c]
