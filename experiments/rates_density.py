"""Rates of density error, simulated: every power l = 1..6, the open cells l = 3 and 5 among them.

    python experiments/rates_density.py [--output FOLDER] [--quick] [--workers W] [--cells DIR]

Integrated squared error of kernel density estimates at the radius of the least exact MISE, with
its standard error, over a stated window of n; the fitted slope with its interval beside the slope
of the exact errors in the same window and the sharp rate. Simulation and theory share no formula
but that of the estimate. With --cells, finished cells are kept in that folder and an interrupted
run resumes where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from fourierkernels import theorems, theory
from fourierkernels.foundation.provenance import (
    grouped,
    kept_or_scratch,
    sweep_options,
    write_study,
)
from fourierkernels.kernels import KERNELS
from fourierkernels.plotting import SimulatedCurve, plot_simulated, style
from fourierkernels.simulation.sweep import Sweep, run_sweep, summarise
from fourierkernels.theory.slopes import window_slopes

ROOT = Path(__file__).parents[1]
SEED = 2022
# density, dimension, sizes: the window of the slope
WINDOWS = (
    ("gaussian", 1, (1_000, 10_000, 100_000)),
    ("laplace", 1, (1_000, 10_000, 100_000)),
    ("gaussian", 2, (1_000, 4_000, 16_000)),
)
QUICK = (("gaussian", 1, (100, 200, 400)), ("laplace", 1, (100, 200, 400)))


@dataclass(frozen=True)
class Error:
    """One simulated point: error at the best radius, and the exact error there."""

    density: str
    dim: int
    kernel: str
    n: int
    radius: float
    replicates: int
    mean: float
    standard_error: float
    exact: float


@dataclass(frozen=True)
class Fit:
    """One row of the table of rates."""

    density: str
    dim: int
    kernel: str
    smallest: int
    largest: int
    slope: float
    low: float
    high: float
    exact_slope: float
    sharp: str
    paper: str
    worst_sigmas: float


def simulate(
    density: str, dim: int, sizes: Sequence[int], folder: Path, *, replicates: int, workers: int
) -> list[Error]:
    """Run or continue the sweep of one window."""
    sweep = Sweep(
        (density,),
        tuple(KERNELS),
        tuple(sizes),
        (dim,),
        replicates=replicates // 4,
        blocks=4,
        seed=SEED,
    )
    path = folder / f"rates_density_{density}_{dim}.jsonl"
    errors = []
    for row in summarise(run_sweep(sweep, path, workers=workers)):
        cell = row.cell
        exact = theory.mise(cell.density, cell.kernel, n=cell.n, radius=row.radius, dim=dim).total
        errors.append(
            Error(
                density,
                dim,
                cell.kernel,
                cell.n,
                row.radius,
                row.replicates,
                row.mean,
                row.standard_error,
                exact,
            )
        )
    return errors


def fit(errors: Sequence[Error]) -> Fit:
    """Fit the slope of one kernel over its window."""
    first, spread = errors[0], [error.standard_error for error in errors]
    slopes = window_slopes(
        [error.n for error in errors],
        [error.mean for error in errors],
        spread,
        [error.exact for error in errors],
    )
    gaps = [abs(error.mean - error.exact) / error.standard_error for error in errors]
    return Fit(
        density=first.density,
        dim=first.dim,
        kernel=first.kernel,
        smallest=slopes.smallest,
        largest=slopes.largest,
        slope=slopes.simulated.value,
        low=slopes.simulated.low,
        high=slopes.simulated.high,
        exact_slope=slopes.computed,
        sharp=str(theory.sharp_rate(first.density, first.kernel, dim=first.dim)),
        paper=str(theorems.paper_rate(first.density, first.kernel, dim=first.dim) or ""),
        worst_sigmas=max(gaps),
    )


def draw(errors: Sequence[Error], path: Path) -> None:
    """Draw simulated errors over the exact curve, a panel per density and dimension."""
    panels = {
        f"{panel[0].density}, D = {panel[0].dim}": {
            kernel: SimulatedCurve.of([e for e in panel if e.kernel == kernel], computed="exact")
            for kernel in KERNELS
        }
        for panel in grouped(errors, "density", "dim")
    }
    with mpl.rc_context(style()):
        plot_simulated(panels, width=3.6).savefig(path)


def main() -> None:
    """Run all windows and write tables, provenance and figure."""
    options = sweep_options(__doc__, ROOT / "experiments/results")
    replicates = 40 if options.quick else 160
    errors: list[Error] = []
    with kept_or_scratch(options.cells) as cells:
        for density, dim, sizes in QUICK if options.quick else WINDOWS:
            errors += simulate(
                density, dim, sizes, cells, replicates=replicates, workers=options.workers
            )
    fits = [fit(group) for group in grouped(errors, "density", "dim", "kernel")]
    config = {
        "seed": SEED,
        "replicates": replicates,
        "quick": options.quick,
        "radius": "least exact MISE",
    }
    write_study(options.output, "rates_density_errors", errors, config, source=Path(__file__))
    write_study(options.output, "rates_density", fits, config, source=Path(__file__))
    draw(errors, options.output / "rates_density.svg")
    for row in fits:
        print(
            f"{row.density:8} D={row.dim} {row.kernel:9} slope {row.slope:.3f} "
            f"[{row.low:.3f}, {row.high:.3f}], exact {row.exact_slope:.3f}, sharp {row.sharp}, "
            f"paper {row.paper or '-'}, worst gap {row.worst_sigmas:.1f} s.e."
        )


if __name__ == "__main__":
    main()
