"""How often Silverman's test of one mode rejects: its size, its power, its calibration.

    python experiments/silverman_size.py [--output FOLDER] [--quick]

Samples of 200 from densities with one mode (normal, uniform) and with two (normals at distances of
2.6 and 4 standard deviations; they have two modes from a distance of 2 on), each tested at level
0.05 with 99 replicates. On an interval, with and without the calibration of
[hall2001calibration]_, the same for the normal. Writes silverman_size.csv, with exact binomial
intervals of the share of rejections, and its provenance as JSON.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.estimators.modes import silverman_test
from fourierkernels.estimators.modes.silverman import share_interval
from fourierkernels.foundation.provenance import write_study

ROOT = Path(__file__).parents[1]
N, LEVEL, REPLICATES = 200, 0.05, 99
WITHIN = (-1.5, 1.5)  # for N(0, 1)

Draw = Callable[[np.random.Generator], np.ndarray]


def two_normals(distance: float) -> Draw:
    """Return the sampler of two standard normals of equal weight."""
    return lambda rng: rng.normal(size=N) + distance * (rng.random(N) < 0.5)


def normal(rng: np.random.Generator) -> np.ndarray:
    """Draw from N(0, 1)."""
    return rng.normal(size=N)


CASES: dict[str, tuple[Draw, dict[str, Any]]] = {
    "normal": (normal, {}),
    "uniform": (lambda rng: rng.random(N), {}),
    "two normals, distance 2.6": (two_normals(2.6), {}),
    "two normals, distance 4": (two_normals(4.0), {}),
    "normal, on an interval": (normal, {"within": WITHIN}),
    "normal, on an interval, calibrated": (normal, {"within": WITHIN, "calibrate": LEVEL}),
}


def rejections(name: str, samples: int) -> dict[str, Any]:
    """Return the share of samples of a case in which one mode is rejected."""
    draw, options = CASES[name]
    rng = np.random.default_rng([2024, list(CASES).index(name)])
    tests = [
        silverman_test(draw(rng), rng=rng, replicates=REPLICATES, **options) for _ in range(samples)
    ]
    count = sum(test.p_value < LEVEL for test in tests)
    low, high = share_interval(count, samples)
    return {
        "case": name,
        "n": N,
        "samples": samples,
        "rejected": count / samples,
        "low": low,
        "high": high,
        "median_p": float(np.median([test.p_value for test in tests])),
    }


def main() -> None:
    """Test all cases and write the table with its provenance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="two samples per case")
    parser.add_argument("--samples", type=int, default=50, help="per case")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    start, rows = time.perf_counter(), []
    for name in CASES:
        rows.append(rejections(name, 2 if options.quick else options.samples))
        seconds = {"seconds": round(time.perf_counter() - start, 1)}
        write_study(options.output, "silverman_size", rows, seconds, source=Path(__file__))


if __name__ == "__main__":
    main()
