"""The tables of a report as rows, and as CSV; each is there where there is something for it.

To add a table, write a function from a report to its columns and rows and add a row to
:data:`TABLES`.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import SPREADS
from fourierkernels.report.content import ReportContent

Rows = tuple[list[str], Sequence[Sequence[object]]]  # names of the columns, and the rows


def csv_table(name: str) -> Callable[[ReportContent, Path], None]:
    """Return how to write a table of :data:`TABLES`; without rows, no file is written."""

    def write(report: ReportContent, path: Path) -> None:
        columns, rows = TABLES[name](report)
        if not rows:
            return
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)

    return write


def distance_rows(report: ReportContent) -> Rows:
    """One row per network, metric and layer, with every spread."""
    fields = [row.field for row in SPREADS.values()]
    rows: list[list[object]] = []
    for metric in report.metrics:
        for name, summary in report.summaries(metric).items():
            low, high = summary.interval()
            for layer, mean in enumerate(summary.mean):
                if np.isnan(mean):  # a layer of one head
                    continue
                stds = (summary.std(spread)[layer] for spread in SPREADS)
                rows.append([name, metric, layer + 1, mean, low[layer], high[layer], *stds])
    return ["network", "metric", "layer", "mean", "low", "high", *fields], rows


def difference_rows(report: ReportContent) -> Rows:
    """One row per metric and layer, and one for the average of the layers."""
    rows: list[list[object]] = []
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
    return ["metric", "layer", "difference", "low", "high", "level", "paired"], rows


def statistic_rows(report: ReportContent) -> Rows:
    """One row per statistic, layer and head."""
    rows = [
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
    ]
    return ["statistic", "unit", "layer", "head", "mean", "low", "high", "std_texts"], rows


def null_rows(report: ReportContent) -> Rows:
    """One row per layer."""
    columns = ["metric", "layer", "observed", "permuted_least", "permuted_most", "p_value"]
    null = report.first.null
    if null is None:
        return columns, []
    ends = (null.observed, null.low, null.high, null.p_value)
    numbered = enumerate(zip(*ends, strict=True), start=1)
    return columns, [[report.metrics[0], layer, *row] for layer, row in numbered]


def importance_rows(report: ReportContent) -> Rows:
    """One row per layer and head."""
    columns = ["method", "loss", "module", "layer", "head", "importance", "low", "high"]
    if report.pruning is None:
        return columns, []
    found, loss = report.pruning.importance, report.pruning.loss
    return columns, [
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
    ]


def match_rows(report: ReportContent) -> Rows:
    """One row per layer and head: the nearest head of the other network."""
    columns = ["metric", "layer", "head", "other_layer", "other_head", "distance", "n_texts"]
    found = report.matches
    if found is None:
        return columns, []
    return columns, [
        [
            found.metric,
            layer + 1,
            head + 1,
            found.layers[layer, head] + 1,
            found.heads[layer, head] + 1,
            found.distances[layer, head],
            found.n_texts,
        ]
        for layer, head in np.ndindex(found.distances.shape)
    ]


def pruning_rows(report: ReportContent) -> Rows:
    """One row per point of the curves."""
    if report.pruning is None:
        return ["order", "removed", "loss"], []
    curves = {"importance": report.pruning.curve, "random": report.pruning.at_random}
    return ["order", "removed", report.pruning.loss], [
        [name, *point]
        for name, curve in curves.items()
        for point in zip(curve.removed, curve.losses, strict=True)
    ]


TABLES: dict[str, Callable[[ReportContent], Rows]] = {
    "heads": distance_rows,
    "difference": difference_rows,
    "matches": match_rows,
    "statistics": statistic_rows,
    "null": null_rows,
    "importance": importance_rows,
    "pruning": pruning_rows,
}
