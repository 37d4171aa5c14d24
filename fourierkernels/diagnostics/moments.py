"""Mean and standard deviation of a stream of arrays, in memory that does not grow with it."""

import math

import numpy as np

from fourierkernels.arrays import FloatArray

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


def standard_deviation(scatter: FloatArray, count: int) -> FloatArray:
    """Return sqrt(scatter / (count - ddof)); NaN where nothing is left to divide by."""
    free = count - DDOF
    return np.sqrt(scatter / free) if free > 0 else np.full_like(scatter, math.nan)
