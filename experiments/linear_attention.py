"""Random features: what linear time costs in accuracy, and the length from which it saves time.

    python experiments/linear_attention.py [--output FOLDER] [--quick] [--parts errors times low]

Errors: random-feature Fourier attention against exact attention, relative to the norm of the exact
output, for three kinds of draws, 64 to 4096 features and phase spreads a from 0.3 to 3.3 (D = 16,
R = 2, l = 4, N = 512 normal queries, keys and values); beside them the error of the plain mean of
the values, the baseline that needs no attention at all. Medians over data sets and draws.

Times: one head in float32 on one thread, the exact operator and 256 features in turns, forward.
They are processor seconds, which other programs on the machine disturb less: the least of the
rounds, and the most.

Low dimension: in D = 1, 2, 3 NadarayaWatson, which chooses band-limited or direct sums itself,
beside features, R = 2 and standard normal points.

Writes linear_attention_errors, _times and _low as CSV, each with its provenance as JSON.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from fourierkernels.attention import (
    PhaseSpreadWarning,
    fourier_attention,
    linear_fourier_attention,
    phase_spread,
)
from fourierkernels.attention.features import KINDS
from fourierkernels.estimators import NadarayaWatson
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[1]
SEED = 2022
DIM, RADIUS, POWER, TOKENS, VALUES = 16, 2.0, 4, 512, 8
SPREADS = (0.3, 0.5, 0.8, 1.1, 1.5, 1.9, 2.3, 2.8, 3.3)
FEATURES = (64, 256, 1024, 4096)
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
LOW_TOKENS = 4096
PARTS = ("errors", "times", "low")


@dataclass(frozen=True)
class Error:
    """Median errors at one spread: of the features over rows that are not NaN, and of the mean."""

    spread: float
    kind: str
    features: int
    error: float
    low: float
    high: float
    lost: float
    mean_of_values: float
    mean_weight: float


@dataclass(frozen=True)
class Time:
    """Processor seconds of one forward pass, both in turns: least and most of the rounds."""

    dim: int
    tokens: int
    causal: bool
    exact: float
    exact_most: float
    linear: float
    linear_most: float
    rounds: int


@dataclass(frozen=True)
class Low:
    """Errors and least processor seconds in low dimension."""

    dim: int
    tokens: int
    spread: float
    method: str
    features: int
    error: float
    lost: float
    seconds: float


def normal(rows: int, dims: tuple[int, ...], seed: int) -> Iterator[Tensor]:
    """Yield standard normal arrays ``(rows, dim)``, float64."""
    source = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, dim, dtype=torch.float64, generator=source) for dim in dims)


def relative(found: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the relative error over the rows that are not NaN, and the share of those that are."""
    kept = ~found.isnan().any(dim=-1)
    if not kept.any():
        return math.nan, 1.0
    error = (found[kept] - exact[kept]).norm() / exact[kept].norm()
    return error.item(), 1.0 - kept.double().mean().item()


def errors_at(spread: float, features: tuple[int, ...], replicates: int) -> list[Error]:
    """Return one row per kind and number of features."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    means, weights = [], []
    sigma = spread / (RADIUS * math.sqrt(2 * POWER * DIM / 3))
    for replicate in range(replicates):
        query, key, value = normal(TOKENS, (DIM, DIM, VALUES), SEED + replicate)
        query, key = sigma * query, sigma * key
        exact = fourier_attention(query, key, value, RADIUS, power=POWER)
        means.append(relative(value.mean(dim=0).expand_as(exact), exact)[0])
        differences = RADIUS * (query[:, None] - key)
        weights.append((torch.sinc(differences / math.pi) ** POWER).prod(-1).mean().item())
        for kind in KINDS:
            for m in features:
                draws = torch.Generator().manual_seed(SEED + replicate)
                output = linear_fourier_attention(
                    query, key, value, RADIUS, power=POWER, features=m, kind=kind, generator=draws
                )
                found.setdefault((kind, m), []).append(relative(output, exact))
    return [
        Error(
            spread,
            kind,
            m,
            median(e for e, _ in pairs),
            min(e for e, _ in pairs),
            max(e for e, _ in pairs),
            median(lost for _, lost in pairs),
            median(means),
            median(weights),
        )
        for (kind, m), pairs in found.items()
    ]


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Return the least processor time of several runs, after one that is not counted."""
    run()
    times: list[float] = []
    while len(times) < repeats or (repeats > 1 and sum(times) < 0.5 and len(times) < 200):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def time_at(dim: int, tokens: int, causal: bool, repeats: int) -> Time:
    """Time the exact operator and 256 orthogonal features on one head, frequencies drawn before."""
    query, key, value = (x.float()[None] for x in normal(tokens, (dim, dim, dim), SEED))
    radius = 0.8 / math.sqrt(2 * POWER * dim / 3)
    draws = KINDS["orthogonal"](dim, 256, POWER, torch.Generator().manual_seed(SEED)).float()
    calls = {
        "exact": lambda: fourier_attention(query, key, value, radius, is_causal=causal),
        "linear": lambda: linear_fourier_attention(
            query, key, value, radius, frequencies=draws, is_causal=causal
        ),
    }
    length = 0.5 if repeats > 1 else 0.0
    times = rounds(calls, least=repeats, most=200, seconds=length, clock=time.process_time)
    exact, linear = times["exact"], times["linear"]
    ends = min(exact), max(exact), min(linear), max(linear)
    return Time(dim, tokens, causal, *ends, rounds=len(exact))


def low_dimension(dim: int, tokens: int, repeats: int) -> list[Low]:
    """Return the estimator and Sobol features beside the exact answer."""
    query, key, value = normal(tokens, (dim, dim, VALUES), SEED)
    exact = fourier_attention(query, key, value, RADIUS, power=POWER)
    spread = phase_spread(query, key, RADIUS, power=POWER).item()
    points = [x.numpy() for x in (query, key, value)]

    def estimate() -> Tensor:
        estimator = NadarayaWatson(f"fourier{POWER}", radius=RADIUS)
        return torch.from_numpy(estimator.fit(points[1], points[2]).predict(points[0]))

    def features() -> Tensor:
        draws = torch.Generator().manual_seed(SEED)
        return linear_fourier_attention(
            query, key, value, RADIUS, features=m, kind="sobol", generator=draws
        )

    rows = []
    for method, m, run in (
        ("estimator", 0, estimate),
        ("features", 256, features),
        ("features", 4096, features),
    ):
        error, lost = relative(run(), exact)
        rows.append(Low(dim, tokens, spread, method, m, error, lost, seconds(run, repeats)))
    return rows


def main() -> None:
    """Compute all tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="few spreads, lengths and features")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="tables to compute"
    )
    options = parser.parse_args()
    quick = options.quick
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PhaseSpreadWarning)  # it is what is measured
    config: dict[str, object] = {"seed": SEED, "quick": quick, "threads": 1}
    replicates, repeats = (3, 1) if quick else (5, 3)
    config["replicates"], config["repeats"] = replicates, repeats
    tables: dict[str, Callable[[], list[Error] | list[Time] | list[Low]]] = {
        "errors": lambda: [
            row
            for spread in ((0.8, 2.3) if quick else SPREADS)
            for row in errors_at(spread, FEATURES[:2] if quick else FEATURES, replicates)
        ],
        "times": lambda: [
            time_at(dim, tokens, causal, repeats)
            for dim in ((16,) if quick else (16, 64))
            for causal in (False, True)
            for tokens in (LENGTHS[:3] if quick else LENGTHS)
        ],
        "low": lambda: [
            row
            for dim in ((1, 2) if quick else (1, 2, 3))
            for row in low_dimension(dim, 512 if quick else LOW_TOKENS, repeats)
        ],
    }
    for part in options.parts:
        rows = tables[part]()
        write_study(
            options.output,
            f"linear_attention_{part}",
            rows,
            config,
            source=Path(__file__),
            packages=("torch",),
        )
        for row in rows:
            print(row)


if __name__ == "__main__":
    main()
