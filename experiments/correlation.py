"""Does a product kernel see correlation, and does it decay to a point mass? Exactly, no sampling.

    python experiments/correlation.py [--output FOLDER] [--quick] [--planted]

The paper's first sentence: the Fourier integral estimator "can automatically preserve the
correlated structure", which an isotropic Gaussian kernel cannot. For N(0, Σ) with unit variances
and one common correlation, in D = 2 and 3, every kernel gets its own best scale, and the exact MISE
over ∫p² is compared: product sinc powers and the Gaussian with one radius, with one radius per
dimension, and with a full bandwidth matrix.

The second: the product sinc kernel "does not decay to a point mass" as R grows. For growing R the
exact squared bias of every kernel (it is 0 for a point mass) and its variance are written down.

With --planted, in place of these: regression and attention where the response depends on features
that are correlated or turned (`_planted.py`). A product of sincs and the Gaussian have one radius,
one per feature, or a matrix, chosen by leave-one-out or by gradient descent, and so have dot
products in attention; the Gaussian also has the product's matrix, and the product its own, turned.
Errors are over the variance of the response; differences are from the product with a matrix, over
seeds, with an interval of 95 % that is corrected for the contenders, and the smallest that would
have shown with a power of 80 %.

Writes correlation.csv, correlation_point_mass.csv, the provenance as JSON, and a figure; or
correlation_planted.csv and correlation_planted_runs.csv.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import torch
from _planted import (
    CORRELATION,
    DATA,
    NOISE,
    POWER,
    Row,
    Size,
    attention_errors,
    regression_errors,
    run_rows,
    summary_rows,
)
from matplotlib import pyplot as plt

from fourierkernels import theory
from fourierkernels.foundation.provenance import write_study
from fourierkernels.plotting import COLOURS, MARKERS, style
from fourierkernels.theory.densities import CorrelatedGaussian

ROOT = Path(__file__).parents[1]
PRODUCTS = ("fourier1", "fourier2", "fourier4", "gaussian")
CORRELATIONS = {2: (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99), 3: (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)}
SIZES = {2: (100, 1_000, 10_000, 100_000), 3: (1_000, 100_000)}
RADII = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
QUICK = {2: (0.0, 0.9)}
SEEDS = range(100, 108)


def best_errors(dim: int, correlation: float, n: int) -> list[Row]:
    """Return one row per kernel: its best scale and the exact error there."""
    density = CorrelatedGaussian(correlation, dim)
    found = {name: theory.optimum(density, name, n=n).mise for name in PRODUCTS}
    each = theory.optimum(density, "gaussian", n=n, per_dimension=True)
    found["gaussian, radius per dimension"] = each.mise
    found["gaussian, full covariance"] = theory.full_covariance_optimum(density, n=n).mise
    return [
        {
            "dim": dim,
            "correlation": correlation,
            "n": n,
            "kernel": name,
            "bias2": error.bias2 / density.roughness,
            "variance": error.variance / density.roughness,
            "relative_mise": error.total / density.roughness,
        }
        for name, error in found.items()
    ]


def point_mass(name: str, radius: float, n: int = 1_000) -> Row:
    """Return what a kernel does to N(0, Σ), correlation 0.9, in the plane as its radius grows."""
    density = CorrelatedGaussian(0.9, 2)
    error = theory.mise(density, name, n=n, radius=radius)
    return {
        "kernel": name,
        "radius": radius,
        "n": n,
        "bias2": error.bias2 / density.roughness,
        "variance": error.variance / density.roughness,
    }


def draw(rows: list[Row], path: Path) -> None:
    """Draw the relative error against the correlation, D = 2, n = 1000."""
    with plt.rc_context(style()):
        figure, axis = plt.subplots(figsize=(5.6, 3.8))
        chosen = [row for row in rows if row["dim"] == 2 and row["n"] == 1_000]
        names = list(dict.fromkeys(str(row["kernel"]) for row in chosen))
        for name, colour, marker in zip(names, COLOURS, MARKERS, strict=False):
            line = [row for row in chosen if row["kernel"] == name]
            axis.plot(
                [row["correlation"] for row in line],
                [row["relative_mise"] for row in line],
                color=colour,
                marker=marker,
                label=name,
            )
        axis.set(xlabel="correlation", ylabel="best MISE over ∫p²", yscale="log")
        axis.legend()
        figure.savefig(path)
        plt.close(figure)


def planted(write: Callable[..., None], *, quick: bool) -> None:
    """Write the tables of planted correlation."""
    torch.set_num_threads(1)
    size = Size(updates=3) if quick else Size()
    seeds, samples = (SEEDS[:2], 40) if quick else (SEEDS, 150)
    settings = {"power": POWER, "correlation": CORRELATION, "noise": NOISE, **asdict(size)}
    settings |= {"samples": samples, "seeds": list(seeds)}
    begun, runs = time.process_time(), []
    for seed in seeds:
        for data in DATA:
            regression = regression_errors(data, seed, n=samples)
            runs += run_rows("regression", data, seed, regression)
            runs += run_rows("attention", data, seed, attention_errors(data, seed, size))
        settings["seconds"] = round(time.process_time() - begun, 1)
        write("correlation_planted", summary_rows(runs), settings, packages=("torch",))
        write("correlation_planted_runs", runs, settings, packages=("torch",))


def main() -> None:
    """Compute all cells and write tables, provenance and the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="two correlations in the plane")
    parser.add_argument("--planted", action="store_true", help="regression and attention instead")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    start, write = time.perf_counter(), partial(write_study, options.output, source=Path(__file__))
    if options.planted:
        planted(write, quick=options.quick)
        return
    rows: list[Row] = []
    for dim, correlations in (QUICK if options.quick else CORRELATIONS).items():
        for correlation in correlations:
            for n in (1_000,) if options.quick else SIZES[dim]:
                rows += best_errors(dim, correlation, n)
            write("correlation", rows, {"seconds": round(time.perf_counter() - start, 1)})
    masses = [point_mass(name, radius) for name in PRODUCTS for radius in RADII]
    write("correlation_point_mass", masses, {})
    draw(rows, options.output / "correlation.svg")


if __name__ == "__main__":
    main()
