"""Results of one pass over the inputs of a network, as arrays."""

from dataclasses import dataclass, field

from fourierkernels.diagnostics.examples import Example
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.statistic_summary import StatisticSummary
from fourierkernels.diagnostics.summary import HeadSummary


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
    sharpened : dict
        By metric of maps, distances between random heads as sharp as these; empty without.
    layers : tuple of str
        Names of the modules whose heads were measured, in the order of their calls.
    unread : str
        A sentence on attention that was seen and not understood; empty if there was none.
    notes : tuple of str
        What has to be said of how the inputs were read and the network was run.
    """

    distances: dict[str, HeadSummary] = field(default_factory=dict)
    statistics: dict[str, StatisticSummary] = field(default_factory=dict)
    null: NullComparison | None = None
    examples: list[Example] = field(default_factory=list)
    sharpened: dict[str, HeadSummary] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    unread: str = ""
    notes: tuple[str, ...] = ()
