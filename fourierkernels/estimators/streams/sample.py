"""A stream in the standard form for radius rules, read anew for each sum."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from fourierkernels.estimators.lattice import coincide_by_rounding
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
        """Number of samples that the weights stand for, as of an array.

        Frequencies that are all one need no look at the samples: rows that repeat are found by the
        rules that they mislead, `copies`.
        """
        return self._survey.size("importance" if self.copied else self._weighting)

    @cached_property
    def copied(self) -> bool:
        """Whether frequencies count copies of one sample: values are not rounded."""
        plain = self._survey.alike and self._survey.heaviest == 1.0
        if plain or self._weighting != "frequency":
            return False
        return not coincide_by_rounding(self._ties.points, self._ties.weights)

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
            survey.mean, survey.deviation, high - low, survey.low, survey.reading.n
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
        weights = self._ties.weights
        return float(self.size * (weights @ weights) / (weights.sum() * self._survey.weight))

    def repeated(self) -> float:
        """Return the share of samples that are not the first of theirs, as `copies` does."""
        return 1.0 - len(self._ties.weights) / max(self._ties.n, 1)

    @cached_property
    def _ties(self) -> "_Ties":
        parts = max(1, self._survey.reading.n // _KEPT)
        part = partial(_chosen_points, parts=np.uint64(parts))
        ties: _Ties = self._source.reduce(part, _tied, self._expected, label="ties")
        if not len(ties.points):
            return _Ties(ties.points, np.ones(1), 1)
        return _Ties(*grouped(ties.points, ties.weights), ties.n)


class _Ties(NamedTuple):
    """Distinct points with their weights, and how many samples they were."""

    points: FloatArray
    weights: FloatArray
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
    return _Ties(block.points[chosen], block.weights[chosen], int(chosen.sum()))


def _tied(one: _Ties, other: _Ties) -> _Ties:
    points = np.concatenate([one.points, other.points])
    weights = np.concatenate([one.weights, other.weights])
    if len(points) > 4 * _KEPT:
        points, weights = grouped(points, weights)
    return _Ties(points, weights, one.n + other.n)
