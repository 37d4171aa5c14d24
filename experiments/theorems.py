"""Every theorem of the papers beside what is sharp: rates, slopes with intervals, verdicts.

    python experiments/theorems.py [--output FOLDER] [--quick]

theorems.csv has one row per statement and setting (those of fourierkernels.theorems): the
stated and the sharp rate, the slope of exact or first-order errors in the limit with its interval,
the simulated slope where errors are not exact, the smallest constant of the bound over the window,
the verdict and its reason.

Two statements are false as they stand, and two more tables show it. theorems_lemma_1.csv: Lemma 1
for a fixed N and growing R, and with R log(2/δ)/N held at 1. theorems_mean.csv: the mean squared
error of a regression with an odd power grows with the number of replicates, because it is infinite.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels import simulation
from fourierkernels.foundation.provenance import write_study
from fourierkernels.kernels import FourierKernel
from fourierkernels.theorems import Case, Setting, Theorem, entries, table
from fourierkernels.theorems.lemma_1 import tail_bound

ROOT = Path(__file__).parents[1]
SEED = 2022
TAILS = (("fourier1", 10), ("fourier3", 10), ("fourier2", 10), ("fourier4", 10))
Row = dict[str, Any]


def theorem_row(theorem: Theorem, case: Case, *, quick: bool) -> Row:
    """Return the evidence for one statement in one setting."""
    error, options = theorem.error, Row()
    if error.simulation is not None and quick:
        options["simulation"] = error.simulation(seed=SEED, replicates=100)
        options["simulated_sizes"] = [error.simulated_sizes[0] // 4 * k for k in (1, 2, 4)]
    elif error.simulation is not None:
        options["simulation"] = error.simulation(seed=SEED)
    (found,) = table([(theorem, case)], **options)
    return {**found.row(), "density": case.density, "beyond": case.beyond}


def gaps(n: int, radius: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return |p̂ - p| at the mode of N(0, 1), l = 4, in `count` samples of size n."""
    kernel, batch = FourierKernel(4), max(1, 2**22 // n)
    parts = []
    for first in range(0, count, batch):
        u = radius * rng.standard_normal((min(batch, count - first), n))
        parts.append(radius * kernel.value(u).mean(axis=1))
    return np.abs(np.concatenate(parts) - 1.0 / math.sqrt(2.0 * math.pi))


def lemma_rows(radii: tuple[float, ...], count: int, constant: float) -> Iterator[Row]:
    """Lemma 1 at δ = P(two points fall within 1/R of the mode), N = 2 and N = R log(2/δ)."""
    setting = Setting.of("gaussian", "fourier4")
    for radius in radii:
        level = math.erf(1.0 / (radius * math.sqrt(2.0))) ** 2
        needed = math.ceil(radius * math.log(2.0 / level))
        for n, samples in ((2, count), (needed, count // 10)):
            found = gaps(n, radius, samples, np.random.default_rng([SEED, n, int(radius)]))
            bound = tail_bound(setting, n, radius, level)
            outside = float(np.mean(found >= constant * bound))
            yield {
                "radius": radius,
                "n": n,
                "level": level,
                "samples": samples,
                "constant": constant,
                "outside": outside,
                "standard_error": math.sqrt(outside * (1.0 - outside) / samples),
                "needed_constant": float(np.quantile(found, 1.0 - level)) / bound,
            }


def mean_rows(replicates: int) -> Iterator[Row]:
    """Mean squared error of regression from batches of designs, against the size of a batch."""
    for kernel, n in TAILS:
        values = simulation.mse(
            "gaussian",
            "sine",
            kernel,
            n=n,
            radius=6.0,
            at=[0.5],
            noise=0.3,
            replicates=replicates,
            rng=np.random.default_rng(SEED),
        ).values[:, 0]
        for batch in (10**e for e in range(2, int(math.log10(replicates)))):
            means = np.nanmean(values.reshape(-1, batch), axis=1)
            yield {
                "kernel": kernel,
                "n": n,
                "batch": batch,
                "batches": len(means),
                "median_of_means": float(np.median(means)),
                "median": float(np.nanmedian(values)),
                "undefined": int(np.isnan(values).sum()),
            }


def main() -> None:
    """Verify every case, show the two false statements, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="small samples, few replicates")
    options = parser.parse_args()
    quick = options.quick
    rows = []
    for theorem, case in entries():
        rows.append(theorem_row(theorem, case, quick=quick))
        row = rows[-1]
        print(
            row["theorem"],
            row["density"],
            row["kernel"],
            row["function"],
            row["dim"],
            row["paper_rate"] or "-",
            row["sharp_rate"] or "-",
            row["verdict"],
            sep=" | ",
            flush=True,
        )
    constant = next(row["constant"] for row in rows if row["theorem"] == "lemma 1")
    radii, count = ((2.0, 8.0), 10**5) if quick else ((2.0, 8.0, 32.0, 128.0), 4 * 10**6)
    lemma = list(lemma_rows(radii, count, constant))
    means = list(mean_rows(10**4 if quick else 10**6))
    config = {"seed": SEED, "quick": quick}
    for name, lines in (("theorems", rows), ("theorems_lemma_1", lemma), ("theorems_mean", means)):
        write_study(options.output, name, lines, config, source=Path(__file__))


if __name__ == "__main__":
    main()
