"""Quantiles of a distribution function that may not be monotone: the generalised inverse.

Q(u) = ∫_0^∞ 1{F(y) < u} dy - ∫_{-∞}^0 1{F(y) >= u} dy is the inverse where F is monotone, and
otherwise that of F rearranged in increasing order. Source: [chernozhukov2010quantile]_.
"""

from collections.abc import Callable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

#: Rows of responses ``(m, g)`` to values of F in each row, of as many queries.
Cdf = Callable[[FloatArray], FloatArray]

_STEPS = 60  # halvings of a bracket, which leave no digit of it


def monotone_quantiles(
    cdf: Cdf, levels: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return F^{-1} by bisection, shape ``(m, k)``; NaN in rows in which F is.

    Parameters
    ----------
    cdf : callable
    levels : array of shape (k,)
        Between 0 and 1.
    low, high : arrays of shape (m, k)
        Below and above most quantiles; a side moves out until its quantile is inside.
    """
    for _ in range(_STEPS):
        width, below, above = high - low, cdf(low) > levels, cdf(high) < levels
        if not (below.any() or above.any()):
            break
        low, high = np.where(below, low - width, low), np.where(above, high + width, high)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        under = cdf(middle) < levels
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.where(np.isnan(cdf(high)), np.nan, 0.5 * (low + high))


def rearranged_quantiles(cdf: Cdf, levels: FloatArray, grid: FloatArray, m: int) -> FloatArray:
    """Return Q(u) of F interpolated on a uniform grid of shape ``(g,)``; shape ``(m, k)``.

    NaN in rows in which F is, and for levels that F has not left at an end of the grid, where what
    lies beyond would count.
    """
    values = cdf(np.broadcast_to(grid, (m, len(grid))))
    found = np.full((m, len(levels)), np.nan)
    tail = max(1, len(grid) // 20)
    for row, each in enumerate(values):
        if np.isnan(each).any():
            continue
        known = (levels > each[:tail].max()) & (levels < each[-tail:].min())
        found[row, known] = np.interp(levels[known], np.sort(each), grid)
    return found
