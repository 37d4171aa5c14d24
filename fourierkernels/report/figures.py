"""Figures of heads: distances, statistics, pruning curves. They belong to no window or backend."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.profile import HeadPruning
from fourierkernels.diagnostics.statistic_summary import StatisticSummary
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Summaries = Mapping[str, HeadSummary]

_COLUMNS = 6  # panels in a row of the figure
_PANEL = 1.7  # inches
_WIDE = 3  # panels in a row of statistics
_COLOURS = "cividis"  # even in lightness, and the same to colour-blind eyes


def check_drawing() -> None:
    """Raise ImportError, naming the extra, if figures cannot be drawn."""
    require("matplotlib", "drawing")


def heads_figure(summaries: Summaries, *, title: str) -> "Figure":
    """Draw the mean distances of every pair of heads, one panel per layer, on one colour scale.

    The figure belongs to no window and no backend: save it, or display it in a notebook.
    """
    from matplotlib.figure import Figure

    panels = [_panel_rows(summary) for summary in summaries.values()]
    rows = sum(panels)
    columns = min(_COLUMNS, max(len(summary.mean) for summary in summaries.values()))
    figure = Figure(figsize=(columns * _PANEL + 1, rows * _PANEL + 0.8), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    top = max(float(np.nanmax(summary.distances)) for summary in summaries.values())
    start = 0
    for (name, summary), count in zip(summaries.items(), panels, strict=True):
        image = _draw(axes[start : start + count].ravel(), summary, name=name, top=top or 1.0)
        start += count
    row = METRICS[next(iter(summaries.values())).metric]
    figure.colorbar(image, ax=axes, shrink=0.6, label=f"{row.name} ({row.unit})")
    figure.suptitle(title)
    return figure


def _panel_rows(summary: HeadSummary) -> int:
    return math.ceil(len(summary.mean) / _COLUMNS)


def _draw(axes: Any, summary: HeadSummary, *, name: str, top: float) -> Any:
    for axis in axes[len(summary.mean) :]:
        axis.set_axis_off()
    for layer, (axis, distances) in enumerate(zip(axes, summary.by_layer, strict=False)):
        image = axis.imshow(distances, cmap=_COLOURS, vmin=0.0, vmax=top)
        axis.grid(False)  # whatever style is in force: lines would cross the cells
        axis.set_title(f"{name}, layer {layer + 1}")
        axis.set_xticks([0, len(distances) - 1], ["1", str(len(distances))])
        axis.set_yticks([0, len(distances) - 1], ["1", str(len(distances))])
    axes[0].set_ylabel("head")
    return image


def statistics_figure(statistics: Mapping[str, StatisticSummary], *, title: str) -> "Figure":
    """Draw every statistic of every head, one panel per statistic, layers down and heads across."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(statistics) / _WIDE)
    figure = Figure(figsize=(_WIDE * 2.6, rows * 2.2 + 0.6), layout="constrained")
    axes = figure.subplots(rows, _WIDE, squeeze=False).ravel()
    for axis, (name, found) in zip(axes, statistics.items(), strict=False):
        layers, heads = found.mean.shape
        image = axis.imshow(found.mean, cmap=_COLOURS, aspect="auto")
        axis.grid(False)
        axis.set(title=name.replace("_", " "), xlabel="head", ylabel="layer")
        axis.set_xticks([0, heads - 1], ["1", str(heads)])
        axis.set_yticks([0, layers - 1], ["1", str(layers)])
        figure.colorbar(image, ax=axis, label=STATISTICS[name].unit)
    for axis in axes[len(statistics) :]:
        axis.set_axis_off()
    figure.suptitle(title)
    return figure


def pruning_figure(pruning: HeadPruning, *, title: str) -> "Figure":
    """Draw the loss as heads are pruned, the least important first and in random order."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.2), layout="constrained")
    axis = figure.subplots()
    for curve, style, label in (
        (pruning.curve, "o-", f"least important first ({pruning.importance.method})"),
        (pruning.at_random, "s--", "in random order"),
    ):
        axis.plot(curve.removed, curve.losses, style, label=label)
    axis.set(xlabel="heads taken away", ylabel=pruning.description, title=title)
    axis.legend()
    return figure
