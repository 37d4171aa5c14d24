"""Closed forms: normal mixtures and the Gaussian kernel with any bandwidth matrix, in any D.

All integrals are normal densities at differences of means [wand1995kernel]_ (section 4.4). With
S = Σ_i + Σ_j and Δ = μ_i - μ_j, f(s) = N(Δ; 0, S + sH) and w the weights,

    bias = Σ_ij w_i w_j [f(2) - 2 f(1) + f(0)],   noise = N(0; 0, 2H) - Σ_ij w_i w_j f(2).

Written so, both lose their digits, the one for small H, the other for large. The second difference
is therefore ∫_0^2 (1 - |s - 1|) f''(s) ds, and the noise a sum of 1 - f(2)/N(0; 0, 2H).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite, check_integer
from fourierkernels.theory.densities import Density, HasComponents, as_density
from fourierkernels.theory.densities.contract import Components
from fourierkernels.theory.frequency_integrals import Mise, Parts

_PLACE, _SHARE = np.polynomial.legendre.leggauss(16)
_SMALL = 1.0  # eigenvalue of S^{-1} H up to which the second difference is an integral


@dataclass(frozen=True)
class FullOptimum:
    """The best bandwidth matrix H of a Gaussian kernel for `n` samples, and its error.

    Attributes
    ----------
    covariance : array of shape (dim, dim)
    """

    n: int
    covariance: FloatArray
    mise: Mise


def full_covariance_mise(density: Density | str, *, n: int, covariance: ArrayLike) -> Mise:
    """Return the exact MISE of a Gaussian kernel with covariance H, in closed form.

    Parameters
    ----------
    density : Density or str
        Normal or a mixture of normals.
    n : int
        Number of samples.
    covariance : array of shape (dim, dim)
        H, symmetric and positive definite: the square of a bandwidth.

    Raises
    ------
    ValueError
        For another density, n < 1, a matrix that is not symmetric and positive definite.

    Examples
    --------
    >>> from fourierkernels.theory.densities import CorrelatedGaussian
    >>> density = CorrelatedGaussian(0.9)
    >>> error = full_covariance_mise(density, n=1000, covariance=0.1 * density.covariance)
    >>> round(error.total / density.roughness, 4)
    0.0134
    """
    parts = _components(density)
    samples = check_integer("n", n)
    matrix = _check_covariance(covariance, parts.means.shape[1])
    return normal_parts(parts, matrix).per(samples)


def full_covariance_optimum(density: Density | str, *, n: int) -> FullOptimum:
    """Return the bandwidth matrix that minimises :func:`full_covariance_mise`.

    The search is local, over Cholesky factors, from the best multiple of the covariance of the
    density. For one normal N(μ, Σ) that multiple is the answer: a linear map makes it a sphere.

    Raises
    ------
    ValueError
        As :func:`full_covariance_mise`.

    Examples
    --------
    >>> best = full_covariance_optimum("gaussian", n=1000)
    >>> round(1 / math.sqrt(best.covariance[0, 0]), 4)
    3.6719
    """
    parts = _components(density)
    samples = check_integer("n", n)
    weights, means, covariances = parts
    centred = means - weights @ means
    whole = np.einsum("k,kij->ij", weights, covariances) + (centred.T * weights) @ centred
    dim = len(whole)
    root, below = np.linalg.cholesky(whole), np.tril_indices(dim)

    def matrix(free: FloatArray) -> FloatArray:
        lower = np.zeros((dim, dim))
        lower[below] = free
        lower[np.diag_indices(dim)] = np.exp(np.diagonal(lower))
        factor = root @ lower
        return np.asarray(factor @ factor.T)

    def loss(free: FloatArray) -> float:
        return math.log(normal_parts(parts, matrix(free)).per(samples).total)

    start = np.zeros(len(below[0]))
    on_diagonal = below[0] == below[1]
    grid = [np.where(on_diagonal, log_h, 0.0) for log_h in np.linspace(-6.0, 3.0, 91)]
    start = min(grid, key=loss)
    result = minimize(loss, start, method="BFGS", options={"gtol": 1e-8})
    best = matrix(np.asarray(result.x))
    return FullOptimum(samples, best, normal_parts(parts, best).per(samples))


def normal_parts(parts: Components, covariance: FloatArray) -> Parts:
    """Return bias and noise for a bandwidth matrix H of shape ``(D, D)``."""
    weights, means, covariances = parts
    dim = len(covariance)
    root = np.linalg.cholesky(covariances[:, None] + covariances)  # (k, k, D, D)
    half = np.linalg.solve(root, np.broadcast_to(covariance, root.shape))
    ratio = np.linalg.solve(root, np.swapaxes(half, -1, -2))  # H in units of S
    size, axes = np.linalg.eigh(0.5 * (ratio + np.swapaxes(ratio, -1, -2)))
    gap = np.linalg.solve(root, (means[:, None] - means)[..., None])
    square = np.square(np.swapaxes(axes, -1, -2) @ gap)[..., 0]  # (k, k, D)
    diagonal = np.diagonal(root, axis1=-2, axis2=-1)
    peak = (2.0 * math.pi) ** (-dim / 2) / diagonal.prod(axis=-1)
    pairs = weights[:, None] * weights * peak
    bias = float((pairs * _second_difference(size, square)).sum())
    log = 0.5 * np.log1p(0.5 / size).sum(-1) + 0.5 * (square / (1.0 + 2.0 * size)).sum(-1)
    noise = (4.0 * math.pi) ** (-dim / 2) / math.sqrt(float(np.linalg.det(covariance)))
    return Parts(bias, float(noise * (weights @ -np.expm1(-log) @ weights)))


def _second_difference(size: FloatArray, square: FloatArray) -> FloatArray:
    """f(2) - 2 f(1) + f(0) over N(0; 0, S), for eigenvalues μ of H and squares y² in units of S."""

    def at(s: float) -> FloatArray:
        spread = 1.0 + s * size
        return np.asarray(np.exp(-0.5 * (np.log(spread) + square / spread).sum(-1)))

    def curvature(s: float) -> FloatArray:
        spread = 1.0 + s * size
        slope = 0.5 * (size / spread * (square / spread - 1.0)).sum(-1)
        bend = (np.square(size / spread) * (0.5 - square / spread)).sum(-1)
        return np.asarray(at(s) * (np.square(slope) + bend))

    place = 0.5 * (1.0 + _PLACE)
    small = sum(
        0.5 * share * s * (curvature(s) + curvature(2.0 - s))
        for s, share in zip(place, _SHARE, strict=True)
    )
    direct = at(2.0) - 2.0 * at(1.0) + at(0.0)
    return np.where(size.max(-1) <= _SMALL, small, direct)


def _components(density: Density | str) -> Components:
    target = as_density(density)
    if not isinstance(target, HasComponents):
        raise ValueError(f"density must be normal or a mixture of normals, got {target}")
    return target.components


def _check_covariance(value: ArrayLike, dim: int) -> FloatArray:
    matrix = check_finite("covariance", as_real("covariance", value))
    if matrix.shape != (dim, dim):
        raise ValueError(f"covariance must have shape ({dim}, {dim}), got shape {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
        raise ValueError(f"covariance must be symmetric, got {matrix.tolist()}")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least <= 0.0:
        raise ValueError(f"covariance must be positive definite, got an eigenvalue of {least:g}")
    return matrix
