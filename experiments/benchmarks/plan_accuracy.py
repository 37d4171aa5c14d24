"""Compare the seconds that the plan of a kernel sum promises with those that it takes.

    python experiments/benchmarks/plan_accuracy.py [--output FOLDER] [--quick] [--repeats K]
                                                   [--threads T ...]

A row is one sum of standard normal samples at standard normal queries, the samples prepared anew,
by a method named or by the one that the plan takes. Sums run in processes with one thread and with
two, numba's and OpenMP's. `seconds` is wall time and `cpu_seconds` that of all threads, the medians
of the repeats after a warm-up; `ratio` is the promise over the wall time, `cpu_ratio` that over the
CPU time per thread, which on a shared machine is the one to read for one thread. The constants of
``fourierkernels/sums/plan.py`` were fitted to the CPU time of one thread.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fourierkernels.foundation.provenance import write_study
from fourierkernels.sums import PreparedSum

ROOT = Path(__file__).parents[2]
SEED = 2022
LONGEST = 0.5  # promised seconds of a sum that is run
THREADS = (1, 2)
METHODS = ("direct", "direct_float32", "bandlimited", "reference", "auto")
SIZES = ((10**3, 10**3), (10**4, 10**4), (10**3, 10**5), (10**5, 10**3), (10**5, 10**5))
QUICK = ((300, 300),)
KERNELS = ("gaussian", "fourier1", "fourier4")
_TOL = {"direct_float32": 1e-3}


@dataclass(frozen=True)
class Case:
    """One sum."""

    kernel: str
    dim: int
    n: int
    m: int
    radius: float
    columns: int
    asked: str


@dataclass(frozen=True)
class Row(Case):
    """What a sum was promised to take, and what it took."""

    method: str
    threads: int
    planned: float
    seconds: float
    cpu_seconds: float
    ratio: float
    cpu_ratio: float


def cases(*, quick: bool) -> Iterator[Case]:
    """Yield the grid, with several columns at the smaller radius alone."""
    kernels, sizes = (KERNELS[-1:], QUICK) if quick else (KERNELS, SIZES)
    grid = itertools.product(kernels, (1, 2, 3), sizes, (2.0, 10.0), (1, 3), METHODS)
    for kernel, dim, (n, m), radius, columns, asked in grid:
        if not (columns == 3 and radius == 10.0):
            yield Case(kernel, dim, n, m, radius, columns, asked)


def measured(case: Case, threads: int, repeats: int) -> Row | None:
    """Run a case; None if its method refuses it or promises to take too long."""
    rng = np.random.default_rng([SEED, case.n, case.m, case.dim])
    points, at = rng.normal(size=(case.n, case.dim)), rng.normal(size=(case.m, case.dim))
    options = {
        "kernel": case.kernel,
        "radius": case.radius,
        "responses": rng.normal(size=(case.n, case.columns - 1)),
        "method": case.asked,
        "tol": _TOL.get(case.asked, 1e-12),
        "expected": case.m,
    }
    try:
        plan = PreparedSum(points, **options).plan(at)
    except ValueError:
        return None
    if plan.seconds > LONGEST:
        return None
    times = np.empty((repeats, 2))
    for k in range(-1, repeats):
        prepared = PreparedSum(points, **options)
        start = time.perf_counter(), time.process_time()
        prepared.at(at, refine=False)
        if k >= 0:
            times[k] = time.perf_counter() - start[0], time.process_time() - start[1]
    wall, cpu = np.median(times, axis=0)
    return Row(
        **asdict(case),
        method=plan.method,
        threads=threads,
        planned=plan.seconds,
        seconds=wall,
        cpu_seconds=cpu,
        ratio=plan.seconds / wall,
        cpu_ratio=plan.seconds * threads / cpu,
    )


def in_process(threads: int, *, quick: bool, repeats: int) -> Iterator[Row]:
    """Yield the rows of a process with so many threads."""
    command = [sys.executable, __file__, "--inside", str(threads), "--repeats", str(repeats)]
    counts = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    with subprocess.Popen(
        command + ["--quick"] * quick, stdout=subprocess.PIPE, text=True, env=os.environ | counts
    ) as process:
        for line in process.stdout or []:
            yield Row(**json.loads(line))
    if process.returncode:
        raise RuntimeError(f"the process with {threads} threads failed: {process.returncode}")


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)  # a process with so many
    options = parser.parse_args()
    if options.inside:
        for case in cases(quick=options.quick):
            row = measured(case, options.inside, options.repeats)
            if row is not None:
                print(json.dumps(asdict(row)), flush=True)
        return
    repeats = 1 if options.quick else options.repeats
    table = []
    for threads in options.threads:
        for row in in_process(threads, quick=options.quick, repeats=repeats):
            print(row, file=sys.stderr, flush=True)
            table.append(row)
    config = {"seed": SEED, "repeats": repeats, "threads": options.threads, "longest": LONGEST}
    write_study(options.output, "plan_accuracy", table, config, source=Path(__file__))


if __name__ == "__main__":
    main()
