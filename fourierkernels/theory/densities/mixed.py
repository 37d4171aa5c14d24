"""Mixtures of densities on the line, each part of its own kind."""

import cmath
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import as_real, check_positive
from fourierkernels.theory.densities.contract import (
    Density,
    HasSpectralTail,
    HasWaves,
    Power,
    Smoothness,
    least_smooth,
    squared_modulus,
)
from fourierkernels.theory.densities.panels import panels
from fourierkernels.theory.densities.waves import Wave, mean_energy, wave_energy

_PHASE = 8.0  # radians of a wave that 16 nodes integrate to rounding, with room for p̂
_SCALES = 10.0  # frequencies, in scales of p̂, from which on |p̂| is the sum of its waves
_FADE = 13.0  # radians
_CANCELLED = 1e-6  # of the energy of the roughest parts
_FAR = 1e6
_BLOCK = 4096  # panels that are in memory at once
_MOST_RADIANS = 2.0**23  # of |p̂|², as many as other integrals on the line follow


@dataclass(frozen=True)
class Mixture:
    """Σ weight · part, all parts supersmooth; as smooth as the part of the least order.

    Parameters
    ----------
    weights : positive numbers that sum to 1
    parts : tuple of densities on the line

    Raises
    ------
    ValueError, TypeError
        For weights that are not positive or do not sum to 1, for parts that are no densities on
        the line, and for parts that this class is not for (see :func:`mixture`).
    """

    weights: tuple[float, ...]
    parts: tuple[Density, ...]

    dim = 1

    def __post_init__(self) -> None:
        weights = check_positive("weights", as_real("weights", self.weights))
        object.__setattr__(self, "weights", tuple(weights.tolist()))
        object.__setattr__(self, "parts", tuple(self.parts))
        if weights.shape != (len(self.parts),) or not self.parts:
            raise ValueError(f"weights must be one per part, got {weights.shape}")
        if abs(math.fsum(self.weights) - 1.0) > 1e-9:
            raise ValueError(
                f"weights must sum to 1, got {math.fsum(self.weights):.12g} (off by over 1e-9)"
            )
        for part in self.parts:
            if not isinstance(part, Density) or part.dim > 1:
                raise TypeError(f"parts must be densities on the line, got {part!r}")
        self._check_parts()

    def _check_parts(self) -> None:
        if not math.isfinite(self.spectral_range):
            raise ValueError("parts must be supersmooth, use mixture() for others")

    @property
    def smoothness(self) -> Smoothness:
        """That of the least smooth part: any power tail is worse than an exponential."""
        return least_smooth(self.parts)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Those of all parts."""
        return tuple(sorted({place for part in self.parts for place in part.breaks}))

    @cached_property
    def roughness(self) -> float:
        """(1/π) ∫_0^∞ |p̂|²."""
        if not all(math.isfinite(part.roughness) for part in self.parts):
            return math.inf
        end = min(self._settled, self.spectral_range)
        return self._energy(0.0, end) + self._energy_beyond(end)

    @property
    def spectral_scale(self) -> float:
        """1/(distance of the outermost parts + largest width)."""
        width = max(1.0 / part.spectral_scale for part in self.parts)
        return 1.0 / (np.ptp(self._locations).item() + width)

    @property
    def spectral_range(self) -> float:
        """Largest of the parts."""
        return max(part.spectral_range for part in self.parts)

    @cached_property
    def spectral_span(self) -> float:
        """Distance of the outermost places at which a part oscillates about."""
        spans = np.array([part.spectral_span for part in self.parts])
        places = [*(self._locations - spans), *(self._locations + spans), *self.breaks]
        return float(np.ptp(places))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise."""
        pairs = zip(self.weights, self.parts, strict=True)
        return np.asarray(sum(w * part.pdf(x) for w, part in pairs))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """Σ w p̂_k(t), elementwise."""
        pairs = zip(self.weights, self.parts, strict=True)
        return np.asarray(sum(w * part.cf(t) for w, part in pairs))

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and its gap, Σ w_k (1 - |p̂_k|²) + Σ_{k<l} w_k w_l |p̂_k - p̂_l|²: nothing cancels."""
        pairs = list(zip(self.weights, [part.cf(t) for part in self.parts], strict=True))
        own = zip(self.weights, self.parts, strict=True)
        gap = np.asarray(sum(w * part.power(t).gap for w, part in own))
        for (v, one), (w, other) in combinations(pairs, 2):
            gap = gap + v * w * squared_modulus(one - other)
        return Power(
            squared_modulus(np.asarray(sum(w * wave for w, wave in pairs))), np.asarray(gap)
        )

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        counts = rng.multinomial(n, np.asarray(self.weights) / math.fsum(self.weights))
        drawn = [part.sample(k, rng) for part, k in zip(self.parts, counts.tolist(), strict=True)]
        return rng.permutation(np.concatenate(drawn))

    @cached_property
    def _locations(self) -> FloatArray:
        """Where the parts lie: slopes of the phases of p̂_k at 0."""
        return np.array([_location(part) for part in self.parts])

    @property
    def _settled(self) -> float:
        """Frequency beyond which nothing of |p̂|² but its power tails is left."""
        ranges = [part.spectral_range for part in self.parts]
        scales = [_SCALES * part.spectral_scale for part in self.parts]
        return max(*scales, *(r for r in ranges if math.isfinite(r)), 0.0)

    def _energy(self, start: float, end: float) -> float:
        """(1/π) ∫ |p̂|² by panels, a block of them at a time."""
        if end <= start:
            return 0.0
        lowest, span = 0.125 * self.spectral_scale, self.spectral_span
        radians = (end - start) * span
        if radians > _MOST_RADIANS:
            raise ValueError(
                f"parts must be closer in place and width: |p̂|² must wave over at most "
                f"{_MOST_RADIANS:.1e} radians, got {radians:.1e} for {self!r}"
            )
        doubling = lowest * 2.0 ** np.arange(max(0, math.ceil(math.log2(end / lowest))))
        longest = _PHASE / span if span > 0.0 else math.inf
        total = 0.0
        blocks = max(1, math.ceil(radians / (_PHASE * _BLOCK)))
        for low, high in pairwise(np.linspace(start, end, blocks + 1)):
            inside = doubling[(doubling > low) & (doubling < high)]
            t, weight = panels(np.concatenate([[low], inside, [high]]), longest=longest)
            total += float(weight @ squared_modulus(self.cf(t)))
        return total / math.pi

    def _energy_beyond(self, start: float) -> float:
        """(1/π) ∫_start^∞ |p̂|² where nothing else is left."""
        del start
        return 0.0


@dataclass(frozen=True)
class RoughMixture(Mixture):
    """Σ weight · part with ordinary smooth parts: |p̂|² has a power tail, in which parts beat.

    Examples
    --------
    >>> from fourierkernels.theory.densities import Gaussian, Laplace
    >>> density = mixture((0.3, 0.7), (Gaussian(-2.0, 0.5), Laplace(1.0, 2.0)))
    >>> density.smoothness
    Smoothness(kind='ordinary_smooth', exponent=2.0)
    """

    def _check_parts(self) -> None:
        for part in self.parts:
            if isinstance(part, HasSpectralTail) and not isinstance(part, HasWaves):
                raise TypeError(f"parts must have waves if their spectra have tails, got {part!r}")
        if not self._waves:
            raise ValueError("parts must have one that is ordinary smooth, use mixture()")
        least = self.smoothness.exponent
        far = np.array([_FAR * self._settled + 0j])
        rough = [w for w in self._waves if w.exponent == least]
        sums: dict[float, complex] = {}
        for wave in rough:
            sums[wave.place] = sums.get(wave.place, 0.0) + complex(wave.at(far)[0])
        whole = sum(abs(complex(wave.at(far)[0])) ** 2 for wave in rough)
        if sum(abs(value) ** 2 for value in sums.values()) < _CANCELLED * whole:
            raise ValueError("parts must not cancel where they are roughest, got such weights")

    @property
    def _waves(self) -> tuple[Wave, ...]:
        """Waves of all parts, with their weights."""
        pairs = zip(self.weights, self.parts, strict=True)
        own = [(w, part) for w, part in pairs if isinstance(part, HasWaves)]
        return tuple(wave.times(w) for w, part in own for wave in part.waves)

    @property
    def _settled(self) -> float:
        starts = (part.waves_from for part in self.parts if isinstance(part, HasWaves))
        return max(super()._settled, *starts, 0.0)

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂|²: panels as long as more than waves is left, then along rays."""
        start = max(t, self._settled)
        return self._energy(t, start) + self._energy_beyond(start)

    def _energy_beyond(self, start: float) -> float:
        return wave_energy(self._waves, start) / math.pi

    @property
    def far_field(self) -> float:
        """Where the beats of ``faded_power`` have ended."""
        return self._settled + 12.0 * _FADE / self._slowest

    @property
    def _slowest(self) -> float:
        """Least distance of two places, 1 if there is but one."""
        gaps = np.diff(sorted({wave.place for wave in self._waves}))
        return float(gaps.min()) if len(gaps) else 1.0

    def faded_power(self, t: ArrayLike) -> Power:
        """|p̂|² without the beats of its waves in the far field."""
        t = np.asarray(t, float)
        kept, gap = self.power(t)
        far = t > self._settled
        level = mean_energy(self._waves, t[far])
        place = (t[far] - self._settled) * self._slowest / _FADE
        kept[far] = level + 0.5 * special.erfc(place - 6.0) * (kept[far] - level)
        gap[far] = 1.0 - kept[far]
        return Power(kept, gap)

    def faded_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ of the far field without its beats."""
        return wave_energy(self._waves, t, beats=False) / math.pi


def mixture(weights: tuple[float, ...], parts: tuple[Density, ...]) -> Mixture:
    """Return Σ weight · part, of the class that its parts allow.

    Raises
    ------
    ValueError, TypeError
        As :class:`Mixture`, and for ordinary smooth parts that cancel where they are roughest: the
        mixture is smoother than all of them.
    """
    rough = any(isinstance(part, HasSpectralTail) for part in parts)
    return (RoughMixture if rough else Mixture)(tuple(weights), tuple(parts))


def _location(part: Density) -> float:
    """Return the slope of the phase of p̂ at 0.

    It is measured at frequencies that double, so that no phase wraps: at each, what the slope so
    far leaves of the phase is small.
    """
    place = 0.0
    steps = 1e-6 * part.spectral_scale * 2.0 ** np.arange(-40.0, 1.0)
    for step, value in zip(steps.tolist(), part.cf(steps).tolist(), strict=True):
        place += cmath.phase(value * cmath.exp(-1j * place * step)) / step
    return place
