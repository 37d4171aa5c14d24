"""Rates of regression error: simulated slopes with intervals beside what is derived.

    python experiments/rates_regression.py [--output FOLDER] [--quick] [--workers W] [--cells DIR]

The papers prove rates of Nadaraya-Watson regression for l = 1 and l >= 6 and leave l = 2..5 open.
Here every power l = 1..6 and the Gaussian kernel, in one and two dimensions, with normal design and
noise: integrated mean squared error at the radius that minimises its large-sample value, over a
stated window of n. Also on the line a kink and a jump of f. With --cells, finished cells are kept
in that folder and an interrupted run resumes where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

from fourierkernels.foundation.provenance import (
    grouped,
    kept_or_scratch,
    sweep_options,
    write_study,
)
from fourierkernels.kernels import KERNELS
from fourierkernels.plotting import SimulatedCurve, plot_simulated, style
from fourierkernels.simulation import as_noise, quadrature
from fourierkernels.simulation.sweep import Row, Sweep, run_sweep, summarise
from fourierkernels.theory import regression_at_radius, regression_next_order
from fourierkernels.theory.densities import as_density, as_regression_function
from fourierkernels.theory.slopes import window_slopes

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
    first, spread = errors[0], [error.standard_error for error in errors]
    slopes = window_slopes(
        [error.n for error in errors],
        [error.mean for error in errors],
        spread,
        [error.large_sample for error in errors],
    )
    exponent, log_power = derived_rate(first.function, first.kernel, first.dim)
    gaps = [abs(e.mean - e.large_sample - e.next_order) / e.standard_error for e in errors]
    return Fit(
        function=first.function,
        dim=first.dim,
        kernel=first.kernel,
        smallest=slopes.smallest,
        largest=slopes.largest,
        slope=slopes.simulated.value,
        low=slopes.simulated.low,
        high=slopes.simulated.high,
        large_sample_slope=slopes.computed,
        derived=-exponent,
        log_power=log_power,
        worst_sigmas=max(gaps),
    )


def draw(errors: Sequence[Error], path: Path) -> None:
    """Draw simulated errors over the large-sample curve, a panel per function and dimension."""
    panels = {
        f"{panel[0].function}, D = {panel[0].dim}": {
            kernel: SimulatedCurve.of(
                [e for e in panel if e.kernel == kernel], computed="large_sample"
            )
            for kernel in KERNELS
        }
        for panel in grouped(errors, "function", "dim")
    }
    with mpl.rc_context(style()):
        plot_simulated(panels, width=3.4).savefig(path)


def main() -> None:
    """Run all windows and write tables, provenance and figure."""
    options = sweep_options(__doc__, ROOT / "experiments/results")
    replicates = 16 if options.quick else 80
    errors: list[Error] = []
    with kept_or_scratch(options.cells) as cells:
        for function, dim, sizes in QUICK if options.quick else WINDOWS:
            errors += simulate(
                function, dim, sizes, cells, replicates=replicates, workers=options.workers
            )
    fits = [fit(group) for group in grouped(errors, "function", "dim", "kernel")]
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
