"""Compare the seconds that the plan of a kernel sum promises with those that it takes.

    python experiments/benchmarks/plan_accuracy.py [--output FOLDER] [--quick] [--repeats K]
                                                   [--threads T ...] [--ways]

A row is one sum of standard normal samples at standard normal queries, the samples prepared anew,
by a method named or by the one that the plan takes. Sums run in processes with one thread and with
two, numba's and OpenMP's. `seconds` is wall time and `cpu_seconds` that of all threads, the medians
of the repeats after a warm-up; `ratio` is the promise over the wall time, `cpu_ratio` that over the
CPU time per thread, which on a shared machine is the one to read for one thread. The constants of
``fourierkernels/sums/plan.py`` were fitted to the CPU time of one thread.

With `--ways`, two ways from points to modes on the line instead, there and back: moments of cells,
and windows; `ratio` is the time of the one that is chosen over that of the faster, and what is
printed are the constants of moments, fitted in the units in which those of windows hold. Writes
plan_ways (CSV, JSON).
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
from functools import partial
from pathlib import Path

import numpy as np
from scipy import optimize

from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds
from fourierkernels.sums import PreparedSum
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.lattices import Moments, Way, Windows
from fourierkernels.sums.transforms import ways

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


@dataclass(frozen=True)
class WayRow:
    """Both ways for so many modes, points and columns: promises and seconds of the processor."""

    modes: int
    n: int
    columns: int
    eps: float
    cells: int
    moments_planned: float
    windows_planned: float
    moments_seconds: float
    windows_seconds: float
    ratio: float


def way_rows(*, quick: bool, repeats: int) -> Iterator[WayRow]:
    """Yield samples to modes and modes to queries, on half a period."""
    box, rng = Box((-1.0,), (1.0,)), np.random.default_rng(SEED)
    sizes = ((64, 512), (300,)) if quick else ((64, 512, 4096, 32768), (10**4, 10**5, 10**6))
    for modes, n, columns, eps in itertools.product(*sizes, (1, 3), (1e-13, 1e-7)):
        grid, points = ((4.0, modes),), rng.uniform(-1.0, 1.0, (n, 1))
        asked = (float(modes),), n, columns, eps
        *others, moments = ways(*asked)
        windows = min(others, key=lambda way: way.seconds)
        both: dict[str, Way] = {
            "moments": Moments(grid, box, cells=moments.sizes[0]),
            "windows": Windows(grid, box, width=windows.width, sizes=windows.sizes, threads=1),
        }
        strengths = rng.normal(size=(columns, n))
        calls = {
            name: partial(there_and_back, way, points, strengths) for name, way in both.items()
        }
        times = rounds(calls, least=repeats, clock=time.process_time)
        seconds = {name: 0.5 * float(np.median(each)) for name, each in times.items()}
        chosen = "moments" if moments.seconds < windows.seconds else "windows"
        yield WayRow(
            modes,
            n,
            columns,
            eps,
            moments.sizes[0],
            moments.seconds,
            windows.seconds,
            seconds["moments"],
            seconds["windows"],
            seconds[chosen] / min(seconds.values()),
        )


def there_and_back(way: Way, points: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """Return the sums at the points."""
    return way.backward(points, way.forward(points, strengths))


def fitted(rows: list[WayRow]) -> tuple[float, float]:
    """Return seconds of a point, once and per column, and of a cell, by relative least squares.

    In units of the promises for windows, whose median is right then.
    """
    taken = np.array([row.moments_seconds for row in rows])
    terms = np.array([[row.n * (1 + row.columns), row.columns * row.cells] for row in rows])
    found = optimize.nnls(terms / taken[:, None], np.ones(len(rows)))[0]
    unit = float(np.median([row.windows_seconds / row.windows_planned for row in rows]))
    return float(found[0] / unit), float(found[1] / unit)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    parser.add_argument("--ways", action="store_true", help="moments and windows instead")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)  # a process with so many
    options = parser.parse_args()
    if options.inside:
        for case in cases(quick=options.quick):
            row = measured(case, options.inside, options.repeats)
            if row is not None:
                print(json.dumps(asdict(row)), flush=True)
        return
    repeats = 1 if options.quick else options.repeats
    if options.ways:
        found = list(way_rows(quick=options.quick, repeats=repeats))
        print("moments: {:.2e} s of a point, {:.2e} s of a cell".format(*fitted(found)))
        config = {"seed": SEED, "repeats": repeats, "threads": 1}
        write_study(options.output, "plan_ways", found, config, source=Path(__file__))
        return
    table: list[Row] = []
    for threads in options.threads:
        for row in in_process(threads, quick=options.quick, repeats=repeats):
            print(row, file=sys.stderr, flush=True)
            table.append(row)
    config = {"seed": SEED, "repeats": repeats, "threads": options.threads, "longest": LONGEST}
    write_study(options.output, "plan_accuracy", table, config, source=Path(__file__))


if __name__ == "__main__":
    main()
