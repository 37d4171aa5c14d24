"""Exact bias and variance of the density estimate at a point, from the characteristic function."""

import math

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_number, check_points
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.densities.panels import panels

_PHASE = 8.0  # radians of a wave that 16 nodes integrate to rounding, with room for p̂


def pointwise_error(
    density: Density | str, kernel: Kernel | str, *, n: int, radius: float, at: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return bias and variance of p̂_R(x) at points of shape ``(m, dim)``, each of shape ``(m,)``.

    E K_R(x - X) = (1/2π) ∫ K̂(t/R) p̂(t) e^{-itx} dt, and E K_R² the same with the kernel K², per
    coordinate of a product of `dim` copies of the density. Absolute error about 1e-15 times p.

    Raises
    ------
    ValueError
        For a density with its own dimension, a radius that is not positive.

    Examples
    --------
    >>> bias, variance = pointwise_error("gaussian", "fourier4", n=1000, radius=3.0, at=[[0.0]])
    >>> print(f"{bias[0]:.4f} {variance[0]:.1e}")
    -0.0144 2.6e-04
    """
    target, shape, points = as_density(density), as_kernel(kernel), check_points("at", at)
    if target.dim > 1:
        raise ValueError(f"density must be on the line, got one in {target.dim} dimensions")
    scale = check_number("radius", radius, above=0.0)
    square, factor = shape.squared
    mean = _smoothed(target, shape, scale, points).prod(axis=1)
    second = scale * shape.roughness * _smoothed(target, square, factor * scale, points)
    bias = mean - target.pdf(points).prod(axis=1)
    variance = (second.prod(axis=1) - mean * mean) / check_integer("n", n)
    return np.asarray(bias), np.asarray(variance)


def _smoothed(density: Density, kernel: Kernel, radius: float, points: FloatArray) -> FloatArray:
    """E K_R(x - X) per coordinate, shape ``(m, dim)``."""
    span = float(np.abs(points).max()) + density.spectral_span
    t, weight = _nodes(density, kernel, radius, span)
    spectrum = weight * kernel.transform(t / radius) * density.cf(t) / math.pi
    return np.asarray(np.real(np.exp(-1j * points[..., None] * t) @ spectrum))


def _nodes(
    density: Density, kernel: Kernel, radius: float, span: float
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (0, R cutoff): dyadic towards 0, cut at knots and for waves of x."""
    edge = radius * kernel.cutoff
    first = 0.125 * min(density.spectral_scale, radius)
    dyadic = first * 2.0 ** np.arange(math.ceil(math.log2(edge / first)))
    breaks = np.unique([0.0, *dyadic, *(radius * np.asarray(kernel.knots))])
    longest = _PHASE / max(span, _PHASE / edge)
    return panels(breaks, longest=longest)
