"""Far tails of φ(sinc u) for a φ that is a power on either side of 0 but no polynomial.

Beyond some U, φ(sinc u) = Σ_± c_± (± sin u)_+^{p_±} u^{-p_±} to leading order. As a Fourier series
in u each side is Σ_m a_m e^{imu} u^{-p}, so that the tail of the cosine integral at frequency s is

    Re Σ_m a_m ∫_U^∞ u^{-p} e^{i(m + s)u} du,

and the mean a_0 alone decides how 1 - K̂ starts at 0: like |s|^{p-1} for p < 3.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from fourierkernels.foundation.arrays import ComplexArray, FloatArray

_HARMONICS = 48  # frequencies are at most 24: the others are far from resonance
_NEAR_ZERO = 2.0**-30
_ROUNDING = 1e-12
_SAME = 1e-6  # of exponents, and of factors relative to each other
_TERMS = 14  # of the asymptotic series of a wave's tail, from a phase of 40 on
_FAR_PHASE = 40.0


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
