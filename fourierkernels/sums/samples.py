"""A kernel sum whose samples are fixed; its arrays are checked already."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.device import check_device
from fourierkernels.foundation.validation import check_number
from fourierkernels.kernels import Kernel
from fourierkernels.sums.coordinates import Box, Frame
from fourierkernels.sums.parts import check_parts, moment_parts, multi_indices, slopes
from fourierkernels.sums.plan import METHODS, Method, Plan, Summer
from fourierkernels.sums.planning import Planner
from fourierkernels.sums.reference import ReferenceSum
from fourierkernels.sums.result import KernelSums, MomentSums, Units

_RADII = (1e-100, 1e100)
_LOST = 1e-3  # of a term that is subtracted: what is left has lost so many of its digits


class SampleSum:
    """Samples, weights and responses, prepared once for any queries.

    What depends on the samples alone is computed for the first queries and kept: the type-1
    transform of the band-limited sum, the tiles of the direct one. Memory is O(n + modes) besides
    each block. What is returned never depends on the queries of earlier calls.

    Parameters
    ----------
    points : array of shape (n, dim)
        Like all arrays here, contiguous float64, finite and of matching shape.
    kernel : Kernel
    radius : array of shape (dim,) or (dim, dim)
        With a matrix, the points and all queries are mapped by it, and the sums see radius 1.
    weights : array of shape (n,)
    responses : array of shape (n, k)
    method, tol
        As for :func:`fourierkernels.sums.kernel_sum`.
    expected : int
        How many queries are expected in all, for the choice of the method.
    device : str
        "cpu", or "cuda" or "cuda:<index>" for sums by the operator of attention, in double
        precision; rows whose denominator is faint are summed again on the CPU.
    periods : array of shape (dim,), optional
        Of dimensions that are circles, infinite for the others: the kernel there is the sum over
        its images a period apart. Points and queries may lie in any period.

    Raises
    ------
    ValueError, ImportError
        For a radius outside [1e-100, 1e100], a `tol` out of range or a device that is not there.
    """

    def __init__(
        self,
        points: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        method: str = "auto",
        tol: float = 1e-12,
        expected: int = 1,
        device: str = "cpu",
        periods: FloatArray | None = None,
    ) -> None:
        self.device = check_device(device)
        self._frame = Frame.of(radius, points, periods)
        points, radius = self._frame.placed(points), self._frame.radius
        # A point without weight must set neither the scale of a row nor a range.
        every = bool(weights.min() > 0)
        used = slice(None) if every else weights > 0
        self.points, self.weights = points, weights
        self.units = Units.of(responses[used])
        self.responses = self.units.removed(responses)
        self.kernel, self.radius = kernel, check_range(radius)
        self.method, self.tol, self.expected = method, check_tolerance(tol), expected
        samples = points, weights, self.responses
        self._used = samples if every else tuple(array[used] for array in samples)
        self._planner = Planner(
            points,
            self._used[0],
            kernel=kernel,
            radius=self.radius,
            tol=self.tol,
            columns=1 + responses.shape[1],
            method=_named_method(method, self.device),
            expected=expected,
            circles=self._frame.circles,
        )
        self._summers: dict[tuple[str, Box | None], Summer] = {}

    @cached_property
    def _used_places(self) -> NDArray[np.intp]:
        """The samples that have a weight."""
        return np.flatnonzero(self.weights > 0)

    @property
    def frame(self) -> Frame:
        """Where points lie for this sum."""
        return self._frame

    def for_blocks(self, expected: int) -> "SampleSum":
        """Return this sum for a series of blocks, `expected` queries in all.

        A block beyond the range of those before widens the range of a band-limited sum by a
        quarter more than it takes, so that a drifting series needs few transforms. What is
        prepared is shared with this sum.
        """
        other = copy.copy(self)
        other.expected, other._planner = expected, self._planner.for_blocks(expected)
        return other

    def plan(self, queries: FloatArray, *, plain: bool = True) -> Plan:
        """Return the method for these queries; `plain` unless slopes or integrals are summed."""
        return self._planner.plan(self._frame.placed(queries), plain=plain)

    def at(
        self, queries: FloatArray, *, parts: tuple[str, ...] | None = None, refine: bool = True
    ) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)``; options as for `kernel_sum`."""
        names = parts or check_parts(None, len(self.radius))
        plain = set(names) == {"value"}
        queries = self._frame.placed(queries)
        method = self._method_for(queries, plain=plain)
        sums = self._summed(method, queries, names)
        if not (plain and refine):
            return sums
        rows = self._faint(sums, method)
        return self._summed_exactly(sums, rows, queries[rows], names) if len(rows) else sums

    def to_divide(
        self, queries: FloatArray, whole: KernelSums, *, parts: tuple[str, ...]
    ) -> KernelSums:
        """Return the sums of parts at queries of shape ``(m, dim)``, to be divided by `whole`.

        Rows whose error is above √tol of its denominators are summed exactly: unlike a sum of
        shapes, one of integrals does not show by its own size that the ratio has few digits.
        """
        queries = self._frame.placed(queries)
        method = self._method_for(queries, plain=False)
        sums = self._summed(method, queries, parts)
        if METHODS[method].exact:
            return sums
        with np.errstate(over="ignore", under="ignore"):
            known = np.ldexp(np.abs(whole.denominator), whole.exponent - sums.exponent)
        rows = np.flatnonzero(sums.error > math.sqrt(self.tol) * known)
        return self._summed_exactly(sums, rows, queries[rows], parts) if len(rows) else sums

    def with_slopes(self, queries: FloatArray) -> tuple[KernelSums, list[KernelSums]]:
        """Return the sums and, per dimension d, those with shape'(u_d) in place of shape(u_d).

        The dimensions are those of u = R (x - x_i), also where R is a matrix.
        Rows whose denominator is faint are summed exactly in all of them, so that the derivative
        of a ratio is as good as the ratio.
        """
        queries = self._frame.placed(queries)
        method = self._method_for(queries, plain=False)
        names = [check_parts(None, len(self.radius)), *slopes(len(self.radius))]
        sums = self._summed_all(method, queries, names)
        rows = self._faint(sums[0], method)
        if len(rows):
            sums = [
                self._summed_exactly(old, rows, queries[rows], each)
                for old, each in zip(sums, names, strict=True)
            ]
        return sums[0], sums[1:]

    def plan_moments(self, queries: FloatArray, degree: int) -> Plan:
        """Return the method for all moments up to a degree at these queries."""
        placed = self._frame.placed(queries)
        return self._planner.plan(placed, plain=False, moments=self._moments(degree))

    def _moments(self, degree: int) -> int:
        """Return the number of moments up to a degree."""
        return math.comb(len(self.radius) + degree, degree)

    def moments(
        self,
        queries: FloatArray,
        degree: int,
        *,
        with_responses: int,
        exactly: bool = False,
        slope_in: int | None = None,
    ) -> MomentSums:
        """Return the sums of all moments up to a degree at queries of shape ``(m, dim)``.

        Those up to the degree `with_responses` have the sums of the responses too. With `slope_in`
        a dimension d, (u_d^j shape(u_d))' stands in place of u_d^j shape(u_d).
        """
        dim = len(self.radius)
        names = [moment_parts(powers, slope_in) for powers in multi_indices(dim, degree)]
        solved = math.comb(dim + with_responses, with_responses)
        queries = self._frame.placed(queries)
        method = self._moment_method(queries, degree, exactly, slope_in is None)
        sums = self._summed_all(method, queries, names[:solved], names[solved:])
        return MomentSums.joined(sums, solved, exact=METHODS[method].exact)

    def _moment_method(
        self, queries: FloatArray, degree: int, exactly: bool, unchanged: bool
    ) -> str:
        if not exactly:
            moments = self._moments(degree) if unchanged else 0
            return self._planner.method(queries, plain=False, moments=moments)
        problem = self._planner.problem(queries, plain=False, moments=int(unchanged))
        return "reference" if METHODS["direct"].refusal(problem) else "direct"

    def moments_left_out(
        self,
        queries: FloatArray,
        degree: int,
        owners: NDArray[np.intp],
        *,
        with_responses: int,
    ) -> MomentSums:
        """Return the moments at each query without the sample that it owns, by the reference.

        `owners`, shape ``(m,)``, are the places of those samples.
        """
        dim = len(self.radius)
        powers = multi_indices(dim, degree)
        solved = math.comb(dim + with_responses, with_responses)
        sums = [
            replace(
                self._reference.at_others(
                    self._frame.placed(queries), owners, self._used_places, parts=moment_parts(each)
                ),
                units=self.units,
            )
            for each in powers
        ]
        return MomentSums.joined(sums, solved, exact=True)

    def left_out(
        self, queries: FloatArray, own: FloatArray, owners: NDArray[np.intp]
    ) -> KernelSums:
        """Return the sums at each query without the samples that it owns: leave-one-out.

        The terms are subtracted where enough is left for that; where they are nearly all of a sum,
        the others are summed without them.

        Parameters
        ----------
        queries : array of shape (m, dim)
        own : array of shape (m,)
            Σ w ∏ shape over the samples that a query owns; all have its response.
        owners : integer array of shape (n,)
            The query that each sample belongs to, m and more where it belongs to none; the first
            of the samples of a query has its response.
        """
        queries = self._frame.placed(queries)
        method = self._method_for(queries, plain=True)
        names = check_parts(None, len(self.radius))
        response = self.responses[np.unique(owners, return_index=True)[1][: len(queries)]]
        sums = self._summed(method, queries, names).without(own, response)
        rows = self._faint(sums, method)
        if len(rows):
            exact = self._exactly(queries[rows], names).without(own[rows], response[rows])
            sums = sums.replaced(rows, exact)
        alone = _nearly_alone(sums, own)
        if not len(alone):
            return sums
        others = self._reference.at_others(queries[alone], alone, owners[self._used_places])
        return sums.replaced(alone, others)

    def _method_for(self, queries: FloatArray, *, plain: bool) -> str:
        """Return the method for queries in the coordinates of the frame."""
        return self._planner.method(queries, plain=plain)

    def _summed(self, method: str, queries: FloatArray, names: tuple[str, ...]) -> KernelSums:
        return replace(self._summer(method, queries).at(queries, names), units=self.units)

    def _summed_all(
        self,
        method: str,
        queries: FloatArray,
        names: list[tuple[str, ...]],
        alone: Sequence[tuple[str, ...]] = (),
    ) -> list[KernelSums]:
        """Return the sums of several parts, those of `alone` perhaps without responses."""
        summer = self._summer(method, queries)
        together = getattr(summer, "at_all", None)
        if together is None:
            sums = [summer.at(queries, each) for each in [*names, *alone]]
        else:
            sums = together(queries, names, alone)
        return [replace(each, units=self.units) for each in sums]

    @property
    def _reference(self) -> ReferenceSum:
        options: dict[str, Any] = {"kernel": self.kernel, "radius": self.radius}
        return ReferenceSum(*self._used, **options, periods=self._frame.periods)

    def _summer(self, method: str, queries: FloatArray) -> Summer:
        """Return the samples as the method prepares them, for the range of these queries."""
        row = METHODS[method]
        box = self._planner.box_of(row, queries)
        summer = self._summers.get((method, box))
        if summer is None:
            self._drop_ranges(method)
            summer = self._summers[method, box] = self._prepared(row, box)
        return summer

    def _drop_ranges(self, method: str) -> None:
        """Keep, of one method, what serves the samples' own range; one more is added then.

        Another thread may add and drop ranges at the same time, hence the list.
        """
        for key in list(self._summers):
            if key[0] == method and key[1] != self._planner.used_box:
                self._summers.pop(key, None)

    def _prepared(self, row: Method, box: Box | None) -> Summer:
        told: dict[str, Any] = {"device": self.device} if row.on_device else {}
        if row.ranged:
            told["box"] = box
        if row.periodic:
            told["periods"] = self._frame.periods
        return row.load()(*self._used, kernel=self.kernel, radius=self.radius, tol=self.tol, **told)

    def _faint(self, sums: KernelSums, method: str) -> NDArray[np.intp]:
        """Return the faint rows of an inexact sum."""
        if METHODS[method].exact:
            return np.zeros(0, np.intp)
        return np.flatnonzero(sums.faint(self.tol))

    def _summed_exactly(
        self, sums: KernelSums, rows: NDArray[np.intp], at: FloatArray, names: tuple[str, ...]
    ) -> KernelSums:
        return sums.replaced(rows, self._exactly(at, names))

    def _exactly(self, at: FloatArray, names: tuple[str, ...]) -> KernelSums:
        refused = METHODS["direct"].refusal(
            self._planner.problem(at, plain=set(names) == {"value"})
        )
        return self._summed("reference" if refused else "direct", at, names)


def _nearly_alone(sums: KernelSums, own: FloatArray) -> NDArray[np.intp]:
    """Return rows in which a difference has lost three digits or more to what was subtracted."""
    return np.flatnonzero(np.abs(sums.denominator) < _LOST * np.abs(np.ldexp(own, -sums.exponent)))


def check_tolerance(tol: float) -> float:
    """Return `tol` as a float in [1e-12, 1e-2]."""
    value = check_number("tol", tol)
    if not 1e-12 <= value <= 1e-2:
        raise ValueError(f"tol must be in [1e-12, 1e-2], got {tol}")
    return value


def check_range(radius: FloatArray) -> FloatArray:
    """Return a radius whose products and squares stay within floating point."""
    bad = radius[(radius < _RADII[0]) | (radius > _RADII[1])]
    if len(bad):
        raise ValueError(
            f"radius must be in [{_RADII[0]:g}, {_RADII[1]:g}], got {bad[0]}; rescale the data"
        )
    return radius


def _named_method(method: str, device: str) -> str:
    """Return the method that a caller means: sums on a card have one."""
    if device == "cpu" or method == "torch":
        return method
    if method != "auto":
        raise ValueError(f"method must be 'auto' or 'torch' with device {device!r}, got {method!r}")
    return "torch"
