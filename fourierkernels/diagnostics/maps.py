"""Attention maps as arrays: rows that must be probabilities, and what follows from one row.

A map is the n x m matrix of attention weights of one head on one text, padding cut away; its rows
are probabilities. Queries and keys are the same tokens, n = m, except in cross-attention.
"""

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_finite

# Weights rounded to bfloat16 are off by at most 2^-8 of themselves, and so is the sum of a row
# however long it is (2^-11 in float16): 3.91e-3, and room for float32 before that.
_ROW_SUM_TOLERANCE = 4e-3


class InapplicableError(ValueError):
    """A metric or statistic has no meaning for these heads; another one may have."""


def row_entropies(maps: FloatArray) -> FloatArray:
    """-Σ p log p of each row (0 log 0 = 0) in nats, from ``(..., n, m)`` to ``(..., n)``."""
    # The least normal number stands for zero: its p log p is 0 to within 2e-305.
    logs = np.maximum(maps, np.finfo(np.float64).tiny)
    np.log(logs, out=logs)
    entropies: FloatArray = -row_products(maps, logs)
    return entropies


def row_products(maps: FloatArray, of: FloatArray) -> FloatArray:
    """Σ_j a_ij b_ij of arrays of one shape, ``(..., n, m)`` to ``(..., n)``, without a third."""
    products: FloatArray = np.einsum("...j,...j->...", maps, of)
    return products


def row_totals(maps: FloatArray) -> FloatArray:
    """Σ_j a_ij, ``(..., n, m)`` to ``(..., n)``, as a product of a matrix and a vector."""
    totals: FloatArray = maps @ np.ones(maps.shape[-1])
    return totals


def are_probabilities(maps: FloatArray) -> bool:
    """Return whether rows are probabilities; they are not if a weight is not finite."""
    worst = np.abs(row_totals(maps) - 1).max()
    return bool(maps.min() >= 0 and worst <= _ROW_SUM_TOLERANCE)


def check_probabilities(maps: FloatArray) -> FloatArray:
    """Return maps ``(H, n, m)`` or ``(L, H, n, m)`` whose rows are probabilities.

    Raises
    ------
    ValueError
        For another shape, or for rows that are negative somewhere or do not sum to one.
    """
    if maps.ndim not in {3, 4} or maps.size == 0:
        raise ValueError(
            "maps must have shape (heads, queries, keys) or (layers, heads, queries, keys), "
            f"got shape {maps.shape}"
        )
    check_rows(check_finite("maps", maps), "this statistic")
    return maps


def has_short_rows(maps: FloatArray) -> bool:
    """Return whether rows are nonnegative and sum to less than one, some of them clearly.

    Attention with a constant in its denominator has such rows where keys are far.
    """
    sums = maps.sum(axis=-1)
    near = sums.max() < 1 + _ROW_SUM_TOLERANCE
    return bool(near and sums.min() < 1 - _ROW_SUM_TOLERANCE and maps.min() >= 0)


def check_rows(maps: FloatArray, purpose: str) -> None:
    """Refuse maps whose rows are not probabilities, which `purpose` needs."""
    least, worst = float(maps.min()), float(np.abs(maps.sum(axis=-1) - 1).max())
    if least < 0 or worst > _ROW_SUM_TOLERANCE:
        raise InapplicableError(
            f"maps must have rows that are probabilities for {purpose}, "
            f"got least weight {least:.3g} and row sums off by up to {worst:.3g}; what needs "
            "none: --metric frobenius_per_sqrt_n --statistic none"
        )
