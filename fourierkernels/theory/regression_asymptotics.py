"""Bias and variance of Nadaraya-Watson regression as n and R grow: the leading terms."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density, RegressionFunction
from fourierkernels.theory.densities.panels import panels
from fourierkernels.theory.regression_error import RegressionTerms
from fourierkernels.theory.regression_moments import (
    PHASE,
    Problem,
    bandwidth,
    breaks,
    check_noise,
    excess,
    pose,
    reach_of,
    singular,
)


def regression_asymptotics(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    at: ArrayLike,
    noise_variance: ArrayLike,
) -> RegressionTerms:
    """Return the leading terms of bias and variance as n and R grow.

    Bias, summed over coordinates: (μ₂/R²)(f''/2 + f' p'/p) for kernels of order 2. For order 1,
    where 1 - K̂(s) ~ c|s| (the cusp of l = 2 has c = 1/2),

        (c/(π R p(x))) ∫_0^∞ [G(x + t) + G(x - t)]/t² dt,    G(y) = (f(y) - f(x)) p(y):

    -(c/R) times |d/dx| applied to G, over p. The whole line contributes, not f and p near x alone.
    Variance: σ² ρ^D ∏R_d/(n p), ρ = ∫K².

    Parameters
    ----------
    density, function, kernel, n, radius, at, noise_variance
        As for :func:`regression_at_radius`.

    Raises
    ------
    ValueError
        As :func:`regression_at_radius`; for a kernel whose order is neither 1 nor 2 (for l = 1 the
        bias is smaller than every power of R), and at a break of f.

    Examples
    --------
    >>> terms = regression_asymptotics("gaussian", "sine", "fourier4", n=500, radius=8.0,
    ...                                at=[[0.5]], noise_variance=0.09)
    >>> print(f"{terms.bias[0]:.4f} {terms.variance[0]:.5f}")
    -0.0261 0.00140
    """
    problem = pose(density, function, kernel, at, radius)
    points, shape = problem.points, problem.kernel
    for end in problem.function.breaks:
        if np.any(points == end):
            raise ValueError(f"at must avoid the break of f at {end}, got {points.tolist()}")
    if shape.order not in _LEADING_BIAS:
        raise ValueError(f"kernel must have order 1 or 2, got {shape.name} of order {shape.order}")
    bias = _LEADING_BIAS[shape.order](problem).sum(axis=1)
    peak = (shape.roughness * problem.radius / problem.density.pdf(points)).prod(axis=1)
    noise = check_noise(noise_variance, len(points))
    return RegressionTerms(bias, noise * peak / check_integer("n", n))


def _order_two(problem: Problem) -> FloatArray:
    """(μ₂/R²)(f''/2 + f' p'/p), shape ``(m, dim)``."""
    x, f = problem.points, problem.function
    curve = 0.5 * f.curvature(x) + f.slope(x) * _log_slope(problem.density, x)
    return np.asarray(problem.kernel.second_moment * curve / np.square(problem.radius))


def _order_one(problem: Problem) -> FloatArray:
    """(c/(π R p)) ∫_0^∞ [G(x+t) + G(x-t)]/t² dt, shape ``(m, dim)``."""
    small = 1e-6
    cusp = (1.0 - float(problem.kernel.transform(small))) / small
    integral = np.array(
        [[_hypersingular(problem, float(x)) for x in row] for row in problem.points]
    )
    return np.asarray(cusp * integral / (math.pi * problem.radius))


_LEADING_BIAS: dict[float, Callable[[Problem], FloatArray]] = {1.0: _order_one, 2.0: _order_two}


def _hypersingular(problem: Problem, x: float) -> float:
    """∫_0^∞ [G(x+t) + G(x-t)]/t² dt / p(x): the symmetric sum is of order t² at 0.

    Up to half-way to the next break both sides are added before they are summed; from there on each
    has panels of its own, which end at the breaks.
    """
    density, f = problem.density, problem.function
    reach, longest = reach_of(density, np.array([x])), PHASE / (bandwidth(density) + excess(f))

    def rise(y: FloatArray) -> FloatArray:
        return np.asarray((f.value(y) - f.value(x)) * density.pdf(y))

    distances = [abs(x - place) for place in breaks(problem) if place != x]
    near = 0.5 * min([reach, *distances])
    t, weight = panels([0.0, near], longest=longest)
    total = float(weight @ ((rise(x + t) + rise(x - t)) / np.square(t)))
    for low, high in ((x - reach, x - near), (x + near, x + reach)):
        inner = [place for place in breaks(problem) if low < place < high]
        y, weight = panels(
            np.unique([low, *inner, high]), longest=longest, powers=singular(density)
        )
        total += float(weight @ (rise(y) / np.square(y - x)))
    return total / float(density.pdf(x))


def _log_slope(density: Density, x: FloatArray) -> FloatArray:
    """p'/p by a central difference of fourth order that reaches across no break but one at x."""
    p, h = density.pdf, np.full(x.shape, 0.02 / bandwidth(density))
    for place in density.breaks:
        h = np.where(x == place, h, np.minimum(h, 0.4 * np.abs(x - place)))
    rise = 8.0 * (p(x + h) - p(x - h)) - (p(x + 2 * h) - p(x - 2 * h))
    return np.asarray(rise / (12.0 * h * p(x)))
