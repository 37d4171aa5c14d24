"""Mean squared error of Nadaraya-Watson regression for many samples, without simulation.

Two levels. At a *fixed radius* R and n → ∞, with Δ(y) = f(y) - f(x) and integrals over y,

    b = ∫ K_R Δ p / ∫ K_R p,    variance = ∫ K_R² (σ² + (Δ - b)²) p / (n (∫ K_R p)²),

up to a relative error of order R^D/n, which `regression_next_order` adds: nothing is
expanded in 1/R. When R → ∞ *as well*, b and the variance have the closed leading terms of
`regression_asymptotics`. Both are for products: a density on the line for every coordinate,
and f(x_1) + ... + f(x_D).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_points, check_positive
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density, RegressionFunction, as_density
from fourierkernels.theory.regression_moments import moments, pose


@dataclass(frozen=True)
class RegressionTerms:
    """Bias and variance of f̂ at m points.

    Attributes
    ----------
    bias, variance : arrays of shape (m,)
    """

    bias: FloatArray
    variance: FloatArray

    @property
    def total(self) -> FloatArray:
        """Mean squared error, bias² + variance, shape ``(m,)``."""
        return np.asarray(np.square(self.bias) + self.variance)


def regression_at_radius(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    at: ArrayLike,
    noise_variance: ArrayLike,
) -> RegressionTerms:
    """Return bias and variance for large n at a given radius, for any kernel.

    Parameters
    ----------
    density : Density or str
        On the line; the design is the product of D copies, D the width of `at`.
    function : RegressionFunction or str
    kernel : Kernel or str
    n : int
    radius : float or array of shape (dim,)
    at : array of shape (m, dim)
    noise_variance : float or array of shape (m,)
        σ² at the points.

    Raises
    ------
    ValueError
        For a density with its own dimension, points where it is zero, a radius or variance that is
        not positive.

    Examples
    --------
    >>> terms = regression_at_radius("gaussian", "sine", "fourier4", n=500, radius=8.0,
    ...                              at=[[0.5]], noise_variance=0.09)
    >>> print(f"{terms.total[0]:.5f}")
    0.00208
    """
    problem = pose(density, function, kernel, at, radius)
    found = moments(problem)
    shift, second = found.slope / found.mass, found.square_slope / found.square
    bias = shift.sum(axis=1)
    spread = found.square_curve / found.square - np.square(second)
    local = spread.sum(axis=1) + np.square(second.sum(axis=1) - bias)
    scale = (found.square / np.square(found.mass)).prod(axis=1) / check_integer("n", n)
    noise = check_positive("noise_variance", noise_variance)
    return RegressionTerms(bias, scale * (noise + local))


def regression_radius(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    at: ArrayLike,
    noise_variance: ArrayLike,
    weights: ArrayLike | None = None,
) -> float:
    """Return the radius that minimises the (weighted) mean of the error at these points.

    The error is that of :func:`regression_at_radius`. With one point the bias may vanish at some
    radius and the minimum be an accident of that point; with many it is the integrated error.

    Raises
    ------
    ValueError
        As :func:`regression_at_radius`.

    Examples
    --------
    >>> at = np.linspace(-1.5, 1.5, 9)[:, None]
    >>> sizes = (10**4, 10**6)
    >>> small, large = (regression_radius("gaussian", "sine", "fourier4", n=n, at=at,
    ...                                   noise_variance=0.09) for n in sizes)
    >>> print(f"{math.log(large / small) / math.log(100):.2f}")  # R ~ n^(1/5)
    0.20
    """
    points = check_points("at", at)
    share = np.ones(len(points)) if weights is None else check_positive("weights", weights)

    def error(log_radius: float) -> float:
        terms = regression_at_radius(
            density,
            function,
            kernel,
            n=n,
            radius=math.exp(log_radius),
            at=points,
            noise_variance=noise_variance,
        )
        return math.log(float(share @ terms.total))

    low, high = _bracket(error, math.log(0.4 * as_density(density).spectral_scale))
    found = minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-4})
    return math.exp(float(found.x))


def _bracket(error: Callable[[float], float], start: float) -> tuple[float, float]:
    """Go up by 20 % until the error is twice the least; return the neighbours of the least."""
    step, place, best = math.log(1.2), 0, math.inf
    errors: list[float] = []
    while not errors or errors[-1] < best + math.log(2.0):
        errors.append(error(start + step * len(errors)))
        place = int(np.argmin(errors))
        best = errors[place]
    return start + step * (place - 1), start + step * (place + 1)
