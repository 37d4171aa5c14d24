"""Rules in closed form: the best radius if the data were Gaussian."""

import numpy as np

from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.sample import moments, robust_scale, scale_of
from fourierkernels.estimators.weights import effective_size
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.theory.densities import Gaussian


def normal_reference(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius that minimises the exact MISE if the data were Gaussian.

    Per dimension, R* of the standard Gaussian over a robust scale, the smaller of the standard
    deviation and the interquartile range over 1.349. For l = 1 this is |p̂(R)|² = 1/(n + 1); for
    the Gaussian kernel, the exact form of Silverman's rule [silverman1986density]_. n is what
    the weights stand for.

    On a circle the scale is the circular standard deviation, at most that of uniform data, P/√12,
    and R* that of the normal density on the line, whose error wrapping does not change while it is
    narrow. The wrapped normal density as wide as uniform data would ask for one or two frequencies,
    which hides two opposite peaks.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    return _normal(effective_size(weights), scale_of(points, weights, periods), kernel)


def silverman(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return 1/h, h_d = σ_d (n (D + 2)/4)^{-1/(D + 4)}; Gaussian kernel only.

    σ is the standard deviation with divisor n - 1. Source: [silverman1986density]_ eq. 4.14, which
    scipy takes too; the one-dimensional 0.9 min(σ, IQR/1.34) n^{-1/5} (eq. 3.31) is another rule.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    return _silverman(effective_size(weights), _deviation(points, weights))


def scott(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return 1/h, h_d = σ_d n^{-1/(D + 4)}; Gaussian kernel only.

    Source: [scott1992multivariate]_ section 6.3, which scipy takes too.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    return _scott(effective_size(weights), _deviation(points, weights))


def _deviation(points: FloatArray, weights: FloatArray) -> FloatArray:
    robust_scale(points, weights)  # refuses a column that does not vary
    return moments(points, weights)[1]


def _normal(size: float, scale: FloatArray, kernel: Kernel) -> FloatArray:
    best = optimal_radius(Gaussian(), kernel, n=max(1, round(size)), dim=len(scale))
    return np.asarray(best / scale)


def _silverman(size: float, deviation: FloatArray) -> FloatArray:
    dim = len(deviation)
    return np.asarray((size * (dim + 2) / 4) ** (1 / (dim + 4)) / _unbiased(size, deviation))


def _scott(size: float, deviation: FloatArray) -> FloatArray:
    return np.asarray(size ** (1 / (len(deviation) + 4)) / _unbiased(size, deviation))


def _unbiased(size: float, deviation: FloatArray) -> FloatArray:
    """From the divisor n to n - 1."""
    return np.asarray(deviation / np.sqrt(1.0 - 1.0 / size))


RULES = (
    Rule(
        "normal_reference",
        normal_reference,
        "exact MISE optimum of Gaussian data",
        "derived here",
        on_circles=True,
        of_sample=lambda sample, kernel: _normal(sample.size, sample.scale, kernel),
    ),
    Rule(
        "silverman",
        silverman,
        "asymptotic optimum of Gaussian data",
        "silverman1986density",
        gaussian_only=True,
        of_sample=lambda sample, kernel: _silverman(sample.size, sample.deviation),
    ),
    Rule(
        "scott",
        scott,
        "the same without the constant",
        "scott1992multivariate",
        gaussian_only=True,
        of_sample=lambda sample, kernel: _scott(sample.size, sample.deviation),
    ),
)
