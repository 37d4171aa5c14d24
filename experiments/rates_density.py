"""Rates of density error, simulated: every power l = 1..6, the open cells l = 3 and 5 among them.

    python experiments/rates_density.py [--output FOLDER] [--quick] [--workers W] [--cells DIR]

Integrated squared error of kernel density estimates at the radius of the least exact MISE, with
its standard error, over a stated window of n; the fitted slope with its interval beside the slope
of the exact errors in the same window and the sharp rate. Simulation and theory share no formula
but that of the estimate. With --cells, finished cells are kept in that folder and an interrupted
run goes on where it ended.
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

from fourierkernels import theory
from fourierkernels.kernels import KERNELS
from fourierkernels.plotting import COLOURS, LINES, MARKERS, style
from fourierkernels.simulation.sweep import Sweep, run_sweep, summarise
from fourierkernels.study import write_study
from fourierkernels.theory.slopes import fit_slope

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
    first, sizes = errors[0], [error.n for error in errors]
    spread = [error.standard_error for error in errors]
    slope = fit_slope(sizes, [error.mean for error in errors], spread)
    exact = fit_slope(sizes, [error.exact for error in errors], spread)
    sharp = theory.sharp_rate(first.density, first.kernel, dim=first.dim)
    paper = theory.paper_rate(first.density, first.kernel, dim=first.dim)
    gaps = [abs(error.mean - error.exact) / error.standard_error for error in errors]
    return Fit(
        first.density,
        first.dim,
        first.kernel,
        sizes[0],
        sizes[-1],
        slope.value,
        slope.low,
        slope.high,
        exact.value,
        str(sharp),
        str(paper or ""),
        max(gaps),
    )


def fits_of(errors: Sequence[Error]) -> list[Fit]:
    """Return one fit per density, dimension and kernel, in the order in which they come."""
    groups: dict[tuple[str, int, str], list[Error]] = {}
    for error in errors:
        groups.setdefault((error.density, error.dim, error.kernel), []).append(error)
    return [fit(group) for group in groups.values()]


def draw(errors: Sequence[Error], path: Path) -> None:
    """Draw simulated errors over the exact curve, a panel per density and dimension."""
    panels = list(dict.fromkeys((error.density, error.dim) for error in errors))
    with mpl.rc_context(style()):
        figure = Figure(figsize=(3.6 * len(panels), 3.8))
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for axis, panel in zip(axes, panels, strict=True):
            for i, kernel in enumerate(KERNELS):
                curve = [e for e in errors if (e.density, e.dim) == panel and e.kernel == kernel]
                n, bars = [e.n for e in curve], [2 * e.standard_error for e in curve]
                axis.plot(n, [e.exact for e in curve], ls=LINES[i], color=COLOURS[i], lw=1.2)
                axis.errorbar(
                    n,
                    [e.mean for e in curve],
                    bars,
                    fmt=MARKERS[i],
                    color=COLOURS[i],
                    ms=4,
                    capsize=2,
                )
            axis.set(xscale="log", yscale="log", xlabel="n", title=f"{panel[0]}, D = {panel[1]}")
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
    replicates = 40 if options.quick else 160
    errors: list[Error] = []
    with tempfile.TemporaryDirectory() as scratch:
        cells = options.cells or Path(scratch)
        cells.mkdir(parents=True, exist_ok=True)
        for density, dim, sizes in QUICK if options.quick else WINDOWS:
            errors += simulate(
                density, dim, sizes, cells, replicates=replicates, workers=options.workers
            )
    fits = fits_of(errors)
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
