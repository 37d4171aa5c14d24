"""Slopes of log error against log n: local, fitted with an interval, and in the limit.

Simulated errors have standard errors, so their slope has a statistical interval. Exact errors have
none; what separates their local slopes from the limit is the next order of the expansion, which is
extrapolated; how far the extrapolation moved says whether it has settled, and is no interval in
which the limit must lie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_number, check_positive

Correction = Literal["power", "logarithm"]

_RESOLUTION = 1e-3  # of an extrapolated slope: rounding of the optimum and higher orders


@dataclass(frozen=True)
class Slope:
    """A fitted slope and its statistical interval, two standard errors unless told otherwise."""

    value: float
    low: float
    high: float

    def __contains__(self, slope: float) -> bool:
        """Whether a slope lies in the interval."""
        return self.low <= slope <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class LimitSlope:
    """A slope extrapolated to n = ∞, and the range over which the extrapolation moved.

    The range has no confidence: where the next order falls slowly, the limit lies outside.

    Attributes
    ----------
    value : float
        The last extrapolation.
    least, most : float
        Ends of the range: of the last local slope and the last two extrapolations, 0.001 added on
        both sides.
    """

    value: float
    least: float
    most: float

    def __contains__(self, slope: float) -> bool:
        """Whether a slope lies in the range that the extrapolation moved over."""
        return self.least <= slope <= self.most

    def __str__(self) -> str:
        return f"{self.value:.3f} (moved {self.least:.3f} to {self.most:.3f})"


def local_slopes(sizes: ArrayLike, errors: ArrayLike) -> FloatArray:
    """Return Δ log error / Δ log n between neighbours, shape ``(len(sizes) - 1,)``.

    Raises
    ------
    ValueError
        If there are fewer than two sizes, they do not increase, or an error is not positive.
    """
    n, error = _pairs(sizes, errors, least=2)
    return np.asarray(np.diff(np.log(error)) / np.diff(np.log(n)))


def fit_slope(
    sizes: ArrayLike, errors: ArrayLike, standard_errors: ArrayLike, *, sigmas: float = 2.0
) -> Slope:
    """Fit log error = a + slope · log n by weighted least squares.

    The weights are those of the relative standard errors. If the points scatter more than these
    allow, the interval grows by the root of χ² per degree of freedom; it never shrinks.

    Parameters
    ----------
    sizes, errors, standard_errors : arrays of shape (k,)
        Sample sizes, mean errors and the standard errors of these means.
    sigmas : float
        Half-width of the interval in standard errors of the slope.

    Raises
    ------
    ValueError
        As :func:`local_slopes`, for fewer than three sizes, and for standard errors not positive.

    Examples
    --------
    >>> n = np.array([1e3, 1e4, 1e5])
    >>> print(fit_slope(n, 2.0 * n**-0.8, 0.01 * n**-0.8))
    -0.800 [-0.803, -0.797]
    """
    n, error = _pairs(sizes, errors, least=3)
    spread = check_positive("standard_errors", standard_errors)
    if spread.shape != error.shape:
        raise ValueError(f"standard_errors must have shape {error.shape}, got shape {spread.shape}")
    weight = np.square(error / spread)
    weight_sum = weight.sum()
    x, y = np.log(n), np.log(error)
    x = x - weight @ x / weight_sum
    y = y - weight @ y / weight_sum
    precision = float(weight @ (x * x))
    slope = float(weight @ (x * y)) / precision
    misfit = float(weight @ np.square(y - slope * x)) / (len(x) - 2)
    half = check_number("sigmas", sigmas, above=0.0) * math.sqrt(max(1.0, misfit) / precision)
    return Slope(slope, slope - half, slope + half)


class WindowSlopes(NamedTuple):
    """Slopes over one window of n, from `smallest` to `largest`: simulated, and computed."""

    smallest: int
    largest: int
    simulated: Slope
    computed: float


def window_slopes(
    sizes: Sequence[int], errors: ArrayLike, standard_errors: ArrayLike, computed: ArrayLike
) -> WindowSlopes:
    """Return the slope of simulated errors beside that of computed ones, with the same weights.

    Raises
    ------
    ValueError
        As :func:`fit_slope`.

    Examples
    --------
    >>> n = [1_000, 10_000, 100_000]
    >>> exact = np.array(n) ** -0.8
    >>> print(f"{window_slopes(n, exact, 0.01 * exact, 2.0 * exact).computed:.3f}")
    -0.800
    """
    slope = fit_slope(sizes, errors, standard_errors)
    beside = fit_slope(sizes, computed, standard_errors)
    return WindowSlopes(sizes[0], sizes[-1], slope, beside.value)


def limit_slope(sizes: ArrayLike, errors: ArrayLike, *, correction: Correction) -> LimitSlope:
    """Extrapolate the local slopes of exact errors to n = ∞.

    The last local slope differs from the limit by the next order. A "power" correction c n^{-δ} is
    removed by Aitken's Δ² (sizes in geometric progression), a "logarithm" correction c/log n by a
    straight line in 1/log n. What comes back with the limit is the range over which it moved, not
    an interval in which it lies: ``LimitSlope``.

    Raises
    ------
    ValueError
        As :func:`local_slopes`, for fewer than five sizes, and for sizes that are not in geometric
        progression.

    Examples
    --------
    >>> n = 10.0 ** np.arange(6, 13)
    >>> print(limit_slope(n, n**-0.8 * (1 + n**-0.2), correction="power"))
    -0.800 (moved -0.802 to -0.799)
    """
    n, error = _pairs(sizes, errors, least=5)
    check_choice("correction", correction, list(_EXTRAPOLATIONS))
    steps = np.diff(np.log(n))
    if np.ptp(steps) > 1e-3 * steps[0]:
        raise ValueError(f"sizes must be in geometric progression, got {n}")
    slopes = np.diff(np.log(error)) / steps
    at = 0.5 * (np.log(n[1:]) + np.log(n[:-1]))
    limits = _EXTRAPOLATIONS[correction](slopes, at)
    spanned = [slopes[-1], *limits[-2:]]
    least, most = float(min(spanned)), float(max(spanned))
    return LimitSlope(float(limits[-1]), least - _RESOLUTION, most + _RESOLUTION)


def _aitken(slopes: FloatArray, at: FloatArray) -> FloatArray:
    del at
    rise = np.diff(slopes)
    bend = np.diff(rise)
    settled = np.abs(bend) <= 1e-12  # nothing is left to remove
    jump = np.where(settled, 0.0, np.square(rise[1:]) / np.where(settled, 1.0, bend))
    return np.asarray(slopes[2:] - jump)


def _line_in_inverse_log(slopes: FloatArray, at: FloatArray) -> FloatArray:
    x = 1.0 / at
    return np.asarray(slopes[1:] - x[1:] * np.diff(slopes) / np.diff(x))


_EXTRAPOLATIONS = {"power": _aitken, "logarithm": _line_in_inverse_log}


def _pairs(sizes: ArrayLike, errors: ArrayLike, *, least: int) -> tuple[FloatArray, FloatArray]:
    n, error = check_positive("sizes", sizes), check_positive("errors", errors)
    if n.ndim != 1 or len(n) < least:
        raise ValueError(f"sizes must be at least {least} numbers, got shape {n.shape}")
    if error.shape != n.shape:
        raise ValueError(f"errors must have shape {n.shape}, got shape {error.shape}")
    if np.any(np.diff(n) <= 0):
        raise ValueError(f"sizes must increase, got {n}")
    return n, error
