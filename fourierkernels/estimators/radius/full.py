"""Rules for radius matrices: the data is whitened, and a rule for vectors applied to the result.

In one dimension they are the rules for vectors but for the scale, the plain standard deviation.
"""

import numpy as np

from fourierkernels.estimators.radius.matrix import whitening
from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.spectral import cross_validated
from fourierkernels.estimators.radius.spectrum import TooManyFrequenciesError
from fourierkernels.estimators.weights import effective_size
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.theory.densities import Gaussian

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
    found, refusals = [], []
    for share in _SHARES.get(points.shape[1], (1.0,)):
        try:
            found.append(_scored(points, weights, kernel, share))
        except TooManyFrequenciesError as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return _squeezed(min(found, key=lambda each: each[1])[0])


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
