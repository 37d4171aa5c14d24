"""Efficiency of a sweep on several worker processes: time with one over W times that with W.

    python experiments/benchmarks/sweep.py [--output FOLDER] [--quick] [--workers W]

One worker computes in its own process; the start of the others is in their time. `busy` is the
share of the workers' time spent inside cells. Run it on a quiet machine: whatever else runs takes
from two workers more than from one.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.foundation.provenance import write_study
from fourierkernels.simulation.sweep import Sweep, compute, run_sweep

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """One timing."""

    workers: int
    cells: int
    seconds: float
    efficiency: float
    busy: float
    load_before: float


def sweep_of(blocks: int, replicates: int) -> Sweep:
    """Return equal cells of regression error at one point."""
    return Sweep(
        ("gaussian",),
        ("fourier4",),
        (20_000,),
        (1,),
        ("6.0",),
        task="regression",
        replicates=replicates,
        blocks=blocks,
        at=0.5,
    )


def measure(sweep: Sweep, counts: tuple[int, ...]) -> list[Run]:
    """Time the same sweep with each number of workers."""
    compute(sweep.cells()[0])  # imports and compilation of this process are not timed
    runs: list[Run] = []
    for workers in counts:
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            done = run_sweep(sweep, Path(folder) / "results.jsonl", workers=workers)
            seconds = time.perf_counter() - start
        inside = sum(outcome.seconds for outcome in done.values())
        alone = runs[0].seconds if runs else seconds
        runs.append(
            Run(
                workers,
                len(done),
                seconds,
                alone / (workers * seconds),
                inside / (workers * seconds),
                load,
            )
        )
    return runs


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="a few short cells")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    sweep = sweep_of(4, 4) if options.quick else sweep_of(64, 600)
    runs = measure(sweep, (1, options.workers))
    config = {"quick": options.quick, "seed": sweep.seed, "replicates": sweep.replicates}
    write_study(options.output, "sweep_efficiency", runs, config, source=Path(__file__))
    for run in runs:
        print(run)


if __name__ == "__main__":
    main()
