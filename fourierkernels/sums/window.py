"""The window of windowed periodisation: 1, then a ramp to 0 whose spectrum ends soon.

The ramp is the integral of a bump of Kaiser and Bessel: for its width it needs half of the band of
a ramp that is an error function.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from fourierkernels.foundation.arrays import FloatArray

_DEGREE = 160  # of the bump: far beyond what its exponent needs at 1e-16
_SPARE = 2.0  # of the exponent: the bump ends with a small step, whose spectrum falls slowly


def ramp_band(tol: float) -> float:
    """Return t · width beyond which the spectrum of a ramp of that width is below `tol`."""
    return 2.0 * _exponent(tol)


def window(u: FloatArray, tol: float) -> FloatArray:
    """Return 1 for u <= 0, a smooth ramp to 0 at u = 1, and 0 beyond; shape of `u`.

    Examples
    --------
    >>> window(np.array([-3.0, 0.5, 2.0]), 1e-12).round(12)
    array([1. , 0.5, 0. ])
    """
    values = np.where(u <= 0.0, 1.0, 0.0)
    inside = (u > 0.0) & (u < 1.0)
    values[inside] = chebyshev.chebval(2.0 * u[inside] - 1.0, _ramp(tol))
    return values


@lru_cache(maxsize=32)
def _ramp(tol: float) -> FloatArray:
    """Chebyshev coefficients on [-1, 1] of 1 - ∫_{-1}^t bump / ∫_{-1}^1 bump."""
    exponent = _exponent(tol)

    def bump(t: FloatArray) -> FloatArray:
        size = exponent * np.sqrt(1.0 - t * t)
        return np.asarray(special.i0e(size) * np.exp(size - exponent))

    series: FloatArray = chebyshev.chebinterpolate(bump, _DEGREE)  # type: ignore[arg-type]
    series = series[: 1 + int(np.flatnonzero(np.abs(series) > 1e-17 * np.abs(series).max())[-1])]
    integral = chebyshev.chebint(series, lbnd=-1)
    return np.asarray(chebyshev.chebsub([1.0], integral / chebyshev.chebval(1.0, integral)))


def _exponent(tol: float) -> float:
    return math.log(1.0 / tol) + _SPARE
