"""Local polynomials at their own design points, by one set of sums: what radius rules score."""

import math
from functools import partial

import numpy as np

from fourierkernels.estimators.design import DIGITS, LEFT, DesignFit, FitDesign
from fourierkernels.estimators.local_systems import solve, sums_of_powers
from fourierkernels.estimators.weights import left_out
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums import SampleSum


def local_polynomial_design(degree: int, weighting: str = "frequency") -> FitDesign:
    """Return the function that fits local polynomials of a degree at their design points.

    All weights are positive. The share of sample j in its own prediction is
    w_j shape(0) (S^{-1})_{00}, S the matrix of moments at x_j; by frequency that of one copy.
    """
    return partial(_design, degree=degree, weighting=weighting)


def _design(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    kernel: Kernel,
    radius: FloatArray,
    *,
    degree: int,
    weighting: str,
) -> DesignFit:
    sums = SampleSum(points, kernel=kernel, radius=radius, weights=weights, responses=responses)
    moments = sums.moments(points, 2 * degree, with_responses=degree)
    fit = solve(moments, sums_of_powers(points.shape[1], degree))
    peak = (float(kernel.value(0.0)) * kernel.constant) ** points.shape[1]
    own = np.ldexp(peak * left_out(weights, weighting), -fit.exponent)
    with np.errstate(over="ignore", invalid="ignore"):
        leverage = own * fit.row[0]
        predicted = sums.units.restored(fit.coefficients[0], 1.0)
        least = np.maximum(DIGITS * fit.doubt, LEFT) * np.maximum(np.abs(leverage), 1.0)
    predicted[fit.undefined] = math.nan
    return DesignFit(
        responses - predicted,
        leverage,
        weights,
        weights,
        ~(DIGITS * fit.doubt < 1.0),
        ~(np.abs(1.0 - leverage) > least),
    )
