"""Mean and standard deviation of a stream of arrays, in memory that does not grow with it."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

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
