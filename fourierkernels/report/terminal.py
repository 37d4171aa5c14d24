"""What `fourierkernels heads` shows: tables, and the lines that must stand beside them.

Summaries go by the name of their network, ``{"trained": ..., "random": ...}``; the first is the one
asked about.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from fourierkernels.arrays import FloatArray
from fourierkernels.diagnostics.comparison import HeadDifference
from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.profile import UNITS, StatisticSummary
from fourierkernels.diagnostics.resampling import LEVEL, NullComparison
from fourierkernels.diagnostics.summary import DDOF, DEFAULT_SPREAD, SPREADS, HeadSummary
from fourierkernels.report.digits import decimals

if TYPE_CHECKING:
    from fourierkernels.diagnostics.networks.pruning import HeadNeed

Summaries = Mapping[str, HeadSummary]

_SHOWN = 5  # heads named at either end of the importance


def heads_table(summaries: Summaries, *, over: str = DEFAULT_SPREAD) -> Table:
    """Return the table of layers: mean ± spread of each network, named by :func:`caption`."""
    table = Table()
    table.add_column("layer")
    for name in summaries:
        table.add_column(f"{name} weights", justify="right")
    deepest = max(len(summary.mean) for summary in summaries.values())
    places = decimals(*(summary.mean for summary in summaries.values()))
    columns = [_column(summary, over, deepest, places) for summary in summaries.values()]
    layers = [str(number + 1) for number in range(deepest)]
    ends = ["layer average", f"its {LEVEL:.0%} interval", "std of layer means"]
    for label, *cells in zip([*layers, *ends], *columns, strict=True):
        if label == "layer average":
            table.add_section()
        table.add_row(label, *cells)
    return table


def _column(summary: HeadSummary, over: str, deepest: int, places: int) -> list[str]:
    def shown(value: float) -> str:
        return f"{value:.{places}f}"

    pairs = zip(summary.mean, summary.std(over), strict=True)
    low, high = summary.layer_average_interval()
    return [
        *(f"{shown(mean)} ± {shown(std)}" for mean, std in pairs),
        *[""] * (deepest - len(summary.mean)),
        f"{shown(summary.layer_average)} ± {shown(summary.layer_average_std(over))}",
        f"{shown(low)} to {shown(high)}",
        shown(summary.std_layers),
    ]


def difference_table(difference: HeadDifference) -> Table:
    """Return the table of layers: the network asked about minus the other, with intervals."""
    table = Table()
    table.add_column("layer")
    table.add_column("trained - other", justify="right")
    table.add_column(f"{difference.level:.0%} interval", justify="right")
    rows = list(zip(difference.layers, difference.layers_low, difference.layers_high, strict=True))
    rows.append((difference.average, difference.low, difference.high))
    labels = [*map(str, range(1, len(rows))), "layer average"]
    places = decimals(*rows)
    for label, ends in zip(labels, rows, strict=True):
        if label == "layer average":
            table.add_section()
        mean, low, high = (f"{value:+.{places}f}" for value in ends)
        table.add_row(label, mean, f"{low} to {high}")
    return table


def difference_caption(difference: HeadDifference) -> str:
    """Return what must stand beside the table of differences."""
    drawn = "the same windows" if difference.paired else "windows of their own"
    return f"difference: in each replicate both networks get {drawn}"


def caption(summaries: Summaries, *, over: str = DEFAULT_SPREAD) -> list[str]:
    """Return what must stand beside the numbers, in lines: metric, spread, lengths, counts."""
    first = next(iter(summaries.values()))
    row = METRICS[first.metric]
    lines = [
        f"metric: {row.name} ({row.unit}); {row.description}",
        *([f"source: {row.source}"] if row.source else []),
        f"normaliser: {row.normaliser}",
        f"±: standard deviation over {SPREADS[over].description} (ddof = {DDOF})",
        f"intervals: bootstrap of {len(first.replicates)} replicates over windows; "
        "a text that is not cut is one window",
        f"n: {first.n_min} to {first.n_max} query tokens, median {first.n_median:g}; "
        f"{first.n_texts} texts, {first.n_windows} windows; {first.distances.shape[-1]} heads",
    ]
    if first.unknown > 0:
        lines.append(f"unknown tokens: {first.unknown:.1%}")
    return lines


def statistics_table(statistics: Mapping[str, StatisticSummary]) -> Table:
    """Return the table of statistics: mean of all heads, and the heads at either end."""
    table = Table()
    for title in ("statistic", "mean", "least, of head", "greatest, of head", "unit"):
        table.add_column(title, justify="left" if title in {"statistic", "unit"} else "right")
    for name, one in statistics.items():
        ends = (_named(one.mean, place) for place in (one.mean.argmin(), one.mean.argmax()))
        table.add_row(name.replace("_", " "), f"{one.mean.mean():.3f}", *ends, UNITS[name])
    return table


def _named(values: FloatArray, place: np.intp) -> str:
    layer, head = np.unravel_index(place, values.shape)
    return f"{values[layer, head]:.3f}  {layer + 1}.{head + 1}"


STATISTICS_CAPTION = "heads are named layer.head"


def null_table(null: NullComparison) -> Table:
    """Return the table of layers beside heads as sharp that attend to unrelated keys."""
    table = Table()
    for title in ("layer", "distance", "permuted keys", "p"):
        table.add_column(title, justify="left" if title == "layer" else "right")
    places = decimals(null.observed, null.null)
    ends = zip(
        null.observed, null.null.min(axis=0), null.null.max(axis=0), null.p_value, strict=True
    )
    for layer, (observed, low, high, p) in enumerate(ends, start=1):
        found, least, most = (f"{value:.{places}f}" for value in (observed, low, high))
        table.add_row(str(layer), found, f"{least} to {most}", f"{p:.3f}")
    return table


def null_caption(null: NullComparison, metric: str) -> str:
    """Return what must stand beside the table of the null."""
    count = len(null.null)
    return (
        f"permuted keys: {metric}, range of {count} permutations of each row among its visible "
        f"keys; p: (1 + number of them with a distance as small) / (1 + {count}), so "
        f"{1 / (1 + count):.3g} at least"
    )


def need_table(need: "HeadNeed") -> Table:
    """Return the pruning curves: loss as heads go, by importance and in random order."""
    table = Table()
    for title in ("heads taken away", "least important first", "in random order"):
        table.add_column(title, justify="right")
    rows = zip(need.pruned.removed, need.pruned.losses, need.at_random.losses, strict=True)
    places = 1 + decimals(need.pruned.losses)
    for count, loss, chance in rows:
        table.add_row(str(count), f"{loss:.{places}f}", f"{chance:.{places}f}")
    return table


def need_caption(need: "HeadNeed") -> list[str]:
    """Return what must stand beside the pruning curves, and the heads at either end."""
    found, order = need.importance, [f"{layer + 1}.{head + 1}" for layer, head in need.pruned.order]
    shown = max(1, min(_SHOWN, len(order) // 2))
    return [
        f"loss: {need.loss} ({need.description})",
        f"importance: {found.method}, {found.n_batches} items; the curves are of other items",
        f"least important heads (layer.head): {', '.join(order[:shown])}; "
        f"most important: {', '.join(reversed(order[-shown:]))}",
    ]
