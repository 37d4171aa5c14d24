"""The facts of a kernel sum by which a method is chosen."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fourierkernels.kernels import FourierKernel, GaussianKernel, Kernel
from fourierkernels.ops.shapes import Shape
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.series import ramp_band

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Bulk:
    """A box around most samples and queries.

    Attributes
    ----------
    box : Box
    samples, queries : int
        How many lie outside, about.
    bands : tuple of dim floats
        Radius times the sides of the box.
    """

    box: Box
    samples: int
    queries: int
    bands: tuple[float, ...]


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
    cells : int
        How many centres direct sums take to reach the tolerance at all queries.
    bulk : Bulk, optional
        Where a sum may be band-limited when a few outliers are summed directly.
    circles : tuple of dim floats
        Radius times period, infinite for a dimension that is a line; empty if all are.
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
    cells: int = 1
    bulk: Bulk | None = None
    circles: tuple[float, ...] = ()

    @cached_property
    def modes(self) -> tuple[float, ...]:
        """About how many Fourier modes the band-limited sum takes, per dimension."""
        around = self.circles or (math.inf,) * self.dim
        lines = zip(self._modes_of_lines, around, strict=True)
        return tuple(
            line if math.isinf(circle) else self.kernel.cutoff * circle / math.pi + 2.0
            for line, circle in lines
        )

    @property
    def _modes_of_lines(self) -> tuple[float, ...]:
        if isinstance(self.kernel, GaussianKernel):  # periodised without a window
            width = math.sqrt(2.0 * math.log(10.0 / self.tol))  # of a series to tol / 10
            return tuple(width * (band + 1.05 * width) / math.pi + 4.0 for band in self.bands)
        extra = ramp_band(0.1 * self.tol)
        cutoff = self.kernel.cutoff
        return tuple(
            (math.sqrt(2.0 * cutoff * band) + math.sqrt(extra)) ** 2 / math.pi + 4.0
            for band in self.bands
        )

    @property
    def inside(self) -> "Problem":
        """The problem of the samples and queries within the bulk; all if there is none."""
        if self.bulk is None:
            return self
        n, m = self.n - self.bulk.samples, self.m - self.bulk.queries
        return replace(self, n=n, m=m, bands=self.bulk.bands, bulk=None)

    @property
    def accuracy(self) -> float:
        """Accuracy of a band-limited sum; the phases of high modes carry rounding errors."""
        return self.tol + 0.25 * _EPS * sum(self.modes)


_LARGEST_POWER = 512  # exponents of compiled products are 32-bit integers


def compiled_refusal(kernel: Kernel) -> str:
    """Return why the compiled loops cannot do this kernel, or an empty string."""
    if isinstance(kernel, GaussianKernel):
        return ""
    if not isinstance(kernel, FourierKernel):
        return f"has no compiled form of kernel {kernel.name}"
    return "" if kernel.power <= _LARGEST_POWER else f"has powers up to {_LARGEST_POWER}"


def compiled_shape(kernel: Kernel) -> Shape:
    """Return the shape as the loops take it.

    Raises
    ------
    TypeError
        For kernels without a compiled form, which :func:`compiled_refusal` names.
    """
    if isinstance(kernel, GaussianKernel):
        return Shape(gaussian=True, power=1)
    if not isinstance(kernel, FourierKernel):
        raise TypeError(f"kernel must be gaussian or a power of the sinc, got {kernel!r}")
    return Shape(gaussian=False, power=kernel.power)
