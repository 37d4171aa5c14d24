"""The numbers of a report as JSON."""

import math
from typing import Any

import numpy as np

from fourierkernels.diagnostics.moments import DDOF
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import SPREADS, HeadSummary
from fourierkernels.report.content import ReportContent
from fourierkernels.report.notes import module_notes


def report_numbers(report: ReportContent) -> dict[str, Any]:
    """Return all numbers of a report, and what they depend on, as JSON holds them."""
    networks = {
        name: {metric: _as_json(x, report.spread) for metric, x in profile.distances.items()}
        for name, profile in report.profiles.items()
    }
    return {
        "networks": networks,
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


def _differences(report: ReportContent) -> dict[str, Any] | None:
    if "other" not in report.profiles:
        return None
    found = {metric: report.difference(metric) for metric in report.metrics}
    return {
        metric: {
            "layers": _finite(one.layers),
            "layers_interval": _finite([one.layers_low, one.layers_high]),
            "average": one.average,
            "interval": _finite([one.low, one.high]),
            "level": one.level,
            "paired": one.paired,
        }
        for metric, one in found.items()
        if one is not None
    }


def _matches_as_json(report: ReportContent) -> dict[str, Any] | None:
    found = report.matches
    if found is None:
        return None
    return {
        "metric": found.metric,
        "n_texts": found.n_texts,
        "layers": (found.layers + 1).tolist(),
        "heads": (found.heads + 1).tolist(),
        "distances": _finite(found.distances),
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
    found, curves = report.pruning.importance, (report.pruning.curve, report.pruning.at_random)
    return {
        "method": found.method,
        "loss": report.pruning.loss,
        "layers": list(found.layers),
        "values": _finite(found.values),
        "interval": _finite([found.low, found.high]),
        "removed": _finite(curves[0].removed),
        "pruned": _finite(curves[0].losses),
        "pruned_at_random": _finite(curves[1].losses),
    }


def _finite(values: Any) -> Any:
    """Return numbers for JSON, which has no NaN: null stands for it."""
    if isinstance(values, list) or np.ndim(values):
        return [_finite(value) for value in values]
    return None if math.isnan(values) else float(values)
