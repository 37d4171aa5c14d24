"""The next order in R^D/n of the regression error: what a ratio of two means adds.

f̂(x) - f(x) = b + (S/P)/(1 + u), with P = E k, k = K_R(x - y), S the mean of z = k (y - f(x) - b)
and u the mean of U = k/P - 1. Expanding 1/(1 + u) and 1/(1 + u)² and keeping what is of order 1/n²
or, times b, of order 1/n, with c_ij = E[(z/P)^i U^j]:

    E(f̂ - f)² = b² + c_20/n - 2b c_11/n
                + [2b (c_12 - 3 c_11 c_02) - 2 c_21 + 3 (c_20 c_02 + 2 c_11²)]/n² + ...

The first two terms are those of :func:`~fourierkernels.theory.regression_at_radius`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_positive
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density, RegressionFunction
from fourierkernels.theory.regression_moments import integrals, pose

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
    >>> from fourierkernels.theory import regression_at_radius
    >>> setting = {"n": 60, "radius": 4.0, "at": [[0.5]], "noise_variance": 0.09}
    >>> first = regression_at_radius("gaussian", "sine", "fourier4", **setting).total
    >>> extra = regression_next_order("gaussian", "sine", "fourier4", **setting)
    >>> print(f"{first[0]:.5f} + {extra[0]:.5f}")
    0.01519 + 0.00085
    """
    found = integrals(pose(density, function, kernel, at, radius), _ORDERS)
    noise, count = check_positive("noise_variance", noise_variance), check_integer("n", n)
    mass = found[0].prod(axis=1)
    first, second, third = (_joined(found[3 * k : 3 * k + 3], mass ** (k + 1)) for k in range(3))
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
