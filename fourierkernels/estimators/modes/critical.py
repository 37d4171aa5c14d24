"""Maxima and minima of a density estimate in one dimension, on a grid its band limit justifies.

The estimate is a sum of kernels, so its third derivative has a bound M, from the transform of the
kernel and from Bernstein's inequality. In a cell of width w, a derivative that has the same sign at
both ends and is larger there than w² M/8 has no zero between; one that changes sign with a mean
slope above w M has exactly one. Other cells are halved. A maximum and a minimum that share a cell
of the smallest width, and so could be missed, differ in height by at most w³ M/12, which is below
1e-7 of the largest density. On a circle the cells go once around, and M is a sum over frequencies.
"""

import copy
import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.roots import bracketed_roots
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.kernels import Kernel, PeriodicKernel
from fourierkernels.kernels.periodic import frequencies, harmonics, kernels_along

PROMINENCE = 1e-7  # of the largest density: extrema that differ by less may be missed
_COARSE = 0.5  # of the length scale of one kernel
_NOISE = 1e-11  # of the largest slope: below it the sign of a derivative is rounding
_FOUND = 1e-12  # of 1/R: the width of a bracket that ends the search
_INSIDE = (
    1e-6  # of 1/R: at a bound, where the derivative is 0 by reflection, how far inside to look
)
_MOST = 1e6  # length scales in the range


class Curve(NamedTuple):
    """A sum of kernels, with its slope: functions of arrays of shape ``(m,)``."""

    kernel: Kernel
    radius: float
    value: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]


class Extrema(NamedTuple):
    """Maxima and minima in increasing order; around a circle from its lowest minimum to that again.

    Attributes
    ----------
    points, densities : arrays of shape (k,)
    maxima : boolean array of shape (k,)
    """

    points: FloatArray
    densities: FloatArray
    maxima: BoolArray


class Range(NamedTuple):
    """An interval, which of its ends are bounds of the estimate, and whether it is a circle."""

    low: float
    high: float
    bounded: tuple[bool, bool] = (False, False)
    closed: bool = False


class Turns(NamedTuple):
    """Brackets in which the slope changes its sign; one of no width is a bound.

    Attributes
    ----------
    low, high : arrays of shape (k,)
    maxima : boolean array of shape (k,)
        Where the slope turns from positive to negative.
    """

    low: FloatArray
    high: FloatArray
    maxima: BoolArray


class _Cells(NamedTuple):
    """A grid with the values of a curve and its slopes: arrays of shape (g,)."""

    x: FloatArray
    value: FloatArray
    slope: FloatArray


def curve_of(model: KernelDensity) -> Curve:
    """Return a fitted one-dimensional estimate as a curve."""

    def value(x: FloatArray) -> FloatArray:
        return model.density(x[:, None]) if len(x) else np.zeros(0)

    def slope(x: FloatArray) -> FloatArray:
        return model.derivative(x[:, None])[:, 0]

    (kernel,) = kernels_along(model.kernel_, model.largest_radius, model.periods_)
    return Curve(kernel, float(model.largest_radius[0]), value, slope)


def search_range(model: KernelDensity, pad: float) -> Range:
    """Return the range of the samples, wider by `pad`, within the bounds; or the circle."""
    if np.isfinite(model.periods_[0]):
        return Range(0.0, float(model.periods_[0]), closed=True)
    used = model.points_[model.weights_ > 0, 0]
    low, high = float(used.min()) - pad, float(used.max()) + pad
    least, most = (float(end) for end in model.bounds_[:, 0])
    return Range(max(low, least), min(high, most), (low <= least, high >= most))


def extrema(curve: Curve, within: Range, *, floor: float = 0.0) -> Extrema:
    """Return the maxima and minima in a range; arguments and errors as for :func:`turns`."""
    turning = turns(curve, within, floor=floor)
    points = turning.low.copy()
    inner = turning.low < turning.high
    points[inner] = refined(curve, turning.low[inner], turning.high[inner])
    found = Extrema(points, curve.value(points), turning.maxima)
    return _from_lowest(found, within.high) if within.closed and len(points) else found


def _from_lowest(found: Extrema, period: float) -> Extrema:
    """Cut a circle at its lowest minimum, which comes first and, a period later, last."""
    first = int(np.argmin(np.where(found.maxima, np.inf, found.densities)))
    order = np.append(np.roll(np.arange(len(found.points)), -first), first)
    points = found.points[order] - period * (found.points[first] >= period)
    points[np.arange(len(order)) >= len(order) - 1 - first] += period
    return Extrema(points, found.densities[order], found.maxima[order])


def refined(curve: Curve, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return where the slope is zero in each bracket."""
    return bracketed_roots(curve.slope, low, high, xtol=_FOUND / curve.radius)


def turns(curve: Curve, within: Range, *, floor: float = 0.0) -> Turns:
    """Return brackets of the maxima and minima in a range.

    Parameters
    ----------
    floor : float
        Share of the largest value; cells below it, or 1e-7 at least, are not refined.

    Raises
    ------
    ValueError
        If the range has more than a million length scales of the kernel, or is so far from 0 that
        rounding hides what is looked for.
    """
    if within.closed and moment(curve.kernel, 3) == 0:  # no frequency but 0 lies in the band
        return Turns(np.zeros(0), np.zeros(0), np.zeros(0, bool))
    x, sign = _signs(_halved(curve, within, floor), within)
    places = np.flatnonzero(sign[1:] != sign[:-1])
    low, high = x[places], x[places + 1]
    if within.bounded[0]:
        high = np.where(low == within.low, low, high)
    if within.bounded[1]:
        low = np.where(high == within.high, high, low)
    return Turns(low, high, sign[places] > 0)


def _halved(curve: Curve, within: Range, floor: float) -> _Cells:
    kernel, radius = curve.kernel, curve.radius
    cells = _evaluated(curve, _start(kernel, radius, within))
    peak = float(np.abs(cells.value).max())
    third = min(radius**4 * moment(kernel, 3), (kernel.cutoff * radius) ** 3 * peak)
    second = min(radius**3 * moment(kernel, 2), (kernel.cutoff * radius) ** 2 * peak)
    narrowest = (12.0 * PROMINENCE * peak / third) ** (1 / 3) if peak > 0 else math.inf
    level = max(floor, PROMINENCE) * peak
    _check_digits(within, radius, narrowest)
    while True:
        unsettled = _unsettled(cells, third, narrowest) & ~_below(cells, second, level)
        places = np.flatnonzero(unsettled)
        if not len(places):
            return cells
        more = _evaluated(curve, 0.5 * (cells.x[places] + cells.x[places + 1]))
        both = zip(cells, more, strict=True)
        cells = _Cells(*(np.insert(old, places + 1, new) for old, new in both))


def _check_digits(within: Range, radius: float, narrowest: float) -> None:
    """Refuse numbers so far from 0 that a cell could not be halved to the smallest width."""
    spacing = float(np.spacing(max(abs(within.low), abs(within.high))))
    if 4.0 * spacing > narrowest:
        raise ValueError(
            f"X must be near enough to 0 that floats are finer than {narrowest / 4.0:.2g} to look "
            f"for modes with bandwidth {1.0 / radius:.3g}, got {within.high:.6g}, where they are "
            f"{spacing:.2g} apart; subtract a constant first"
        )


def _start(kernel: Kernel, radius: float, within: Range) -> FloatArray:
    scale = (float(kernel.value(0.0)) / moment(kernel, 3)) ** (1 / 3) / radius
    count = (within.high - within.low) / scale
    if not count <= _MOST:
        raise ValueError(
            f"radius must be at most {_MOST:g} length scales of its kernel over the range of the "
            f"samples to look for modes, got {count:.3g} with radius {radius:g}"
        )
    inside = _INSIDE / radius
    low = within.low + inside * within.bounded[0]
    high = within.high - inside * within.bounded[1]
    return np.linspace(low, high, 2 + math.ceil(count / _COARSE))


def _unsettled(cells: _Cells, third: float, narrowest: float) -> NDArray[np.bool_]:
    """Return the cells in which the derivative may have zeros that its ends do not show."""
    width = np.diff(cells.x)
    left, right = cells.slope[:-1], cells.slope[1:]
    no_zero = (left * right > 0) & (
        np.minimum(np.abs(left), np.abs(right)) > width**2 * third / 8.0
    )
    one_zero = (left * right < 0) & (np.abs(right - left) > width**2 * third)
    return ~(no_zero | one_zero) & (width > narrowest)


def _below(cells: _Cells, second: float, level: float) -> NDArray[np.bool_]:
    ends = np.maximum(cells.value[:-1], cells.value[1:])
    return np.asarray(ends + np.diff(cells.x) ** 2 * second / 8.0 < level)


def _signs(cells: _Cells, within: Range) -> tuple[FloatArray, FloatArray]:
    """Return points where the sign of the derivative is known, with it; bounds count as maxima."""
    steepest = np.abs(cells.slope).max()
    known = np.abs(cells.slope) > _NOISE * steepest
    if within.closed and steepest * within.high < PROMINENCE * np.abs(cells.value).max():
        known[:] = False  # flat up to rounding
    x, sign = cells.x[known], np.sign(cells.slope[known])
    if within.closed:
        x, sign = np.append(x, x[:1] + within.high), np.append(sign, sign[:1])
    if within.bounded[0]:
        x, sign = np.append(within.low, x), np.append(1.0, sign)
    if within.bounded[1]:
        x, sign = np.append(x, within.high), np.append(sign, -1.0)
    return x, sign


@cache
def moment(kernel: Kernel, order: int) -> float:
    """Return (1/π) ∫_0^cutoff s^order |K̂(s)| ds, a bound of the derivative of that order of K.

    On a circle the integral is the sum over its frequencies.
    """
    if isinstance(kernel, PeriodicKernel):
        s = frequencies(kernel.kernel, kernel.period)
        sizes = s**order * np.abs(harmonics(kernel.kernel, kernel.period))
        return float((2.0 * sizes.sum() - sizes[0]) / kernel.period)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    ends = np.concatenate([[0.0], kernel.knots])
    half = 0.5 * np.diff(ends)
    s = ends[:-1, None] + half[:, None] * (nodes + 1.0)
    return float((half[:, None] * weights * s**order * np.abs(kernel.transform(s))).sum() / math.pi)


def _evaluated(curve: Curve, x: FloatArray) -> _Cells:
    return _Cells(x, curve.value(x), curve.slope(x))


class Mapped(NamedTuple):
    """An estimate with a radius matrix R as one of the data mapped by it, whose radius is 1.

    Attributes
    ----------
    model : KernelDensity
    centre : array of shape (dim,)
    matrix : array of shape (dim, dim)
        z = R (x - centre).
    """

    model: KernelDensity
    centre: FloatArray
    matrix: FloatArray

    @property
    def volume(self) -> float:
        """|det R|, by which densities in x are larger."""
        return abs(float(np.linalg.det(self.matrix)))

    def back(self, points: FloatArray) -> FloatArray:
        """Return x of places z of shape ``(m, dim)``."""
        return np.asarray(np.linalg.solve(self.matrix, points.T).T + self.centre)


def mapped(model: KernelDensity) -> Mapped:
    """Return a fitted estimate that has a radius matrix in the coordinates of that matrix."""
    centre = model.points_.mean(axis=0)
    plain = clone(model).set_params(radius=1.0, bandwidth=None)
    plain.fit((model.points_ - centre) @ model.radius_.T, None, model.weights_)
    return Mapped(plain, centre, model.radius_)


def prepared_once(model: KernelDensity) -> KernelDensity:
    """Return the model with sums that are prepared once for many calls with few queries each.

    Its values have the accuracy of its `tol`, relative to the largest, and may depend on earlier
    calls within it.
    """
    other = copy.copy(model)
    other.expected_queries = model._fitted_samples
    return other


def without_names(model: KernelDensity) -> KernelDensity:
    """Return the model as if it had been fitted to an array; it shares all that is prepared.

    scikit-learn warns when a model that knows the names of its columns is asked without them.

    Raises
    ------
    TypeError, sklearn.exceptions.NotFittedError
        If it is no density estimate, or not fitted.
    """
    if not isinstance(model, KernelDensity):
        raise TypeError(f"model must be a KernelDensity, got {type(model).__name__}")
    check_is_fitted(model)
    if not hasattr(model, "feature_names_in_"):
        return model
    other = copy.copy(model)
    del other.feature_names_in_
    return other
