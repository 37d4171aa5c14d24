"""Densities on the line: Gaussian, Cauchy, and with power tails of |p̂|² Laplace and Gamma."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.theory.densities.contract import (
    GAUSSIAN_RANGE,
    Components,
    Power,
    Smoothness,
    normal_pdf,
    power_of_exponent,
    rational_tail,
)
from fourierkernels.theory.densities.waves import Wave


@dataclass(frozen=True)
class Gaussian:
    """N(mean, std²); supersmooth of order 2.

    Examples
    --------
    >>> round(float(Gaussian().pdf(0.0)), 6), Gaussian().smoothness.exponent
    (0.398942, 2.0)
    """

    mean: float = 0.0
    std: float = 1.0

    dim = 1
    breaks = ()
    smoothness = Smoothness("supersmooth", 2.0)
    spectral_span = 0.0

    def __post_init__(self) -> None:
        check_number("mean", self.mean)
        check_number("std", self.std, above=0.0)

    @property
    def roughness(self) -> float:
        """1/(2√π std)."""
        return 0.5 / (math.sqrt(math.pi) * self.std)

    @property
    def spectral_scale(self) -> float:
        """1/std."""
        return 1.0 / self.std

    @property
    def spectral_range(self) -> float:
        """8.6/std."""
        return GAUSSIAN_RANGE / self.std

    @property
    def components(self) -> Components:
        """One normal component."""
        return Components(np.ones(1), np.full((1, 1), self.mean), np.full((1, 1, 1), self.std**2))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise."""
        return normal_pdf(np.asarray(x, float), self.mean, self.std)

    def cf(self, t: ArrayLike) -> ComplexArray:
        """exp(i t mean - t² std²/2)."""
        t = np.asarray(t, float)
        return np.asarray(np.exp(1j * self.mean * t - 0.5 * np.square(self.std * t)))

    def power(self, t: ArrayLike) -> Power:
        """exp(-t² std²) and its gap, elementwise."""
        return power_of_exponent(np.square(self.std * np.asarray(t, float)))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        return rng.normal(self.mean, self.std, n)


@dataclass(frozen=True)
class Cauchy:
    """Cauchy with a location and a scale; p̂ = exp(-|t|), supersmooth of order 1."""

    location: float = 0.0
    scale: float = 1.0

    dim = 1
    breaks = ()
    smoothness = Smoothness("supersmooth", 1.0)
    spectral_span = 0.0

    def __post_init__(self) -> None:
        check_number("location", self.location)
        check_number("scale", self.scale, above=0.0)

    @property
    def roughness(self) -> float:
        """1/(2π scale)."""
        return 0.5 / (math.pi * self.scale)

    @property
    def spectral_scale(self) -> float:
        """1/scale."""
        return 1.0 / self.scale

    @property
    def spectral_range(self) -> float:
        """37/scale: exp(-2 · 37) < 1e-32."""
        return 37.0 / self.scale

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise."""
        z = (np.asarray(x, float) - self.location) / self.scale
        return np.asarray(1.0 / (math.pi * self.scale * (1.0 + z**2)))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """exp(i t location - scale |t|)."""
        t = np.asarray(t, float)
        return np.asarray(np.exp(1j * self.location * t - self.scale * np.abs(t)))

    def power(self, t: ArrayLike) -> Power:
        """exp(-2 scale |t|) and its gap, elementwise."""
        return power_of_exponent(2.0 * self.scale * np.abs(np.asarray(t, float)))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        return self.location + self.scale * rng.standard_cauchy(n)


@dataclass(frozen=True)
class Laplace:
    """Laplace with a location and a scale; p̂ = 1/(1 + t²), ordinary smooth with β = 2."""

    location: float = 0.0
    scale: float = 1.0

    dim = 1
    smoothness = Smoothness("ordinary_smooth", 2.0)
    spectral_span = 0.0
    spectral_range = math.inf
    waves_from = 0.0

    def __post_init__(self) -> None:
        check_number("location", self.location)
        check_number("scale", self.scale, above=0.0)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The kink at the location."""
        return (self.location,)

    @property
    def waves(self) -> tuple[Wave, ...]:
        """1/(1 + scale² t²) at the location."""
        return (Wave(self.location, lambda z: 1.0 / (1.0 + np.square(self.scale * z)), 2.0),)

    @property
    def roughness(self) -> float:
        """1/(4 scale)."""
        return 0.25 / self.scale

    @property
    def spectral_scale(self) -> float:
        """1/scale."""
        return 1.0 / self.scale

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂|², in closed form (an incomplete beta function)."""
        return rational_tail(t * self.scale, 2.0) / self.scale

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise."""
        z = (np.asarray(x, float) - self.location) / self.scale
        return np.asarray(np.exp(-np.abs(z)) / (2.0 * self.scale))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """exp(i t location)/(1 + scale² t²)."""
        t = np.asarray(t, float)
        return np.asarray(np.exp(1j * self.location * t) / (1.0 + np.square(self.scale * t)))

    def power(self, t: ArrayLike) -> Power:
        """(1 + scale² t²)^{-2} and its gap, elementwise."""
        return power_of_exponent(2.0 * np.log1p(np.square(self.scale * np.asarray(t, float))))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        return rng.laplace(self.location, self.scale, n)


@dataclass(frozen=True)
class Gamma:
    """Gamma with shape k and a scale; |p̂| = (1 + scale² t²)^{-k/2}, ordinary smooth with β = k."""

    shape: float = 3.0
    scale: float = 1.0

    dim = 1
    breaks = (0.0,)
    spectral_span = 0.0
    spectral_range = math.inf
    waves_from = 0.0

    def __post_init__(self) -> None:
        check_number("shape", self.shape, above=0.0)
        check_number("scale", self.scale, above=0.0)

    @property
    def smoothness(self) -> Smoothness:
        """β = shape."""
        return Smoothness("ordinary_smooth", float(self.shape))

    @property
    def roughness(self) -> float:
        """Γ(2k-1) / (2^{2k-1} Γ(k)² scale); infinite for k <= 1/2."""
        if self.shape <= 0.5:
            return math.inf
        log = math.lgamma(2 * self.shape - 1) - 2 * math.lgamma(self.shape)
        return math.exp(log - (2 * self.shape - 1) * math.log(2.0)) / self.scale

    @property
    def spectral_scale(self) -> float:
        """1/scale, narrowed by the width √k of the density."""
        return 1.0 / (self.scale * math.sqrt(1.0 + self.shape))

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂|², in closed form (an incomplete beta function)."""
        return rational_tail(t * self.scale, self.shape) / self.scale

    @property
    def waves(self) -> tuple[Wave, ...]:
        """(1 - i scale t)^{-k} at 0."""
        return (Wave(0.0, lambda z: (1.0 - 1j * self.scale * z) ** -self.shape, self.shape),)

    @property
    def edge_powers(self) -> tuple[float, ...]:
        """P ~ x^{k-1} at 0."""
        return (self.shape - 1.0,)

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise; 0 for x < 0."""
        z = np.asarray(x, float) / self.scale
        inside = np.where(z > 0, z, 1.0)
        log = (self.shape - 1) * np.log(inside) - inside - math.lgamma(self.shape)
        return np.where(z > 0, np.exp(log) / self.scale, 0.0)

    def cf(self, t: ArrayLike) -> ComplexArray:
        """(1 - i scale t)^{-k}."""
        return np.asarray((1.0 - 1j * self.scale * np.asarray(t, float)) ** (-self.shape))

    def power(self, t: ArrayLike) -> Power:
        """(1 + scale² t²)^{-k} and its gap, elementwise."""
        square = np.square(self.scale * np.asarray(t, float))
        return power_of_exponent(self.shape * np.log1p(square))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        return rng.gamma(self.shape, self.scale, n)
