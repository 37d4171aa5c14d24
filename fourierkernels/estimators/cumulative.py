"""Integrals of a density estimate over boxes: sums of the kernel's own integral at the corners."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.sums.parts import log_scale

if TYPE_CHECKING:
    from fourierkernels.estimators.density import KernelDensity


def box_mass(model: "KernelDensity", low: FloatArray, high: FloatArray) -> FloatArray:
    """Return ∫ p̂ over the boxes [low, high_j], by inclusion and exclusion over their corners.

    Parameters
    ----------
    low : array of shape (dim,)
        An end of minus infinity has no corner.
    high : array of shape (m, dim)
        A column of infinities leaves its dimension out: the kernel integrates to one.

    Returns
    -------
    array of shape (m,)
    """
    corners = [[False] if np.isneginf(end) else [False, True] for end in low]
    total = np.zeros(len(high))
    for lower in itertools.product(*corners):
        ends = np.where(lower, low, high)
        total += (-1) ** sum(lower) * _orthant_mass(model, ends)
    return total


def _orthant_mass(model: "KernelDensity", ends: FloatArray) -> FloatArray:
    """Return Σ w ∏_d C(R_d(end_d - x_d)) / W, C the integral of the kernel; shape ``(m,)``."""
    dims = [d for d in range(ends.shape[1]) if not np.isposinf(ends[:, d]).all()]
    images, total = model._images.weights, model.weights_.sum()
    if not dims:
        return np.full(len(ends), images.sum() / total)
    parts = ("cumulative",) * len(dims)
    sums = model._prepared(dims=dims).at(ends[:, dims], parts=parts)
    scale = log_scale(model.kernel_, model.radius_[dims], parts)
    return np.asarray(sums.totals() * np.exp(scale) / total)
