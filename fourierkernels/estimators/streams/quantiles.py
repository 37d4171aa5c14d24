"""Exact quantiles of a stream, by histograms that narrow down to a few values.

Each pass counts what lies below a bracket and what falls into the cells of it. When few values can
lie in the bracket, one more pass gathers them, and the quantile is one of these.
"""

import operator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.radius.sample import grouped
from fourierkernels.estimators.streams.blocks import Block, Expected
from fourierkernels.estimators.streams.sources import Source
from fourierkernels.estimators.streams.survey import Survey
from fourierkernels.foundation.arrays import FloatArray

_CELLS = 2**16
_FEW = 2**20  # samples that are gathered


class Bracket(NamedTuple):
    """Values of a column among which a quantile is.

    Its cells are equally long, or with `by_bits` hold equally many numbers of float64: that closes
    in on any value, zero included, in four passes.
    """

    column: int
    share: float
    low: float
    high: float
    by_bits: bool = False

    def cells(self, x: FloatArray) -> NDArray[np.intp]:
        """Return the cell of each value in the bracket."""
        if self.by_bits:
            return ((_order(x) - _order(self.low)) // self._numbers).astype(np.intp)
        width = 0.5 * self.high - 0.5 * self.low  # halves, so that no range overflows
        place = (0.5 * x - 0.5 * self.low) / width if width > 0 else np.zeros(len(x))
        return np.minimum((place * _CELLS).astype(np.intp), _CELLS - 1)

    def closer(self, first: int, last: int) -> "Bracket":
        """Return the bracket of the cells from `first` up to `last`, the latter not included."""
        if self.by_bits:
            start = _order(self.low)
            steps = np.array([first, last], np.uint64) * self._numbers
            low, high = (_value(start + step) for step in steps)
        else:
            width = self.high - self.low
            low, high = (self.low + cell / _CELLS * width for cell in (first, last))
        return Bracket(self.column, self.share, max(low, self.low), min(high, self.high), True)

    @property
    def numbers(self) -> int:
        """Number of float64 values in the bracket."""
        return int(_order(self.high) - _order(self.low)) + 1

    @property
    def _numbers(self) -> np.uint64:
        return np.uint64(-(-self.numbers // _CELLS))


def _order(x: FloatArray | float) -> NDArray[np.uint64]:
    """Return integers in the order of the numbers, one apart for neighbours."""
    bits = np.asarray(x + 0.0, np.float64).view(np.int64)  # one zero
    flipped = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return np.asarray(flipped.view(np.uint64) ^ np.uint64(2**63))


def _value(order: NDArray[np.uint64]) -> float:
    """Undo :func:`_order`."""
    flipped = np.asarray(order ^ np.uint64(2**63)).view(np.int64)
    return float((flipped ^ ((flipped >> 63) & np.int64(2**63 - 1))).view(np.float64))


@dataclass(frozen=True)
class Counts:
    """Weight below each bracket, and by value or cell within: one row of `within` per bracket."""

    below: FloatArray  # (brackets,)
    within: FloatArray  # (brackets, cells)
    rows: NDArray[np.int64]  # (brackets, cells)

    def __add__(self, other: "Counts") -> "Counts":
        """Return the counts of both parts."""
        return Counts(self.below + other.below, self.within + other.within, self.rows + other.rows)


class Gathered(NamedTuple):
    """The weight below a bracket, and the values within it with their weights."""

    below: float
    values: FloatArray
    weights: FloatArray


def quartiles(source: Source, survey: Survey, expected: Expected) -> FloatArray:
    """Return the lower and upper quartile per column, shape ``(2, dim)``.

    The least value whose share of the weight, itself and those below it, is the quartile's: what
    ``numpy.quantile(..., method="inverted_cdf")`` returns. Memory is O(1), the number of passes
    two for most data, six at most.
    """
    ends = [(float(a), float(b)) for a, b in zip(survey.low, survey.high, strict=True)]
    brackets = [Bracket(c, share, *end) for share in (0.25, 0.75) for c, end in enumerate(ends)]
    alike = survey.alike
    total = float(survey.fingerprint.n) if alike else survey.weight
    few = [survey.fingerprint.n <= _FEW] * len(brackets)
    while not all(few):
        count = partial(_counted, brackets=brackets, alike=alike)
        counts = source.reduce(count, operator.add, expected, label="quartiles")
        closer = [_closer(b, counts, i, total) for i, b in enumerate(brackets)]
        brackets, few = [b for b, _ in closer], [few for _, few in closer]
    gather = partial(_gathered, brackets=brackets, alike=alike)
    parts = source.reduce(gather, _gathered_together, expected, label="quartiles")
    found_values = [_chosen(b, part, total) for b, part in zip(brackets, parts, strict=True)]
    return np.array(found_values).reshape(2, -1)


def _counted(block: Block, brackets: list[Bracket], alike: bool) -> Counts:
    counts = [_cells(block, bracket, alike) for bracket in brackets]
    below, within, rows = zip(*counts, strict=True)
    return Counts(np.array(below), np.array(within), np.array(rows))


def _cells(
    block: Block, bracket: Bracket, alike: bool
) -> tuple[float, FloatArray, NDArray[np.int64]]:
    x = block.points[:, bracket.column]
    inside = (x >= bracket.low) & (x <= bracket.high)
    cells = bracket.cells(x[inside])
    rows = np.bincount(cells, minlength=_CELLS).astype(np.int64)
    if alike:
        return float(np.count_nonzero(x < bracket.low)), rows.astype(np.float64), rows
    within = np.asarray(np.bincount(cells, block.weights[inside], _CELLS), np.float64)
    return float(block.weights[x < bracket.low].sum()), within, rows


def _closer(bracket: Bracket, counts: Counts, i: int, total: float) -> tuple[Bracket, bool]:
    """Return the cell that the quantile is in, a little wider, and whether few values can be."""
    reached = counts.below[i] + np.cumsum(counts.within[i])
    cell = min(int(np.searchsorted(reached, _rank(bracket, total))), _CELLS - 1)
    # By rounding the quantile may be in a neighbour: these are counted in.
    first, last = max(cell - 1, 0), min(cell + 2, _CELLS)
    few = int(counts.rows[i, first:last].sum()) <= _FEW
    found_in = bracket.closer(first, last)
    return found_in, few or found_in.numbers <= _CELLS


def _gathered(block: Block, brackets: list[Bracket], alike: bool) -> list[Gathered]:
    weights = np.ones(len(block.points)) if alike else block.weights
    parts = []
    for bracket in brackets:
        x = block.points[:, bracket.column]
        inside = (x >= bracket.low) & (x <= bracket.high)
        lower = x < bracket.low
        below = float(np.count_nonzero(lower) if alike else weights[lower].sum())
        parts.append(Gathered(below, x[inside], weights[inside]))
    return parts


def _gathered_together(one: list[Gathered], other: list[Gathered]) -> list[Gathered]:
    return [
        _shortened(
            a.below + b.below,
            np.concatenate([a.values, b.values]),
            np.concatenate([a.weights, b.weights]),
        )
        for a, b in zip(one, other, strict=True)
    ]


def _shortened(below: float, values: FloatArray, weights: FloatArray) -> Gathered:
    """Keep each value once if they are many: a bracket has few distinct ones then."""
    if len(values) <= 2 * _FEW:
        return Gathered(below, values, weights)
    points, sums = grouped(values[:, None], weights)
    return Gathered(below, points[:, 0], sums)


def _chosen(bracket: Bracket, part: Gathered, total: float) -> float:
    if not len(part.values):
        raise ValueError(
            "X must be the same each time it is read, got no sample where a quartile was before"
        )
    points, weights = grouped(part.values[:, None], part.weights)
    reached = part.below + np.cumsum(weights)
    place = int(np.searchsorted(reached, _rank(bracket, total)))
    return float(points[min(place, len(points) - 1), 0])


def _rank(bracket: Bracket, total: float) -> float:
    return bracket.share * total
