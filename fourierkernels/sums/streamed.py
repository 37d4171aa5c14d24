"""Kernel sums over samples that are not kept: their modes are, and these add up block by block.

The type-1 transform of a band-limited sum is linear in the samples. On a grid that is fixed by
kernel, radius, range and accuracy, the transform of all samples is the sum of those of the blocks,
however they are cut, and the sum at any query in that range is a series in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.kernels import GaussianKernel, Kernel
from fourierkernels.sums.bandlimited import BandlimitedSum
from fourierkernels.sums.circle import series_of
from fourierkernels.sums.coordinates import Box, Frame, Grid
from fourierkernels.sums.plan import Plan, plan_sum
from fourierkernels.sums.problem import Problem
from fourierkernels.sums.result import KernelSums, Units
from fourierkernels.sums.samples import SampleSum, check_range
from fourierkernels.sums.series import Series
from fourierkernels.sums.transforms import largest_on_lattice

_TINY = float(np.finfo(float).tiny)
_WINDOWED = (
    2  # dimensions up to which the Gaussian is windowed: its integral has the same grid then
)


class SamplesNotKeptError(AttributeError, ValueError):
    """What was asked for needs the samples, of which a stream leaves only the modes."""


@dataclass(frozen=True)
class ModeGrid:
    """The modes that a kernel sum over samples and queries in a box takes.

    Attributes
    ----------
    kernel : Kernel
    radius : tuple of dim floats
    box : Box
        Contains all samples (images beyond bounds too) and all queries.
    tol : float
        Accuracy relative to the largest sum.
    windowed : bool
        Whether a Gaussian is windowed as other kernels are, for a grid that serves its integral.
    periods : tuple of dim floats
        Infinite for a dimension that is a line.
    """

    kernel: Kernel
    radius: tuple[float, ...]
    box: Box
    tol: float
    windowed: bool
    periods: tuple[float, ...]

    @classmethod
    def covering(
        cls,
        kernel: Kernel,
        radius: FloatArray,
        box: Box,
        tol: float,
        periods: FloatArray | None = None,
    ) -> "ModeGrid":
        """Return the grid for a box; the Gaussian is windowed in one and two dimensions."""
        ends = tuple(map(float, check_range(radius)))
        around = (math.inf,) * len(ends) if periods is None else tuple(map(float, periods))
        return cls(kernel, ends, box, tol, len(radius) <= _WINDOWED, around)

    def plan(self, n: int, columns: int) -> Plan:
        """Return the plan for as many queries as samples, `columns` sums each.

        Raises
        ------
        ValueError
            If the sum cannot be band-limited, with the reason.
        """
        with np.errstate(over="ignore"):
            bands = tuple(map(float, np.multiply(self.radius, self.box.spans)))
        if not max(bands) < math.inf:
            raise ValueError(f"X must have a finite range, got {self.box}")
        circles = self.frame.circles
        problem = Problem(self.summed, n, n, len(bands), columns, bands, self.tol, circles=circles)
        try:
            return plan_sum(problem, "bandlimited")
        except ValueError as error:
            raise ValueError(f"{error}; a stream has no other method, an array has") from error

    def transform(self, points: FloatArray, weights: FloatArray, responses: FloatArray) -> "Modes":
        """Return the modes of samples ``(n, dim)``, weights ``(n,)`` and responses ``(n, k)``."""
        self.plan(len(points), 1 + responses.shape[1])  # refuses what would not fit
        units = _tight(Units.of(responses), responses)
        sums = BandlimitedSum(points, weights, units.removed(responses), **self.options)
        return Modes(float(weights.sum()), units, sums.transformed(self.grid))

    def over(self, dims: tuple[int, ...]) -> "ModeGrid":
        """Return the grid in some of the dimensions."""
        ends = (tuple(end[d] for d in dims) for end in self.box)
        radius, periods = (tuple(each[d] for d in dims) for each in (self.radius, self.periods))
        return ModeGrid(self.kernel, radius, Box(*ends), self.tol, self.windowed, periods)

    @cached_property
    def grid(self) -> Grid:
        """Period and number of modes per dimension."""
        return tuple((each.period, len(each.coefficients)) for each in self.series)

    @cached_property
    def series(self) -> list[Series]:
        """The series of the kernel itself, per dimension."""
        each = zip(self.radius, self.box.spans, self.periods, strict=True)
        return [
            series_of(self.summed, r, float(s), p, tol=self.tol, part="value", moment=0)
            for r, s, p in each
        ]

    @property
    def summed(self) -> Kernel:
        """The kernel as its series is made."""
        if self.windowed and isinstance(self.kernel, GaussianKernel):
            return cast("Kernel", _Windowed(self.kernel))
        return self.kernel

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the band-limited sum."""
        frame = self.frame
        arrays = {"radius": frame.radius, "periods": frame.periods}
        return {"kernel": self.summed, **arrays, "box": self.box, "tol": self.tol}

    @property
    def frame(self) -> Frame:
        """Where points lie."""
        return Frame(np.array(self.radius), periods=np.array(self.periods))


@dataclass(frozen=True)
class Modes:
    """Σ w exp(-ik·x) and, per response, Σ w z exp(-ik·x), y = centre + scale z; they add up.

    The sums are of real numbers, so that half of the modes tells the others.

    Attributes
    ----------
    weight : float
        Σ w.
    units : Units
        Of the k responses. Each block brings its own, and a sum of two has units that fit both:
        the modes of w move a centre exactly, so that a large mean costs no digits.
    values : complex array of shape (1 + k, half, *others)
        At modes 0, 1, ... of the first dimension, and at -m, ..., m of the others.
    """

    weight: float
    units: Units
    values: ComplexArray

    def __add__(self, other: "Modes") -> "Modes":
        """Return the modes of the samples of both."""
        units = _common(self, other)
        values = self.in_units(units).values + other.in_units(units).values
        return Modes(self.weight + other.weight, units, values)

    def in_units(self, units: Units) -> "Modes":
        """Return the same modes with responses in other units."""
        if len(self.values) == 1:
            return self
        shape = (-1, *[1] * (self.values.ndim - 1))
        scale, centre = np.asarray(units.scale), np.asarray(units.centre)
        factor = (np.asarray(self.units.scale) / scale).reshape(shape)
        shift = ((np.asarray(self.units.centre) - centre) / scale).reshape(shape)
        moved = factor * self.values[1:] + shift * self.values[:1]
        return Modes(self.weight, units, np.concatenate([self.values[:1], moved]))

    def over(self, dims: tuple[int, ...], *, with_responses: bool) -> "Modes":
        """Return the modes of the coordinates in some dimensions: those with k = 0 in others."""
        values = self.values if with_responses else self.values[:1]
        units = self.units if with_responses else Units(np.zeros(0), np.ones(0))
        for d in range(values.ndim - 2, -1, -1):
            if d not in dims:
                zero = 0 if d == 0 else values.shape[d + 1] // 2
                values = np.asarray(values.take(zero, axis=d + 1))
        if 0 not in dims:
            values = values[:, values.shape[1] // 2 :]
        return Modes(self.weight, units, values)


class StreamedSum(SampleSum):
    """The kernel sum of samples of which only the modes are known.

    Sums at queries, slopes and integrals are those of :class:`SampleSum`, but for rows whose
    denominator is faint: without samples they cannot be summed again, and keep few digits.

    Parameters
    ----------
    modes : Modes
    grid : ModeGrid
    bounds : array of shape (2, dim)
        Queries beyond are summed at the bound; estimators have no use for the answer there.
    n : int
        Number of samples.
    """

    def __init__(self, modes: Modes, grid: ModeGrid, bounds: FloatArray, n: int) -> None:
        self.kernel, self.radius, self.tol = grid.kernel, np.array(grid.radius), grid.tol
        self.weights, self.units = np.array([modes.weight]), modes.units
        self._frame = grid.frame
        self.method, self.device, self.expected = "bandlimited", "cpu", n
        self._modes, self._grid, self._bounds, self._n = modes, grid, bounds, n
        self._series_sum = _SeriesSum(modes, grid)

    def over(self, dims: tuple[int, ...] | None, *, with_responses: bool) -> "StreamedSum":
        """Return the sum over some dimensions of the same samples."""
        some = tuple(range(len(self.radius))) if dims is None else dims
        modes = self._modes.over(some, with_responses=with_responses)
        return StreamedSum(modes, self._grid.over(some), self._bounds[:, list(some)], self._n)

    def for_blocks(self, expected: int) -> "SampleSum":
        """Return this sum, which prepares nothing for its queries."""
        return self

    def plan(self, queries: FloatArray, *, plain: bool = True) -> Plan:
        """Return the plan; sums of a stream are always band-limited."""
        return self._grid.plan(self._n, len(self._modes.values))

    def _method_for(self, queries: FloatArray, *, plain: bool) -> str:
        return self.method

    def left_out(
        self, queries: FloatArray, own: FloatArray, owners: NDArray[np.intp]
    ) -> KernelSums:
        """Refuse: the samples are gone.

        Raises
        ------
        SamplesNotKeptError
        """
        raise SamplesNotKeptError("left_out must have samples, got the modes of a stream")

    def _summed(self, method: str, queries: FloatArray, names: tuple[str, ...]) -> KernelSums:
        inside = np.clip(queries, *self._bounds)
        check_covered(inside, self._grid.box)
        sums = self._series_sum.at(inside, names)
        return KernelSums(sums.in_units, sums.denominator, sums.error, sums.exponent, self.units)

    def _summed_all(
        self,
        method: str,
        queries: FloatArray,
        names: list[tuple[str, ...]],
        alone: Sequence[tuple[str, ...]] = (),
    ) -> list[KernelSums]:
        return [self._summed(method, queries, each) for each in [*names, *alone]]

    def _faint(self, sums: KernelSums, method: str) -> NDArray[np.intp]:
        return np.zeros(0, np.intp)


class _SeriesSum(BandlimitedSum):
    """A band-limited sum whose type-1 transform is known on one grid."""

    def __init__(self, modes: Modes, grid: ModeGrid) -> None:
        none = np.zeros((0, len(grid.radius)))
        responses = np.zeros((0, len(modes.values) - 1))
        super().__init__(none, np.zeros(0), responses, **grid.options)
        self._spectra = {grid.grid: modes.values}
        self._series = {(("value",) * len(grid.radius), 0): grid.series}
        self._peaks: dict[tuple[str, ...], float] = {}

    def _largest(self, sums: FloatArray, halves: ComplexArray, parts: tuple[str, ...]) -> float:
        """Return the largest sum of all: faint sums do not come again, whoever asks for them."""
        if parts not in self._peaks:
            self._peaks[parts] = largest_on_lattice(halves)
        return self._peaks[parts]

    def transformed(self, grid: Grid) -> ComplexArray:
        raise SamplesNotKeptError(
            "the integral of the Gaussian must have samples in three dimensions, got the modes of "
            "a stream; fit an array"
        )


class _Windowed:
    """A Gaussian whose series is windowed like that of any other kernel."""

    def __init__(self, kernel: GaussianKernel) -> None:
        self._kernel = kernel
        self.support = kernel.cutoff

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_kernel"], name)


def check_covered(queries: FloatArray, box: Box) -> None:
    """Refuse queries beyond the range for which modes were summed.

    Raises
    ------
    ValueError
        With the first such row, its column and its value.
    """
    outside = (queries < box.low) | (queries > box.high)
    if not outside.any():
        return
    row, column = (int(i) for i in np.argwhere(outside)[0])
    raise ValueError(
        f"X must lie in the range that the stream was summed for, [{box.low[column]:.6g}, "
        f"{box.high[column]:.6g}] in column {column}, got {queries[row, column]:.6g} in row {row} "
        f"({int(outside.any(axis=1).sum())} such rows); fit with within=[(low, high), ...]"
    )


def _tight(units: Units, responses: FloatArray) -> Units:
    """Give a column without spread the smallest scale, so that it sets none in a sum."""
    flat = np.ptp(responses, axis=0) == 0
    return Units(
        units.centre, np.where(flat & (units.removed(responses)[0] == 0), _TINY, units.scale)
    )


def _common(one: Modes, other: Modes) -> Units:
    """Return units for the samples of both, by the rule of :meth:`Units.of`."""
    share = one.weight / (one.weight + other.weight)
    centres = np.array([one.units.centre, other.units.centre])  # (2, k)
    scales = np.array([one.units.scale, other.units.scale])
    middle = share * centres[0] + (1.0 - share) * centres[1]
    size = np.maximum(np.abs(centres), scales).max(axis=0)
    with np.errstate(over="ignore"):
        spread = np.maximum(np.abs(centres - middle), scales).max(axis=0)
    centred = spread < 0.5 * size
    largest = np.where(centred, spread, size)
    scale = np.ldexp(1.0, np.frexp(largest)[1] - 1)
    return Units(np.where(centred, middle, 0.0), np.maximum(scale, _TINY))
