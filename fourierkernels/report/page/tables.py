"""What a page says before its script runs: finding, notes, and tables, as HTML."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from fourierkernels.diagnostics.comparison import HeadDifference
from fourierkernels.diagnostics.controls import CONTROLS
from fourierkernels.diagnostics.moments import LEVEL
from fourierkernels.diagnostics.profile import HeadPruning
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.summary import SPREADS, HeadSummary
from fourierkernels.report.content import ReportContent
from fourierkernels.report.finding import head_finding
from fourierkernels.report.notes import (
    column_title,
    decimals,
    module_notes,
    null_note,
    pruning_notes,
    role_notes,
    share_cell,
    summary_notes,
)

Column = tuple[str, list[str]]  # heading, and a cell for each row

NO_NUMBER = "–"


def finding_lines(report: ReportContent) -> str:
    """Return what was found, a paragraph for each sentence, and what is not accounted for."""
    first, *others = head_finding(report).sentences
    lines = [f'<p class="finding">{escape(first)}</p>']
    lines += [f"<p>{escape(line)}</p>" for line in others]
    if report.first.unread:
        lines.append(f'<p class="warning">Not accounted for: {escape(report.first.unread)}</p>')
    return "\n".join(lines)


def notes_list(report: ReportContent) -> str:
    """Return the notes that belong with the numbers, as items of a list."""
    summaries, null = report.summaries(), report.first.null
    notes = module_notes(report.first)
    notes += summary_notes(summaries, spread=report.spread) if summaries else []
    notes += role_notes(report.first.roles) if report.first.roles else []
    if null is not None:
        notes.append(null_note(null, report.metrics[0]))
    return _items(notes)


def pruning_list(pruning: HeadPruning | None) -> str:
    """Return the notes on importance and pruning, as items of a list."""
    return _items([] if pruning is None else pruning_notes(pruning))


def _items(notes: Sequence[str]) -> str:
    return "\n".join(f"<li>{escape(note)}</li>" for note in notes)


def pruning_numbers(pruning: HeadPruning | None) -> str:
    """Return the pruning curves as a table: the loss by the number of heads pruned."""
    if pruning is None:
        return ""
    places = 1 + decimals(pruning.curve.losses, pruning.at_random.losses)
    curves = zip(pruning.curve.removed, pruning.curve.losses, pruning.at_random.losses, strict=True)
    rows = [
        _row(str(count), [_number(loss, places) for loss in losses]) for count, *losses in curves
    ]
    titles = ("heads pruned", "least important first", "in random order")
    return _table(titles, rows)


def _table(titles: Sequence[str], rows: Sequence[str], attributes: str = "") -> str:
    cells = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    head, body = f"<thead><tr>{cells}</tr></thead>", "\n".join(rows)
    return f"<table{attributes}>\n{head}\n<tbody>\n{body}\n</tbody></table>"


def layers_table(report: ReportContent) -> str:
    """Return one row per layer, their average and spread; a sentence if there are no distances."""
    summaries = report.summaries()
    if not summaries:
        return "<p>No distances between heads: they need at least two heads in a layer.</p>"
    deepest = max(len(summary.mean) for summary in summaries.values())
    labels = [*map(str, range(1, deepest + 1)), "layer average", "std of layer means"]
    columns = list(_columns(report, deepest))
    cells = zip(labels, *[column for _, column in columns], strict=True)
    rows = [_row(label, row) for label, *row in cells]
    table = _table(
        ["layer", *(title for title, _ in columns)], rows, ' aria-describedby="layers-about"'
    )
    spread = SPREADS[report.spread].description
    about = f"Distances between the heads of each layer. ± is the standard deviation over {spread}."
    return (
        f'<p id="layers-about" class="hint">{escape(about)}</p>\n'
        '<div class="scroll" tabindex="0" role="region" aria-label="Table of layers">\n'
        f"{table}</div>"
    )


def _row(label: str, cells: Sequence[str]) -> str:
    numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(label)}</th>{numbers}</tr>'


def _columns(report: ReportContent, deepest: int) -> Iterator[Column]:
    summaries, difference = report.summaries(), report.difference()
    digits = decimals(*(summary.mean for summary in summaries.values()))
    for name, summary in summaries.items():
        yield f"{column_title(name)}: mean ± std", _means(summary, report.spread, deepest, digits)
        yield f"{LEVEL:.0%} interval", _intervals(summary, deepest, digits)
    for name, share in report.shares().items():
        values = [share_cell(value) or NO_NUMBER for value in (*share.layers, share.average)]
        layers = _filled(values[:-1], deepest)
        yield f"shared, beside {CONTROLS[name].title}", [*layers, values[-1], ""]
    if difference is not None:
        yield from _difference(difference, next(iter(summaries)), deepest)
    if report.first.null is not None:
        yield from _null(report.first.null, deepest)


def _means(summary: HeadSummary, spread: str, deepest: int, digits: int) -> list[str]:
    def shown(mean: float, std: float) -> str:
        return f"{_number(mean, digits)} ± {_number(std, digits)}"

    layers = [shown(*both) for both in zip(summary.mean, summary.std(spread), strict=True)]
    average = shown(summary.layer_average, summary.layer_average_std(spread))
    return [*_filled(layers, deepest), average, _number(summary.std_layers, digits)]


def _intervals(summary: HeadSummary, deepest: int, digits: int) -> list[str]:
    layers = [_interval(*ends, digits) for ends in zip(*summary.interval(), strict=True)]
    return [*_filled(layers, deepest), _interval(*summary.layer_average_interval(), digits), ""]


def _difference(difference: HeadDifference, first: str, deepest: int) -> Iterator[Column]:
    digits = decimals(difference.layers, difference.average)
    layers = [_number(mean, digits, sign="+") for mean in difference.layers]
    average = _number(difference.average, digits, sign="+")
    yield f"{first} - other", [*_filled(layers, deepest), average, ""]
    ends = zip(difference.layers_low, difference.layers_high, strict=True)
    intervals = _filled([_interval(*both, digits, sign="+") for both in ends], deepest)
    average = _interval(difference.low, difference.high, digits, sign="+")
    yield f"its {difference.level:.0%} interval", [*intervals, average, ""]


def _null(null: NullComparison, deepest: int) -> Iterator[Column]:
    digits = decimals(null.observed, null.high)
    ends = zip(null.low, null.high, strict=True)
    yield "permuted keys", [*_filled([_interval(*both, digits) for both in ends], deepest), "", ""]
    values = [f"{value:.2g}" for value in null.p_value]
    yield "p (as alike by chance)", [*_filled(values, deepest), "", ""]


def _filled(cells: list[str], count: int) -> list[str]:
    return [*cells, *[""] * (count - len(cells))]


def _number(value: float, digits: int, sign: str = "") -> str:
    return NO_NUMBER if math.isnan(value) else f"{value:{sign}.{digits}f}"


def _interval(low: float, high: float, digits: int, sign: str = "") -> str:
    if math.isnan(low) or math.isnan(high):
        return NO_NUMBER
    return f"{_number(low, digits, sign)} to {_number(high, digits, sign)}"
