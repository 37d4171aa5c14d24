"""Figures of heads: distances, statistics, pruning curves. They belong to no window or backend.

Titles are names, which may hold dollars: they are no formulas.
"""

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
    figure.suptitle(title, parse_math=False)
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
    for axis, (name, summary) in zip(axes, statistics.items(), strict=False):
        layers, heads = summary.mean.shape
        image = axis.imshow(summary.mean, cmap=_COLOURS, aspect="auto")
        axis.grid(False)
        axis.set(title=name.replace("_", " "), xlabel="head", ylabel="layer")
        axis.set_xticks([0, heads - 1], ["1", str(heads)])
        axis.set_yticks([0, layers - 1], ["1", str(layers)])
        figure.colorbar(image, ax=axis, label=STATISTICS[name].unit)
    for axis in axes[len(statistics) :]:
        axis.set_axis_off()
    figure.suptitle(title, parse_math=False)
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
    axis.set(xlabel="heads taken away", ylabel=pruning.description)
    axis.set_title(title, parse_math=False)
    axis.legend()
    return figure


# 256 colours from dark blue to yellow, six hexadecimal digits each.
CIVIDIS = (
    "00224e00234f00245100255300255400265600275800285900285b00295d002a5f002a61002b62002c64002c66"
    "002d68002e6a002e6c002f6d00306f0030700031700031710132710533710833700c34700f3570123570143670"
    "16377018376f1a386f1c396f1e3a6f203a6f213b6e233c6e243c6e263d6e273e6e293f6e2a3f6d2b406d2d416d"
    "2e416d2f426d31436d32436d33446d34456c35456c36466c38476c39486c3a486c3b496c3c4a6c3d4a6c3e4b6c"
    "3f4c6c404c6c414d6c424e6c434e6c444f6c45506c46516c47516c48526c49536c4a536c4b546c4c556c4d556c"
    "4e566c4f576c50576c51586d52596d535a6d545a6d555b6d555c6d565c6d575d6d585e6d595e6e5a5f6e5b606e"
    "5c616e5d616e5e626e5e636f5f636f60646f61656f62656f636670646770656870656870666970676a71686a71"
    "696b716a6c716b6d726c6d726c6e726d6f726e6f736f7073707173717274727274727374737475747475757575"
    "7676767777767777777878777979777a7a787b7a787c7b787d7c787e7c787e7d787f7e78807f78817f78828079"
    "8381798482798582798683798784788885788985788a86788b87788c88788d88788e89788f8a78908b78918b78"
    "928c78928d78938e78948e77958f779690779791779892779992779a93769b94769c95769d95769e96769f9775"
    "a09875a19975a29975a39a74a49b74a59c74a69c74a79d73a89e73a99f73aaa073aba072aca172ada272aea371"
    "afa471b0a571b1a570b3a670b4a76fb5a86fb6a96fb7a96eb8aa6eb9ab6dbaac6dbbad6dbcae6cbdae6cbeaf6b"
    "bfb06bc0b16ac1b26ac2b369c3b369c4b468c5b568c6b667c7b767c8b866c9b965cbb965ccba64cdbb63cebc63"
    "cfbd62d0be62d1bf61d2c060d3c05fd4c15fd5c25ed6c35dd7c45cd9c55cdac65bdbc75adcc859ddc858dec958"
    "dfca57e0cb56e1cc55e2cd54e4ce53e5cf52e6d051e7d150e8d24fe9d34eead34cebd44bedd54aeed649efd748"
    "f0d846f1d945f2da44f3db42f5dc41f6dd3ff7de3ef8df3cf9e03afbe138fce236fde334fee434fee535fee636"
    "fee838"
)
