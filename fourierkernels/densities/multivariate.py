"""Densities in more than one dimension that are not products."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.densities.base import GAUSSIAN_RANGE, ComplexArray, FloatArray, Smoothness
from fourierkernels.validation import check_integer, check_number


@dataclass(frozen=True)
class CorrelatedGaussian:
    """N(0, Σ) in D >= 2 dimensions: unit variances and one common correlation.

    Parameters
    ----------
    correlation : float
        ρ in (-1/(D-1), 1).
    dim : int
        D >= 2.
    """

    correlation: float = 0.8
    dim: int = 2

    smoothness = Smoothness("supersmooth", 2.0)
    spectral_scale = 1.0
    spectral_span = 0.0

    def __post_init__(self) -> None:
        check_integer("dim", self.dim, least=2)
        low = -1.0 / (self.dim - 1)
        if not low < check_number("correlation", self.correlation) < 1.0:
            raise ValueError(f"correlation must be in ({low:g}, 1), got {self.correlation}")

    @property
    def covariance(self) -> FloatArray:
        """Σ, shape ``(D, D)``."""
        return (1 - self.correlation) * np.eye(self.dim) + self.correlation

    @property
    def roughness(self) -> float:
        """(4π)^{-D/2} |Σ|^{-1/2}."""
        return float((4 * math.pi) ** (-self.dim / 2) / math.sqrt(np.linalg.det(self.covariance)))

    @property
    def spectral_range(self) -> float:
        """8.6/√(smallest eigenvalue of Σ)."""
        return GAUSSIAN_RANGE / math.sqrt(float(np.linalg.eigvalsh(self.covariance)[0]))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at points of shape ``(..., D)``; shape ``(...)``."""
        x = np.asarray(x, float)
        square = np.einsum("...i,ij,...j->...", x, np.linalg.inv(self.covariance), x)
        peak = (2 * math.pi) ** (-self.dim / 2) / math.sqrt(np.linalg.det(self.covariance))
        return np.asarray(peak * np.exp(-0.5 * square))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """exp(-tᵀΣt/2) at frequencies of shape ``(..., D)``; shape ``(...)``."""
        t = np.asarray(t, float)
        square = np.einsum("...i,ij,...j->...", t, self.covariance, t)
        return np.asarray(np.exp(-0.5 * square), dtype=complex)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n, D)``."""
        return rng.standard_normal((n, self.dim)) @ np.linalg.cholesky(self.covariance).T
