"""Time one move of an exploration: settings changed, numbers computed, picture and sentence.

    python experiments/benchmarks/explorations.py [--output FOLDER] [--quick]

Explorations of 100,000 samples (`error`: of so large an N), one thread. Each move goes to a setting
that was not there before, and ends with the SVG and the sentence that a notebook is sent. Median,
least and largest of 15, in milliseconds of processor time, which other work on the machine disturbs
less than a clock; "curve, beside" is drawn after a move and does not hold up the next. Loops are
compiled before. The provenance has the load of the machine at the start and at the end.
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fourierkernels import explore
from fourierkernels.explore.exploration import Exploration
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[2]
SEED = 2022
WARM = 2  # moves that are not counted, before

View = Exploration[Any, Any]
Settings = Iterable[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """Moves of one kind, in milliseconds of processor time."""

    exploration: str
    move: str
    samples: int
    moves: int
    median: float
    least: float
    largest: float


def timed(view: View, name: str, samples: int, settings: Settings, *, finish: bool = False) -> Row:
    """Time a move to each of these settings, or what is computed after it."""
    waiting = iter(settings)

    def go() -> None:
        view.set(**next(waiting))
        view.svg()
        view.sentence()

    calls = {"go": go, "beside": view.finish} if finish else {"go": go}
    count = len(list(settings)) - WARM
    taken = rounds(calls, least=count, warm=WARM, clock=time.process_time)
    found = [1e3 * seconds for seconds in taken["beside" if finish else "go"]]
    middle = statistics.median(found)
    return Row(
        view.name, name, samples, count, *(round(t, 1) for t in (middle, min(found), max(found)))
    )


def over(name: str, values: Iterable[float]) -> list[dict[str, Any]]:
    """Return settings that differ in one value."""
    return [{name: float(value)} for value in values]


def density_rows(x: np.ndarray, count: int) -> list[Row]:
    """Time the exploration of a density: its radius from half the rule's to twice."""
    view = explore.density(x)
    radii = over("radius", view.state.radius * np.geomspace(0.5, 2.0, count))
    starts = over("bin_start", np.linspace(0.05, 0.95, count))
    n = len(x)
    return [timed(view, "radius", n, radii), timed(view, "start of the bins", n, starts)]


def regression_rows(x: np.ndarray, y: np.ndarray, count: int) -> list[Row]:
    """Time the exploration of a regression, of degree 0 and 1."""
    rows, n = [], len(x)
    for degree in (0, 1):
        view = explore.regression(x, y).set(degree=degree)
        cases = {
            "radius": over("radius", view.state.radius * np.geomspace(0.5, 2.0, count)),
            "query": over("query", np.linspace(-2.0, 2.0, count)),
            "sample": over("point_y", np.linspace(-1.0, 1.0, count)),
        }
        for name, settings in cases.items():
            rows.append(timed(view, f"{name}, degree {degree}", n, settings))
    beside = over("radius", view.state.radius * np.geomspace(0.45, 2.2, count))
    return [*rows, timed(view, "curve of degree 1, beside", n, beside, finish=True)]


def error_rows(samples: int, count: int) -> list[Row]:
    """Time the exploration of the exact error of a normal density."""
    view = explore.error("gaussian").set(n=samples, kernel="fourier4")
    radii = over("radius", view.state.radius * np.geomspace(0.5, 2.0, count))
    sizes = over("n", samples * np.geomspace(0.1, 10.0, count))
    return [timed(view, "radius", samples, radii), timed(view, "N", samples, sizes)]


def main() -> None:
    """Measure everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="few samples, few moves")
    options = parser.parse_args()
    samples, count = (1_000, WARM + 2) if options.quick else (100_000, WARM + 15)
    rng, before = np.random.default_rng(SEED), os.getloadavg()[0]
    x = rng.normal(size=samples)
    y = np.sin(2.0 * x) + 0.3 * rng.normal(size=samples)
    with threadpool_limits(1):
        rows = [
            *density_rows(x, count),
            *regression_rows(x, y, count),
            *error_rows(samples, count),
        ]
    for row in rows:
        print(row)
    load = {"before": round(before, 2), "after": round(os.getloadavg()[0], 2)}
    config = {"seed": SEED, "quick": options.quick, "threads": 1, "load": load}
    write_study(options.output, "explorations", rows, config, source=Path(__file__))


if __name__ == "__main__":
    main()
