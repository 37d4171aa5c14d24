"""Coordinates of a kernel sum: its frame, the range of its data, and where they are centred.

A difference u of a query and a sample, both scaled and relative to a centre, carries the rounding
of the two coordinates: δu <= ε(|u| + 2|q|), q the query's. For the kernels that are compiled
(Gaussian and powers of the sinc) |u shape'(u)| < 1.1 and |shape'| < 0.6 √l, so a term at a query
with |q| <= limit errs by less than ε(4 + 4 √l limit) per dimension, times its weight. How far the
samples lie from the centre does not matter; nor |q| does where |u| is at least half of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.kernels.periodic import kernels_along, wrapped

Grid = tuple[tuple[float, int], ...]  # period and number of Fourier modes, even, per dimension

_EPS = float(np.finfo(float).eps)
_LOOKED_AT = 4096  # rows whose median stands for that of all


@dataclass(frozen=True)
class Frame:
    """Where points lie for a kernel sum, and its radius there.

    Attributes
    ----------
    radius : array of shape (dim,)
        In the coordinates of the frame: R, or ones for a matrix.
    matrix : array of shape (dim, dim), optional
        R, if it is a matrix.
    centre : array of shape (dim,), optional
    periods : array of shape (dim,), optional
        Infinite where a dimension is no circle; beside a vector R only.

    Examples
    --------
    >>> frame = Frame.of(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [2.0, 4.0]]))
    >>> frame.placed(np.array([[1.0, 2.0], [2.0, 2.0]]))
    array([[0., 0.],
           [2., 0.]])
    """

    radius: FloatArray
    matrix: FloatArray | None = None
    centre: FloatArray | None = None
    periods: FloatArray | None = None

    @classmethod
    def of(
        cls, radius: FloatArray, points: FloatArray, periods: FloatArray | None = None
    ) -> "Frame":
        """Return the frame of a radius of shape ``(dim,)`` or ``(dim, dim)`` for these points."""
        if radius.ndim == 1:
            return cls(radius, periods=periods)
        centre = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)
        return cls(np.ones(len(radius)), radius, centre)

    def placed(self, points: FloatArray) -> FloatArray:
        """Return points of shape ``(n, dim)`` in the coordinates of the frame, contiguous.

        Those on a circle are wrapped into one period.
        """
        if self.matrix is None or self.centre is None:
            return wrapped(points, self.periods)
        return np.ascontiguousarray((points - self.centre) @ self.matrix.T)

    def kernels(self, kernel: Kernel) -> Sequence[Kernel]:
        """Return the kernel of each dimension: on a circle its sum over images."""
        return kernels_along(kernel, self.radius, self.periods)

    @property
    def circles(self) -> tuple[float, ...]:
        """Radius times period per dimension, infinite for a line; empty if all are lines."""
        if self.periods is None or not np.isfinite(self.periods).any():
            return ()
        return tuple(map(float, self.radius * self.periods))

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """Return derivatives in x from those in the frame, along the last axis: the chain rule."""
        return slopes if self.matrix is None else np.asarray(slopes @ self.matrix)

    @property
    def log_determinant(self) -> float:
        """Return log |det R| of a matrix, 0 for a vector, whose scale the sums' radius has."""
        return 0.0 if self.matrix is None else float(np.linalg.slogdet(self.matrix)[1])


class Box(NamedTuple):
    """Lower and upper ends per dimension; hashable, so that what was prepared for it can be kept.

    Examples
    --------
    >>> Box.around(np.array([[0.0], [2.0]])).including(Box((1.0,), (3.0,)))
    Box(low=(0.0,), high=(3.0,))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def around(cls, points: FloatArray) -> "Box":
        """Return the smallest box around points of shape ``(n, dim)``."""
        # One column at a time is fastest.
        low = tuple(float(column.min()) for column in points.T)
        return cls(low, tuple(float(column.max()) for column in points.T))

    @property
    def spans(self) -> FloatArray:
        """Lengths of the sides, shape ``(dim,)``; infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.subtract(self.high, self.low)

    @property
    def centre(self) -> FloatArray:
        """Middle of the sides, shape ``(dim,)``, without overflow."""
        return 0.5 * np.array(self.low) + 0.5 * np.array(self.high)

    def holds(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return which points of shape ``(n, dim)`` lie in the closed box, shape ``(n,)``."""
        inside = np.ones(len(points), bool)
        for column, low, high in zip(points.T, self.low, self.high, strict=True):
            inside &= (column >= low) & (column <= high)
        return inside

    def contains(self, other: "Box") -> bool:
        """Return whether no end of `other` lies outside."""
        below = all(mine <= end for mine, end in zip(self.low, other.low, strict=True))
        return below and all(mine >= end for mine, end in zip(self.high, other.high, strict=True))

    def including(self, other: "Box", *, spare: float = 0.0) -> "Box":
        """Return the smallest box around both; ends that move, move by `spare` sides more."""
        extra = [spare * float(span) for span in self.spans] if spare else [0.0] * len(self.low)
        low = zip(self.low, other.low, extra, strict=True)
        high = zip(self.high, other.high, extra, strict=True)
        return Box(
            tuple(end - more if end < mine else mine for mine, end, more in low),
            tuple(end + more if end > mine else mine for mine, end, more in high),
        )


class Product(NamedTuple):
    """Points that are all combinations of the values of one axis per dimension.

    Attributes
    ----------
    axes : list of dim arrays
    order : tuple of dim ints
        Dimensions from the one that changes most slowly to the one that changes most quickly.
    """

    axes: list[FloatArray]
    order: tuple[int, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the axes."""
        return tuple(map(len, self.axes))


def product_axes(points: FloatArray) -> Product | None:
    """Return the axes whose combinations points ``(m, dim)`` are, exactly and in order, dim > 1.

    Examples
    --------
    >>> x, y = np.meshgrid([0.0, 1.0, 4.0], [2.0, 3.0])
    >>> found = product_axes(np.column_stack([x.ravel(), y.ravel()]))
    >>> found.order, found.lengths
    ((1, 0), (3, 2))
    """
    m, dim = points.shape
    runs = [_first_run(column) for column in points.T]
    order = tuple(sorted(range(dim), key=lambda d: -runs[d]))
    ordered = [m, *(runs[d] for d in order)]
    if dim == 1 or ordered[-1] != 1 or ordered[1] == 1:
        return None  # scattered: no value comes twice in a row
    if any(slow % quick for slow, quick in pairwise(ordered)):
        return None
    lengths = [slow // quick for slow, quick in pairwise(ordered)]
    values, axes = points.reshape(*lengths, dim), [np.empty(0)] * dim
    for place, d in enumerate(order):
        first = tuple(slice(None) if other == place else slice(1) for other in range(dim))
        if not np.array_equal(values[..., d], np.broadcast_to(values[(*first, d)], lengths)):
            return None
        axes[d] = values[(*first, d)].ravel()
    return Product(axes, order)


def _first_run(column: FloatArray) -> int:
    """Return how many values at the start are equal."""
    others = column != column[0]
    return int(np.argmax(others)) or len(column)


def middle(rows: FloatArray) -> FloatArray:
    """Return a centre that outliers do not move: the lower median of each column, ``(n, k)``.

    Of long columns it is the median of every so-manieth row.
    """
    some = rows[:: -(-len(rows) // _LOOKED_AT) or 1]
    return np.asarray(np.quantile(some, 0.5, axis=0, method="lower"))


def steepness(kernel: Kernel) -> float:
    """Return √l for the power l of a sinc, 1 for the Gaussian: |d shape/du| <= 0.6 of it."""
    return math.sqrt(getattr(kernel, "power", 1))


def centring_limit(kernel: Kernel, dim: int, tol: float) -> float:
    """Return the largest scaled coordinate of a query at which a direct sum reaches `tol`."""
    return tol / (4.0 * _EPS * steepness(kernel) * dim)


def count_cells(scaled: FloatArray, limit: float, m: int) -> int:
    """Return about how many centres m queries take, from some of them, ``(s, dim)`` and scaled."""
    if scaled.max() - scaled.min() <= limit:
        return 1
    cells = len(np.unique(np.floor(scaled / limit), axis=0))
    return cells if 2 * cells < len(scaled) else math.ceil(cells * m / len(scaled))
