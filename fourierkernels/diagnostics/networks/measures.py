"""What can be measured in the one pass over inputs. Each measure takes in samples, then sums up.

To add a measure, write a class with `add` and `summary` and give one of them to
:func:`fourierkernels.diagnostics.networks.profile.measure_heads`.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.checkpoints.tokens import InputCounts
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.examples import Example
from fourierkernels.diagnostics.maps import has_short_rows
from fourierkernels.diagnostics.networks.samples import HeadSample
from fourierkernels.diagnostics.resampling import NullAccumulator, NullComparison
from fourierkernels.diagnostics.statistic_summary import (
    StatisticAccumulator,
    StatisticSummary,
    head_statistics,
)
from fourierkernels.diagnostics.statistics import (
    KEYS,
    MARKS,
    STATISTICS,
    HeadStatistic,
    check_statistics,
    statistics_in,
)
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary
from fourierkernels.validation import check_choice, check_integer


class Measure(Protocol):
    """Takes in what the heads compute on one input after another, in memory that stays."""

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample; they may come out of order."""


class Distances:
    """Distances between the heads of each layer.

    Parameters
    ----------
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS`.
    seed : int
        Of the bootstrap.
    """

    def __init__(self, metric: str = DEFAULT_METRIC, *, seed: int = 0) -> None:
        self._of = METRICS[check_choice("metric", metric, list(METRICS))].of
        self._accumulator = HeadAccumulator(metric=metric, seed=seed)

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
        self._accumulator.add(getattr(sample, self._of), number=sample.index)

    def summary(self, counts: InputCounts) -> HeadSummary:
        """Return the distances averaged over the samples so far."""
        share = counts.unknown_share
        return self._accumulator.summary(n_texts=counts.texts, unknown=share)


class Statistics:
    """What each head attends to, and how far it is from a Gaussian kernel.

    Parameters
    ----------
    names : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`; or a key of
        :data:`~fourierkernels.diagnostics.statistics.SETS`, for those in it that have a meaning
        for the network; none has where rows sum to less than one.
    seed : int
        Of the bootstrap.
    """

    def __init__(self, names: Sequence[str] | str = "all", *, seed: int = 0) -> None:
        self._asked = check_statistics(names)
        self._names: list[str] | None = None
        self._accumulator: StatisticAccumulator | None = None
        self._seed = seed

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
        if self._names is None:
            self._names = self._chosen(sample)
            if self._names:
                self._accumulator = StatisticAccumulator(self._names, seed=self._seed)
        if self._accumulator is not None and isinstance(self._asked, str):
            self._leave_out_short_rows(sample)
        if self._accumulator is not None:
            self._accumulator.add(_statistics(sample, self._names), number=sample.index)

    def _leave_out_short_rows(self, sample: HeadSample) -> None:
        """Drop a set of statistics, with a warning, where rows are less than probabilities."""
        if has_short_rows(sample.maps):
            warnings.warn(
                "statistics are left out: rows of attention maps sum to less than one, as with a "
                "constant in the denominator (eps)",
                stacklevel=5,
            )
            self._accumulator = None

    def _chosen(self, sample: HeadSample) -> list[str]:
        known = [row.name for row in STATISTICS.values() if _has_meaning(row, sample)]
        if isinstance(self._asked, str):
            return [name for name in statistics_in(self._asked) if name in known]
        if strange := [name for name in self._asked if name not in known]:
            raise ValueError(
                f"names must have a meaning for this network and these inputs, got {strange[0]}"
            )
        return self._asked

    def summary(self) -> dict[str, StatisticSummary]:
        """Return a summary of ``(L, H)`` for each name."""
        return self._accumulator.summary() if self._accumulator else {}


def _statistics(sample: HeadSample, names: list[str]) -> dict[str, FloatArray]:
    reads_keys = any(STATISTICS[name].reads == KEYS for name in names)
    return head_statistics(
        sample.maps,
        names=names,
        special=sample.special,
        positions=sample.checkpoint.positions,
        keys=sample.keys if reads_keys else None,
        scale=sample.scale,
    )


def _has_meaning(row: HeadStatistic, sample: HeadSample) -> bool:
    """Whether a statistic has one: queries may not be the keys, special tokens may be unknown."""
    unknown = row.reads == MARKS and sample.special is None
    return not unknown and not (row.own and sample.cross)


class PermutationNull:
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
        self._accumulator = NullAccumulator(metric=metric, permutations=permutations, seed=seed)

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
        self._accumulator.add(sample.maps, number=sample.index)

    def summary(self) -> NullComparison:
        """Return observed distances, those of the null, and p-values, by layer."""
        return self._accumulator.summary()


@dataclass
class Modules:
    """Which modules the heads belong to, which attention was not understood, and how it was run."""

    layers: tuple[str, ...] = ()
    unread: str = ""
    notes: tuple[str, ...] = ()

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
        self.layers, self.notes = sample.layers, sample.checkpoint.notes
        self.unread = max(self.unread, sample.unread, key=len)


@dataclass
class Examples:
    """Keeps the first `count` inputs with their maps, for inspection.

    Attributes
    ----------
    most : int
        Weights to keep in all; inputs that do not fit any more are left out.
    """

    count: int = 8
    most: int = 32_000_000
    _found: dict[int, Example] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_integer("examples", self.count, least=0)

    def add(self, sample: HeadSample) -> None:
        """Keep the sample if it is one of the first."""
        if sample.index >= self.count:
            return
        held = sum(example.maps.size for example in self._found.values())
        if held + sample.maps.size <= self.most:
            queries, keys = sample.checkpoint.labels(sample.item)
            label = _label(sample.item, queries)
            maps = sample.maps.astype(np.float16)  # finer than the bytes of a page
            self._found[sample.index] = Example(label, keys, queries, maps)

    def summary(self) -> list[Example]:
        """Return what was kept, in the order of the inputs."""
        return [self._found[index] for index in sorted(self._found)]


def _label(item: Any, tokens: Sequence[str]) -> str:
    return item.name if hasattr(item, "name") else " ".join(tokens)
