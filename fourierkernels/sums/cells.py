"""Kernel sums over samples in cells, whose weights at a query depend on the cells of both.

Σ_i L(a, c_i) w_i y_i ∏ shape(R(x - x_i)) at a query x in the cell a. The samples of each cell are
transformed once; their modes, combined by L, serve the queries of any cell: O(n + m + a s modes)
for a cells of queries and s of samples. Where a sum is not band-limited, or faint, it is that of
all samples with the weights L w.
"""

import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.coordinates import Box, Frame
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.samples import SampleSum
from fourierkernels.sums.streamed import ModeGrid, Modes, StreamedSum


class CellSums:
    """Samples in cells, for sums with any weights of pairs of cells.

    Parameters
    ----------
    points, weights, responses, kernel, radius, method, tol, device, periods
        As for :class:`fourierkernels.sums.SampleSum`.
    cells : integer array of shape (n,)
        The cell of each sample, below `count`.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        cells: NDArray[np.intp],
        *,
        kernel: Kernel,
        radius: FloatArray,
        method: str = "auto",
        tol: float = 1e-12,
        device: str = "cpu",
        periods: FloatArray | None = None,
    ) -> None:
        self._frame = Frame(radius, periods=periods)
        self._weights, self._responses = weights, responses
        self._points = self._frame.placed(points)
        self._cells, self._count = cells, int(cells.max()) + 1
        self._there = np.unique(cells[weights > 0])
        self._kernel, self._radius, self._tol = kernel, radius, tol
        self._how: dict[str, Any] = {"method": method, "tol": tol, "device": device}
        self._whole = self._plain(weights)
        self._kept: CellModes | None = None

    def at(self, queries: FloatArray, place: NDArray[np.intp], factors: FloatArray) -> KernelSums:
        """Return the sums at queries ``(m, dim)``.

        Parameters
        ----------
        place : integer array of shape (m,)
            The row of `factors` for each query.
        factors : array of shape (a, s)
            Weights of the cells of samples.
        """
        queries, order = self._frame.placed(queries), np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(factors) + 1))
        modes, pieces = self._modes(queries), []
        for a, factor in enumerate(factors):
            rows = order[ends[a] : ends[a + 1]]
            if not len(rows):
                continue
            at = np.ascontiguousarray(queries[rows])
            if not self._counts(factor):
                pieces.append((rows, self._nothing(len(rows))))
            elif modes is None:
                pieces.append((rows, self._all(factor).at(at)))
            else:
                pieces += self._by_modes(rows, at, factor, modes)
        return KernelSums.joined(pieces)

    def _counts(self, factor: FloatArray) -> bool:
        """Return whether a sample has a weight at a cell of queries."""
        return bool((factor[self._there] > 0).any())

    def _nothing(self, m: int) -> KernelSums:
        """Return the sums over no samples at so many queries."""
        zeros = np.zeros(m)
        numerator = np.zeros((m, self._responses.shape[1]))
        return KernelSums(numerator, zeros, zeros, np.zeros(m, np.int64))

    def _by_modes(
        self, rows: NDArray[np.intp], queries: FloatArray, factor: FloatArray, modes: "CellModes"
    ) -> list[tuple[NDArray[np.intp], KernelSums]]:
        """Return the sums at queries of one cell, faint ones summed again."""
        ends = np.broadcast_to([[-math.inf], [math.inf]], (2, len(self._radius)))
        sums = StreamedSum(modes.combined(factor), modes.grid, ends, len(self._points)).at(queries)
        faint = sums.faint(self._tol)
        if not faint.any():
            return [(rows, sums)]
        clear, dim = np.flatnonzero(~faint), np.flatnonzero(faint)
        pieces = [(rows[dim], self._all(factor).at(queries[dim]))]
        return [*pieces, (rows[clear], sums.taken(clear))] if len(clear) else pieces

    def _modes(self, queries: FloatArray) -> "CellModes | None":
        """Return the modes of each cell, None if the sum is not band-limited."""
        if self._whole.plan(queries).method != "bandlimited":
            return None
        box = Box.around(self._points).including(Box.around(queries))
        # One range is kept, since each has modes of all cells; one that grew with the queries, as
        # in `SampleSum.for_blocks`, would make sums depend on earlier ones.
        if self._kept is None or self._kept.grid.box != box:
            periods = self._frame.periods
            grid = ModeGrid.covering(self._kernel, self._radius, box, self._tol, periods)
            self._kept = CellModes(grid, [self._transformed(grid, c) for c in range(self._count)])
        return self._kept

    def _transformed(self, grid: ModeGrid, cell: int) -> Modes | None:
        rows = np.flatnonzero((self._cells == cell) & (self._weights > 0))
        if not len(rows):
            return None
        points = np.ascontiguousarray(self._points[rows])
        return grid.transform(points, self._weights[rows], self._responses[rows])

    def _all(self, factor: FloatArray) -> SampleSum:
        """Return the sum of all samples for a cell of queries."""
        return self._plain(factor[self._cells] * self._weights)

    def _plain(self, weights: FloatArray) -> SampleSum:
        return SampleSum(
            self._points,
            kernel=self._kernel,
            radius=self._radius,
            weights=weights,
            responses=self._responses,
            periods=self._frame.periods,
            **self._how,
        )


class CellModes:
    """The modes of the samples of each cell, None where a cell has none.

    Cells that count at a query are combined in units that fit them, so that the digits of small
    responses are not lost to large ones that do not count there.
    """

    def __init__(self, grid: ModeGrid, cells: list[Modes | None]) -> None:
        self.grid, self._cells = grid, cells
        self._there = np.array([modes is not None for modes in cells])
        self._stacks: dict[bytes, tuple[Modes, FloatArray, ComplexArray]] = {}

    def combined(self, factor: FloatArray) -> Modes:
        """Return the modes of all samples, those of cell s with the weight ``factor[s]``."""
        counts = self._there & (factor > 0)
        key = counts.tobytes()
        if key not in self._stacks:
            some = [m for m, used in zip(self._cells, counts, strict=True) if used and m]
            total = reduce(add, some)
            weights = np.array([modes.weight for modes in some])
            values = np.stack([modes.in_units(total.units).values for modes in some])
            self._stacks[key] = total, weights, values
        total, weights, values = self._stacks[key]
        mixed = np.tensordot(factor[counts], values, 1)
        return Modes(float(weights @ factor[counts]), total.units, mixed)
