"""Two ways from points to Fourier modes and back, real values on the side of the points.

:class:`Windows` spreads points to a lattice by a window of Kaiser and Bessel; an FFT takes it to
the modes, where the window's transform is divided out [barnett2019finufft]_. On the line, with more
points than cells, :class:`Moments` is cheaper: the sums of w s^a over the points of a cell, a < 8
and s their place in it, are all that exp(ikx) needs where the cell is narrow enough.

Both serve modes 0 <= k_0 < M_0/2 and |k_d| < M_d/2; those with k_0 < 0 are conjugates. Queries go
the same way in turn. FFTs skip what is zero or not needed.
"""

import math
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray
from scipy import fft, special

from fourierkernels.foundation.arrays import ComplexArray, FloatArray, IntArray
from fourierkernels.ops.cpu.spreading import Lattice, add_moments, gather, spread, sum_polynomials
from fourierkernels.sums.coordinates import Box, Grid

_DEGREES = 8  # of all polynomials here
_PARTS = 8  # of a cell, with polynomials of their own
_LANES = 8
_CACHED = 2**21  # cells of a lattice in three dimensions, beyond which its rows leave the cache
_EDGE = 16  # cells of a block's side

_Number = TypeVar("_Number", np.float64, np.complexfloating)


class Way(Protocol):
    """A way from points ``(n, dim)`` within a box to modes and back."""

    def forward(self, points: FloatArray, strengths: FloatArray) -> ComplexArray:
        """Return Σ_j c_j exp(-i k·x_j), shape ``(t, M_0/2, M_1 - 1, ...)``, of c ``(t, n)``."""

    def backward(self, points: FloatArray, halves: ComplexArray) -> FloatArray:
        """Return Σ_k f_k exp(i k·x_j), shape ``(t, m)``, of f at the modes that are kept."""


class Windows:
    """Spreading by windows.

    Parameters
    ----------
    grid : Grid
    box : Box
        Contains all points; phases are zero at its centre.
    width : int
        Cells that a window covers, at most 16.
    sizes : tuple of dim ints
        Cells per period.
    threads : int
        Of the FFTs.
    """

    def __init__(
        self,
        grid: Grid,
        box: Box,
        *,
        width: int,
        sizes: tuple[int, ...],
        threads: int,
    ) -> None:
        self._sizes, self._modes, self._threads = sizes, tuple(m for _, m in grid), threads
        lanes = _LANES * math.ceil(width / _LANES)
        steep = _steepness(sizes, self._modes, width)
        scale = np.array([size / period for size, (period, _) in zip(sizes, grid, strict=True)])
        reach = [width] * (len(grid) - 1) + [lanes]
        first, cells = _cells(scale, box, 0.5 * width - 1.0)
        shape = [int(c) + r - 1 for c, r in zip(cells, reach, strict=True)]
        self._shape = (max(shape[0], sizes[0]), *shape[1:])  # the first FFT then copies nothing
        self._lattice = Lattice(
            box.centre,
            scale,
            1.0 - 0.5 * width - first,
            _strides(self._shape),
            math.prod(self._shape),
            width,
            lanes,
            _PARTS,
            _window_table(width, lanes, steep),
        )
        self._factors = []
        for d, (size, count) in enumerate(zip(sizes, self._modes, strict=True)):
            omega = (2.0 * math.pi / size) * np.arange(1.0 - count // 2 if d else 0.0, count // 2)
            turn = np.exp(1j * omega * first[d])
            self._factors.append(turn / _window_transform(omega, width, steep))

    def forward(self, points: FloatArray, strengths: FloatArray) -> ComplexArray:
        """Return the modes of strengths ``(t, n)``."""
        values, order = np.zeros((len(strengths), *self._shape)), self._order(points)
        if order is not None:
            points, strengths = points.take(order, axis=0), strengths.take(order, axis=1)
        spread(points, strengths, self._lattice, values.reshape(-1))
        for d, size in enumerate(self._sizes):
            values = _folded(values, d + 1, size)
        modes = self._ahead(values)
        for d, factor in enumerate(self._factors):
            modes *= _along(np.conj(factor), d + 1, modes.ndim)
        return modes

    def backward(self, points: FloatArray, halves: ComplexArray) -> FloatArray:
        """Return the real sums at queries, shape ``(t, m)``."""
        scaled = halves.copy()
        for d, factor in enumerate(self._factors):
            scaled *= _along(factor, d + 1, scaled.ndim)
        values, sums = self._back(scaled), np.empty((len(halves), len(points)))
        order = self._order(points)
        if order is None:
            gather(points, self._lattice, values.reshape(-1), sums)
            return sums
        in_order = np.empty_like(sums)
        gather(points.take(order, axis=0), self._lattice, values.reshape(-1), in_order)
        sums[:, order] = in_order
        return sums

    def _order(self, points: FloatArray) -> IntArray | None:
        """Return an order of the points by blocks of cells, where that pays.

        A point touches hundreds of rows of a lattice in three dimensions; those of the point before
        are at hand.
        """
        if len(self._shape) < 3 or math.prod(self._shape) < _CACHED:
            return None
        places = (points - self._lattice.centre) * self._lattice.scale + self._lattice.shift
        counts = [-(-cells // _EDGE) for cells in self._shape]
        blocks = np.ravel_multi_index(tuple((places / _EDGE).astype(np.intp).T), counts)
        return np.argsort(blocks.astype(np.min_scalar_type(math.prod(counts))), kind="stable")

    def _ahead(self, values: FloatArray) -> ComplexArray:
        """Return the modes of values that begin at cell 0."""
        half = self._modes[0] // 2
        modes = fft.rfft(values, self._sizes[0], axis=1, workers=self._threads)[:, :half]
        for d in range(1, len(self._modes)):
            full = fft.fft(modes, self._sizes[d], axis=d + 1, workers=self._threads)
            highest = self._modes[d] // 2 - 1
            ends = (np.arange(-highest, 0) + self._sizes[d], np.arange(highest + 1))
            modes = full.take(np.concatenate(ends), axis=d + 1)
        return np.ascontiguousarray(modes)

    def _back(self, halves: ComplexArray) -> FloatArray:
        """Return the values at the cells of the box."""
        values = halves
        for d in range(len(self._modes) - 1, 0, -1):
            size, highest = self._sizes[d], self._modes[d] // 2 - 1
            wide = np.zeros((*values.shape[: d + 1], size, *values.shape[d + 2 :]), np.complex128)
            lead = (slice(None),) * (d + 1)
            wide[(*lead, slice(0, highest + 1))] = values[(*lead, slice(highest, None))]
            wide[(*lead, slice(size - highest, size))] = values[(*lead, slice(0, highest))]
            full = fft.ifft(
                wide, axis=d + 1, norm="forward", workers=self._threads, overwrite_x=True
            )
            values = _unfolded(full, d + 1, self._shape[d])
        real: FloatArray = fft.irfft(
            values, self._sizes[0], axis=1, norm="forward", workers=self._threads
        )
        return np.ascontiguousarray(_unfolded(real, 1, self._shape[0]))


class Moments:
    """Moments of cells, on the line; `cells` to the period, other parameters as of `Windows`."""

    def __init__(self, grid: Grid, box: Box, *, cells: int) -> None:
        ((period, modes),) = grid
        self._cells, self._half = cells, modes // 2
        scale = cells / period
        (first,), (self._used,) = _cells(np.array([scale]), box, 0.0)
        self._line = float(box.centre[0]), scale, -float(first)
        omega = (2.0 * math.pi / cells) * np.arange(float(self._half))
        turn = np.exp(1j * omega * (first + 0.5))
        self._factors = turn[:, None] * _exponential(0.5 * omega)  # (half, degree)

    def forward(self, points: FloatArray, strengths: FloatArray) -> ComplexArray:
        """Return the modes of strengths ``(t, n)``."""
        values = np.zeros((int(self._used), len(strengths), _DEGREES))
        add_moments(points, strengths, self._line, values.reshape(-1))
        waves = fft.rfft(_folded(values, 0, self._cells), self._cells, axis=0)[: self._half]
        return np.asarray(np.einsum("kta,ka->tk", waves, np.conj(self._factors)))

    def backward(self, points: FloatArray, halves: ComplexArray) -> FloatArray:
        """Return the real sums at queries, shape ``(t, m)``."""
        waves = np.einsum("tk,ka->kta", halves, self._factors)
        full = fft.irfft(waves, self._cells, axis=0, norm="forward")
        values = np.ascontiguousarray(_unfolded(full, 0, int(self._used)))
        sums = np.empty((len(halves), len(points)))
        sum_polynomials(points, self._line, values.reshape(-1), sums)
        return sums


# ---- boxes of cells ------------------------------------------------------------------------------


def _cells(scale: FloatArray, box: Box, before: float) -> tuple[FloatArray, IntArray]:
    """Return the first cell and the number of cells, one spare, in which points begin."""
    low, high = (scale * (np.array(end) - box.centre) - before for end in box)
    first = np.floor(low)
    return first, (np.floor(high) - first + 2.0).astype(np.int64)


def _strides(shape: tuple[int, ...]) -> IntArray:
    return np.array([math.prod(shape[d + 1 :]) for d in range(len(shape))])


def _folded(values: FloatArray, axis: int, size: int) -> FloatArray:
    """Add what lies beyond a period to what it is the same as."""
    if values.shape[axis] <= size:
        return values
    starts = range(0, values.shape[axis], size)
    moved = np.moveaxis(values, axis, 0)
    total = np.zeros((size, *moved.shape[1:]))
    for start in starts:
        piece = moved[start : start + size]
        total[: len(piece)] += piece
    return np.moveaxis(total, 0, axis)


def _unfolded(values: NDArray[_Number], axis: int, count: int) -> NDArray[_Number]:
    """Return so many values from the first on, over and over where a period has fewer."""
    size = values.shape[axis]
    if count <= size:
        return values[(slice(None),) * axis + (slice(0, count),)]
    return np.asarray(values.take(np.arange(count) % size, axis=axis))


def _along(factor: ComplexArray, axis: int, ndim: int) -> ComplexArray:
    return factor.reshape([-1 if d == axis else 1 for d in range(ndim)])


# ---- the window ----------------------------------------------------------------------------------


def _steepness(sizes: tuple[int, ...], modes: tuple[int, ...], width: int) -> float:
    """Return β: aliases of the highest mode begin where the window's transform has fallen."""
    oversampling = min(size / count for size, count in zip(sizes, modes, strict=True))
    # A little below it: errors are alike from 0.97 to 1, and grow beyond.
    return math.pi * width * (1.0 - 0.5 / oversampling) * 0.995


@lru_cache(maxsize=64)
def _window_table(width: int, lanes: int, steepness: float) -> FloatArray:
    """Return I0(β √(1 - z²)) / I0(β) over the parts of a cell, flat ``(parts, degree, lane)``."""
    nodes, to_powers = _interpolation()
    place = (np.arange(_PARTS)[:, None] + 0.5 * (1.0 + nodes)) / _PARTS  # (part, node) in the cell
    z = (np.arange(width) + 1.0 - 0.5 * width - place[..., None]) / (0.5 * width)
    root = steepness * np.sqrt(np.maximum(1.0 - z * z, 0.0))
    values = special.i0e(root) * np.exp(root - steepness) / special.i0e(steepness)
    table = np.zeros((_PARTS, _DEGREES, lanes))
    table[..., :width] = to_powers @ values
    return table.reshape(-1)


def _window_transform(omega: FloatArray, width: int, steepness: float) -> FloatArray:
    """Return the integral of the window times exp(-iωx), x in cells."""
    root = np.sqrt(steepness**2 - (0.5 * width * omega) ** 2)
    size = 0.5 * width * np.exp(root - steepness) / special.i0e(steepness)
    return np.asarray(size * -np.expm1(-2.0 * root) / root)


def _exponential(theta: FloatArray) -> ComplexArray:
    """Return coefficients of polynomials in s equal to exp(iθs) on [-1, 1], ``(..., degree)``."""
    nodes, to_powers = _interpolation()
    return np.asarray(np.exp(1j * np.multiply.outer(theta, nodes)) @ to_powers.T)


@lru_cache(maxsize=1)
def _interpolation() -> tuple[FloatArray, FloatArray]:
    """Return Chebyshev's nodes, and the matrix from values there to coefficients of powers."""
    nodes = chebyshev.chebpts1(_DEGREES)
    return nodes, np.asarray(np.linalg.inv(polynomial.polyvander(nodes, _DEGREES - 1)))
