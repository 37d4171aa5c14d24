"""The numbers inside a page, as JSON: what its script draws and what can be downloaded from it."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import dendrogram, leaves_list

from fourierkernels.diagnostics.clusters import (
    head_linkage,
    head_positions,
    nearest_distances,
    redundancy_against_importance,
)
from fourierkernels.diagnostics.comparison import HeadMatches
from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.moments import LEVEL
from fourierkernels.diagnostics.profile import HeadImportance, HeadPruning
from fourierkernels.diagnostics.role_summary import RoleSummary
from fourierkernels.diagnostics.roles import ROLES
from fourierkernels.diagnostics.slabs import padded
from fourierkernels.diagnostics.statistic_summary import StatisticSummary
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice
from fourierkernels.report.content import ReportContent
from fourierkernels.report.figures import CIVIDIS
from fourierkernels.report.finding import head_finding
from fourierkernels.report.notes import column_title, role_sentence
from fourierkernels.report.page.weights import LEVELS, MOST_WEIGHTS, page_examples

DIGITS = 6  # significant ones of the numbers in a page; heads.json has them all
# Characters that could end the element the JSON stands in, or a line of script.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def layer_drawings(distances: FloatArray) -> dict[str, Any] | None:
    """Return coordinates for a layer of distances ``(H, H)``; None for a single head.

    Returns
    -------
    dict
        "leaves", heads from left to right; "x" and "y", ``(H - 1, 4)``, the brackets of the
        dendrogram with leaf k at x = k; "points", ``(H, 2)``; "stress", how far distances in the
        plane are from the true ones, sqrt(Σ (d - d')² / Σ d²), or NaN if all are zero.

    Examples
    --------
    >>> layer_drawings(np.array([[0.0, 2.0], [2.0, 0.0]]))["y"]
    [[0.0, 2.0, 2.0, 0.0]]
    """
    if len(distances) < 2:
        return None
    merges = head_linkage(distances)
    tree = dendrogram(merges, no_plot=True)
    points = head_positions(distances)
    brackets = np.array(tree["icoord"]) / 10 - 0.5  # scipy puts leaf k at 10 k + 5
    return {
        "leaves": leaves_list(merges).tolist(),
        "x": brackets.tolist(),
        "y": np.array(tree["dcoord"]).tolist(),
        "points": points.tolist(),
        "stress": _stress(distances, points),
    }


def _stress(distances: FloatArray, points: FloatArray) -> float:
    drawn = np.linalg.norm(points[:, None] - points, axis=-1)
    total = float(np.square(distances).sum())
    return float(np.sqrt(np.square(distances - drawn).sum() / total)) if total > 0 else float("nan")


def page_numbers(report: ReportContent, *, most: int = MOST_WEIGHTS) -> dict[str, Any]:
    """Return all numbers of a page as lists, dictionaries, strings and floats."""
    summaries = report.summaries()
    first = next(iter(summaries.values()), None)
    return {
        "title": report.name,
        "kind": report.kind,
        "digits": DIGITS,
        "levels": LEVELS,
        "level": LEVEL,
        "colours": CIVIDIS,
        "metric": _metric(first),
        "networks": [_network(name, summary) for name, summary in summaries.items()],
        "statistics": _statistics(report, first),
        "sentences": _sentences(report.first.roles),
        "association": _association(first, report.pruning.importance if report.pruning else None),
        "pruning": _pruning(report.pruning),
        "against": report.against_name if "other" in report.profiles else None,
        "matches": _matches(report.matches),
        "start": _start(head_finding(report).layer, first),
        "examples": page_examples(report, most=most),
        "origin": report.shared_origin,
    }


def as_json(numbers: object) -> str:
    r"""Return JSON that may stand inside a script element, whatever its strings hold.

    NaN becomes null, and objects that JSON does not know become strings.

    Examples
    --------
    >>> as_json({"text": "</script>"})
    '{"text":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(_plain(numbers), allow_nan=False, default=str, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _plain(value: Any) -> Any:
    """Return `value` with arrays as lists and floats of DIGITS digits, None where not finite."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _metric(summary: HeadSummary | None) -> dict[str, str]:
    if summary is None:
        return {"name": "", "unit": "", "description": ""}
    row = METRICS[summary.metric]
    return {"name": row.name, "unit": row.unit, "description": row.description}


def _network(name: str, summary: HeadSummary) -> dict[str, Any]:
    return {
        "name": name,
        "title": column_title(name),
        "distances": summary.by_layer,
        "drawings": [layer_drawings(layer) for layer in summary.by_layer],
    }


def _statistics(report: ReportContent, first: HeadSummary | None) -> list[dict[str, Any]]:
    """Rows of one shape: the statistics of maps, and what else is known of each head."""
    rows = [_statistic(name, summary) for name, summary in report.first.statistics.items()]
    rows += [_role(name, summary) for name, summary in report.first.roles.items()]
    if report.pruning is not None:
        importance = report.pruning.importance
        title = f"importance ({importance.method})"
        rows.append(
            _row("importance", importance.values, importance.low, importance.high, title=title)
        )
    if (alone := _alone(first)) is not None:
        none = np.full(alone.shape, math.nan)
        unit = _metric(first)["unit"]
        title = "distance to the nearest head"
        rows.append(_row("nearest", alone, none, none, title=title, unit=unit))
    if report.matches is not None:
        rows.append(_matched(report.matches, report.against_name))
    return rows


def _matched(matches: HeadMatches, name: str) -> dict[str, Any]:
    none = np.full(matches.distances.shape, math.nan)
    about, title = METRICS[matches.metric], f"distance to the nearest head of {name}"
    return _row("matched", matches.distances, none, none, title=title, unit=about.unit)


def _statistic(name: str, summary: StatisticSummary) -> dict[str, Any]:
    about = STATISTICS[check_choice("statistics", name, list(STATISTICS))]
    return _row(
        name,
        summary.mean,
        summary.low,
        summary.high,
        title=name.replace("_", " "),
        unit=about.unit,
        description=about.description,
    )


def _role(name: str, summary: RoleSummary) -> dict[str, Any]:
    row = _row(
        f"role_{name}",
        summary.score,
        summary.low,
        summary.high,
        title=f"weight on {ROLES[name].keys}",
        unit="share of the weight, in rows with a choice",
    )
    return {**row, "chance": summary.chance}


def _sentences(roles: Mapping[str, RoleSummary]) -> list[list[str]]:
    """Return a sentence for each head, by layer."""
    shape = next((summary.score.shape for summary in roles.values()), (0, 0))
    return [[role_sentence(roles, k, h) for h in range(shape[1])] for k in range(shape[0])]


def _row(
    name: str,
    values: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    title: str,
    unit: str = "",
    description: str = "",
) -> dict[str, Any]:
    about = {"name": name, "title": title, "unit": unit, "description": description}
    return {**about, "values": values, "low": low, "high": high}


def _alone(summary: HeadSummary | None) -> FloatArray | None:
    """Distance of each head to the nearest other, ``(L, H)``; None without distances."""
    if summary is None or summary.distances.shape[-1] < 2:
        return None
    return np.stack(padded([_nearest(layer) for layer in summary.by_layer]))


def _nearest(distances: FloatArray) -> FloatArray:
    return nearest_distances(distances) if len(distances) > 1 else np.full(1, math.nan)


def _association(
    summary: HeadSummary | None, importance: HeadImportance | None
) -> dict[str, float] | None:
    """Rank correlation of redundancy and importance; NaN where neither varies."""
    alone = _alone(summary)
    if summary is None or importance is None or alone is None:
        return None
    if not (np.ptp(alone, axis=1).any() and np.ptp(importance.values, axis=1).any()):
        return {"correlation": math.nan, "p_value": math.nan}  # constants have no ranks
    relation = redundancy_against_importance(
        summary.distances, importance.values, rng=np.random.default_rng(0)
    )
    return {"correlation": relation.correlation, "p_value": relation.p_value}


def _start(layer: int | None, first: HeadSummary | None) -> dict[str, int]:
    """Return the layer that stands out, and the head in it that resembles the others least."""
    alone, layer = _alone(first), layer or 0
    head = 0 if alone is None else int(np.nan_to_num(alone[layer], nan=-1.0).argmax())
    return {"layer": layer, "head": head}


def _pruning(pruning: HeadPruning | None) -> dict[str, Any] | None:
    if pruning is None:
        return None
    return {
        "description": pruning.description,
        "method": pruning.importance.method,
        "removed": pruning.curve.removed,
        "losses": pruning.curve.losses,
        "random": pruning.at_random.losses,
    }


def _matches(matches: HeadMatches | None) -> dict[str, Any] | None:
    if matches is None:
        return None
    about = METRICS[matches.metric]
    return {
        "metric": about.description,
        "n_texts": matches.n_texts,
        "layers": matches.layers,
        "heads": matches.heads,
        "distances": matches.distances,
    }
