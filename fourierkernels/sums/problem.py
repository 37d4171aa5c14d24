"""The facts of a kernel sum by which a method is chosen."""

import math
from dataclasses import dataclass

import numpy as np

from fourierkernels.kernels import GaussianKernel, Kernel

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Problem:
    """Sizes, range and accuracy of a kernel sum.

    Attributes
    ----------
    n, m, dim, columns : int
        Samples, queries, dimensions, and sums per query (one more than the responses).
    bands : tuple of dim floats
        Radius times the largest difference of a query and a sample.
    tol : float
        Accuracy asked for, relative to the largest sum.
    plain : bool
        Whether the shape itself is summed, not a slope or an integral of it or a moment.
    moments : int
        How many moments are summed; 0 if none.
    """

    kernel: Kernel
    n: int
    m: int
    dim: int
    columns: int
    bands: tuple[float, ...]
    tol: float
    plain: bool = True
    moments: int = 0

    @property
    def modes(self) -> tuple[float, ...]:
        """About how many Fourier modes the band-limited sum takes, per dimension."""
        if isinstance(self.kernel, GaussianKernel):  # periodised without a window
            width = math.sqrt(2.0 * math.log(10.0 / self.tol))
            return tuple(width * (band + 1.05 * width) / math.pi + 4.0 for band in self.bands)
        extra = 4.0 * math.log(10.0 / self.tol)
        cutoff = self.kernel.cutoff
        return tuple(
            (math.sqrt(2.0 * cutoff * band) + math.sqrt(extra)) ** 2 / math.pi + 4.0
            for band in self.bands
        )

    @property
    def accuracy(self) -> float:
        """Accuracy of a band-limited sum; the phases of high modes carry rounding errors."""
        return self.tol + 0.25 * _EPS * sum(self.modes)
