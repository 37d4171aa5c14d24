"""What can be measured in the one pass over inputs. Each measure takes in samples, then sums up.

To add a measure, write a class with `add` and `summary` and give one of them to
:func:`fourierkernels.diagnostics.networks.profile.measure_heads`.
"""

import warnings
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fourierkernels.checkpoints.tokens import InputCounts
from fourierkernels.diagnostics.distances import (
    DEFAULT_METRIC,
    MAPS,
    METRICS,
    check_several,
    head_distances,
)
from fourierkernels.diagnostics.maps import InapplicableError, has_short_rows
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.layers import HeadLayer
from fourierkernels.diagnostics.networks.passes import HeadsOfSlabs, SlabMeasure
from fourierkernels.diagnostics.networks.samples import HeadSample
from fourierkernels.diagnostics.resampling import NullAccumulator, NullComparison
from fourierkernels.diagnostics.slabs import MapSlab, SlabDistances, SlabStatistics
from fourierkernels.diagnostics.statistic_summary import StatisticAccumulator, StatisticSummary
from fourierkernels.diagnostics.statistics import (
    KEYS,
    MARKS,
    STATISTICS,
    HeadStatistic,
    check_statistics,
    statistics_in,
)
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice

_SHORT_ROWS = (
    "rows of attention maps sum to less than one, as with a constant in the denominator (eps)"
)


class Measure(Protocol):
    """Takes in what the heads compute on one input after another, in memory that stays."""

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample; they may come out of order."""


class SharedMeasure(Measure, Protocol):
    """A measure that can be taken in shares of the inputs, by several processes."""

    def state(self) -> State:
        """Return what has been taken in."""

    def merge(self, state: State) -> None:
        """Take in what another one with the same options has taken in of other inputs."""


class Accumulating(SlabMeasure):
    """A measure with one accumulator, which holds all that it has taken in."""

    _accumulator: HeadAccumulator | NullAccumulator

    def state(self) -> State:
        """Return what has been taken in."""
        return {"left_out": self.left_out, "taken": self._accumulator.state()}

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other inputs."""
        self.left_out = self.left_out or state["left_out"]
        self._accumulator.merge(state["taken"])


class Distances(Accumulating):
    """Distances between the heads of each layer.

    Parameters
    ----------
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS`.
    """

    def __init__(self, metric: str = DEFAULT_METRIC) -> None:
        self._row = METRICS[check_choice("metric", metric, list(METRICS))]
        self._accumulator: HeadAccumulator = HeadAccumulator(metric=metric)
        self._slabs = SlabDistances(metric)

    def reads_maps(self) -> bool:
        """Return whether it compares maps, and not outputs."""
        return self._row.of == MAPS

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in the next slab of maps."""
        if self.reads_maps():
            self._slabs.take(slab)

    def end(self, sample: HeadSample) -> None:
        """Take in the distances of all layers."""
        if self.reads_maps():
            distances = self._slabs.finish()
        else:
            check_several(max(layer.heads for layer in sample.by_layer), self._row.of)
            distances = [self._of_outputs(layer) for layer in sample.by_layer]
        self._accumulator.add_distances(distances, sample.span[0], number=sample.index)

    def _of_outputs(self, layer: HeadLayer) -> FloatArray:
        if layer.heads < 2:
            return np.zeros((1, 1))
        return head_distances(layer.whole(self._row.of), metric=self._row.name)

    def summary(self, counts: InputCounts) -> HeadSummary:
        """Return the distances averaged over the samples so far.

        Raises
        ------
        ValueError
            If the metric does not apply.
        """
        self.check_applies()
        share = counts.unknown_share
        return self._accumulator.summary(n_texts=counts.texts, unknown=share)


class Statistics(SlabMeasure):
    """What each head attends to, and how far it is from a Gaussian kernel.

    Parameters
    ----------
    names : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`; or a key of
        :data:`~fourierkernels.diagnostics.statistics.SETS`, for those in it that have a meaning
        for the network; none has where rows sum to less than one.
    """

    def __init__(self, names: Sequence[str] | str = "all") -> None:
        self._asked = check_statistics(names)
        self._names: list[str] | None = None
        self._accumulator: StatisticAccumulator | None = None
        self._slabs = SlabStatistics([])
        self._heads = HeadsOfSlabs()
        self.without_meaning: list[str] = []

    def reads_maps(self) -> bool:
        """Return whether any statistic is measured."""
        return self._names is None or bool(self._names)

    def start(self, sample: HeadSample) -> None:
        """Choose the statistics that have a meaning for the first sample."""
        names = self._chosen(sample) if self._names is None else self._names
        if self._names is None:
            self._begin(names)
        reads_keys = any(STATISTICS[name].reads == KEYS for name in names)
        self._heads = HeadsOfSlabs(sample, reads_keys=reads_keys)

    def _begin(self, names: list[str]) -> None:
        self._names = names
        if names:
            self._accumulator = StatisticAccumulator(names)
        self._slabs = SlabStatistics(names)

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in the next slab of maps."""
        if not self._names:
            return
        if not slab.probabilities:
            self._warn_of_short_rows(slab)
            slab.check("statistics")
        self._slabs.take(slab.layer, self._heads.of(slab))

    def _warn_of_short_rows(self, slab: MapSlab) -> None:
        """Warn where a set of statistics is dropped because rows are less than probabilities."""
        if isinstance(self._asked, str) and has_short_rows(slab.maps):
            warnings.warn(f"statistics are left out: {_SHORT_ROWS}", stacklevel=8)
            raise InapplicableError(_SHORT_ROWS)

    def end(self, sample: HeadSample) -> None:
        """Take in the statistics of all layers."""
        self._heads = HeadsOfSlabs()  # lets go of the sample
        if self._accumulator is not None:
            self._accumulator.add(self._slabs.finish())

    def _chosen(self, sample: HeadSample) -> list[str]:
        known = [row.name for row in STATISTICS.values() if _has_meaning(row, sample)]
        if isinstance(self._asked, str):
            return [name for name in statistics_in(self._asked) if name in known]
        self.without_meaning = [name for name in self._asked if name not in known]
        if self.without_meaning and len(self.without_meaning) == len(self._asked):
            raise ValueError(
                "names must have a meaning for this network and these inputs, "
                f"got {self.without_meaning[0]}"
            )
        return [name for name in self._asked if name in known]

    def summary(self) -> dict[str, StatisticSummary]:
        """Return a summary of ``(L, H)`` for each name; none if they do not apply."""
        if self._accumulator is None or self.left_out:
            return {}
        return self._accumulator.summary()

    def state(self) -> State:
        """Return what has been taken in."""
        taken = None if self._accumulator is None else self._accumulator.state()
        without = self.without_meaning
        return {"names": self._names, "left_out": self.left_out, "without": without, "taken": taken}

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other inputs."""
        if state["names"] is None:
            return
        if state["left_out"] and not self.left_out and isinstance(self._asked, str):
            warnings.warn(f"statistics are left out: {state['left_out']}", stacklevel=6)
        self.left_out, self.without_meaning = self.left_out or state["left_out"], state["without"]
        if self._names is None:
            self._begin(list(state["names"]))
        if self._accumulator is not None:
            self._accumulator.merge(state["taken"])


def _has_meaning(row: HeadStatistic, sample: HeadSample) -> bool:
    """Whether a statistic has one: queries may not be the keys, special tokens may be unknown."""
    unknown = row.reads == MARKS and sample.special is None
    pooled = any(layer.queries != layer.keys for layer in sample.by_layer)
    return not unknown and not (row.own and (sample.cross or pooled))


class PermutationNull(Accumulating):
    """Distances compared with those of equally sharp heads that attend to unrelated keys.

    Parameters
    ----------
    metric : str
        Of maps.
    permutations : int
    seed : int
        Sample and seed give the permutations, in whatever order samples come.
    """

    def __init__(
        self, metric: str = DEFAULT_METRIC, *, permutations: int = 99, seed: int = 0
    ) -> None:
        self._accumulator: NullAccumulator = NullAccumulator(
            metric=metric, permutations=permutations, seed=seed
        )

    def reads_maps(self) -> bool:
        """Return that it takes whole maps, not slabs."""
        return False

    def end(self, sample: HeadSample) -> None:
        """Take in the maps of all layers together."""
        self._accumulator.add(sample.maps, number=sample.index)

    def summary(self) -> NullComparison | None:
        """Return observed distances, those of the null, and p-values, by layer."""
        return None if self.left_out else self._accumulator.summary()
