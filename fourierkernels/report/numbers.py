"""The numbers of a report: its tables as rows and as CSV, and all of it as JSON.

A table is there where there is something for it. To add one, write a function from a report to its
columns and rows and add a row to :data:`TABLES`.
"""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.diagnostics.controls import CONTROLS
from fourierkernels.diagnostics.moments import DDOF
from fourierkernels.diagnostics.role_summary import RoleSummary
from fourierkernels.diagnostics.roles import ROLES
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import SPREADS, HeadSummary
from fourierkernels.report.content import ReportContent
from fourierkernels.report.notes import module_notes

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


def share_rows(report: ReportContent) -> Rows:
    """One row per metric, control and layer, and one for the layers together."""
    rows: list[list[object]] = []
    for metric in report.metrics:
        for name, share in report.shares(metric).items():
            layers = zip(share.layers, share.layers_low, share.layers_high, strict=True)
            numbered: list[tuple[object, tuple[float, ...]]] = [
                (layer, row) for layer, row in enumerate(layers, start=1) if not np.isnan(row[0])
            ]
            numbered.append(("average", (share.average, share.low, share.high)))
            rows += [[metric, name, label, *row, share.level] for label, row in numbered]
    return ["metric", "control", "layer", "shared", "low", "high", "level"], rows


def difference_rows(report: ReportContent) -> Rows:
    """One row per metric and layer, and one for the average of the layers."""
    rows: list[list[object]] = []
    for metric in report.metrics:
        difference = report.difference(metric)
        if difference is None:
            continue
        layers = zip(difference.layers, difference.layers_low, difference.layers_high, strict=True)
        numbered: list[tuple[object, tuple[float, ...]]] = [
            (layer, row) for layer, row in enumerate(layers, start=1) if not np.isnan(row[0])
        ]
        numbered.append(("average", (difference.average, difference.low, difference.high)))
        rows += [
            [metric, label, *row, difference.level, difference.paired] for label, row in numbered
        ]
    return ["metric", "layer", "difference", "low", "high", "level", "paired"], rows


def statistic_rows(report: ReportContent) -> Rows:
    """One row per statistic, layer and head."""
    rows = [
        [name, STATISTICS[name].unit, *row]
        for name, summary in report.first.statistics.items()
        for row in _by_head(summary.mean, summary.low, summary.high, summary.std_texts)
        if not np.isnan(row[2])
    ]
    return ["statistic", "unit", "layer", "head", "mean", "low", "high", "std_texts"], rows


def _by_head(*values: NDArray[Any]) -> Iterator[list[Any]]:
    """Yield layer and head, from 1, and the values of each head, ``(L, H)``."""
    for layer, head in np.ndindex(values[0].shape):
        yield [layer + 1, head + 1, *(array[layer, head] for array in values)]


def role_rows(report: ReportContent) -> Rows:
    """One row per role, layer and head: the score, its interval, and what it is by chance."""
    columns = ["role", "layer", "head", "score", "low", "high", "chance", "above", "n_texts"]
    rows = [
        [name, *row, summary.n_texts]
        for name, summary in report.first.roles.items()
        for row in _by_head(
            summary.score, summary.low, summary.high, summary.chance, _above(summary)
        )
        if not np.isnan(row[2])
    ]
    return columns, rows


def _above(summary: RoleSummary) -> NDArray[Any]:
    """Return which heads are above chance; nothing where that is not tested."""
    return summary.above if summary.tested else np.full(summary.above.shape, None)


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
    importance, loss = report.pruning.importance, report.pruning.loss
    rows = _by_head(importance.values, importance.low, importance.high)
    return columns, [[importance.method, loss, importance.layers[row[0] - 1], *row] for row in rows]


def match_rows(report: ReportContent) -> Rows:
    """One row per layer and head: the nearest head of the other network."""
    columns = ["metric", "layer", "head", "other_layer", "other_head", "distance", "n_texts"]
    matches = report.matches
    if matches is None:
        return columns, []
    rows = _by_head(matches.layers + 1, matches.heads + 1, matches.distances)
    return columns, [[matches.metric, *row, matches.n_texts] for row in rows]


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
    "shares": share_rows,
    "difference": difference_rows,
    "matches": match_rows,
    "statistics": statistic_rows,
    "roles": role_rows,
    "null": null_rows,
    "importance": importance_rows,
    "pruning": pruning_rows,
}


def report_numbers(report: ReportContent) -> dict[str, Any]:
    """Return all numbers of a report, and what they depend on, as JSON holds them."""
    networks = {
        name: {metric: _as_json(x, report.spread) for metric, x in profile.distances.items()}
        for name, profile in report.profiles.items()
    }
    return {
        "networks": networks,
        "controls": _controls(report),
        "difference": _differences(report),
        "matches": _matches_as_json(report),
        "statistics": {
            name: {
                "unit": STATISTICS[name].unit,
                "mean": _finite(x.mean),
                "std_texts": _finite(x.std_texts),
                "interval": _finite([x.low, x.high]),
            }
            for name, x in report.first.statistics.items()
        },
        "roles": {
            name: {
                "keys": ROLES[name].keys,
                "score": _finite(x.score),
                "interval": _finite([x.low, x.high]),
                "chance": _finite(x.chance),
                "above": _above(x).tolist(),
                "n_texts": x.n_texts,
            }
            for name, x in report.first.roles.items()
        },
        "null": _null_as_json(report),
        "importance": _pruning_as_json(report),
        "left_out": list(report.first.left_out),
        "shapes": [list(shape) for shape in report.first.shapes],
        "notes": module_notes(report.first),
        "ddof": DDOF,
        **report.shared_origin,
    }


def _as_json(summary: HeadSummary, spread: str) -> dict[str, Any]:
    layers = {row.field: _finite(summary.std(name)) for name, row in SPREADS.items()}
    return {
        "normaliser": summary.normaliser,
        "n": {"min": summary.n_min, "median": summary.n_median, "max": summary.n_max},
        "n_texts": summary.n_texts,
        "n_windows": summary.n_windows,
        "unknown_tokens": _finite(summary.unknown),
        "layer_average": summary.layer_average,
        "layer_average_interval": _finite(summary.layer_average_interval()),
        "layer_average_std": _finite(summary.layer_average_std(spread)),
        "layer_average_std_over": SPREADS[spread].description,
        "std_layers": _finite(summary.std_layers),
        "mean": _finite(summary.mean),
        "interval": _finite(summary.interval()),
        **layers,
        "distances": _finite(summary.by_layer),
    }


def _controls(report: ReportContent) -> dict[str, dict[str, Any]]:
    """Return distances by chance and what is shared beyond it, by metric and control."""
    return {
        metric: {
            name: {
                **_as_json(summary, report.spread),
                "kept": CONTROLS[name].kept,
                "shared": _finite(share.average),
                "shared_interval": _finite([share.low, share.high]),
                "shared_layers": _finite(share.layers),
                "shared_layers_interval": _finite([share.layers_low, share.layers_high]),
            }
            for (name, summary), share in zip(
                report.controls(metric).items(), report.shares(metric).values(), strict=True
            )
        }
        for metric in report.metrics
    }


def _differences(report: ReportContent) -> dict[str, Any] | None:
    if "other" not in report.profiles:
        return None
    differences = {metric: report.difference(metric) for metric in report.metrics}
    return {
        metric: {
            "layers": _finite(difference.layers),
            "layers_interval": _finite([difference.layers_low, difference.layers_high]),
            "average": difference.average,
            "interval": _finite([difference.low, difference.high]),
            "level": difference.level,
            "paired": difference.paired,
        }
        for metric, difference in differences.items()
        if difference is not None
    }


def _matches_as_json(report: ReportContent) -> dict[str, Any] | None:
    matches = report.matches
    if matches is None:
        return None
    return {
        "metric": matches.metric,
        "n_texts": matches.n_texts,
        "layers": (matches.layers + 1).tolist(),
        "heads": (matches.heads + 1).tolist(),
        "distances": _finite(matches.distances),
    }


def _null_as_json(report: ReportContent) -> dict[str, Any] | None:
    null = report.first.null
    if null is None:
        return None
    return {
        "metric": report.metrics[0],
        "observed": _finite(null.observed),
        "permuted": _finite(null.null),
        "p_value": _finite(null.p_value),
    }


def _pruning_as_json(report: ReportContent) -> dict[str, Any] | None:
    if report.pruning is None:
        return None
    importance, curves = report.pruning.importance, (report.pruning.curve, report.pruning.at_random)
    return {
        "method": importance.method,
        "loss": report.pruning.loss,
        "layers": list(importance.layers),
        "values": _finite(importance.values),
        "interval": _finite([importance.low, importance.high]),
        "removed": _finite(curves[0].removed),
        "pruned": _finite(curves[0].losses),
        "pruned_at_random": _finite(curves[1].losses),
    }


def _finite(values: Any) -> Any:
    """Return numbers for JSON, which has neither NaN nor infinity: null stands for both."""
    if isinstance(values, list) or np.ndim(values):
        return [_finite(value) for value in values]
    return float(values) if math.isfinite(values) else None
