"""Mean squared error of Nadaraya-Watson regression for many samples, without simulation.

Two levels. At a *fixed radius* R and n → ∞, with Δ(y) = f(y) - f(x) and integrals over y,

    b = ∫ K_R Δ p / ∫ K_R p,    variance = ∫ K_R² (σ² + (Δ - b)²) p / (n (∫ K_R p)²),

up to a relative error of order R^D/n: nothing is expanded in 1/R. When R → ∞ *as well*, b and the
variance have the closed leading terms of `regression_asymptotics`. Both are for products: a density
on the line for every coordinate, and f(x_1) + ... + f(x_D).

The next order in R^D/n is what a ratio of two means adds. f̂(x) - f(x) = b + (S/P)/(1 + u), with
P = E k, k = K_R(x - y), S the mean of z = k (y - f(x) - b) and u the mean of U = k/P - 1. Expanding
1/(1 + u) and 1/(1 + u)² and keeping what is of order 1/n² or, times b, of order 1/n, with
c_ij = E[(z/P)^i U^j]:

    E(f̂ - f)² = b² + c_20/n - 2b c_11/n
                + [2b (c_12 - 3 c_11 c_02) - 2 c_21 + 3 (c_20 c_02 + 2 c_11²)]/n² + ...

The first two terms are those of :func:`regression_at_radius`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_points, check_weights
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density, RegressionFunction, as_density
from fourierkernels.theory.regression_moments import check_noise, integrals, moments, pose


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
        not positive, another number of variances than points.

    Examples
    --------
    >>> terms = regression_at_radius("gaussian", "sine", "fourier4", n=500, radius=8.0,
    ...                              at=[[0.5]], noise_variance=0.09)
    >>> print(f"{terms.total[0]:.5f}")
    0.00208
    """
    problem = pose(density, function, kernel, at, radius)
    integral = moments(problem)
    shift, second = integral.slope / integral.mass, integral.square_slope / integral.square
    bias = shift.sum(axis=1)
    spread = integral.square_curve / integral.square - np.square(second)
    local = spread.sum(axis=1) + np.square(second.sum(axis=1) - bias)
    scale = (integral.square / np.square(integral.mass)).prod(axis=1) / check_integer("n", n)
    noise = check_noise(noise_variance, len(bias))
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
        As :func:`regression_at_radius`; for weights that are negative or not one per point, and
        where no radius is better than 0: the error is then least for the mean of all responses.

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
    count = len(points)
    share = np.ones(count) if weights is None else check_weights("weights", weights, count)

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

    low, high = _bracket(error, math.log(0.4 * as_density(density).spectral_scale), n)
    result = minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-4})
    return math.exp(float(result.x))


_DEEPEST = 40  # steps of 20 % below the start: to a mean over the whole design


def _bracket(error: Callable[[float], float], start: float, n: int) -> tuple[float, float]:
    """Go up by 20 % until the error is twice the least; return the neighbours of the least.

    If that is at the start, go down as long as the error falls.
    """
    step, place, best = math.log(1.2), 0, math.inf
    errors: list[float] = []
    while not errors or errors[-1] < best + math.log(2.0):
        errors.append(error(start + step * len(errors)))
        place = int(np.argmin(errors))
        best = errors[place]
    while place <= 0 and (lower := error(start + step * (place - 1))) < best:
        place, best = place - 1, lower
        if place < -_DEEPEST:
            raise ValueError(
                f"n must be large enough for a best radius, got {n}: the mean of all responses has "
                "the least error"
            )
    return start + step * (place - 1), start + step * (place + 1)


_ORDERS = tuple((j, i) for j in (1, 2, 3) for i in (0, 1, 2))


class _Weighted(NamedTuple):
    """E k^j over P^j, and the means of Δ and Δ² under k^j p, each ``(m,)``."""

    size: FloatArray
    slope: FloatArray
    curve: FloatArray


def regression_next_order(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    at: ArrayLike,
    noise_variance: ArrayLike,
) -> FloatArray:
    """Return what to add to the error of :func:`regression_at_radius`, shape ``(m,)``.

    The sum of both is right up to terms of order (R^D/(n p))³. For odd powers, whose error has
    no mean, it is the expansion of that of typical designs.

    Parameters
    ----------
    density, function, kernel, n, radius, at, noise_variance
        As for :func:`regression_at_radius`.

    Raises
    ------
    ValueError
        As :func:`regression_at_radius`.

    Examples
    --------
    >>> setting = {"n": 60, "radius": 4.0, "at": [[0.5]], "noise_variance": 0.09}
    >>> first = regression_at_radius("gaussian", "sine", "fourier4", **setting).total
    >>> extra = regression_next_order("gaussian", "sine", "fourier4", **setting)
    >>> print(f"{first[0]:.5f} + {extra[0]:.5f}")
    0.01519 + 0.00085
    """
    columns = integrals(pose(density, function, kernel, at, radius), _ORDERS)
    mass = columns[0].prod(axis=1)
    noise, count = check_noise(noise_variance, len(mass)), check_integer("n", n)
    first, second, third = (_joined(columns[3 * k : 3 * k + 3], mass ** (k + 1)) for k in range(3))
    b = first.slope
    c11, c02 = second.size * (second.slope - b), second.size - 1.0
    c20 = second.size * (noise + _about(second, b))
    c12 = third.size * (third.slope - b) - 2.0 * c11
    c21 = third.size * (noise + _about(third, b)) - c20
    squares = 2.0 * b * (c12 - 3.0 * c11 * c02) - 2.0 * c21 + 3.0 * (c20 * c02 + 2.0 * c11**2)
    return np.asarray(-2.0 * b * c11 / count + squares / count**2)


def _joined(columns: list[FloatArray], unit: FloatArray) -> _Weighted:
    """Join independent coordinates: Δ is the sum of theirs."""
    size, slope, curve = columns  # (m, dim)
    means = slope / size
    total = means.sum(axis=1)
    spread = (curve / size - np.square(means)).sum(axis=1)
    return _Weighted(size.prod(axis=1) / unit, total, spread + np.square(total))


def _about(weighted: _Weighted, b: FloatArray) -> FloatArray:
    """Mean of (Δ - b)²."""
    return np.asarray(weighted.curve - 2.0 * weighted.slope * b + b**2)
