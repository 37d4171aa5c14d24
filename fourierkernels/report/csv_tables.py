"""The tables of a report as CSV; each is written where there is something for it."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import SPREADS
from fourierkernels.report.content import ReportContent


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_distances(report: ReportContent, path: Path) -> None:
    """One row per network, metric and layer, with every spread."""
    fields = [row.field for row in SPREADS.values()]
    rows = []
    for metric in report.metrics:
        for name, summary in report.summaries(metric).items():
            low, high = summary.interval()
            for layer, mean in enumerate(summary.mean):
                if np.isnan(mean):  # a layer of one head
                    continue
                stds = (summary.std(spread)[layer] for spread in SPREADS)
                rows.append([name, metric, layer + 1, mean, low[layer], high[layer], *stds])
    _write_rows(path, ["network", "metric", "layer", "mean", "low", "high", *fields], rows)


def write_difference(report: ReportContent, path: Path) -> None:
    """One row per metric and layer, and one for the average of the layers."""
    rows = []
    for metric in report.metrics:
        found = report.difference(metric)
        if found is None:
            continue
        layers = zip(found.layers, found.layers_low, found.layers_high, strict=True)
        numbered: list[tuple[object, tuple[float, ...]]] = [
            (layer, row) for layer, row in enumerate(layers, start=1) if not np.isnan(row[0])
        ]
        numbered.append(("average", (found.average, found.low, found.high)))
        rows += [[metric, label, *row, found.level, found.paired] for label, row in numbered]
    header = ["metric", "layer", "difference", "low", "high", "level", "paired"]
    _write_rows(path, header, rows)


def write_statistics(report: ReportContent, path: Path) -> None:
    """One row per statistic, layer and head."""
    rows = (
        [
            name,
            STATISTICS[name].unit,
            layer + 1,
            head + 1,
            found.mean[layer, head],
            found.low[layer, head],
            found.high[layer, head],
            found.std_texts[layer, head],
        ]
        for name, found in report.first.statistics.items()
        for layer, head in np.argwhere(~np.isnan(found.mean))
    )
    header = ["statistic", "unit", "layer", "head", "mean", "low", "high", "std_texts"]
    _write_rows(path, header, rows)


def write_null(report: ReportContent, path: Path) -> None:
    """One row per layer."""
    null = report.first.null
    if null is None:
        return
    ends = (null.observed, null.low, null.high, null.p_value)
    numbered = enumerate(zip(*ends, strict=True), start=1)
    rows = ([report.metrics[0], layer, *row] for layer, row in numbered)
    header = ["metric", "layer", "observed", "permuted_least", "permuted_most", "p_value"]
    _write_rows(path, header, rows)


def write_importance(report: ReportContent, path: Path) -> None:
    """One row per layer and head."""
    if report.pruning is None:
        return
    found, loss = report.pruning.importance, report.pruning.loss
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


def write_pruning(report: ReportContent, path: Path) -> None:
    """One row per point of the curves."""
    if report.pruning is None:
        return
    curves = {"importance": report.pruning.curve, "random": report.pruning.at_random}
    rows = (
        [name, *point]
        for name, curve in curves.items()
        for point in zip(curve.removed, curve.losses, strict=True)
    )
    _write_rows(path, ["order", "removed", report.pruning.loss], rows)
