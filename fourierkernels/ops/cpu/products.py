# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Products of weights and values, compiled: eight rows share a tile of values."""

import numpy as np

from fourierkernels.ops.cpu.bits import constant
from fourierkernels.ops.cpu.compiled import inner
from fourierkernels.ops.cpu.pairs import SUMMING, TILE
from fourierkernels.ops.cpu.weights import HIDDEN


@inner(error_model="numpy")
def add_products(rows, width, weights, columns, sums):
    """Add weights (8, 256) times a tile of C columns to the first sums (8, C)."""
    for i in range(0, rows, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(0, sums.shape[1], 2):
            parts = _eight_products(width, a, b, c, d, np.uintp(k * TILE), columns)
            for row in range(4):
                sums[i + row, k] += parts[2 * row]
                sums[i + row, k + 1] += parts[2 * row + 1]


@inner(fastmath=SUMMING, error_model="numpy")
def _eight_products(width, a, b, c, d, start, columns):
    """Sum the products of four rows of weights and two columns, all in registers."""
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = constant(0.0, a[0])
    for j in range(width):
        left, right = columns[start + np.uintp(j)], columns[start + np.uintp(TILE + j)]
        a0 += a[j] * left
        a1 += a[j] * right
        b0 += b[j] * left
        b1 += b[j] * right
        c0 += c[j] * left
        c1 += c[j] * right
        d0 += d[j] * left
        d1 += d[j] * right
    return a0, a1, b0, b1, c0, c1, d0, d1


@inner(error_model="numpy")
def add_spoilt_values(given, exponents, weights, sums):
    """Add what :class:`Values` left out: values ``(count, C)`` not finite of pairs not hidden."""
    for j in range(len(given)):
        if exponents[j] != HIDDEN:
            for c in range(given.shape[1]):
                if not np.isfinite(given[j, c]):
                    sums[c] += weights[j] * given[j, c]
