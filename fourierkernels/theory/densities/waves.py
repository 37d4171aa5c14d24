"""Waves of a characteristic function: p̂(t) = Σ exp(i t place) A(t), A like a power of t.

Each comes from a break of the density. Beats of two waves are integrated along a ray in the complex
plane, where exp(i t d) decays.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.theory.densities.panels import panels

_DIGITS = 57.0  # doublings of a tail ~ 1/t until it is below rounding
_MOST_DOUBLINGS = 900  # floats end
_REACH = 45.0  # exp(-45) is below rounding


class Wave(NamedTuple):
    """One wave exp(i t place) A(t).

    Attributes
    ----------
    place : float
    at : callable
        A at complex frequencies with a positive real part, elementwise.
    exponent : float
        Β in |A(t)| ~ t^-β.
    """

    place: float
    at: Callable[[ComplexArray], ComplexArray]
    exponent: float

    def times(self, weight: float) -> "Wave":
        """Return the wave times a weight."""
        return self._replace(at=lambda z: weight * self.at(z))

    def on(self, low: float, width: float) -> "Wave":
        """Return the wave of a density on [0, 1] for that on [low, low + width]."""
        return Wave(low + width * self.place, lambda z: self.at(width * z), self.exponent)


def wave_energy(waves: Sequence[Wave], start: float, *, beats: bool = True) -> float:
    """Return ∫_start^∞ |Σ waves|² dt, or without the beats of waves of different places."""
    total = sum(_same_place(wave, wave, start) for wave in waves)
    for one, other in combinations(waves, 2):
        if one.place == other.place:
            total += 2.0 * _same_place(one, other, start)
        elif beats:
            total += 2.0 * _beat(one, other, start)
    return float(total)


def mean_energy(waves: Sequence[Wave], t: FloatArray) -> FloatArray:
    """Return |Σ waves|² without the beats of waves of different places, elementwise."""
    sums: dict[float, ComplexArray] = {}
    for wave in waves:
        sums[wave.place] = sums.get(wave.place, np.zeros(t.shape, complex)) + wave.at(t + 0j)
    return np.asarray(sum(np.square(np.abs(each)) for each in sums.values()))


def _same_place(one: Wave, other: Wave, start: float) -> float:
    """∫ Re A B* by panels of doubling length."""
    falls = one.exponent + other.exponent - 1.0
    if falls <= 0.0:
        return math.inf
    doublings = min(math.ceil(_DIGITS / falls), _MOST_DOUBLINGS)
    t, weight = panels(start * 2.0 ** np.arange(doublings + 1.0))
    return float(weight @ (one.at(t + 0j) * np.conj(other.at(t + 0j))).real)


def _beat(one: Wave, other: Wave, start: float) -> float:
    """∫ Re A B* exp(i t d) along start + iu/d: B* continued is (B(z*))*."""
    d = one.place - other.place
    lowest = 0.1 * min(1.0, abs(d) * start)
    ends = lowest * 2.0 ** np.arange(math.ceil(math.log2(_REACH / lowest)) + 1)
    u, weight = panels(np.append(0.0, ends), longest=4.0)
    z = start + 1j * u / d
    values = one.at(z) * np.conj(other.at(np.conj(z))) * np.exp(-u)
    return float((1j / d * np.exp(1j * d * start) * (weight @ values)).real)
