"""Roots of a function in brackets, all brackets at once."""

from collections.abc import Callable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

_STEPS = 200  # every third halves the bracket


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
        found = function(x)
        right = np.sign(found) == np.sign(at_b)
        exact = found == 0
        # Illinois: the end that stays counts half, so that the other one moves next time.
        at_a = np.where(right, 0.5 * at_a, found)
        at_b = np.where(right, found, 0.5 * at_b)
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
