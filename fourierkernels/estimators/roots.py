"""Roots of a function in brackets, all at once, and quantiles of any distribution function.

Q(u) = ∫_0^∞ 1{F(y) < u} dy - ∫_{-∞}^0 1{F(y) >= u} dy is the inverse where F is monotone, and
otherwise that of F rearranged in increasing order. Source: [chernozhukov2010quantile]_.
"""

from collections.abc import Callable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

_STEPS = 200  # regula falsi takes about ten; of the other every third halves the bracket


def roots_between(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return a root of an elementwise function in each bracket, by regula falsi (Illinois).

    Parameters
    ----------
    function : callable
        Of arrays of shape ``(k,)``; its values at the ends of a bracket do not have the same sign.
    low, high : arrays of shape (k,)

    Examples
    --------
    >>> roots_between(lambda x: x**2 - [2.0, 9.0], np.array([0.0, 0.0]), np.array([2.0, 9.0]))
    array([1.41421356, 3.        ])
    """
    close = 4 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
    other, last = np.asarray(low, float), np.asarray(high, float)
    at_other, at_last = function(other), function(last)
    for _ in range(_STEPS):
        rise = at_last - at_other
        share = np.divide(at_last, rise, out=np.zeros_like(rise), where=rise != 0)
        new = np.clip(last - share * (last - other), low, high)
        if np.all(np.abs(new - last) <= close):
            return np.asarray(new)
        at_new = function(new)
        crossed = np.sign(at_new) != np.sign(at_last)
        other = np.where(crossed, last, other)
        at_other = np.where(crossed, at_last, 0.5 * at_other)
        last, at_last = new, at_new
    return last


def bracketed_roots(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, *, xtol: float
) -> FloatArray:
    """Return one root per bracket, shape ``(k,)``: false position, halved every third step.

    Parameters
    ----------
    function : callable
        Of arrays of shape ``(k,)``, elementwise; its signs at the ends of a bracket differ.
    low, high : arrays of shape (k,)
    xtol : float
        Width of a bracket at which it ends, if rounding lets it get there.
    """
    a, b = low.astype(np.float64), high.astype(np.float64)
    if not len(a):
        return a
    at_a, at_b = function(a), function(b)
    for step in range(_STEPS):
        smallest = np.maximum(xtol, 4.0 * np.spacing(np.maximum(np.abs(a), np.abs(b))))
        if (b - a <= smallest).all():
            break
        x = _next(a, b, at_a, at_b, halve=step % 3 == 2)
        at_x = function(x)
        right = np.sign(at_x) == np.sign(at_b)
        exact = at_x == 0
        # Illinois: the end that stays counts half, so that the other one moves next time.
        at_a = np.where(right, 0.5 * at_a, at_x)
        at_b = np.where(right, at_x, 0.5 * at_b)
        a, b = np.where(right & ~exact, a, x), np.where(right | exact, x, b)
    return np.where(np.abs(at_a) < np.abs(at_b), a, b)


def _next(
    a: FloatArray, b: FloatArray, at_a: FloatArray, at_b: FloatArray, *, halve: bool
) -> FloatArray:
    middle = 0.5 * (a + b)
    if halve:
        return middle
    with np.errstate(divide="ignore", invalid="ignore"):
        secant = b - at_b * (b - a) / (at_b - at_a)
    return np.where((secant > a) & (secant < b), secant, middle)


#: Rows of responses ``(m, g)`` to values of F in each row, of as many queries.
Cdf = Callable[[FloatArray], FloatArray]

_HALVINGS = 60  # halvings of a bracket, which leave no digit of it


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
    for _ in range(_HALVINGS):
        width, below, above = high - low, cdf(low) > levels, cdf(high) < levels
        if not (below.any() or above.any()):
            break
        low, high = np.where(below, low - width, low), np.where(above, high + width, high)
    for _ in range(_HALVINGS):
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
    quantiles = np.full((m, len(levels)), np.nan)
    tail = max(1, len(grid) // 20)
    for row, each in enumerate(values):
        if np.isnan(each).any():
            continue
        known = (levels > each[:tail].max()) & (levels < each[-tail:].min())
        quantiles[row, known] = np.interp(levels[known], np.sort(each), grid)
    return quantiles
