"""Gaussian mixtures and the Marron-Wand set."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import as_real, check_integer, check_number
from fourierkernels.theory.densities.contract import (
    GAUSSIAN_RANGE,
    Components,
    Power,
    Smoothness,
    normal_pdf,
    power_of_mixture,
)


@dataclass(frozen=True)
class GaussianMixture:
    """Σ weight · N(mean, std²); supersmooth of order 2."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    stds: tuple[float, ...]

    dim = 1
    breaks = ()
    smoothness = Smoothness("supersmooth", 2.0)

    def __post_init__(self) -> None:
        for name in ("weights", "means", "stds"):
            column = as_real(name, getattr(self, name))
            if column.ndim != 1:
                raise ValueError(f"{name} must be a sequence of numbers, got {getattr(self, name)}")
            object.__setattr__(self, name, tuple(column.tolist()))
        if not len(self.weights) == len(self.means) == len(self.stds) > 0:
            raise ValueError(
                "weights, means and stds must have one equal, positive length, got "
                f"{len(self.weights)}, {len(self.means)}, {len(self.stds)}"
            )
        for mean, std, weight in zip(self.means, self.stds, self.weights, strict=True):
            check_number("means", mean)
            check_number("stds", std, above=0.0)
            check_number("weights", weight, above=0.0)
        if abs(math.fsum(self.weights) - 1.0) > 1e-12:
            raise ValueError(
                f"weights must sum to 1, got {math.fsum(self.weights)} (off by over 1e-12)"
            )

    @property
    def roughness(self) -> float:
        """Σ_ij w_i w_j N(μ_i - μ_j; 0, σ_i² + σ_j²)."""
        weight, mean, std = self._columns
        spread = np.hypot(std, std.T)
        return float((weight * weight.T * normal_pdf(mean - mean.T, 0.0, spread)).sum())

    @property
    def spectral_scale(self) -> float:
        """1/(distance of the outermost means + largest std)."""
        return 1.0 / (self.spectral_span + max(self.stds))

    @property
    def spectral_range(self) -> float:
        """8.6/(smallest std)."""
        return GAUSSIAN_RANGE / min(self.stds)

    @property
    def spectral_span(self) -> float:
        """Distance of the outermost means."""
        return max(self.means) - min(self.means)

    @property
    def components(self) -> Components:
        """Weights, means and variances as arrays."""
        weights, means, stds = (np.asarray(v) for v in (self.weights, self.means, self.stds))
        return Components(weights, means[:, None], np.square(stds)[:, None, None])

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise."""
        x = np.asarray(x, float)
        parts = zip(self.weights, self.means, self.stds, strict=True)
        return np.asarray(sum(w * normal_pdf(x, mean, std) for w, mean, std in parts))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """Σ w exp(i t μ - t² σ²/2)."""
        t = np.asarray(t, float)
        parts = zip(self.weights, self.means, self.stds, strict=True)
        return np.asarray(sum(w * np.exp(1j * m * t - 0.5 * np.square(s * t)) for w, m, s in parts))

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and its gap, elementwise; the mean is taken out first."""
        t = np.asarray(t, float)[..., None]
        weights, means, stds = (np.asarray(v) for v in (self.weights, self.means, self.stds))
        exponents = 0.5 * np.square(stds * t)
        return power_of_mixture(weights, t * (means - weights @ means), exponents)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        part = rng.choice(len(self.weights), size=n, p=self.weights)
        return rng.normal(np.asarray(self.means)[part], np.asarray(self.stds)[part])

    @property
    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        weight, mean, std = (np.array(v)[:, None] for v in (self.weights, self.means, self.stds))
        return weight, mean, std


def marron_wand(number: int) -> GaussianMixture:
    """Return one of the fifteen normal mixtures of [marron1992exact]_, Table 1.

    Raises
    ------
    ValueError
        If `number` is not in 1..15.

    Examples
    --------
    >>> len(marron_wand(10).weights)
    6
    """
    if not 1 <= check_integer("number", number) <= 15:
        raise ValueError(f"number must be in 1..15, got {number}")
    weights, means, stds = zip(*_MARRON_WAND[number - 1], strict=True)
    total = math.fsum(weights)  # rounding only: the table's fractions sum to one
    return GaussianMixture(tuple(w / total for w in weights), means, stds)


# (weight, mean, std) of every component, in the order of the paper's table.
_MARRON_WAND: tuple[list[tuple[float, float, float]], ...] = (
    [(1.0, 0.0, 1.0)],
    [(1 / 5, 0.0, 1.0), (1 / 5, 1 / 2, 2 / 3), (3 / 5, 13 / 12, 5 / 9)],
    [(1 / 8, 3 * ((2 / 3) ** k - 1), (2 / 3) ** k) for k in range(8)],
    [(2 / 3, 0.0, 1.0), (1 / 3, 0.0, 1 / 10)],
    [(1 / 10, 0.0, 1.0), (9 / 10, 0.0, 1 / 10)],
    [(1 / 2, -1.0, 2 / 3), (1 / 2, 1.0, 2 / 3)],
    [(1 / 2, -3 / 2, 1 / 2), (1 / 2, 3 / 2, 1 / 2)],
    [(3 / 4, 0.0, 1.0), (1 / 4, 3 / 2, 1 / 3)],
    [(9 / 20, -6 / 5, 3 / 5), (9 / 20, 6 / 5, 3 / 5), (1 / 10, 0.0, 1 / 4)],
    [(1 / 2, 0.0, 1.0), *((1 / 10, k / 2 - 1, 1 / 10) for k in range(5))],
    [(49 / 100, -1.0, 2 / 3), (49 / 100, 1.0, 2 / 3)]
    + [(1 / 350, (k - 3) / 2, 1 / 100) for k in range(7)],
    [(1 / 2, 0.0, 1.0)]
    + [(2.0 ** (1 - k) / 31, k + 1 / 2, 2.0 ** (-k) / 10) for k in range(-2, 3)],
    [(46 / 100, 2.0 * k - 1, 2 / 3) for k in range(2)]
    + [(1 / 300, -k / 2, 1 / 100) for k in range(1, 4)]
    + [(7 / 300, k / 2, 7 / 100) for k in range(1, 4)],
    [(2.0 ** (5 - k) / 63, (65 - 96 / 2**k) / 21, (32 / 63) / 2**k) for k in range(6)],
    [(2 / 7, (12 * k - 15) / 7, 2 / 7) for k in range(3)]
    + [(1 / 21, 2 * k / 7, 1 / 21) for k in range(8, 11)],
)
