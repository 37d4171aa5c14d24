"""The plan for the queries of a prepared sum: its method, and the range that the method covers.

A split sum has a smaller box: what lies outside is summed pair by pair, the rest by its modes.
Boxes end at order statistics of the samples, each dimension trimmed by itself, and hold all, most
or none of the queries beyond; the cost model chooses. A choice depends on the samples and on the
queries at hand.
"""

import copy
import itertools
import math
from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.coordinates import Box, centring_limit, count_cells
from fourierkernels.sums.plan import METHODS, Method, Plan, grid_seconds, plan_sum
from fourierkernels.sums.problem import Bulk, Problem
from fourierkernels.sums.transforms import loop_threads

_LOOKED_AT = 4096  # queries by which the others are judged
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_LARGEST_SPAN = 1e15
_SPARE = 0.25  # of the range, beyond a block that leaves it
_KEPT_METHODS = 256  # for so many numbers and ranges of queries; others are planned each time
_SHARES = (1e-3, 1e-2)  # of the queries that a box leaves out at each end
_QUICK = 0.02  # seconds: a sum that is done sooner is not worth the choice
_STAY = 1.5  # a kept box serves until another would be so much faster


class Planner:
    """Plans for the queries of one prepared sum.

    Parameters
    ----------
    points : array of shape (n, dim)
    used : array of shape (k, dim)
        The points that have a weight; a range covers these.
    kernel, radius, tol
        Those of the sum.
    columns : int
        Sums per query.
    method : str
        As the caller named it.
    expected : int
        How many queries are expected in all.
    circles : tuple of dim floats
        As of a :class:`Problem`.
    """

    def __init__(
        self,
        points: FloatArray,
        used: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float,
        columns: int,
        method: str,
        expected: int,
        circles: tuple[float, ...] = (),
    ) -> None:
        self._n, self._dim = points.shape
        self._kernel, self._radius, self._tol = kernel, radius, tol
        self._columns, self._method, self._expected = columns, method, expected
        self._circles = circles
        self._limit = centring_limit(kernel, self._dim, tol)
        self._points, self._box = points, Box.around(points)
        self.used_box = self._box if used is points else Box.around(used)
        self._tails = Tails(used)
        self._methods: dict[Hashable, str] = {}
        self._grows = False
        self._covered: Box | None = None
        self._covered_bulk: Box | None = None

    def for_blocks(self, expected: int) -> "Planner":
        """Return a planner for a series of blocks, whose ranges grow by more than they must."""
        other = copy.copy(self)
        other._expected, other._grows = expected, True
        other._covered = other._covered_bulk = None
        other._methods = {}
        return other

    def plan(self, queries: FloatArray, *, plain: bool, moments: int = 0) -> Plan:
        """Return the plan for queries of shape ``(m, dim)`` in the coordinates of the sum."""
        problem = self.problem(queries, plain=plain, moments=moments)
        return plan_sum(_with(problem, self._bulk(problem, queries)), self._method)

    def method(self, queries: FloatArray, *, plain: bool, moments: int = 0) -> str:
        """Return the method of the plan, which is made once for each number and range of queries.

        Nothing else of the queries enters a plan, unless they take several centres or a box that
        leaves some of them out; these plans are made each time. With a cruder key, such as the
        power of two below the number, methods would change at other numbers than they do in the
        plan: the time of direct sums falls where a second thread begins to pay.
        """
        covered = self._covering(queries)
        key = max(len(queries), self._expected), plain, moments, covered, loop_threads()
        method = self._methods.get(key)
        if method is None:
            problem = self.problem(queries, plain=plain, moments=moments, covered=covered)
            bulk = self._bulk(problem, queries)
            method = plan_sum(_with(problem, bulk), self._method).method
            if self._is_near(problem.bands) and bulk is None and len(self._methods) < _KEPT_METHODS:
                self._methods[key] = method
        return method

    def problem(
        self,
        queries: FloatArray,
        *,
        plain: bool,
        moments: int = 0,
        covered: Box | None = None,
    ) -> Problem:
        """Return the facts of a sum at these queries, without a bulk.

        Parameters
        ----------
        covered : Box, optional
            The smallest box around points and queries, if it is known.

        Raises
        ------
        ValueError
            If radius times range is beyond 1e15.
        """
        covered = covered or self._covering(queries)
        with np.errstate(over="ignore"):
            spans = self._radius * covered.spans
        bands, m = _check_spans(spans), max(len(queries), self._expected)
        return Problem(
            self._kernel,
            self._n,
            m,
            self._dim,
            self._columns,
            bands,
            self._tol,
            plain=plain,
            moments=moments,
            cells=self._cells(queries, bands, m),
            circles=self._circles,
        )

    def _cells(self, queries: FloatArray, bands: tuple[float, ...], m: int) -> int:
        """Return about how many centres m queries like these take."""
        if self._is_near(bands):
            return 1
        seen = looked_at(queries)
        return count_cells(self._radius * (seen - seen[0]), self._limit, m)

    def _is_near(self, bands: tuple[float, ...]) -> bool:
        """Tell if one centre serves: queries lie at most the longest side beside the first."""
        return 2.0 * max(bands) <= self._limit

    def _covering(self, queries: FloatArray) -> Box:
        """Return the smallest box around points and queries."""
        return self._box if queries is self._points else self._box.including(Box.around(queries))

    def box_of(self, row: Method, queries: FloatArray) -> Box | None:
        """Return the range for which a method prepares, if it does so for a range."""
        if row.name != "split":
            return self._range(queries) if row.ranged else None
        # One box for all parts; that it pays has been decided.
        bulk = self._bulk(self.problem(queries, plain=True), queries, method="split")
        whole = self.used_box.including(Box.around(queries))
        self._covered_bulk = whole if bulk is None else bulk.box
        return self._covered_bulk

    def _range(self, queries: FloatArray) -> Box:
        """Return the range that a sum at these queries must cover."""
        block = Box.around(queries)
        if not self._grows:
            return self.used_box.including(block)
        if self._covered is None:
            self._covered = self.used_box.including(block)
        elif not self._covered.contains(block):
            self._covered = self._covered.including(block, spare=_SPARE)
        return self._covered

    def _bulk(
        self, problem: Problem, queries: FloatArray, method: str | None = None
    ) -> Bulk | None:
        if problem.moments:  # no split sum has them
            return None
        kept = self._covered_bulk if self._grows else None
        method = method or self._method
        return self._tails.bulk(problem, self._radius, queries, method=method, kept=kept)


def looked_at(queries: FloatArray) -> FloatArray:
    """Return some of many queries, at multiples of the golden ratio.

    Every so-manieth would all lie in one plane of a grid whose axes have that many places.
    """
    if len(queries) <= _LOOKED_AT:
        return queries
    share = np.arange(_LOOKED_AT) * _GOLDEN % 1.0
    return queries[np.sort((share * len(queries)).astype(np.intp))]


def _check_spans(spans: FloatArray) -> tuple[float, ...]:
    """Return radius times range of the data: beyond 1e15 a phase in float64 has no digit left."""
    if not spans.max() <= _LARGEST_SPAN:
        raise ValueError(
            "radius must be small enough that radius times the range of points and queries is at "
            f"most {_LARGEST_SPAN:g}, got {spans.max():g}"
        )
    return tuple(map(float, spans))


class Tails:
    """Samples, sorted only as far as boxes need it, and on first use."""

    def __init__(self, points: FloatArray) -> None:
        self._points = points

    @cached_property
    def _trims(self) -> list[int]:
        """How many samples a box leaves out at each end: 0, 1, 4, 16, ..., up to a quarter."""
        most = max(1, len(self._points) // 4)
        return [0, *(4**k for k in range(math.ceil(math.log(most + 1, 4))) if 4**k <= most)]

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends at each trim, shape ``(trims, dim)`` each."""
        n, trims = len(self._points), np.minimum(self._trims, (len(self._points) - 1) // 2)
        places = np.concatenate([trims, n - 1 - trims])
        ordered = [np.partition(column, np.unique(places)) for column in self._points.T]
        low, high = ([column[at] for column in ordered] for at in (trims, n - 1 - trims))
        return np.column_stack(low), np.column_stack(high)

    def bulk(
        self,
        problem: Problem,
        radius: FloatArray,
        queries: FloatArray,
        *,
        method: str,
        kept: Box | None,
    ) -> Bulk | None:
        """Return the box in which to sum by modes, or None where that cannot pay.

        Parameters
        ----------
        method : str
            As the caller named it; by name a sum is split even if nothing is gained.
        kept : Box, optional
            The box of earlier queries, which stays while it serves.
        """
        if not _may_pay(problem, method):
            return None
        choice = _Choice(self._trims, *self._ends, problem, radius, queries)
        best = choice.best()
        if kept is not None:
            stays = choice.of_box(kept)
            if choice.seconds(stays) <= _STAY * choice.seconds(best):
                return stays
        return best


class _Choice:
    """The boxes for some queries, and what they cost."""

    def __init__(
        self,
        trims: list[int],
        low: FloatArray,
        high: FloatArray,
        problem: Problem,
        radius: FloatArray,
        queries: FloatArray,
    ) -> None:
        self._trims, self._low, self._high = trims, low, high
        self._problem, self._radius = problem, radius
        self._seen = looked_at(queries)
        whole = Box.around(queries)
        trimmed = [np.quantile(self._seen, [share, 1.0 - share], axis=0) for share in _SHARES]
        self._ranges = [None, whole, *(Box(*map(_ends, ends)) for ends in trimmed)]

    def best(self) -> Bulk:
        """Return the cheapest: one trim for all dimensions, then each by itself."""
        dims = self._low.shape[1]
        every = range(len(self._trims))
        start = ((k,) * dims for k in every)
        bulk, trim, holding = min(
            ((self._bulk(k, r), k, r) for k, r in itertools.product(start, self._ranges)),
            key=lambda choice: self.seconds(choice[0]),
        )
        for d in range(dims if dims > 1 else 0):
            others = [(*trim[:d], k, *trim[d + 1 :]) for k in every]
            bulk, trim = min(
                ((self._bulk(k, holding), k) for k in others),
                key=lambda choice: self.seconds(choice[0]),
            )
        return bulk

    def seconds(self, bulk: Bulk) -> float:
        """Return the time of the split sum, infinite where it is refused."""
        problem = _with(self._problem, bulk)
        if bulk.samples >= problem.n or bulk.queries >= problem.m:
            return math.inf
        row = METHODS["split"]
        return math.inf if row.refusal(problem) else row.seconds(problem)

    def of_box(self, box: Box) -> Bulk:
        """Return a given box; how many samples it leaves out, by the nearest trims inside it."""
        below = (self._low < box.low).sum(axis=0)
        above = (self._high > box.high).sum(axis=0)
        counts = [0, *self._trims]
        outside = sum(counts[k] for k in (*below, *above))
        return self._of(box, outside)

    def _bulk(self, trim: tuple[int, ...], holding: Box | None) -> Bulk:
        places = list(trim), list(range(len(trim)))
        box = Box(_ends(self._low[places]), _ends(self._high[places]))
        outside = sum(2 * self._trims[k] for k in trim)
        return self._of(box if holding is None else box.including(holding), outside)

    def _of(self, box: Box, outside: int) -> Bulk:
        share = 1.0 - float(box.holds(self._seen).mean())
        bands = tuple(map(float, self._radius * box.spans))
        return Bulk(box, outside, math.ceil(share * self._problem.m), bands)


def _ends(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(float, values))


def _with(problem: Problem, bulk: Bulk | None) -> Problem:
    return problem if bulk is None else replace(problem, bulk=bulk)


def _may_pay(problem: Problem, method: str) -> bool:
    """Return whether a box is asked for, or the FFTs of the whole range take most of the time."""
    if method != "auto":
        return method == "split"
    whole, pairs = METHODS["bandlimited"], METHODS["direct"]
    able = [each for each in (whole, pairs) if not each.refusal(problem)]
    if min((each.seconds(problem) for each in able), default=math.inf) < _QUICK:
        return False
    point = _with(problem, Bulk(Box((), ()), 0, 0, (0.0,) * problem.dim))
    if METHODS["split"].refusal(point):
        return False
    return whole not in able or grid_seconds(problem) > 0.4 * whole.seconds(problem)
