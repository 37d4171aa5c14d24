"""Radius matrices: what is refused, and the map that makes a sample white."""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.radius.sample import moments, robust_scale
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite

_WORST = 1e8  # condition of a matrix whose rows and columns have been brought to length one


def check_matrix(name: str, value: ArrayLike, dim: int) -> FloatArray:
    """Return a radius or bandwidth matrix of shape ``(dim, dim)``, finite and far from singular.

    Its condition is judged in the best units of its rows and columns, which are those of the data.

    Raises
    ------
    ValueError
    """
    matrix = check_finite(name, as_real(name, value))
    if matrix.shape != (dim, dim):
        raise ValueError(
            f"{name} must be a number or have shape ({dim},) or ({dim}, {dim}), got shape "
            f"{matrix.shape}"
        )
    worst = _condition(matrix)
    if not worst <= _WORST:
        raise ValueError(
            f"{name} must be a matrix far from singular, of condition at most {_WORST:g}, got "
            f"{worst:.3g}"
        )
    return matrix


def _condition(matrix: FloatArray) -> float:
    units = np.abs(matrix)
    if not (units.any(axis=0).all() and units.any(axis=1).all()):
        return np.inf
    scaled = matrix / units.max(axis=0)
    for axis in (1, 0, 1, 0):
        scaled = scaled / np.linalg.norm(scaled, axis=axis, keepdims=True)
    return float(np.linalg.cond(scaled))


def whitening(points: FloatArray, weights: FloatArray, share: float = 1.0) -> FloatArray:
    """Return W = C^{-1/2} diag(σ)^{-1}, shape ``(dim, dim)``.

    σ are the standard deviations, and C the correlations, times `share` off the diagonal. With
    `share` 1 the covariance of W x is the identity. Of all maps that do this, W x is most
    correlated with x [kessy2018optimal]_, and neither units nor the order of columns matter. With 0
    it is diagonal.

    Raises
    ------
    ValueError
        If a column does not vary, or is nearly a linear combination of others.
    """
    robust_scale(points, weights)  # refuses a column that does not vary
    mean, deviation = moments(points, weights)
    white = points / deviation - mean / deviation
    correlation = (white.T * (weights / weights.sum())) @ white
    mixed = share * correlation + (1.0 - share) * np.eye(len(correlation))
    size, axes = np.linalg.eigh(mixed)
    if size[0] <= len(size) / _WORST:
        raise ValueError(
            "X must have no column that is nearly a linear combination of others for a radius "
            f"matrix, got correlations with an eigenvalue of {size[0]:.2g}"
        )
    root = (axes / np.sqrt(size)) @ axes.T
    return np.asarray(root / deviation)
