"""Rates of regression error: simulated slopes with intervals beside what is derived.

    python experiments/rates_regression.py [--output FOLDER] [--quick] [--workers W] [--cells DIR]

The papers prove rates of Nadaraya-Watson regression for l = 1 and l >= 6 and leave l = 2..5 open.
Here every power l = 1..6 and the Gaussian kernel, in one and two dimensions, with normal design and
noise: integrated mean squared error at the radius that minimises its large-sample value, over a
stated window of n. Also on the line a kink and a jump of f. With --cells, finished cells are kept
in that folder and an interrupted run goes on where it ended.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fourierkernels.densities import as_density, as_regression_function
from fourierkernels.kernels import KERNELS
from fourierkernels.plotting import COLOURS, LINES, MARKERS, style
from fourierkernels.simulation import as_noise, quadrature
from fourierkernels.simulation.sweep import Row, Sweep, run_sweep, summarise
from fourierkernels.study import write_study
from fourierkernels.theory import regression_at_radius, regression_next_order
from fourierkernels.theory.slopes import fit_slope

ROOT = Path(__file__).parents[1]
SEED = 2022
# function, dimension, sizes: the window of the slope
WINDOWS = (
    ("sine", 1, (1_000, 3_000, 10_000, 30_000)),
    ("sine", 2, (1_600, 4_000, 10_000, 25_000)),
    ("kink", 1, (1_000, 3_000, 10_000, 30_000)),
    ("jump", 1, (500, 1_000, 2_000, 4_000)),
)
QUICK = (("sine", 1, (200, 400, 800)), ("sine", 2, (400, 800, 1_600)))


@dataclass(frozen=True)
class Error:
    """One simulated point: integrated error at its best radius."""

    function: str
    dim: int
    kernel: str
    n: int
    radius: float
    replicates: int
    undefined: int
    mean: float
    standard_error: float
    robust: float
    large_sample: float
    next_order: float


@dataclass(frozen=True)
class Fit:
    """One row of the table of rates."""

    function: str
    dim: int
    kernel: str
    smallest: int
    largest: int
    slope: float
    low: float
    high: float
    large_sample_slope: float
    derived: float
    log_power: float
    worst_sigmas: float


def derived_rate(function: str, kernel: str, dim: int) -> tuple[float, float]:
    """Return (exponent, power of log n) as n grows: error ~ (log n)^power n^-exponent.

    The integrated squared bias falls like R^-q, q twice the order of the kernel or 2β - 1 from a
    break of f with |f̂| ~ |t|^-β, whichever is smaller. For an infinite order and a smooth f it
    falls like the transform of f p, exp(-R²) for normal designs.
    """
    order, smooth = KERNELS[kernel].order, as_regression_function(function).smoothness
    rough = 2.0 * smooth.exponent - 1.0 if smooth.kind == "ordinary_smooth" else np.inf
    q = min(2.0 * order, rough)
    return (1.0, dim / 2.0) if np.isinf(q) else (q / (dim + q), 0.0)


def large_sample(row: Row) -> tuple[float, float]:
    """Return the integrated error of large samples at the radius of a row, and the next order."""
    cell = row.cell
    breaks = as_regression_function(cell.function).breaks
    nodes = {1: 96, 2: 24}[cell.dim]
    points, weights = quadrature(as_density(cell.density), cell.dim, nodes=nodes, breaks=breaks)
    setting = (cell.density, cell.function, cell.kernel)
    options = {
        "n": cell.n,
        "radius": row.radius,
        "at": points,
        "noise_variance": as_noise(cell.noise).variance(points),
    }
    first = regression_at_radius(*setting, **options).total
    return float(weights @ first), float(weights @ regression_next_order(*setting, **options))


def simulate(
    function: str, dim: int, sizes: Sequence[int], folder: Path, *, replicates: int, workers: int
) -> list[Error]:
    """Run or continue the sweep of one window."""
    sweep = Sweep(
        ("gaussian",),
        tuple(KERNELS),
        tuple(sizes),
        (dim,),
        ("optimal",),
        task="regression",
        function=function,
        replicates=replicates // 4,
        blocks=4,
        seed=SEED,
    )
    path = folder / f"rates_regression_{function}_{dim}.jsonl"
    rows = summarise(run_sweep(sweep, path, workers=workers))
    return [
        Error(
            function,
            dim,
            row.cell.kernel,
            row.cell.n,
            row.radius,
            row.replicates,
            row.undefined,
            row.mean,
            row.standard_error,
            row.robust,
            *large_sample(row),
        )
        for row in rows
    ]


def fit(errors: Sequence[Error]) -> Fit:
    """Fit the slope of one kernel over its window."""
    first, sizes = errors[0], [error.n for error in errors]
    means = [error.mean for error in errors]
    spread = [error.standard_error for error in errors]
    slope = fit_slope(sizes, means, spread)
    exact = fit_slope(sizes, [error.large_sample for error in errors], spread)
    exponent, log_power = derived_rate(first.function, first.kernel, first.dim)
    gaps = [abs(e.mean - e.large_sample - e.next_order) / e.standard_error for e in errors]
    return Fit(
        first.function,
        first.dim,
        first.kernel,
        sizes[0],
        sizes[-1],
        slope.value,
        slope.low,
        slope.high,
        exact.value,
        -exponent,
        log_power,
        max(gaps),
    )


def fits_of(errors: Sequence[Error]) -> list[Fit]:
    """Return one fit per function, dimension and kernel, in the order in which they come."""
    groups: dict[tuple[str, int, str], list[Error]] = {}
    for error in errors:
        groups.setdefault((error.function, error.dim, error.kernel), []).append(error)
    return [fit(group) for group in groups.values()]


def draw(errors: Sequence[Error], path: Path) -> None:
    """Draw simulated errors over the large-sample curve, a panel per function and dimension."""
    panels = list(dict.fromkeys((error.function, error.dim) for error in errors))
    with mpl.rc_context(style()):
        figure = Figure(figsize=(3.4 * len(panels), 3.8))
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for axis, (function, dim) in zip(axes, panels, strict=True):
            for i, kernel in enumerate(KERNELS):
                curve = [
                    e for e in errors if (e.function, e.dim, e.kernel) == (function, dim, kernel)
                ]
                n = [e.n for e in curve]
                axis.plot(n, [e.large_sample for e in curve], ls=LINES[i], color=COLOURS[i], lw=1.2)
                axis.errorbar(
                    n,
                    [e.mean for e in curve],
                    [2 * e.standard_error for e in curve],
                    fmt=MARKERS[i],
                    color=COLOURS[i],
                    ms=4,
                    capsize=2,
                )
            axis.set(xscale="log", yscale="log", xlabel="n", title=f"{function}, D = {dim}")
        axes[0].set_ylabel("integrated squared error")
        handles = [
            Line2D([], [], color=COLOURS[i], marker=MARKERS[i], ls=LINES[i], label=kernel)
            for i, kernel in enumerate(KERNELS)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        figure.savefig(path)


def main() -> None:
    """Run all windows and write tables, provenance and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--cells", type=Path, help="folder of the results files, to be resumed")
    parser.add_argument("--quick", action="store_true", help="small samples, few replicates")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    replicates = 16 if options.quick else 80
    errors: list[Error] = []
    with tempfile.TemporaryDirectory() as scratch:
        cells = options.cells or Path(scratch)
        cells.mkdir(parents=True, exist_ok=True)
        for function, dim, sizes in QUICK if options.quick else WINDOWS:
            errors += simulate(
                function, dim, sizes, cells, replicates=replicates, workers=options.workers
            )
    fits = fits_of(errors)
    config = {
        "seed": SEED,
        "replicates": replicates,
        "quick": options.quick,
        "design": "gaussian",
        "noise": "N(0, 0.3²)",
        "radius": "least large-sample error",
        "region": "5 % to 95 % quantiles of each coordinate",
    }
    write_study(options.output, "rates_regression_errors", errors, config, source=Path(__file__))
    write_study(options.output, "rates_regression", fits, config, source=Path(__file__))
    draw(errors, options.output / "rates_regression.svg")
    for row in fits:
        log = f" (log n)^{row.log_power:g}" if row.log_power else ""
        print(
            f"{row.function:6} D={row.dim} {row.kernel:9} slope {row.slope:.3f} "
            f"[{row.low:.3f}, {row.high:.3f}], large samples {row.large_sample_slope:.3f}, "
            f"limit {row.derived:.3f}{log}, worst gap {row.worst_sigmas:.1f} s.e."
        )


if __name__ == "__main__":
    main()
