"""What `fourierkernels heads` shows and writes: a table, CSV, JSON and heat maps.

Everything here takes summaries by the name of their network, for example
``{"trained": ..., "random": ...}``; the first is the one asked about.
"""

import csv
import json
import math
import platform
import shutil
import uuid
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from fourierkernels.diagnostics.comparison import HeadDifference, head_difference
from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.resampling import LEVEL
from fourierkernels.diagnostics.summary import DDOF, DEFAULT_SPREAD, SPREADS, HeadSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
Summaries = Mapping[str, HeadSummary]

_PACKAGES = (
    "fourierkernels",
    "numpy",
    "scipy",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
)
_COLUMNS = 6  # panels in a row of the figure
_PANEL = 1.7  # inches
_COLOURS = "cividis"  # even in lightness, and the same to colour-blind eyes


def check_drawing() -> None:
    """Raise ImportError, naming the extra, if figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise ImportError("drawing needs matplotlib: pip install 'fourierkernels[heads]'")


def heads_table(summaries: Summaries, *, over: str = DEFAULT_SPREAD) -> Table:
    """Return the table of layers: mean ± spread of each network, named by :func:`caption`."""
    table = Table()
    table.add_column("layer")
    for name in summaries:
        table.add_column(f"{name} weights", justify="right")
    deepest = max(len(summary.mean) for summary in summaries.values())
    columns = [_column(summary, over, deepest) for summary in summaries.values()]
    layers = [str(number + 1) for number in range(deepest)]
    ends = ["layer average", f"its {LEVEL:.0%} interval", "std of layer means"]
    for label, *cells in zip([*layers, *ends], *columns, strict=True):
        if label == "layer average":
            table.add_section()
        table.add_row(label, *cells)
    return table


def _column(summary: HeadSummary, over: str, deepest: int) -> list[str]:
    pairs = zip(summary.mean, summary.std(over), strict=True)
    low, high = summary.layer_average_interval()
    return [
        *(f"{mean:.3f} ± {std:.3f}" for mean, std in pairs),
        *[""] * (deepest - len(summary.mean)),
        f"{summary.layer_average:.3f} ± {summary.layer_average_std(over):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{summary.std_layers:.3f}",
    ]


def difference_table(difference: HeadDifference) -> Table:
    """Return the table of layers: the network asked about minus the other, with intervals."""
    table = Table()
    table.add_column("layer")
    table.add_column("trained - other", justify="right")
    table.add_column(f"{difference.level:.0%} interval", justify="right")
    rows = zip(difference.layers, difference.layers_low, difference.layers_high, strict=True)
    for number, (mean, low, high) in enumerate(rows, start=1):
        table.add_row(str(number), f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}")
    table.add_section()
    interval = f"{difference.low:+.3f} to {difference.high:+.3f}"
    table.add_row("layer average", f"{difference.average:+.3f}", interval)
    return table


def difference_caption(difference: HeadDifference) -> str:
    """Return what must stand beside the table of differences."""
    drawn = "the same windows" if difference.paired else "windows of their own"
    return f"difference: in each replicate both networks get {drawn}"


def caption(summaries: Summaries, *, over: str = DEFAULT_SPREAD) -> list[str]:
    """Return what must stand beside the numbers, in lines: metric, spread, lengths, counts."""
    first = next(iter(summaries.values()))
    row = METRICS[first.metric]
    lines = [
        f"metric: {row.name} ({row.unit}); {row.description}",
        f"source: {row.source}",
        f"normaliser: {row.normaliser}",
        f"±: standard deviation over {SPREADS[over].description} (ddof = {DDOF})",
        f"intervals: bootstrap of {len(first.replicates)} replicates over windows",
        f"n: {first.n_min} to {first.n_max} tokens, median {first.n_median:g}; "
        f"{first.n_texts} texts, {first.n_windows} windows; {first.distances.shape[-1]} heads",
    ]
    if first.unknown > 0:
        lines.append(f"unknown tokens: {first.unknown:.1%}")
    return lines


def provenance(options: Mapping[str, object]) -> dict[str, Any]:
    """Return versions and options, so that a result can be made again."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        if find_spec(package) is not None:
            versions[package] = metadata.version(package)
    return {"versions": versions, "options": dict(options)}


def write_report(
    folder: str | Path,
    summaries: Summaries,
    *,
    title: str,
    origin: Mapping[str, Any],
    over: str = DEFAULT_SPREAD,
) -> list[Path]:
    """Write heads.csv, heads.json, heads.png and heads.svg; return their paths.

    With a network named "other" also difference.csv: the first network minus it.

    All are made beside `folder` first and moved there when complete. Files of those names are
    replaced, others stay.

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
        _write_csv(made / "heads.csv", summaries)
        _write_json(made / "heads.json", summaries, origin, over)
        if "other" in summaries:
            _write_difference(made / "difference.csv", summaries)
        _write_figure(made, summaries, title)
        return _move(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _move(made: Path, target: Path) -> list[Path]:
    target.mkdir(exist_ok=True)
    names = sorted(path.name for path in made.iterdir())
    for name in names:
        (made / name).replace(target / name)
    return [target / name for name in names]


def _write_csv(path: Path, summaries: Summaries) -> None:
    """One row a network and layer, with every spread."""
    fields = [row.field for row in SPREADS.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["network", "metric", "layer", "mean", "low", "high", *fields])
        for name, summary in summaries.items():
            low, high = summary.interval()
            for layer, mean in enumerate(summary.mean):
                stds = (summary.std(over)[layer] for over in SPREADS)
                ends = (low[layer], high[layer])
                writer.writerow([name, summary.metric, layer + 1, mean, *ends, *stds])


def _write_difference(path: Path, summaries: Summaries) -> None:
    """One row a layer and one for their average."""
    found = head_difference(next(iter(summaries.values())), summaries["other"])
    rows = list(zip(found.layers, found.layers_low, found.layers_high, strict=True))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["metric", "layer", "difference", "low", "high", "level", "paired"])
        for label, row in [
            *((str(number), row) for number, row in enumerate(rows, start=1)),
            ("average", (found.average, found.low, found.high)),
        ]:
            writer.writerow([found.metric, label, *row, found.level, found.paired])


def _write_json(path: Path, summaries: Summaries, origin: Mapping[str, Any], over: str) -> None:
    networks = {name: _as_json(summary, over) for name, summary in summaries.items()}
    content = {"networks": networks, "ddof": DDOF, **origin}
    text = json.dumps(content, indent=1, allow_nan=False, default=str)  # paths become strings
    path.write_text(text + "\n", encoding="utf-8")


def _as_json(summary: HeadSummary, over: str) -> dict[str, Any]:
    layers = {row.field: _list(summary.std(name)) for name, row in SPREADS.items()}
    return {
        "metric": summary.metric,
        "normaliser": summary.normaliser,
        "n": {"min": summary.n_min, "median": summary.n_median, "max": summary.n_max},
        "n_texts": summary.n_texts,
        "n_windows": summary.n_windows,
        "unknown_tokens": _number(summary.unknown),
        "layer_average": summary.layer_average,
        "layer_average_interval": [_number(end) for end in summary.layer_average_interval()],
        "layer_average_std": _number(summary.layer_average_std(over)),
        "layer_average_std_over": SPREADS[over].description,
        "std_layers": _number(summary.std_layers),
        "mean": summary.mean.tolist(),
        "interval": [_list(end) for end in summary.interval()],
        **layers,
        "distances": summary.distances.tolist(),
    }


def _list(values: FloatArray) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    """Return `value` for JSON, which has no NaN: null stands for it."""
    return None if math.isnan(value) else value


def _write_figure(folder: Path, summaries: Summaries, title: str) -> None:
    import matplotlib as mpl

    with mpl.rc_context(
        # The same numbers must give the same file, and text must stay text.
        {"svg.hashsalt": "fourierkernels", "svg.fonttype": "none", "font.size": 8}
    ):
        figure = heads_figure(summaries, title=title)
        figure.savefig(folder / "heads.png", dpi=150)
        figure.savefig(folder / "heads.svg", metadata={"Date": None})


def heads_figure(summaries: Summaries, *, title: str) -> "Figure":
    """Draw the mean distances of every pair of heads, a panel a layer, on one colour scale.

    The figure belongs to no window and no backend: save it, or display it in a notebook.
    """
    from matplotlib.figure import Figure

    panels = [_panel_rows(summary) for summary in summaries.values()]
    rows = sum(panels)
    columns = min(_COLUMNS, max(len(summary.mean) for summary in summaries.values()))
    figure = Figure(figsize=(columns * _PANEL + 1, rows * _PANEL + 0.8), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    top = max(float(summary.distances.max()) for summary in summaries.values())
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
    for layer, (axis, distances) in enumerate(zip(axes, summary.distances, strict=False)):
        image = axis.imshow(distances, cmap=_COLOURS, vmin=0.0, vmax=top)
        axis.grid(False)  # whatever style is in force: lines would cross the cells
        axis.set_title(f"{name}, layer {layer + 1}")
        axis.set_xticks([0, len(distances) - 1], ["1", str(len(distances))])
        axis.set_yticks([0, len(distances) - 1], ["1", str(len(distances))])
    axes[0].set_ylabel("head")
    return image
