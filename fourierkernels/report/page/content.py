"""What goes on a page, and its checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.diagnostics.comparison import HeadDifference
from fourierkernels.diagnostics.examples import Example
from fourierkernels.diagnostics.profile import StatisticSummary
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS, HeadSummary
from fourierkernels.validation import check_choice

NULL_FIELDS = ("observed", "low", "high", "p_value")


class MeasuredImportance(Protocol):
    """A `fourierkernels.diagnostics.networks.importance.HeadImportance`, or what looks like one."""

    @property
    def method(self) -> str:
        """How it was measured."""

    @property
    def values(self) -> FloatArray:
        """Importance, ``(L, H)``."""

    @property
    def low(self) -> FloatArray:
        """Lower end of the interval, ``(L, H)``; NaN if there is none."""

    @property
    def high(self) -> FloatArray:
        """Upper end, as `low`."""


@dataclass(frozen=True, eq=False)
class Page:
    """All that a page shows; only the title is needed.

    Attributes
    ----------
    title : str
        The checkpoint.
    summaries : mapping of str to HeadSummary
        The network asked about first. Empty if there are no distances, as with one head.
    notes : sequence of str
        Lines that must stand beside the numbers: metric, source, normaliser, spread, counts.
    over : str
        Key of :data:`~fourierkernels.diagnostics.summary.SPREADS`: what ± is.
    statistics : mapping of str to StatisticSummary
        By name, of the first network.
    importance : HeadImportance or the like, optional
        Of the first network.
    difference : HeadDifference, optional
        First network minus the one named "other".
    null : mapping, optional
        "observed", "low", "high" and "p_value", each ``(L,)``: the first network beside heads
        whose keys are permuted; the notes say what low and high are.
    examples : sequence of Example
        Kept in all at most :data:`.weights.MOST_WEIGHTS` weights; longer ones are cut, and the
        page says so.
    kind : str
        What an example is, in a word: "text", "image".
    origin : mapping
        Versions, options, digests; anything JSON or `str` can write.
    """

    title: str
    summaries: Mapping[str, HeadSummary] = field(default_factory=dict)
    notes: Sequence[str] = ()
    over: str = DEFAULT_SPREAD
    statistics: Mapping[str, StatisticSummary] = field(default_factory=dict)
    importance: MeasuredImportance | None = None
    difference: HeadDifference | None = None
    null: Mapping[str, FloatArray] | None = None
    examples: Sequence[Example] = ()
    kind: str = "text"
    origin: Mapping[str, Any] = field(default_factory=dict)


def check_page(page: Page) -> None:
    """Raise ValueError if the parts of a page do not fit each other."""
    check_choice("over", page.over, list(SPREADS))
    for number, example in enumerate(page.examples, start=1):
        _check_example(number, example)
    _check_grids(page)
    if page.null is not None:
        _check_null(page)


def _check_example(number: int, example: Example) -> None:
    shape = np.shape(example.maps)
    wanted = len(example.queries), len(example.keys)
    if len(shape) != 4 or shape[2:] != wanted or 0 in shape:
        raise ValueError(
            f"maps of example {number} must have shape (layers, heads, {wanted[0]}, {wanted[1]}), "
            f"as many as labels of queries and keys, got {shape}"
        )


def _check_grids(page: Page) -> None:
    """Statistics, importance and distances are those of the same layers and heads."""
    shapes = {name: one.mean.shape for name, one in page.statistics.items()}
    if page.importance is not None:
        shapes["importance"] = page.importance.values.shape
    for name, summary in list(page.summaries.items())[:1]:
        shapes[f"distances of {name}"] = summary.distances.shape[:2]
    if len(set(shapes.values())) > 1:
        raise ValueError(f"layers and heads must be the same in all parts, got {shapes}")


def _check_null(page: Page) -> None:
    found = {name: np.shape((page.null or {}).get(name, ())) for name in NULL_FIELDS}
    layers = [summary.mean.shape for summary in page.summaries.values()][:1]
    if sorted(set(found.values())) != layers:
        raise ValueError(f"null must have arrays of shapes {layers}, (layers,), got {found}")
