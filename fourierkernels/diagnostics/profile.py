"""What one pass over the inputs of a network measures: the options, and the results as arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.diagnostics.controls import DEFAULT_CONTROLS, control_names
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.role_summary import RoleSummary
from fourierkernels.diagnostics.roles import check_roles
from fourierkernels.diagnostics.statistic_summary import StatisticSummary
from fourierkernels.diagnostics.statistics import check_statistics
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choices, check_integer


@dataclass(frozen=True, eq=False)
class Example:
    """One input whose maps may be looked at.

    Attributes
    ----------
    label : str
        The text, the file name of the image, or the ids.
    keys : tuple of str, length m
        Labels of the tokens, or of the patches of an image.
    queries : tuple of str, length n
        The same as `keys` unless this is cross-attention.
    maps : ndarray, shape (L, H, n, m)
        Weights, not negative.
    """

    label: str
    keys: tuple[str, ...]
    queries: tuple[str, ...]
    maps: NDArray[Any]


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """Importance of every head, averaged over batches.

    Attributes
    ----------
    method : str
        A key of :data:`~fourierkernels.diagnostics.networks.importance.IMPORTANCES`.
    values : ndarray, shape (L, H)
        Mean over batches.
    low, high : ndarray, shape (L, H)
        t interval over batches, level 0.95; NaN from fewer than three.
    layers : tuple of str
        Name of the module of each row.
    """

    method: str
    values: FloatArray
    low: FloatArray
    high: FloatArray
    layers: tuple[str, ...]
    n_batches: int


@dataclass(frozen=True, eq=False)
class PruningCurve:
    """Loss as heads are pruned, the least important first.

    Attributes
    ----------
    removed : ndarray of int, shape (K,)
        Numbers of heads pruned.
    losses : ndarray, shape (K,)
        Mean loss over the batches.
    order : ndarray of int, shape (L H, 2)
        Layer and head, in the order in which they are pruned.
    """

    removed: NDArray[np.int64]
    losses: FloatArray
    order: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeadPruning:
    """Importance of the heads for a loss, and the loss as they are pruned.

    Attributes
    ----------
    loss, description : str
        Which loss, and what it is.
    importance : HeadImportance
    curve : PruningCurve
        The least important heads first, on inputs that the importance was not measured on.
    at_random : PruningCurve
        The same heads in random order.
    """

    loss: str
    description: str
    importance: HeadImportance
    curve: PruningCurve
    at_random: PruningCurve


@dataclass(frozen=True)
class MeasureOptions:
    """What is measured of the heads of a network.

    Attributes
    ----------
    metrics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`; "none" for none.
    statistics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`, or one of
        :data:`~fourierkernels.diagnostics.statistics.SETS`.
    permutations : int
        Of the permutation null of the first metric; 0 for none.
    examples : int
        How many of the first inputs to keep with their maps.
    seed : int
        Of everything random.
    controls : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.controls.CONTROLS`, for metrics of maps; "none"
        for none.
    roles : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.roles.ROLES`, "all" or "none".
    """

    metrics: Sequence[str] | str = (DEFAULT_METRIC,)
    statistics: Sequence[str] | str = "all"
    permutations: int = 0
    examples: int = 0
    seed: int = 0
    controls: Sequence[str] | str = DEFAULT_CONTROLS
    roles: Sequence[str] | str = "none"

    @property
    def metric_names(self) -> list[str]:
        """The metrics, each once.

        Raises
        ------
        TypeError, ValueError
            If they are not names of metrics.
        """
        if not isinstance(self.metrics, Iterable):
            raise TypeError(f"metrics (--metric) must be names of metrics, got {self.metrics!r}")
        return list(check_choices("metric", self.metrics, METRICS))

    @property
    def control_names(self) -> tuple[str, ...]:
        """The controls, each once.

        Raises
        ------
        ValueError
            If they are not names of controls.
        """
        return control_names(self.controls)

    @property
    def asks_for_something(self) -> bool:
        """Whether there is a distance, a statistic or an example to measure or to keep."""
        names = check_statistics(self.statistics)
        described = len(names) > 0 and names != "none"
        return bool(self.metric_names or described or self.examples or check_roles(self.roles))

    def check_counts(self) -> None:
        """Refuse numbers that are no counts, and permutations without a metric."""
        if self.permutations and not self.metric_names:
            raise ValueError(f"permutations need a metric, got {self.permutations} and none")
        check_integer("permutations", self.permutations, least=0)
        check_integer("examples", self.examples, least=0)
        check_integer("seed", self.seed, least=0)
        control_names(self.controls)
        check_roles(self.roles)


@dataclass(frozen=True, eq=False)
class HeadProfile:
    """Results of one pass over the inputs, for the heads of a network.

    Attributes
    ----------
    distances : dict
        By metric.
    statistics : dict
        By name.
    null : NullComparison or None
        Of the first metric.
    examples : list
        The first inputs with their maps.
    controls : dict
        By control and metric of maps, what the distances would be by chance.
    layers : tuple of str
        Names of the modules whose heads were measured, in the order of their calls.
    unread : str
        A sentence on attention that was seen and not understood; empty if there was none.
    notes : tuple of str
        What has to be said of how the inputs were read and the network was run.
    left_out : tuple of str
        Metrics and statistics that were asked for and have no meaning here, each with the reason.
    shapes : tuple
        Heads, windows, queries and keys of each layer where layers differ in them or have windows;
        empty where each attends from all tokens to all tokens with as many heads.
    roles : dict
        By role, how much weight each head gives to its keys, beside chance.
    """

    distances: dict[str, HeadSummary] = field(default_factory=dict)
    statistics: dict[str, StatisticSummary] = field(default_factory=dict)
    null: NullComparison | None = None
    examples: list[Example] = field(default_factory=list)
    controls: dict[str, dict[str, HeadSummary]] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    unread: str = ""
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    shapes: tuple[tuple[int, int, int, int], ...] = ()
    roles: dict[str, RoleSummary] = field(default_factory=dict)
