"""Densities in more than one dimension that are not products."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import (
    as_real,
    check_finite,
    check_integer,
    check_number,
    check_positive,
)
from fourierkernels.theory.densities.contract import (
    GAUSSIAN_RANGE,
    Components,
    Power,
    Smoothness,
    power_of_exponent,
    power_of_mixture,
)


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

    breaks = ()
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

    def power(self, t: ArrayLike) -> Power:
        """exp(-tᵀΣt) and its gap at frequencies of shape ``(..., D)``; shapes ``(...)``."""
        return power_of_exponent(_quadratic(self.covariance, np.asarray(t, float)))

    def spectral_window(self, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of t_D with tᵀΣt < 74; other frequencies of shape ``(q, D - 1)``."""
        return _window(self.covariance, rest)

    @property
    def components(self) -> Components:
        """One normal component."""
        return Components(np.ones(1), np.zeros((1, self.dim)), self.covariance[None])

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n, D)``."""
        return rng.standard_normal((n, self.dim)) @ np.linalg.cholesky(self.covariance).T


@dataclass(frozen=True)
class MultivariateMixture:
    """Σ weight · N(mean, covariance) in D >= 2 dimensions; supersmooth of order 2.

    Parameters
    ----------
    weights : k positive numbers that sum to 1
    means : array of shape (k, D)
    covariances : array of shape (k, D, D)
        Symmetric and positive definite.

    Examples
    --------
    >>> twin = MultivariateMixture([0.5, 0.5], [[-1, 0], [1, 0]], [np.eye(2), np.eye(2)])
    >>> twin.dim, round(float(twin.pdf([0.0, 0.0])), 6)
    (2, 0.096532)
    """

    weights: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]
    covariances: tuple[tuple[tuple[float, ...], ...], ...]

    breaks = ()
    smoothness = Smoothness("supersmooth", 2.0)

    def __post_init__(self) -> None:
        parts = Components(
            *(as_real(k, getattr(self, k)) for k in ("weights", "means", "covariances"))
        )
        _check_components(parts)
        object.__setattr__(self, "weights", tuple(parts.weights.tolist()))
        object.__setattr__(self, "means", tuple(map(tuple, parts.means.tolist())))
        rows = (tuple(map(tuple, matrix)) for matrix in parts.covariances.tolist())
        object.__setattr__(self, "covariances", tuple(rows))

    @property
    def dim(self) -> int:
        """D."""
        return len(self.means[0])

    @property
    def components(self) -> Components:
        """Weights, means and covariances as arrays."""
        return Components(*map(np.asarray, (self.weights, self.means, self.covariances)))

    @property
    def roughness(self) -> float:
        """Σ_ij w_i w_j N(μ_i - μ_j; 0, Σ_i + Σ_j)."""
        weights, means, covariances = self.components
        pairs = normal_peaks(means[:, None] - means, covariances[:, None] + covariances)
        return float(weights @ pairs @ weights)

    @property
    def spectral_scale(self) -> float:
        """1/(distance of the outermost means + largest standard deviation)."""
        deviations = np.sqrt(np.diagonal(self.components.covariances, axis1=1, axis2=2))
        return 1.0 / (self.spectral_span + float(deviations.max()))

    @property
    def spectral_range(self) -> float:
        """8.6/√(smallest eigenvalue of all covariances)."""
        return GAUSSIAN_RANGE / math.sqrt(float(np.linalg.eigvalsh(self.covariances).min()))

    @property
    def spectral_span(self) -> float:
        """Largest distance of two means along an axis."""
        return float(np.ptp(self.components.means, axis=0).max())

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at points of shape ``(..., D)``; shape ``(...)``."""
        weights, means, covariances = self.components
        return np.asarray(
            normal_peaks(np.asarray(x, float)[..., None, :] - means, covariances) @ weights
        )

    def cf(self, t: ArrayLike) -> ComplexArray:
        """Σ w exp(i t·μ - tᵀΣt/2) at frequencies of shape ``(..., D)``; shape ``(...)``."""
        t = np.asarray(t, float)
        return np.asarray(
            sum(
                w * np.exp(1j * (t @ mean) - 0.5 * _quadratic(covariance, t))
                for w, mean, covariance in zip(*self.components, strict=True)
            )
        )

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and its gap at frequencies of shape ``(..., D)``; the mean is taken out first."""
        t = np.asarray(t, float)
        weights, means, covariances = self.components
        exponents = np.stack([0.5 * _quadratic(c, t) for c in covariances], axis=-1)
        return power_of_mixture(weights, t @ (means - weights @ means).T, exponents)

    def spectral_window(self, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hull of the components' windows; frequencies of shape ``(q, D - 1)``."""
        low, high = zip(*(_window(c, rest) for c in self.components.covariances), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n, D)``."""
        weights, means, covariances = self.components
        part = rng.choice(len(weights), size=n, p=weights)
        roots = np.linalg.cholesky(covariances)
        steps = rng.standard_normal((n, self.dim))
        return np.asarray(means[part] + np.einsum("nij,nj->ni", roots[part], steps))


def normal_peaks(x: FloatArray, covariance: FloatArray) -> FloatArray:
    """N(x; 0, Σ) for x of shape ``(..., D)`` and Σ of shape ``(..., D, D)``; shape ``(...)``."""
    root = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(root, x[..., None])[..., 0]
    log = 0.5 * x.shape[-1] * math.log(2.0 * math.pi)
    log = log + np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
    return np.asarray(np.exp(-0.5 * np.square(scaled).sum(axis=-1) - log))


def _check_components(parts: Components) -> None:
    weights, means, covariances = parts
    count, dim = means.shape if means.ndim == 2 else (0, 0)
    shapes = (weights.shape, means.shape, covariances.shape)
    if shapes != ((count,), (count, dim), (count, dim, dim)) or not count or dim < 2:
        raise ValueError(
            "weights, means and covariances must have shapes (k,), (k, D), (k, D, D) with D >= 2, "
            f"got {shapes[0]}, {shapes[1]}, {shapes[2]}"
        )
    check_positive("weights", weights)
    check_finite("means", means)
    check_finite("covariances", covariances)
    if abs(math.fsum(weights) - 1.0) > 1e-12:
        raise ValueError(f"weights must sum to 1, got {math.fsum(weights)}")
    if not np.allclose(covariances, np.swapaxes(covariances, 1, 2), rtol=1e-12, atol=0.0):
        raise ValueError(f"covariances must be symmetric, got {covariances.tolist()}")
    least = float(np.linalg.eigvalsh(covariances).min())
    if least <= 1e-12 * float(np.abs(covariances).max()):
        raise ValueError(f"covariances must be positive definite, got an eigenvalue of {least:g}")


def _quadratic(matrix: FloatArray, t: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("...i,...i->...", t @ matrix, t))


def _window(covariance: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve tᵀΣt = range² for the last coordinate of t."""
    own, mixed = covariance[-1, -1], covariance[-1, :-1]
    middle = -(rest @ mixed) / own
    left = covariance[:-1, :-1] - np.outer(mixed, mixed) / own
    room = (GAUSSIAN_RANGE**2 - _quadratic(left, rest)) / own
    half = np.where(room > 0, np.sqrt(np.abs(room)), -1.0)
    return middle - half, middle + half
