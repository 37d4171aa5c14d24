"""Integrals over sinc(u) = sin(u)/u: its powers, its slope, and far tails of functions of it."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import ComplexArray, FloatArray

# The integral of a power is a table of series on panels up to 3π, and a closed form beyond, where
# that does not cancel. High powers are narrow, about exp(-l u²/6), and so are their panels.
_LONGEST_PANEL = 0.5 * math.pi
_NARROW = 64  # the power from which on panels are shorter
_PANELS = 6
_PANEL_DEGREE = 33
_HARMONICS = 48  # frequencies are at most 24: the others are far from resonance
_NEAR_ZERO = 2.0**-30
_ROUNDING = 1e-12
_SAME = 1e-6  # of exponents, and of factors relative to each other
_TERMS = 14  # of the asymptotic series of a wave's tail, from a phase of 40 on
_FAR_PHASE = 40.0


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


class Side(NamedTuple):
    """φ(z) ~ factor |z|^power for sign z > 0."""

    sign: int
    factor: float
    power: float


def sides(phi: Callable[[FloatArray], FloatArray]) -> tuple[Side, ...]:
    """Return what φ is next to 0, if its two sides do not continue each other as one power z^k.

    Empty for a smooth φ, as far as its leading power shows it.
    """
    found = tuple(side for sign in (1, -1) if (side := _side(phi, sign)) is not None)
    if len(found) == 2:
        right, left = found
        whole = abs(right.power - round(right.power)) < _SAME
        mirrored = (-1.0) ** round(right.power) * left.factor
        same = abs(right.factor - mirrored) < _SAME * abs(right.factor)
        if whole and abs(right.power - left.power) < _SAME and same:
            return ()
    return found


def _side(phi: Callable[[FloatArray], FloatArray], sign: int) -> Side | None:
    value, half = phi(sign * _NEAR_ZERO * np.array([1.0, 0.5]))
    if value == 0.0 or half == 0.0:
        return None
    power = math.log2(float(value / half))
    rounded = round(power, 3)
    power = rounded if abs(power - rounded) < _SAME else power
    return Side(sign, float(value) / _NEAR_ZERO**power, power)


def mean_power(found: tuple[Side, ...]) -> float:
    """Return p in the average c u^{-p} of the tail over a period; infinite if there is none."""
    totals: dict[float, float] = {}
    for side in found:
        totals[side.power] = totals.get(side.power, 0.0) + side.factor
    size = max((abs(side.factor) for side in found), default=0.0)
    return min((p for p, c in totals.items() if abs(c) > _SAME * size), default=math.inf)


def cosine_tail(
    found: tuple[Side, ...], start: float, s: FloatArray, *, times: float = 0.0
) -> FloatArray:
    """Return ∫_start^∞ u^times φ(sinc u) cos(su) du, elementwise, to leading order of φ."""
    total = np.zeros(s.shape)
    m = np.arange(-_HARMONICS, _HARMONICS + 1)
    omega = s[..., None] + m
    for power in {side.power for side in found}:
        parts = [_harmonics(side, m) for side in found if side.power == power]
        weight = np.sum(parts, axis=0)
        kept = np.abs(weight) > _ROUNDING * np.abs(weight).max()  # an odd φ has no mean
        waves = wave_tail(power - times, start * np.abs(omega[..., kept]))
        waves = np.where(omega[..., kept] < 0.0, np.conj(waves), waves)
        total = total + start ** (1.0 - power + times) * np.real(waves @ weight[kept])
    return np.asarray(total)


def tail_error(
    found: tuple[Side, ...], start: float, phi: Callable[[FloatArray], FloatArray]
) -> float:
    """Return a bound on what :func:`cosine_tail` misses: harmonics left out, and orders above."""
    m = np.arange(_HARMONICS + 1, 20 * _HARMONICS)  # the rest is a few per cent of these
    total = 0.0
    for side in found:
        p = side.power
        log = special.gammaln(0.5 * (m - p)) - special.gammaln(1.0 + 0.5 * (m + p))
        size = abs(side.factor) * special.gamma(p + 1.0) * 2.0**-p * np.exp(log)
        total += 4.0 * float((size / (m - 0.5 * _HARMONICS)).sum()) * start**-p
        z = np.geomspace(1e-4, 1.0, 33) / start
        ratio = phi(side.sign * z) / (side.factor * z**side.power)
        mass = abs(side.factor) * start ** (1.0 - side.power) / (side.power - 1.0)
        total += 2.0 * mass * float(np.abs(ratio - 1.0).max())
    return total


def wave_tail(power: float, phase: FloatArray) -> ComplexArray:
    """Return ∫_1^∞ v^{-power} e^{i·phase·v} dv for phases >= 0, elementwise.

    Along 1 + iy the wave decays. From a phase of 40 on it is its asymptotic series; below
    the trapezoidal rule in log y, which has no error to speak of. At 0 the power must exceed 1.
    """
    result = np.empty(phase.shape, complex)
    far = phase >= _FAR_PHASE
    x = phase[far]
    total = np.ones(x.shape, complex)
    for k in range(_TERMS, 0, -1):
        total = 1.0 - 1j * (power + k - 1.0) / x * total
    result[far] = 1j * np.exp(1j * x) / x * total
    near = phase[~far]
    top = min(600.0, 40.0 / (power - 1.0)) if power > 1.0 else 40.0
    y = np.exp(np.arange(-40.0, top, 0.2))
    shape = 0.2 * y * (1.0 + 1j * y) ** -power
    result[~far] = 1j * np.exp(1j * near) * (np.exp(-np.multiply.outer(near, y)) @ shape)
    result[phase == 0.0] = 1.0 / (power - 1.0) if power > 1.0 else math.inf
    return result


def _harmonics(side: Side, m: "np.ndarray") -> ComplexArray:
    """Return a_m of factor (sign sin u)_+^power."""
    p = side.power
    size = special.gamma(p + 1.0) * 2.0 ** (-p - 1.0)
    size = size * special.rgamma(1.0 + 0.5 * (p + m)) * special.rgamma(1.0 + 0.5 * (p - m))
    turned = np.where(m % 2 == 0, 1.0, float(side.sign))
    return np.asarray(side.factor * size * turned * (-1j) ** (m % 4))
