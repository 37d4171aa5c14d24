"""The smaller box of a split sum: what lies outside is summed pair by pair, the rest by its modes.

Boxes end at order statistics of the samples, each dimension trimmed by itself, and hold all, most
or none of the queries beyond; the cost model chooses. A choice depends on the samples and on the
queries at hand.
"""

import itertools
import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.box import Box
from fourierkernels.sums.plan import METHODS, grid_seconds
from fourierkernels.sums.problem import Bulk, Problem

_LOOKED_AT = 4096  # queries by which the others are judged
_SHARES = (1e-3, 1e-2)  # of the queries that a box leaves out at each end
_QUICK = 0.02  # seconds: a sum that is done sooner is not worth the choice
_STAY = 1.5  # a kept box serves until another would be so much faster


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
        self._seen = queries[:: math.ceil(len(queries) / _LOOKED_AT)]
        whole = Box.around(queries)
        trimmed = [np.quantile(self._seen, [share, 1.0 - share], axis=0) for share in _SHARES]
        self._ranges = [None, whole, *(Box(*map(_ends, ends)) for ends in trimmed)]

    def best(self) -> Bulk:
        """Return the cheapest: one trim for all dimensions, then each by itself."""
        dims = self._low.shape[1]
        every = range(len(self._trims))
        start = ((k,) * dims for k in every)
        bulk, trim, held = min(
            ((self._bulk(k, r), k, r) for k, r in itertools.product(start, self._ranges)),
            key=lambda found: self.seconds(found[0]),
        )
        for d in range(dims if dims > 1 else 0):
            others = [(*trim[:d], k, *trim[d + 1 :]) for k in every]
            bulk, trim = min(
                ((self._bulk(k, held), k) for k in others),
                key=lambda found: self.seconds(found[0]),
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

    def _bulk(self, trim: tuple[int, ...], held: Box | None) -> Bulk:
        places = list(trim), list(range(len(trim)))
        box = Box(_ends(self._low[places]), _ends(self._high[places]))
        outside = sum(2 * self._trims[k] for k in trim)
        return self._of(box if held is None else box.including(held), outside)

    def _of(self, box: Box, outside: int) -> Bulk:
        share = 1.0 - float(box.holds(self._seen).mean())
        bands = tuple(map(float, self._radius * box.spans))
        return Bulk(box, outside, math.ceil(share * self._problem.m), bands)


def _ends(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(float, values))


def _with(problem: Problem, bulk: Bulk) -> Problem:
    return replace(problem, bulk=bulk)


def _may_pay(problem: Problem, method: str) -> bool:
    """Return whether a box is asked for, or the FFTs of the whole range take most of the time."""
    row = METHODS["split"]
    if method == "split":
        return True
    point = _with(problem, Bulk(Box((), ()), 0, 0, (0.0,) * problem.dim))
    if method != "auto" or row.refusal(point):
        return False
    whole, pairs = METHODS["bandlimited"], METHODS["direct"]
    seconds = [each.seconds(problem) for each in (whole, pairs) if not each.refusal(problem)]
    if min(seconds, default=math.inf) < _QUICK:
        return False
    refused = bool(whole.refusal(problem))
    return refused or grid_seconds(problem) > 0.4 * whole.seconds(problem)
