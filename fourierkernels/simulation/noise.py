"""Noise laws of simulated regressions: y = f(x) + noise, centred, with a known variance at x.

To add one, write a frozen dataclass with the members of :class:`Noise` and put an instance into
:data:`NOISES`; the contract tests and the command line pick it up from there.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_number


@runtime_checkable
class Noise(Protocol):
    """Interface of every noise law."""

    @property
    def name(self) -> str:
        """Key in :data:`NOISES`."""

    def variance(self, points: FloatArray) -> FloatArray:
        """σ²(x) at points of shape ``(..., dim)``; shape ``(...)``."""

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One independent draw at each point, mean 0; points ``(n, dim)``, shape ``(n,)``."""


@dataclass(frozen=True)
class GaussianNoise:
    """N(0, std²), the same everywhere.

    Examples
    --------
    >>> GaussianNoise(0.5).variance(np.zeros((2, 1)))
    array([0.25, 0.25])
    """

    std: float = 0.3

    name = "gaussian"

    def __post_init__(self) -> None:
        check_number("std", self.std, above=0.0)

    def variance(self, points: FloatArray) -> FloatArray:
        """std²."""
        return np.full(points.shape[:-1], self.std**2)

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Independent normal draws."""
        return rng.normal(0.0, self.std, len(points))


@dataclass(frozen=True)
class HeteroscedasticNoise:
    """N(0, σ²(x)) with σ²(x) = std² (1 + growth |x|²): smooth, and larger away from 0."""

    std: float = 0.3
    growth: float = 1.0

    name = "heteroscedastic"

    def __post_init__(self) -> None:
        check_number("std", self.std, above=0.0)
        check_number("growth", self.growth, above=0.0)

    def variance(self, points: FloatArray) -> FloatArray:
        """std² (1 + growth |x|²)."""
        return np.asarray(self.std**2 * (1.0 + self.growth * np.square(points).sum(axis=-1)))

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Independent normal draws, scaled at each point."""
        return np.asarray(np.sqrt(self.variance(points)) * rng.standard_normal(len(points)))


@dataclass(frozen=True)
class StudentNoise:
    """Student's t with a few degrees of freedom, scaled: moments from that order on are infinite.

    The variance is scale² · degrees/(degrees - 2). With three degrees the squared error of a
    simulated fit has no variance itself; its conditional mean given the design has one.
    """

    degrees: float = 3.0
    scale: float = 0.3

    name = "student"

    def __post_init__(self) -> None:
        check_number("degrees", self.degrees, above=2.0)  # else every squared error is infinite
        check_number("scale", self.scale, above=0.0)

    def variance(self, points: FloatArray) -> FloatArray:
        """scale² · degrees/(degrees - 2)."""
        total = self.scale**2 * self.degrees / (self.degrees - 2.0)
        return np.full(points.shape[:-1], total)

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Independent draws of Student's t, scaled."""
        return self.scale * rng.standard_t(self.degrees, len(points))


NOISES: dict[str, Noise] = {
    noise.name: noise for noise in (GaussianNoise(), HeteroscedasticNoise(), StudentNoise())
}


def as_noise(noise: "Noise | str | float") -> Noise:
    """Return a noise law given itself, its name, or the standard deviation of Gaussian noise.

    Raises
    ------
    ValueError
        If the name is unknown or the number is not positive.
    TypeError
        If it is neither.

    Examples
    --------
    >>> as_noise(0.1), as_noise("student").degrees
    (GaussianNoise(std=0.1), 3.0)
    """
    if isinstance(noise, str):
        return NOISES[check_choice("noise", noise, list(NOISES))]
    if isinstance(noise, int | float) and not isinstance(noise, bool):
        if not (math.isfinite(noise) and noise > 0):
            raise ValueError(f"noise must be positive and finite, got {noise}")
        return GaussianNoise(float(noise))
    if not isinstance(noise, Noise):
        raise TypeError(f"noise must be a noise law, its name or a number, got {noise!r}")
    return noise
