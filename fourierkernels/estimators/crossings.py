"""Roots of a function of many places at once, each in its own bracket."""

from collections.abc import Callable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

_STEPS = 200  # Illinois takes about ten


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
