"""The uniform density on an interval: Beta(1, 1), moved and scaled."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.theory.densities.beta import Beta
from fourierkernels.theory.densities.contract import Power
from fourierkernels.theory.densities.waves import Wave

_UNIT = Beta(1.0, 1.0)


@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high]; |p̂| = |sin(wt/2)/(wt/2)|, w the width: ordinary smooth with β = 1.

    Examples
    --------
    >>> float(Uniform(-1.0, 3.0).pdf(0.0)), Uniform().smoothness.exponent
    (0.25, 1.0)
    """

    low: float = 0.0
    high: float = 1.0

    dim = 1
    edge_powers = (0.0, 0.0)
    smoothness = _UNIT.smoothness
    spectral_range = _UNIT.spectral_range

    def __post_init__(self) -> None:
        check_number("high", self.high, above=check_number("low", self.low))

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    @property
    def breaks(self) -> tuple[float, ...]:
        """The two jumps."""
        return (self.low, self.high)

    @property
    def roughness(self) -> float:
        """1/width."""
        return 1.0 / self.width

    @property
    def spectral_scale(self) -> float:
        """4/width, as for the Beta density."""
        return _UNIT.spectral_scale / self.width

    @property
    def spectral_span(self) -> float:
        """The width: the beat of the two jumps."""
        return self.width

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise; 0 outside (low, high)."""
        x = np.asarray(x, float)
        return np.where((x > self.low) & (x < self.high), 1.0 / self.width, 0.0)

    def cf(self, t: ArrayLike) -> ComplexArray:
        """exp(i t middle) sin(wt/2)/(wt/2), w the width."""
        t = np.asarray(t, float)
        wave = np.exp(0.5j * (self.low + self.high) * t)
        return np.asarray(wave * np.sinc(self.width * t / (2.0 * np.pi)))

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and its gap, elementwise."""
        return _UNIT.power(self.width * np.asarray(t, float))

    @property
    def waves_from(self) -> float:
        """Anywhere: p̂ is the difference of two waves."""
        return 1.0 / self.width

    @property
    def waves(self) -> tuple[Wave, ...]:
        """Those of the two jumps."""
        return tuple(wave.on(self.low, self.width) for wave in _UNIT.waves)

    @property
    def far_field(self) -> float:
        """Where the waves of ``faded_power`` have ended."""
        return _UNIT.far_field / self.width

    def faded_power(self, t: ArrayLike) -> Power:
        """|p̂|² without its waves in the far field."""
        return _UNIT.faded_power(self.width * np.asarray(t, float))

    def faded_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ of the far field without its waves."""
        return _UNIT.faded_tail(self.width * t) / self.width

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂|²."""
        return _UNIT.spectral_tail(self.width * t) / self.width

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        return rng.uniform(self.low, self.high, n)
