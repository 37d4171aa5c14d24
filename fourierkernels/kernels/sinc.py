"""sin(u)/u: its slope and the integrals of its powers, accurate everywhere on the line."""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import FloatArray

# The integral of a power is a table of series on panels up to 3π, and a closed form beyond, where
# that does not cancel. High powers are narrow, about exp(-l u²/6), and so are their panels.
_LONGEST_PANEL = 0.5 * math.pi
_NARROW = 64  # the power from which on panels are shorter
_PANELS = 6
_PANEL_DEGREE = 33


def sinc(u: ArrayLike) -> FloatArray:
    """sin(u)/u with its limit at 0; numpy's sinc has the π inside."""
    return np.asarray(np.sinc(np.asarray(u, dtype=np.float64) / math.pi))


def sinc_slope(u: ArrayLike) -> FloatArray:
    """(cos u - sinc u)/u, by its series -Σ 2k (-1)^{k-1} u^{2k-1}/(2k+1)! where that cancels."""
    u = np.asarray(u, dtype=np.float64)
    near = np.abs(u) < 0.5
    small, large = np.where(near, u, 0.0), np.where(near, 1.0, u)
    terms = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 9)]
    series = small * np.polynomial.polynomial.polyval(small * small, terms)
    return np.where(near, series, (np.cos(large) - sinc(large)) / large)


def sinc_integral(u: ArrayLike, power: int) -> FloatArray:
    """∫_0^u sinc(v)^power dv, elementwise, to a few 1e-15."""
    u = np.asarray(u, dtype=np.float64)
    size, length = np.abs(u), _panel(power)
    panel = np.minimum(size / length, _PANELS).astype(int)
    result = _sinc_integral_far(np.maximum(size, _PANELS * length), power)
    for k, (start, series) in enumerate(_sinc_integral_table(power)):
        inside = panel == k
        result[inside] = start + chebyshev.chebval(2.0 * size[inside] / length - 2 * k - 1, series)
    return np.asarray(np.copysign(result, u))


def _panel(power: int) -> float:
    return _LONGEST_PANEL * math.sqrt(min(1.0, _NARROW / power))


@lru_cache
def _sinc_integral_table(power: int) -> list[tuple[float, FloatArray]]:
    """Per panel, the integral up to its left end and the Chebyshev series from there on."""
    angle = math.pi * (np.arange(_PANEL_DEGREE + 1) + 0.5) / (_PANEL_DEGREE + 1)
    nodes = np.cos(angle)
    table, total, half = [], 0.0, 0.5 * _panel(power)
    for k in range(_PANELS):
        values = sinc(half * (nodes + 2 * k + 1)) ** power
        series = chebyshev.chebfit(nodes, values, _PANEL_DEGREE)
        integral = np.asarray(chebyshev.chebint(series, lbnd=-1.0, scl=half), float)
        table.append((total, integral))
        total += float(chebyshev.chebval(1.0, integral))
    return table


def _sinc_integral_far(u: FloatArray, power: int) -> FloatArray:
    """Integrate by parts until Σ_j b_j sin(jv)/v is left, whose integrals are Si(ju).

    With g = sin^l, the integral is -Σ_{k<l-1} g^{(k)}(u) u^{k+1-l} (l-2-k)!/(l-1)! plus that of
    g^{(l-1)}(v)/v over (l-1)!.
    """
    if power >= 16:  # beyond the panels the rest is at most (3π)^{-15}/15, below rounding
        start, series = _sinc_integral_table(power)[-1]
        return np.full(u.shape, start + chebyshev.chebval(1.0, series))
    total = np.zeros(u.shape)
    for k in range(power - 1):
        factor = math.factorial(power - 2 - k) / math.factorial(power - 1)
        total -= factor * _sine_power(u, power, k) * u ** (k + 1.0 - power)
    scale = 2.0 ** (1 - power) / math.factorial(power - 1)
    for j in range((power + 1) // 2):
        order = power - 2 * j
        weight = (-1) ** j * math.comb(power, j) * order ** (power - 1) * scale
        total += weight * special.sici(order * u)[0]
    return total


def _sine_power(u: FloatArray, power: int, times: int) -> FloatArray:
    """Return the derivative of sin^power of the order `times` < `power`.

    sin^l(u) = 2^{1-l} Σ_{j<l/2} (-1)^j C(l, j) cos((l-2j)u - lπ/2), and a constant for even l.
    """
    total = np.zeros(u.shape)
    for j in range((power + 1) // 2):
        order = power - 2 * j
        phase = (times - power) * 0.5 * math.pi
        total += (-1) ** j * math.comb(power, j) * order**times * np.cos(order * u + phase)
    mean = math.comb(power, power // 2) / 2 if power % 2 == 0 and times == 0 else 0.0
    return np.asarray((total + mean) * 2.0 ** (1 - power))
