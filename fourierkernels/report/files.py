"""What `fourierkernels heads` writes: tables as CSV, all numbers as JSON, figures, and a page.

To add a file, write a function from a :class:`HeadReport` and a path and add a row to
:data:`FILES`.
"""

import csv
import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourierkernels.diagnostics.comparison import head_difference
from fourierkernels.diagnostics.profile import UNITS
from fourierkernels.diagnostics.summary import SPREADS
from fourierkernels.report.content import HeadReport
from fourierkernels.report.figures import (
    check_drawing,
    heads_figure,
    pruning_figure,
    statistics_figure,
)
from fourierkernels.report.numbers import report_numbers
from fourierkernels.report.page import Page, write_page
from fourierkernels.report.terminal import caption, null_caption

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(folder: str | Path, report: HeadReport) -> list[Path]:
    """Write the files of :data:`FILES` that there is something for; return their paths.

    All are made beside `folder` first and moved there when complete. Files of those names that an
    earlier report left are replaced or taken away, others stay.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    OSError
        If the folder cannot be written.
    """
    check_drawing()
    target = Path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    made.mkdir()
    try:
        for row in FILES:
            if row.there(report):
                row.write(report, made / row.name)
        return _move(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _move(made: Path, target: Path) -> list[Path]:
    target.mkdir(exist_ok=True)
    names = sorted(path.name for path in made.iterdir())
    for row in FILES:
        if row.name not in names:
            (target / row.name).unlink(missing_ok=True)
    for name in names:
        (made / name).replace(target / name)
    return [target / name for name in names]


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _write_distances(report: HeadReport, path: Path) -> None:
    """One row a network, metric and layer, with every spread."""
    fields = [row.field for row in SPREADS.values()]
    rows = []
    for metric in report.metrics:
        for name, summary in report.summaries(metric).items():
            low, high = summary.interval()
            for layer, mean in enumerate(summary.mean):
                stds = (summary.std(over)[layer] for over in SPREADS)
                rows.append([name, metric, layer + 1, mean, low[layer], high[layer], *stds])
    _write_rows(path, ["network", "metric", "layer", "mean", "low", "high", *fields], rows)


def _write_difference(report: HeadReport, path: Path) -> None:
    """One row a metric and layer, and one for the average of the layers."""
    rows = []
    for metric in report.metrics:
        summaries = report.summaries(metric)
        found = head_difference(summaries["trained"], summaries["other"])
        layers = zip(found.layers, found.layers_low, found.layers_high, strict=True)
        numbered: list[tuple[object, tuple[float, ...]]] = list(enumerate(layers, start=1))
        numbered.append(("average", (found.average, found.low, found.high)))
        rows += [[metric, label, *row, found.level, found.paired] for label, row in numbered]
    header = ["metric", "layer", "difference", "low", "high", "level", "paired"]
    _write_rows(path, header, rows)


def _write_statistics(report: HeadReport, path: Path) -> None:
    """One row a statistic, layer and head."""
    rows = (
        [
            name,
            UNITS[name],
            layer + 1,
            head + 1,
            found.mean[layer, head],
            found.low[layer, head],
            found.high[layer, head],
            found.std_texts[layer, head],
        ]
        for name, found in report.first.statistics.items()
        for layer, head in np.ndindex(found.mean.shape)
    )
    header = ["statistic", "unit", "layer", "head", "mean", "low", "high", "std_texts"]
    _write_rows(path, header, rows)


def _write_null(report: HeadReport, path: Path) -> None:
    """One row a layer."""
    null = report.first.null
    assert null is not None
    ends = (null.observed, null.null.min(axis=0), null.null.max(axis=0), null.p_value)
    numbered = enumerate(zip(*ends, strict=True), start=1)
    rows = ([report.metrics[0], layer, *row] for layer, row in numbered)
    header = ["metric", "layer", "observed", "permuted_least", "permuted_most", "p_value"]
    _write_rows(path, header, rows)


def _write_importance(report: HeadReport, path: Path) -> None:
    """One row a layer and head."""
    assert report.need is not None
    found, loss = report.need.importance, report.need.loss
    rows = (
        [
            found.method,
            loss,
            found.layers[layer],
            layer + 1,
            head + 1,
            found.values[layer, head],
            found.low[layer, head],
            found.high[layer, head],
        ]
        for layer, head in np.ndindex(found.values.shape)
    )
    header = ["method", "loss", "module", "layer", "head", "importance", "low", "high"]
    _write_rows(path, header, rows)


def _write_pruning(report: HeadReport, path: Path) -> None:
    """One row a point of the curves."""
    assert report.need is not None
    curves = {"importance": report.need.pruned, "random": report.need.at_random}
    rows = (
        [name, *point]
        for name, curve in curves.items()
        for point in zip(curve.removed, curve.losses, strict=True)
    )
    _write_rows(path, ["order", "removed", report.need.loss], rows)


def _write_json(report: HeadReport, path: Path) -> None:
    text = json.dumps(report_numbers(report), indent=1, allow_nan=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")  # default=str: paths are among the options


def report_page(report: HeadReport) -> Page:
    """Return what heads.html shows, of the first metric."""
    summaries = report.summaries(report.metrics[0]) if report.metrics else {}
    null, other = report.first.null, summaries.get("other")
    notes, ends = caption(summaries, over=report.over) if summaries else [], None
    if null is not None:
        notes.append(null_caption(null, report.metrics[0]))
        low, high = null.null.min(axis=0), null.null.max(axis=0)
        ends = {"observed": null.observed, "low": low, "high": high, "p_value": null.p_value}
    return Page(
        title=report.title,
        summaries=summaries,
        notes=notes,
        over=report.over,
        statistics=report.first.statistics,
        importance=report.need.importance if report.need else None,
        difference=head_difference(summaries["trained"], other) if other else None,
        null=ends,
        examples=report.first.examples,
        origin=report.origin or {},
        kind=report.kind,
    )


def _write_page(report: HeadReport, path: Path) -> None:
    write_page(path, report_page(report))


def _draw(figure_of: "Callable[[HeadReport], Figure]") -> Callable[[HeadReport, Path], None]:
    """Return how to write a figure; the same numbers give the same file, and text stays text."""

    def write(report: HeadReport, path: Path) -> None:
        import matplotlib as mpl

        options: Any = {"svg.hashsalt": "fourierkernels", "svg.fonttype": "none", "font.size": 8}
        plain = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 150}
        with mpl.rc_context(options):
            figure_of(report).savefig(path, **plain)

    return write


def _draw_distances(report: HeadReport) -> "Figure":
    return heads_figure(report.summaries(report.metrics[0]), title=report.title)


def _draw_statistics(report: HeadReport) -> "Figure":
    return statistics_figure(report.first.statistics, title=report.title)


def _draw_pruning(report: HeadReport) -> "Figure":
    assert report.need is not None
    return pruning_figure(report.need, title=report.title)


@dataclass(frozen=True)
class ReportFile:
    """A file of the report: its name, how it is written, and when there is something for it."""

    name: str
    write: Callable[[HeadReport, Path], None]
    there: Callable[[HeadReport], bool]


def _always(report: HeadReport) -> bool:
    return True


def _has_metrics(report: HeadReport) -> bool:
    return bool(report.metrics)


def _has_other(report: HeadReport) -> bool:
    return bool(report.metrics) and "other" in report.profiles


def _has_need(report: HeadReport) -> bool:
    return report.need is not None


def _has_statistics(report: HeadReport) -> bool:
    return bool(report.first.statistics)


FILES = (
    ReportFile("heads.csv", _write_distances, _has_metrics),
    ReportFile("heads.json", _write_json, _always),
    ReportFile("heads.html", _write_page, _always),
    ReportFile("heads.png", _draw(_draw_distances), _has_metrics),
    ReportFile("heads.svg", _draw(_draw_distances), _has_metrics),
    ReportFile("difference.csv", _write_difference, _has_other),
    ReportFile("statistics.csv", _write_statistics, _has_statistics),
    ReportFile("statistics.svg", _draw(_draw_statistics), _has_statistics),
    ReportFile("null.csv", _write_null, lambda report: report.first.null is not None),
    ReportFile("importance.csv", _write_importance, _has_need),
    ReportFile("pruning.csv", _write_pruning, _has_need),
    ReportFile("pruning.svg", _draw(_draw_pruning), _has_need),
)
