"""A weighted sample for radius rules: size, scale, ties, and standard form."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.weights import check_size, effective_size, weighted_rows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel

_QUARTILES_OF_NORMAL = 1.3489795003921634  # interquartile range of N(0, 1)


_Number = TypeVar("_Number", np.float64, np.intp)


class Standardised(Protocol):
    """A sample in standard form, as rules see it: in memory, or read anew for each sum.

    A radius for the data is a radius for the standard form divided by `scale`.
    """

    @property
    def size(self) -> float:
        """Number of samples that the weights stand for, see ``effective_size``."""

    @property
    def scale(self) -> FloatArray:
        """Divisor of each column, shape ``(dim,)``."""

    @property
    def dim(self) -> int:
        """Number of columns."""

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation of the data per column (divisor Σw), shape ``(dim,)``."""

    @property
    def ranges(self) -> FloatArray:
        """Largest less smallest value per column, shape ``(dim,)``."""

    def total(self, function: Callable[[FloatArray, FloatArray], Any]) -> Any:
        """Return what is linear in the samples: the function of all points and weights."""

    def copies(self) -> float:
        """Return n Σ_g p_g², p_g the share of the g-th distinct point: 1 without ties."""

    def repeated(self) -> float:
        """Return the share of samples that are not the first of theirs."""


@dataclass(frozen=True)
class Sample:
    """Samples of positive weight, centred and divided by their robust scale.

    Attributes
    ----------
    points : array of shape (n, dim)
    weights : array of shape (n,)
        Summing to one.
    size : float
        Number of samples that the weights stand for, see `estimators.weights.effective_size`.
    scale : array of shape (dim,)
        A radius for the data is a radius for `points` divided by it.
    periods : array of shape (dim,), optional
        Of columns that are circles, in units of their scale; infinite for others.
    """

    points: FloatArray
    weights: FloatArray
    size: float
    scale: FloatArray
    periods: FloatArray | None = None

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.points.shape[1])

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation of the data per column (divisor Σw), shape ``(dim,)``."""
        return self.scale * moments(self.points, self.weights)[1]

    @property
    def ranges(self) -> FloatArray:
        """Largest less smallest value per column, shape ``(dim,)``."""
        return np.asarray(np.ptp(self.points, axis=0))

    def total(self, function: Callable[[FloatArray, FloatArray], Any]) -> Any:
        """Return the function of all points and weights."""
        return function(self.points, self.weights)

    def copies(self) -> float:
        """Return n Σ_g p_g², p_g the share of the g-th distinct point: 1 without ties.

        It is the mean number of samples, itself among them, that coincide with a sample.
        """
        if (np.diff(np.sort(self.points[:, 0])) > 0).all():  # one fast sort settles most samples
            return float(self.size * (self.weights @ self.weights))
        shares = grouped(self.points, self.weights)[1]
        return float(self.size * (shares @ shares))

    def repeated(self) -> float:
        """Return the share of samples that are not the first of theirs."""
        distinct = len(np.unique(self.points, axis=0))
        return 1.0 - distinct / max(self.size, distinct)


def standardise(
    points: FloatArray,
    weights: FloatArray,
    periods: FloatArray | None = None,
    ordered: Sequence[FloatArray] | None = None,
) -> Sample:
    """Return the sample in standard form.

    Parameters
    ----------
    ordered : sequence of dim arrays, optional
        The columns of the points that have a weight, sorted.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    scale = scale_of(points, weights, periods, ordered)
    used = weighted_rows(weights)
    points, weights = points[used], weights[used]
    middle = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)
    standard = points / scale
    standard -= middle / scale
    return Sample(
        standard,
        weights / weights.sum(),
        effective_size(weights),
        scale,
        None if periods is None else periods / scale,
    )


def scale_of(
    points: FloatArray,
    weights: FloatArray,
    periods: FloatArray | None,
    ordered: Sequence[FloatArray] | None = None,
) -> FloatArray:
    """Return the scale of each column, shape ``(dim,)``: robust on a line, circular on a circle.

    That is (P/2π) √(-2 log ρ), ρ the length of the mean of exp(2πix/P), the standard deviation of
    the normal density which, wrapped, has this ρ [mardia2000directional]_; at most that of uniform
    data, P/√12.

    Raises
    ------
    ValueError
        As :func:`robust_scale`.
    """
    if periods is None:
        return robust_scale(points, weights, ordered)
    mean, std = moments(points, weights)
    spread, circles = interquartile_range(points, weights, ordered), np.isfinite(periods)
    mean[circles], spread[circles] = periods[circles], 0.0
    std[circles] = _circular_deviation(points[:, circles], weights, periods[circles])
    scale = smaller_scale(mean, std, spread, points[0], len(points))
    check_size(weights)
    return scale


def _circular_deviation(points: FloatArray, weights: FloatArray, periods: FloatArray) -> FloatArray:
    shares, angles = weights / weights.sum(), 2.0 * math.pi / periods * points
    mean = np.angle(shares @ np.exp(1j * angles))
    lost = shares @ (2.0 * np.square(np.sin(0.5 * (angles - mean))))  # 1 - ρ, without cancellation
    with np.errstate(divide="ignore"):
        angle = np.sqrt(-2.0 * np.log1p(-np.minimum(lost, 1.0)))
    return np.asarray(np.minimum(angle / (2.0 * math.pi), 1.0 / math.sqrt(12.0)) * periods)


def robust_scale(
    points: FloatArray, weights: FloatArray, ordered: Sequence[FloatArray] | None = None
) -> FloatArray:
    """Return min(standard deviation, interquartile range / 1.349) per column, shape ``(dim,)``.

    Raises
    ------
    ValueError
        If a column does not vary, or the weights stand for fewer than two samples.
    """
    quartiles = interquartile_range(points, weights, ordered)
    scale = smaller_scale(*moments(points, weights), quartiles, points[0], len(points))
    check_size(weights)
    return scale


def smaller_scale(
    mean: FloatArray, std: FloatArray, quartiles: FloatArray, first: FloatArray, n: int
) -> FloatArray:
    """Return min(standard deviation, interquartile range / 1.349) per column, shape ``(dim,)``.

    Raises
    ------
    ValueError
        If a column does not vary; the message has the value of `first` there.
    """
    spread = quartiles / _QUARTILES_OF_NORMAL
    scale = np.where(spread > 0, np.minimum(std, spread), std)
    flat = np.flatnonzero(scale <= 8 * np.spacing(np.abs(mean)))  # of a rounded mean, not spread
    if len(flat):
        raise ValueError(
            f"X must vary in every column for a radius rule, got column {flat[0]} constant at "
            f"{first[flat[0]]} (n_samples = {n}); give radius as a number instead"
        )
    return np.asarray(scale)


def moments(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weighted means and standard deviations (divisor Σw) per column; no overflow."""
    shares = weights if weights.min() < weights.max() else None
    mean = np.average(points, axis=0, weights=shares)
    gap = points - mean
    size = np.maximum(gap.max(axis=0), -gap.min(axis=0))
    size[size == 0] = 1.0
    gap /= size
    np.square(gap, out=gap)
    return mean, size * np.sqrt(np.average(gap, axis=0, weights=shares))


def interquartile_range(
    points: FloatArray, weights: FloatArray, ordered: Sequence[FloatArray] | None = None
) -> FloatArray:
    """Return the weighted interquartile range per column, shape ``(dim,)``."""
    alike = None if weights.min() == weights.max() else weights  # no sort for unweighted ones
    if ordered is not None and alike is None:
        n = len(points)
        low, high = (math.ceil(share * n) - 1 for share in (0.25, 0.75))
        return np.array([column[high] - column[low] for column in ordered])
    low, high = np.quantile(points, [0.25, 0.75], axis=0, weights=alike, method="inverted_cdf")
    return np.asarray(high - low)


def grouped(points: FloatArray, weights: NDArray[_Number]) -> tuple[FloatArray, NDArray[_Number]]:
    """Return distinct points in lexical order and the total weight of each."""
    order = np.lexsort(points.T)
    points, weights = points[order], weights[order]
    first = np.append(True, np.any(np.diff(points, axis=0) != 0, axis=1))
    return points[first], np.add.reduceat(weights, np.flatnonzero(first))


def refuse_ties(sample: Standardised, most: float, rule: str) -> None:
    """Refuse a stream in which a sample has, itself among them, `most` copies or more on average.

    Ties of an array are settled, see `fourierkernels.estimators.radius.spectrum`.

    Raises
    ------
    ValueError
        With the mean number of copies and the share of samples that are not the first of theirs.
    """
    copies = sample.copies()
    if copies < most:
        return
    raise ValueError(
        f"X must have few ties for radius={rule!r}, whose radius would grow without bound: got "
        f"{copies:.3g} copies of a sample on average (at most {most:.3g}), "
        f"{sample.repeated():.0%} of the samples repeat another; use 'normal_reference' or give "
        "radius as a number"
    )


def tie_limit(kernel: Kernel, dim: int) -> float:
    """Return the mean number of copies from which least squares cross-validation diverges.

    As R grows, n · LSCV/R^D tends to c r^D - 2 (c - 1) K(0)^D, c the copies, r the roughness.
    """
    peak = float(kernel.value(0.0))
    return 2.0 / (2.0 - (kernel.roughness / peak) ** dim)
