"""A report in a terminal: its tables, each followed by its notes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console, RenderableType

from fourierkernels.foundation.progress import Advance, bar
from fourierkernels.report.content import ReportContent
from fourierkernels.report.notes import (
    STATISTICS_NOTE,
    difference_note,
    module_notes,
    null_note,
    pruning_notes,
    summary_notes,
)
from fourierkernels.report.tables import (
    difference_table,
    heads_table,
    null_table,
    pruning_table,
    statistics_table,
)


def print_report(report: ReportContent, console: Console) -> None:
    """Print tables and notes; notes are not wrapped."""
    for part in report_parts(report):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


def report_parts(report: ReportContent) -> Iterator[RenderableType]:
    """Yield what was left out, then tables, each followed by its notes as a string."""
    if left_out := module_notes(report.first):
        yield "\n".join(left_out)
    for metric in report.metrics:
        yield from _metric_parts(report, metric)
    if report.first.statistics:
        yield statistics_table(report.first.statistics)
        yield STATISTICS_NOTE
    if report.first.null is not None:
        yield null_table(report.first.null)
        yield null_note(report.first.null, report.metrics[0])
    if report.pruning is not None:
        yield pruning_table(report.pruning)
        yield "\n".join(pruning_notes(report.pruning))


def _metric_parts(report: ReportContent, metric: str) -> Iterator[RenderableType]:
    summaries = report.summaries(metric)
    yield heads_table(summaries, spread=report.spread)
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
