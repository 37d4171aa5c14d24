"""How the radius is found: a number, a bandwidth, or a rule.

To add a rule, write a function (points, weights, kernel) -> radius of shape (dim,) and put it into
:data:`RADIUS_RULES`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.densities import Gaussian
from fourierkernels.kernels import FloatArray, Kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.validation import check_choice, check_positive, check_radius

_QUARTILES_OF_NORMAL = 1.3489795003921634  # interquartile range of N(0, 1)


def choose_radius(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    radius: ArrayLike | str | None,
    bandwidth: ArrayLike | None,
) -> FloatArray:
    """Return the radius per dimension, shape ``(dim,)``.

    Raises
    ------
    ValueError
        If both `radius` and `bandwidth` are given, either is not positive and finite, or the rule
        is unknown or does not apply to the data.
    """
    dim = points.shape[1]
    if radius is not None and bandwidth is not None:
        raise ValueError(f"radius and bandwidth exclude each other, got {radius} and {bandwidth}")
    if bandwidth is not None:
        return check_radius(1.0 / check_positive("bandwidth", bandwidth), dim)
    if radius is None or isinstance(radius, str):
        rule = check_choice("radius", radius or "normal_reference", list(RADIUS_RULES))
        return RADIUS_RULES[rule](points, weights, kernel)
    return check_radius(radius, dim)


def normal_reference(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return the radius that minimises the exact MISE if the data were Gaussian.

    Per dimension, R* of the standard Gaussian over a robust scale, the smaller of the standard
    deviation and the interquartile range over 1.349. For l = 1 this is |p̂(R)|² = 1/(n + 1); for
    the Gaussian kernel, the exact form of Silverman's rule [silverman1986density]_. Whole-number
    weights count repetitions; others enter n as (Σw)²/Σw².
    """
    whole = np.array_equal(weights, np.round(weights))
    n = weights.sum() if whole else weights.sum() ** 2 / np.square(weights).sum()
    best = optimal_radius(Gaussian(), kernel, n=max(1, round(n)), dim=points.shape[1])
    return best / robust_scale(points, weights)


def robust_scale(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return min(standard deviation, interquartile range / 1.349) per column.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    mean = np.average(points, axis=0, weights=weights)
    std = np.sqrt(np.average(np.square(points - mean), axis=0, weights=weights))
    low, high = np.quantile(points, [0.25, 0.75], axis=0, weights=weights, method="inverted_cdf")
    spread = (high - low) / _QUARTILES_OF_NORMAL
    scale = np.where(spread > 0, np.minimum(std, spread), std)
    flat = np.flatnonzero(scale <= np.abs(mean) * 1e-14)
    if len(flat):
        raise ValueError(
            f"X must vary in every column for a radius rule, got column {flat[0]} constant at "
            f"{points[0, flat[0]]} (n_samples = {len(points)}); give radius as a number instead"
        )
    return np.asarray(scale)


RADIUS_RULES: dict[str, Callable[[FloatArray, FloatArray, Kernel], FloatArray]] = {
    "normal_reference": normal_reference,
}
