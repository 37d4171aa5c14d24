"""Integrals of a density estimate over boxes: sums of the kernel's own integral at the corners."""

import itertools
from collections.abc import Callable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums import SampleSum
from fourierkernels.sums.parts import log_scale

SumOver = Callable[[tuple[int, ...]], SampleSum]


def box_mass(over: SumOver, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return ∫ Σ_i w_i K_R(x - x_i) dx over boxes [low, high_j], by inclusion and exclusion.

    Parameters
    ----------
    over : callable
        Some of the dimensions to the kernel sum over them.
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
        total += (-1) ** sum(lower) * _orthant_mass(over, ends)
    return total


def _orthant_mass(over: SumOver, ends: FloatArray) -> FloatArray:
    """Return Σ w ∏_d C(R_d(end_d - x_d)), C the integral of the kernel; shape ``(m,)``."""
    every = tuple(range(ends.shape[1]))
    dims = [d for d in every if not np.isposinf(ends[:, d]).all()]
    if not dims:
        return np.full(len(ends), over(every).weights.sum())
    prepared, parts = over(tuple(dims)), ("cumulative",) * len(dims)
    sums = prepared.at(np.ascontiguousarray(ends[:, dims]), parts=parts)
    return np.asarray(sums.totals() * np.exp(log_scale(prepared.kernel, prepared.radius, parts)))
