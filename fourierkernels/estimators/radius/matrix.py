"""Radius matrices: their validation, and rules that whiten the data.

The rules apply a rule for vectors to the data made white. In one dimension they are the rules for
vectors but for the scale, the plain standard deviation.
"""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.sample import moments, robust_scale
from fourierkernels.estimators.radius.spectral import cross_validated
from fourierkernels.estimators.radius.spectrum import TooManyFrequenciesError
from fourierkernels.estimators.weights import effective_size
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite
from fourierkernels.kernels import Kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.theory.densities import Gaussian

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


#: Shares of the correlations that the matrix follows, by dimension; transforms in D = 3 are slow.
_SHARES = {1: (0.0,), 2: (0.0, 0.25, 0.5, 0.75, 1.0), 3: (0.5, 1.0)}


def normal_reference_full(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return the matrix that minimises the exact MISE if the data were normal, ``(dim, dim)``.

    R* W with R* the best radius for a standard normal in `dim` dimensions and W whitening: a linear
    map of normal data makes it standard, so that no other matrix of the form R W does better; for
    the Gaussian kernel RᵀR = R*² Σ^{-1}, the optimum of all
    [wand1995kernel]_ (section 4.4). Σ is the plain covariance, so that RᵀR of linearly mapped data
    is that of the data, mapped. With one column the shape is (1,).

    Raises
    ------
    ValueError
        If a column does not vary, or is nearly a linear combination of others.
    """
    dim, n = points.shape[1], max(1, round(effective_size(weights)))
    best = optimal_radius(Gaussian(), kernel, n=n, dim=dim)
    return _squeezed(best * whitening(points, weights))


def lscv_full(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return the matrix r W_s with the least score of least squares cross-validation.

    W_s whitens the data as if its correlations were s times those it has, for s = 0, 1/4, ..., 1
    (in D = 3 for 1/2 and 1); r is the best number for the data mapped by W_s, searched as in
    :func:`lscv`, and scores are compared as those of densities in x. Two numbers are less at the
    mercy of noise than `dim`. In D = 3 a share of correlations whose radius takes too large a
    transform is left out. With one column the shape is (1,). Sources: [rudemo1982empirical]_, and
    [wand1995kernel]_ for matrices.

    Raises
    ------
    ValueError
        As :func:`lscv` if that holds for every s, or for a column that is nearly a linear
        combination of others.
    """
    candidates, refusals = [], []
    for share in _SHARES.get(points.shape[1], (1.0,)):
        try:
            candidates.append(_scored(points, weights, kernel, share))
        except TooManyFrequenciesError as refusal:
            refusals.append(refusal)
    if not candidates:
        raise refusals[0]
    return _squeezed(min(candidates, key=lambda each: each[1])[0])


def _scored(
    points: FloatArray, weights: FloatArray, kernel: Kernel, share: float
) -> tuple[FloatArray, float]:
    """Return the best matrix for a share of the correlations, and its score."""
    white = whitening(points, weights, share)
    middle = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)
    mapped = np.ascontiguousarray((points - middle) @ white.T)
    unit = np.ones(len(white))
    radius, score = cross_validated(mapped, weights, kernel, rule="lscv_full", unit=unit)
    return radius[0] * white, score * abs(float(np.linalg.det(white)))


def _squeezed(matrix: FloatArray) -> FloatArray:
    """Return the radius of one column as a vector."""
    return matrix[0] if len(matrix) == 1 else matrix


RULES = (
    Rule(
        "normal_reference_full",
        normal_reference_full,
        "matrix, exact MISE optimum of normal data with the sample's covariance",
        "derived here",
    ),
    Rule(
        "lscv_full",
        lscv_full,
        "matrix, least squares cross-validation over the share of correlations",
        "rudemo1982empirical",
    ),
)
