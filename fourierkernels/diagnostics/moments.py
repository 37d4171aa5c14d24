"""Mean and standard deviation of a stream of arrays, and the interval of a mean over texts.

Intervals are Student's t, on one value per text. A percentile bootstrap of few texts is too narrow:
of two normal values it covers the mean in 51 % of all cases, of five in 84 %.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

LEVEL = 0.95
LEAST_TEXTS = 3  # two values have one gap, which cannot tell a spread
State = Mapping[str, Any]  # what was taken in: arrays, numbers, strings, and lists of them

DDOF = 1  # every standard deviation of this package divides by (count - 1)


class RunningMoments:
    """Mean and squared deviations of arrays of one shape, one array at a time (Welford)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: FloatArray = np.zeros(())
        self.scatter: FloatArray = np.zeros(())  # Σ (x - mean)²

    def add(self, values: FloatArray) -> None:
        """Take in one more array."""
        self.count += 1
        step = values - self.mean
        self.mean = self.mean + step / self.count
        self.scatter = self.scatter + step * (values - self.mean)

    def std(self) -> FloatArray:
        """Return the standard deviation of each element; NaN from a single array."""
        return standard_deviation(self.scatter, self.count)

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        return {"count": self.count, "mean": self.mean, "scatter": self.scatter}

    def merge(self, state: State) -> None:
        """Take in what another one has taken in [chan1983algorithms]_."""
        total = self.count + state["count"]
        if state["count"] == 0:
            return
        step, share = state["mean"] - self.mean, state["count"] / total
        self.mean = self.mean + step * share
        self.scatter = self.scatter + state["scatter"] + step**2 * (self.count * share)
        self.count = total


def standard_deviation(scatter: FloatArray, count: int) -> FloatArray:
    """Return sqrt(scatter / (count - ddof)); NaN where nothing is left to divide by."""
    free = count - DDOF
    return np.sqrt(scatter / free) if free > 0 else np.full_like(scatter, math.nan)


def t_quantile(freedom: float | FloatArray, level: float) -> FloatArray:
    """Return the half-width of the central interval of Student's t, in standard errors."""
    from scipy.special import stdtrit  # slow to import

    return np.asarray(stdtrit(freedom, (1 + level) / 2), np.float64)


def t_interval(
    mean: FloatArray, std: FloatArray, count: int, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the t interval of a mean of `count` independent values.

    Parameters
    ----------
    mean, std : ndarray
        Of the values, the latter with ddof = 1.
    count : int
        Fewer than :data:`LEAST_TEXTS` give no interval: both ends are NaN.

    Examples
    --------
    >>> [round(float(end), 3) for end in t_interval(np.array(2.0), np.array(1.0), 3)]
    [-0.484, 4.484]
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if count < LEAST_TEXTS:
        return np.full_like(mean, math.nan), np.full_like(mean, math.nan)
    half = t_quantile(count - 1, level) * std / math.sqrt(count)
    return mean - half, mean + half


def mean_interval(values: FloatArray, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the t interval of the mean of values ``(T, ...)`` over their first axis.

    Examples
    --------
    >>> mean_interval(np.ones((2, 1)))
    (array([nan]), array([nan]))
    """
    count, mean = len(values), values.mean(axis=0)
    std = standard_deviation(np.square(values - mean).sum(axis=0), count)
    return t_interval(mean, std, count, level)
