"""Time the exact error theory and the simulator of the ISE.

    python experiments/benchmarks/error_theory.py [--output FOLDER] [--quick]

Rows: the full exact table (six powers and the Gaussian kernel, five densities, N = 1e2 ... 1e8, the
best radius of each) beside one Monte Carlo cell of it (1,000 replicates at N = 1e4); the ISE of one
sample beside a bare finufft transform of type 1 with as many frequencies and the same tolerance,
and beside the estimate on a grid, by this package's three kinds of sums, integrated (same
ISE, their relative difference is in the column `difference`); exact errors of a correlated
Gaussian in D = 3. Each row is the best of `repeats`. Set OMP_NUM_THREADS and NUMBA_NUM_THREADS to 1
for one core. Writes CSV and the provenance as JSON; quote ratios from one run, not seconds.
"""

import argparse
import os
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import finufft
import numpy as np

import fourierkernels as fk
from fourierkernels import simulation, theorems, theory
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds
from fourierkernels.theory import density_error
from fourierkernels.theory.optimum import _profile

ROOT = Path(__file__).parents[2]
DENSITIES = ("gaussian", "cauchy", "laplace", "beta", "gamma")
KERNELS = (*(f"fourier{power}" for power in range(1, 7)), "gaussian")
GRID_METHODS = ("bandlimited", "direct", "reference")


@dataclass(frozen=True)
class Row:
    """One measurement: best of the repeats, and the peak memory of the process so far."""

    task: str
    n: int
    repeats: int
    seconds: float
    difference: float | str
    peak_mb: float


def timed(task: str, n: int, repeats: int, run: Callable[[], object]) -> Row:
    """Return the best time of a call."""
    seconds = rounds({"": run}, least=repeats, warm=0)[""]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(task, n, repeats, min(seconds), "", peak)


def forget() -> None:
    """Drop every cached integral."""
    density_error.line_integrals.cache_clear()
    density_error.joint_parts.cache_clear()
    _profile.cache_clear()


def exact_table(exponents: range, kernels: tuple[str, ...]) -> int:
    """Compute every optimum from nothing; return how many."""
    forget()
    sizes = [10**e for e in exponents]
    return sum(len(theorems.rate_table(d, kernels, sizes=sizes)) for d in DENSITIES)


def table_rows(*, quick: bool) -> list[Row]:
    """Return the exact table and one Monte Carlo cell of it."""
    exponents, kernels = (range(2, 4), KERNELS[:2]) if quick else (range(2, 9), KERNELS)
    exact_table(range(2, 3), KERNELS[:1])  # imports are not timed
    n, replicates = 10**4, 10 if quick else 1000
    count = len(exponents) * len(kernels) * len(DENSITIES)
    radius = theory.optimal_radius("gaussian", "fourier4", n=n)

    def cell() -> None:
        rng = np.random.default_rng(2022)
        simulation.mise("gaussian", "fourier4", n=n, radius=radius, replicates=replicates, rng=rng)

    repeats = 1 if quick else 3
    return [
        timed(f"exact table, {count} optima", 0, repeats, lambda: exact_table(exponents, kernels)),
        timed(f"Monte Carlo cell, {replicates} replicates", n, repeats, cell),
    ]


def ise_rows(n: int, *, repeats: int) -> list[Row]:
    """Return one ISE of n standard normal samples, beside a bare transform and two grids."""
    radius = theory.optimal_radius("gaussian", "fourier4", n=n)
    sample = np.random.default_rng(2022).normal(size=(n, 1))
    curve = theory.IseCurve("gaussian", "fourier4", sample, largest=radius)
    modes = 2 * curve.frequencies
    phases = 2 * np.pi * (sample[:, 0] - sample.min()) / np.ptp(sample) - np.pi
    strengths = np.full(n, 1 / n, np.complex128)

    def ours() -> float:
        return theory.ise("gaussian", "fourier4", sample, radius=radius)

    def bare() -> object:
        return finufft.nufft1d1(phases, strengths, modes, eps=1e-14, nthreads=1)

    rows = [
        timed("ISE", n, repeats, ours),
        timed(f"bare type 1, {modes} modes", n, repeats, bare),
        timed(
            "ISE at 20 radii, one transform",
            n,
            repeats,
            lambda: [
                c(r)
                for c in [theory.IseCurve("gaussian", "fourier4", sample, largest=radius)]
                for r in radius * np.linspace(0.3, 1.0, 20)
            ],
        ),
    ]
    return rows + [
        grid_row(sample, radius, method)
        for method in GRID_METHODS
        if method != "reference" or n <= 10**5
    ]


def grid_row(sample: np.ndarray, radius: float, method: str) -> Row:
    """Time the estimate on a grid that integrates it to about 1e-10, and compare the ISE.

    p̂ is band-limited to 4R and p is narrow in frequency: a grid of step π/(5R) is exact but for its
    ends, and the tails of the estimate fall as |x|^-4.
    """
    density = fk.densities.Gaussian()
    step = np.pi / (5.0 * radius)
    reach = 6.0 + 400.0 / radius
    grid = np.arange(-reach, reach, step)[:, None]
    model = fk.KernelDensity("fourier4", radius=radius, method=method, tol=1e-12)
    values: list[float] = []

    def run() -> None:
        gap = model.fit(sample).density(grid) - density.pdf(grid[:, 0])
        values.append(step * float(gap @ gap))

    row = timed(f"estimate on a grid of {len(grid)}, {method}", len(sample), 1, run)
    exact = theory.ise(density, "fourier4", sample, radius=radius)
    return Row(**{**asdict(row), "difference": abs(values[0] / exact - 1.0)})


def joint_rows(*, quick: bool) -> list[Row]:
    """Return exact tables of a correlated Gaussian in three dimensions."""
    density = fk.densities.CorrelatedGaussian(0.8, 2 if quick else 3)
    rows = []
    for kernel in ("fourier1", "fourier4"):
        forget()
        rows.append(
            timed(
                f"7 optima, D = {density.dim}, correlation 0.8, {kernel}",
                0,
                1,
                lambda kernel=kernel: theorems.rate_table(density, [kernel]),
            )
        )
    return rows


def main() -> None:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    options = parser.parse_args()
    quick = options.quick
    rows = table_rows(quick=quick)
    for n in (10**4,) if quick else (10**4, 10**5, 10**6):
        rows += ise_rows(n, repeats=2 if quick else 7)
    rows += joint_rows(quick=quick)
    config = {"seed": 2022, "quick": quick, "load": os.getloadavg()[0]}
    write_study(options.output, "error_theory", rows, config, source=Path(__file__))


if __name__ == "__main__":
    main()
