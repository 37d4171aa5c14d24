"""Estimate the density of a billion samples in a file that does not fit into memory.

    python experiments/benchmarks/billion_samples.py [--output FOLDER] [--quick] [--samples N]
                                                     [--scratch FOLDER] [--threads T]

The samples, standard normal, are drawn block by block by a seeded generator into a ``.npy`` file (8
bytes each, removed afterwards). Each fit runs in a process of its own, D = 1, and is evaluated at
10,000 queries from -5 to 5; threads share the parts of a pass.

- `radius_from`: given, together with the range, so that the file is read once; or the rule
  normal_reference, which reads it for its range, for its quartiles (twice) and for the modes.
- `seconds`, `cpu_seconds`: of fit and evaluation, on the wall and of all threads. The file may be
  in the page cache of the system.
- `peak_mb`: largest resident memory of that process (``ru_maxrss``), interpreter and libraries
  included. The file is read, not mapped, so that its pages in the cache do not count.
- `difference`: from the fit to an array of `compared` samples, of a stream of the same, largest
  over the queries and relative to the largest density.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numba
import numpy as np

import fourierkernels as fk
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study

ROOT = Path(__file__).parents[2]
SEED = 2022
BLOCK = 2**22
WITHIN = [(-8.0, 8.0)]
FITS = [(kernel, rule) for kernel in ("fourier4", "gaussian") for rule in ("", "normal_reference")]


@dataclass(frozen=True)
class Fit:
    """What one process measures."""

    radius: float
    seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """One fit to the whole file."""

    kernel: str
    radius_from: str
    n: int
    threads: int
    radius: float
    seconds: float
    cpu_seconds: float
    peak_mb: float
    compared: int
    difference: float


def write_samples(path: Path, n: int) -> None:
    """Write `n` standard normal samples, one column, block by block."""
    rng = np.random.default_rng(SEED)
    header = {"descr": "<f8", "fortran_order": False, "shape": (n, 1)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, BLOCK):
            rng.standard_normal(min(BLOCK, n - start)).tofile(file)


def queries() -> FloatArray:
    """Return the queries, shape ``(10000, 1)``."""
    return np.linspace(-5.0, 5.0, 10_000)[:, None]


def estimator(kernel: str, rule: str, n: int) -> fk.KernelDensity:
    """Return the estimator: with a rule, or with radius and range given."""
    if rule:
        return fk.KernelDensity(kernel, radius=rule)
    return fk.KernelDensity(kernel, radius=2.0 * n**0.12, within=WITHIN)


def measured(path: Path, kernel: str, rule: str, n: int, threads: int) -> Fit:
    """Fit to the file in this process and evaluate."""
    numba.set_num_threads(threads)
    model = estimator(kernel, rule, n)
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(path).density(queries())
    seconds, cpu = time.perf_counter() - wall, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Fit(float(model.radius_[0]), seconds, cpu, peak)


def difference(path: Path, kernel: str, rule: str, n: int) -> float:
    """Return how far the fit to a file is from the fit to the array in it."""
    streamed = estimator(kernel, rule, n).fit(path).density(queries())
    whole = estimator(kernel, rule, n).fit(np.load(path)).density(queries())
    return float(np.abs(streamed - whole).max() / whole.max())


def rows(
    scratch: Path, n: int, compared: int, threads: int, fits: list[tuple[str, str]]
) -> Iterator[Row]:
    """Fit with each kernel and radius, each in a process that has done nothing before."""
    path, few = scratch / "samples.npy", scratch / "few.npy"
    write_samples(path, n)
    write_samples(few, compared)
    spawn = multiprocessing.get_context("spawn")
    for kernel, rule in fits:
        with spawn.Pool(1) as process:
            fit = process.apply(measured, (path, kernel, rule, n, threads))
        with spawn.Pool(1) as process:
            gap = process.apply(difference, (few, kernel, rule, compared))
        yield Row(
            kernel, rule or "given", n, threads, **asdict(fit), compared=compared, difference=gap
        )


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="a million samples")
    parser.add_argument("--samples", type=int, default=10**9)
    parser.add_argument("--scratch", type=Path, help="folder for the file of samples")
    parser.add_argument("--threads", type=int, default=min(2, numba.config.NUMBA_NUM_THREADS))
    options = parser.parse_args()
    n, compared = (10**6, 10**5) if options.quick else (options.samples, 10**7)
    fits = FITS[:2] if options.quick else FITS
    config = {"seed": SEED, "queries": len(queries())}
    table = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        for row in rows(Path(scratch), n, compared, options.threads, fits):
            print(row, flush=True)
            table.append(row)
            write_study(options.output, "billion_samples", table, config, source=Path(__file__))


if __name__ == "__main__":
    main()
