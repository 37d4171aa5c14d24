"""Nodes in frequency: Gauss-Legendre panels that respect the knots of K̂ and the structure of p̂.

Every error integral of the package is a sum over these nodes, in theory and in simulation alike.
"""

import math

import numpy as np

from fourierkernels.densities import Density
from fourierkernels.kernels import FloatArray, Kernel

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# 16 nodes integrate exp(iωt) over a panel of length L to rounding while ωL/2 <= 8.
_LARGEST_PHASE = 16.0


def spectral_nodes(
    density: Density, kernel: Kernel, radius: float, *, span: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return nodes t > 0 and weights for ∫_0^T g(t) dt, g made of |p̂(t)|² and K̂(t/radius).

    T is where both are zero to rounding, or only K̂ if |p̂|² has a power tail. Panels break at the
    knots of K̂(t/radius) and at powers of two times the scale of p̂ (so that structure near 0 is
    resolved however large T is); they are no longer than the oscillation of |p̂|² allows.

    Parameters
    ----------
    span : float
        Largest angular frequency of a sample's characteristic function in t, to be resolved up to
        the cutoff of the kernel.

    Returns
    -------
    nodes, weights : arrays of shape ``(q,)``
    """
    end = radius * kernel.cutoff
    if math.isfinite(density.spectral_range):
        end = max(end, density.spectral_range)
    lowest = 0.125 * min(density.spectral_scale, radius)
    dyadic = lowest * 2.0 ** np.arange(math.ceil(math.log2(end / lowest)))
    knots = radius * np.asarray(kernel.knots)
    breaks = np.unique(np.concatenate([[0.0, end], dyadic, knots]))
    breaks = _subdivide(breaks[breaks <= end], density.spectral_span, density.spectral_range)
    return _panels(_subdivide(breaks, span, radius * kernel.cutoff))


def tensor_axes(
    density: Density, kernel: Kernel, radii: FloatArray, *, spans: FloatArray | None = None
) -> list[tuple[FloatArray, FloatArray]]:
    """Return nodes and weights per axis for (2π)^{-D} ∫ g(t) dt over the tensor grid, g(-t) = g(t).

    The first axis keeps to its positive half, its weights doubled.
    """
    axes: list[tuple[FloatArray, FloatArray]] = []
    for radius, span in zip(radii, np.zeros(len(radii)) if spans is None else spans, strict=True):
        t, weight = spectral_nodes(density, kernel, float(radius), span=float(span))
        half = 0.5 * weight / math.pi
        whole = np.append(-t, t), np.append(half, half)
        axes.append(whole if axes else (t, 2.0 * half))
    return axes


def tensor_nodes(axes: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Return the grid of shape ``(q_1, ..., q_D, D)`` and its weights ``(q_1, ..., q_D)``."""
    nodes = np.stack(np.meshgrid(*(t for t, _ in axes), indexing="ij"), axis=-1)
    return nodes, np.asarray(math.prod(np.ix_(*(weight for _, weight in axes))))


def _subdivide(breaks: FloatArray, span: float, reach: float) -> FloatArray:
    """Cut panels that start below `reach` and hold more than the largest phase of exp(i span t)."""
    if span == 0.0:
        return breaks
    left, length = breaks[:-1], np.diff(breaks)
    cuts = np.where(left < reach, np.ceil(length * span / _LARGEST_PHASE), 1.0).astype(int)
    inner = np.concatenate([np.arange(count) for count in cuts])
    starts = np.repeat(left, cuts) + inner * np.repeat(length / cuts, cuts)
    return np.append(starts, breaks[-1])


def _panels(breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
    half = 0.5 * np.diff(breaks)
    middle = breaks[:-1] + half
    nodes = (middle[:, None] + half[:, None] * _NODES).ravel()
    return nodes, (half[:, None] * _WEIGHTS).ravel()
