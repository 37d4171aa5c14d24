"""A stream in the standard form for radius rules, read anew for each sum."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.lattice import coincide_by_rounding, copies_of_one
from fourierkernels.estimators.radius.sample import grouped, smaller_scale
from fourierkernels.estimators.streams.blocks import Block, Expected
from fourierkernels.estimators.streams.quantiles import quartiles
from fourierkernels.estimators.streams.sources import Source
from fourierkernels.estimators.streams.survey import Survey
from fourierkernels.estimators.weights import check_size
from fourierkernels.foundation.arrays import FloatArray

_KEPT = 2**19  # samples whose ties are counted, of many
_MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits irregular: multiplying by it mixes


class StreamedSample:
    """A sample in standard form, see `fourierkernels.estimators.radius.sample.Standardised`.

    Parameters
    ----------
    source : Source
    survey : Survey
        Of the same samples.
    expected : Expected
    weighting : {"frequency", "precision", "importance"}
        What weights mean, see `fourierkernels.estimators.weights`.
    """

    def __init__(
        self, source: Source, survey: Survey, expected: Expected, *, weighting: str = "frequency"
    ) -> None:
        self._source, self._survey, self._expected = source, survey, expected
        self._weighting = weighting

    @property
    def size(self) -> float:
        """Number of samples, as of an array; of many rows that repeat an estimate, see `copies`."""
        if not self.copied:
            return self._survey.size(self._weighting)
        if not self.copied_share:
            return self._survey.size("importance")
        weights = self._copied
        if self._weighting == "precision":
            return self._survey.fingerprint.n * len(weights) / self._ties.n
        return float(self._survey.weight * weights.sum() / (weights @ weights))

    @property
    def copied(self) -> bool:
        """Whether rows are copies, or have weights that count copies of one sample."""
        return len(self._copied) > 0

    @property
    def copied_share(self) -> float:
        """Share of rows that are copies of others."""
        return 1.0 - len(self._copied) / self._ties.n if self.copied else 0.0

    @cached_property
    def _copied(self) -> FloatArray:
        """Weights of samples, each with its copies; empty if rows are no copies.

        By the rules of `fourierkernels.estimators.weights`.
        """
        rows, counts = self._ties.rows, self._ties.counts
        weights = rows[:, -1]
        if self._weighting == "frequency" and not (
            self._survey.alike and self._survey.heaviest == 1.0
        ):
            distinct, joint = grouped(rows[:, :-1], counts * weights)
            return joint[:0] if coincide_by_rounding(distinct, joint) else joint
        size = copies_of_one(rows, counts)
        if not size:
            return weights[:0]
        whole, rest = divmod(counts, size)
        return np.append(np.repeat(size * weights, whole), (rest * weights)[rest > 0])

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self._survey.low)

    @cached_property
    def scale(self) -> FloatArray:
        """The robust scale, from the quartiles of the stream."""
        survey = self._survey
        check_size(np.array([self.size]))
        low, high = quartiles(self._source, survey, self._expected)
        return smaller_scale(
            survey.mean, survey.deviation, high - low, survey.low, survey.fingerprint.n
        )

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation of the data per column (divisor Σw), shape ``(dim,)``."""
        return self._survey.deviation

    @property
    def ranges(self) -> FloatArray:
        """Largest less smallest value per column in standard form, shape ``(dim,)``."""
        return self._survey.high / self.scale - self._survey.low / self.scale

    def total(self, function: Callable[[FloatArray, FloatArray], Any]) -> Any:
        """Return the sum of the function over parts of the stream, in one pass."""
        middle = 0.5 * self._survey.low + 0.5 * self._survey.high
        part = partial(
            _standard_part,
            function=function,
            scale=self.scale,
            shift=middle / self.scale,
            weight=self._survey.weight,
        )
        return self._source.reduce(part, _added, self._expected, label="spectrum")

    def copies(self) -> float:
        """Return n Σ_g p_g², p_g the share of the g-th distinct point: 1 without ties.

        Of a stream of more than about 5e5 samples, from as many, chosen by their bits so that all
        copies of a point are chosen together: an estimate, which misses single points of large
        weight. The search for a radius then finds no minimum, and says so.
        """
        weights = self._points[1]
        return float(self.size * (weights @ weights) / (weights.sum() * self._survey.weight))

    def repeated(self) -> float:
        """Return the share of samples that are not the first of theirs, as `copies` does."""
        return 1.0 - len(self._points[1]) / self._ties.n

    @cached_property
    def _points(self) -> tuple[FloatArray, FloatArray]:
        """Distinct points with their weights, of those whose ties are counted."""
        rows, counts = self._ties.rows, self._ties.counts
        return grouped(rows[:, : self.dim], counts * rows[:, -1])

    @cached_property
    def _ties(self) -> "_Ties":
        parts = max(1, self._survey.fingerprint.n // _KEPT)
        part = partial(_chosen_points, parts=np.uint64(parts))
        ties: _Ties = self._source.reduce(part, _tied, self._expected, label="ties")
        if not ties.n:  # by chance, of few distinct ones
            return _Ties(np.zeros((1, ties.rows.shape[1])), np.ones(1, np.intp), 1)
        return _Ties(*grouped(ties.rows, ties.counts), ties.n)


class _Ties(NamedTuple):
    """Rows of X, y and weights, how often each occurs, and how many rows they were."""

    rows: FloatArray
    counts: NDArray[np.intp]
    n: int


def _standard_part(
    block: Block,
    function: Callable[[FloatArray, FloatArray], Any],
    scale: FloatArray,
    shift: FloatArray,
    weight: float,
) -> Any:
    return function(block.points / scale - shift, block.weights / weight)


def _added(one: Any, other: Any) -> Any:
    return one + other


def _chosen_points(block: Block, parts: np.uint64) -> _Ties:
    bits = np.ascontiguousarray(block.points + 0.0).view(np.uint64)
    mixed = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * _MIXED
        mixed ^= mixed >> np.uint64(29)
    chosen = (mixed * _MIXED >> np.uint64(16)) % parts == 0
    rows = np.column_stack(block)[chosen]
    return _Ties(rows, np.ones(len(rows), np.intp), len(rows))


def _tied(one: _Ties, other: _Ties) -> _Ties:
    rows = np.concatenate([one.rows, other.rows])
    counts = np.concatenate([one.counts, other.counts])
    if len(rows) > 4 * _KEPT:
        rows, counts = grouped(rows, counts)
    return _Ties(rows, counts, one.n + other.n)
