"""A report in a terminal: its tables, each followed by its notes.

Summaries go by the name of their network, ``{"trained": ..., "random": ...}``; the first is the one
asked about.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table

from fourierkernels.diagnostics.comparison import HeadDifference, HeadShare
from fourierkernels.diagnostics.controls import CONTROLS
from fourierkernels.diagnostics.moments import LEVEL
from fourierkernels.diagnostics.profile import HeadPruning
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.role_summary import RoleSummary
from fourierkernels.diagnostics.roles import ROLES
from fourierkernels.diagnostics.statistic_summary import StatisticSummary
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.progress import Advance, bar
from fourierkernels.report.content import ReportContent
from fourierkernels.report.finding import head_finding
from fourierkernels.report.notes import (
    MOSTLY,
    STATISTICS_NOTE,
    column_title,
    decimals,
    difference_note,
    module_notes,
    null_note,
    pruning_notes,
    role_notes,
    share_cell,
    summary_notes,
)

Summaries = Mapping[str, HeadSummary]


def heads_table(
    summaries: Summaries,
    *,
    spread: str = DEFAULT_SPREAD,
    shares: Mapping[str, HeadShare] | None = None,
) -> Table:
    """Return the table of layers: mean ± spread of each network, and shares beside controls."""
    table = Table()
    table.add_column("layer")
    for name in summaries:
        table.add_column(column_title(name), justify="right")
    deepest = max(len(summary.mean) for summary in summaries.values())
    places = decimals(*(summary.mean for summary in summaries.values()))
    columns = [_column(summary, spread, deepest, places) for summary in summaries.values()]
    layers = [str(number + 1) for number in range(deepest)]
    ends = ["layer average", f"its {LEVEL:.0%} interval", "std of layer means"]
    for label, *cells in zip([*layers, *ends], *columns, strict=True):
        if label == "layer average":
            table.add_section()
        table.add_row(label, *cells)
    if shares:
        by_title = {CONTROLS[name].title: share for name, share in shares.items()}
        known = [by_title.get(name) for name in summaries]
        cells = [["", ""] if share is None else _share(share) for share in known]
        for label, *row in zip(("shared", f"its {LEVEL:.0%} interval"), *cells, strict=True):
            table.add_row(label, *row)
    return table


def _share(share: HeadShare) -> list[str]:
    ends = [share_cell(end) for end in (share.low, share.high)]
    return [share_cell(share.average), " to ".join(ends) if ends[0] else ""]


def _column(summary: HeadSummary, spread: str, deepest: int, places: int) -> list[str]:
    def shown(value: float) -> str:
        return f"{value:.{places}f}"

    def both(mean: float, std: float) -> str:
        around = "" if math.isnan(std) else f" ± {shown(std)}"
        return "one head" if math.isnan(mean) else f"{shown(mean)}{around}"

    pairs = zip(summary.mean, summary.std(spread), strict=True)
    low, high = summary.layer_average_interval()
    return [
        *(both(mean, std) for mean, std in pairs),
        *[""] * (deepest - len(summary.mean)),
        both(summary.layer_average, summary.layer_average_std(spread)),
        "" if math.isnan(low) else f"{shown(low)} to {shown(high)}",
        "" if math.isnan(summary.std_layers) else shown(summary.std_layers),
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
        if math.isnan(ends[0]):
            table.add_row(label, "one head", "")
            continue
        mean, low, high = (f"{value:+.{places}f}" for value in ends)
        table.add_row(label, mean, "" if math.isnan(ends[1]) else f"{low} to {high}")
    return table


def statistics_table(statistics: Mapping[str, StatisticSummary]) -> Table:
    """Return the table of statistics: mean of all heads, and the heads at either end."""
    table = Table()
    for title in ("statistic", "mean", "least, of head", "greatest, of head", "unit"):
        table.add_column(title, justify="left" if title in {"statistic", "unit"} else "right")
    for name, summary in statistics.items():
        ends = (
            _named(summary.mean, place)
            for place in (np.nanargmin(summary.mean), np.nanargmax(summary.mean))
        )
        table.add_row(
            name.replace("_", " "), f"{np.nanmean(summary.mean):.3f}", *ends, STATISTICS[name].unit
        )
    return table


def _named(values: FloatArray, place: np.intp) -> str:
    layer, head = np.unravel_index(place, values.shape)
    return f"{values[layer, head]:.3f}  {layer + 1}.{head + 1}"


def roles_table(roles: Mapping[str, RoleSummary]) -> Table:
    """Return the table of what heads are for: how many are above chance, and the one farthest."""
    table = Table()
    for title in (
        "keys",
        "above chance",
        "mostly on them",
        "farthest head",
        "its weight",
        "by chance",
    ):
        table.add_column(title, justify="left" if title == "keys" else "right")
    for name, summary in roles.items():
        known = np.isfinite(summary.score)
        place = np.unravel_index(np.nanargmax(summary.score - summary.chance), summary.score.shape)
        count, mostly, ends = "–", "–", f"{summary.score[place]:.3f}"
        if summary.tested:
            count = f"{int(summary.above.sum())} of {int(known.sum())} heads"
            mostly = str(int((summary.above & (summary.share > MOSTLY)).sum()))
            ends += f" ({summary.low[place]:.3f} to {summary.high[place]:.3f})"
        head = f"{place[0] + 1}.{place[1] + 1}"
        table.add_row(ROLES[name].keys, count, mostly, head, ends, f"{summary.chance[place]:.3f}")
    return table


def null_table(null: NullComparison) -> Table:
    """Return the table that compares layers with equally sharp heads on unrelated keys."""
    table = Table()
    for title in ("layer", "distance", "permuted keys", "p"):
        table.add_column(title, justify="left" if title == "layer" else "right")
    places = decimals(null.observed, null.null)
    ends = zip(null.observed, null.low, null.high, null.p_value, strict=True)
    for layer, (observed, low, high, p) in enumerate(ends, start=1):
        value, least, most = (f"{value:.{places}f}" for value in (observed, low, high))
        table.add_row(str(layer), value, f"{least} to {most}", f"{p:.3f}")
    return table


def pruning_table(pruning: HeadPruning) -> Table:
    """Return the pruning curves: the loss by the number of heads pruned."""
    table = Table()
    for title in ("heads taken away", "least important first", "in random order"):
        table.add_column(title, justify="right")
    rows = zip(pruning.curve.removed, pruning.curve.losses, pruning.at_random.losses, strict=True)
    places = 1 + decimals(pruning.curve.losses)
    for count, loss, chance in rows:
        table.add_row(str(count), f"{loss:.{places}f}", f"{chance:.{places}f}")
    return table


def print_report(report: ReportContent, console: Console) -> None:
    """Print tables and notes; notes are not wrapped."""
    for part in report_parts(report):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


def report_parts(report: ReportContent) -> Iterator[RenderableType]:
    """Yield what was left out, the finding, then tables, each followed by its notes as a string."""
    if left_out := module_notes(report.first):
        yield "\n".join(left_out)
    if report.metrics:
        yield "\n".join(head_finding(report).sentences)
    for metric in report.metrics:
        yield from _metric_parts(report, metric)
    if report.first.statistics:
        yield statistics_table(report.first.statistics)
        yield STATISTICS_NOTE
    if report.first.roles:
        yield roles_table(report.first.roles)
        yield "\n".join(role_notes(report.first.roles))
    if report.first.null is not None:
        yield null_table(report.first.null)
        yield null_note(report.first.null, report.metrics[0])
    if report.pruning is not None:
        yield pruning_table(report.pruning)
        yield "\n".join(pruning_notes(report.pruning))


def _metric_parts(report: ReportContent, metric: str) -> Iterator[RenderableType]:
    summaries = report.summaries(metric)
    yield heads_table(summaries, spread=report.spread, shares=report.shares(metric))
    notes = [f"checkpoint: {report.title}", *summary_notes(summaries, spread=report.spread)]
    if report.skipped:
        notes.append(f"empty lines skipped: {report.skipped}")
    yield "\n".join(notes)
    difference = report.difference(metric)
    if difference is not None:
        yield difference_table(difference)
        yield f"other: {report.against}\n{difference_note(difference)}"


@contextmanager
def progress_bars(total: int) -> Iterator[Callable[[str, float], None]]:
    """Show a bar for each network on standard error; yield what to call as texts are finished."""
    bars: dict[str, Advance] = {}
    with ExitStack() as stack:

        def advance(network: str, done: float) -> None:
            if network not in bars:
                bars[network] = stack.enter_context(bar(f"{network} weights", total))
            bars[network](done)

        yield advance
