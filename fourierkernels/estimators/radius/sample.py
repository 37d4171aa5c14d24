"""A weighted sample as the radius rules see it: its size, scale, ties, and standard form."""

from dataclasses import dataclass

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.weights import check_size, effective_size
from fourierkernels.kernels import Kernel

_QUARTILES_OF_NORMAL = 1.3489795003921634  # interquartile range of N(0, 1)


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
    """

    points: FloatArray
    weights: FloatArray
    size: float
    scale: FloatArray

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.points.shape[1])


def standardise(points: FloatArray, weights: FloatArray) -> Sample:
    """Return the sample in standard form.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    scale = robust_scale(points, weights)
    kept = weights > 0
    points, weights = points[kept], weights[kept]
    middle = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)
    return Sample(
        points / scale - middle / scale, weights / weights.sum(), effective_size(weights), scale
    )


def robust_scale(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return min(standard deviation, interquartile range / 1.349) per column, shape ``(dim,)``.

    Raises
    ------
    ValueError
        If a column does not vary, or the weights stand for fewer than two samples.
    """
    mean, std = moments(points, weights)
    spread = interquartile_range(points, weights) / _QUARTILES_OF_NORMAL
    scale = np.where(spread > 0, np.minimum(std, spread), std)
    flat = np.flatnonzero(scale <= np.abs(mean) * 1e-14)
    if len(flat):
        raise ValueError(
            f"X must vary in every column for a radius rule, got column {flat[0]} constant at "
            f"{points[0, flat[0]]} (n_samples = {len(points)}); give radius as a number instead"
        )
    check_size(weights)
    return np.asarray(scale)


def moments(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weighted means and standard deviations (divisor Σw) per column; no overflow."""
    mean = np.average(points, axis=0, weights=weights)
    gap = points - mean
    size = np.abs(gap).max(axis=0)
    size[size == 0] = 1.0
    return mean, size * np.sqrt(np.average(np.square(gap / size), axis=0, weights=weights))


def interquartile_range(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted interquartile range per column, shape ``(dim,)``."""
    alike = None if (weights == weights[0]).all() else weights  # unweighted quantiles need no sort
    low, high = np.quantile(points, [0.25, 0.75], axis=0, weights=alike, method="inverted_cdf")
    return np.asarray(high - low)


def copies(sample: Sample) -> float:
    """Return n Σ_g p_g², p_g the share of the g-th distinct point: 1 without ties.

    It is the mean number of samples, itself among them, that coincide with a sample.
    """
    if (np.diff(np.sort(sample.points[:, 0])) > 0).all():  # one fast sort settles most samples
        return float(sample.size * (sample.weights @ sample.weights))
    order = np.lexsort(sample.points.T)
    points, weights = sample.points[order], sample.weights[order]
    first = np.append(True, np.any(np.diff(points, axis=0) != 0, axis=1))
    shares = np.add.reduceat(weights, np.flatnonzero(first))
    return float(sample.size * (shares @ shares))


def tie_limit(kernel: Kernel, dim: int) -> float:
    """Return the mean number of copies from which least squares cross-validation diverges.

    As R grows, n · LSCV/R^D tends to c r^D - 2 (c - 1) K(0)^D, c the copies, r the roughness.
    """
    peak = float(kernel.value(0.0))
    return 2.0 / (2.0 - (kernel.roughness / peak) ** dim)
