"""Gaussian and Cauchy densities."""

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
    power_of_exponent,
)


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


def normal_pdf(x: FloatArray, mean: float, std: "float | FloatArray") -> FloatArray:
    """N(mean, std²) at x, elementwise."""
    return np.asarray(np.exp(-0.5 * np.square((x - mean) / std)) / (std * math.sqrt(2 * math.pi)))
