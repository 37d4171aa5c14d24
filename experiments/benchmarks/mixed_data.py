"""Time densities and regressions of mixed data beside statsmodels, cross-validation included.

    python experiments/benchmarks/mixed_data.py [--output FOLDER] [--quick]

A normal column, an unordered one of three levels and an ordered one of four (`var_type="cuo"`),
with the Gaussian kernel and the kernels of Aitchison and Aitken and of Wang and van Ryzin. Both
libraries choose the bandwidth and both smoothings by least squares cross-validation: `MixedDensity`
beside `KDEMultivariate(bw="cv_ls")`, `MixedRegression` with the rule "loo" beside a local constant
`KernelReg(bw="cv_ls")`. They take turns, and each turn gives a ratio of processor times of the fit.

Both scores cost statsmodels O(n²). At n for which a fit would take too long, one evaluation of its
score is timed and multiplied by the number of evaluations that its search took at the largest n
fitted; `share` is the part of the fit that was run. `our_score` and `other_score` are statsmodels'
own criterion at the choices of both: at a scaled n it is not known at the choice of statsmodels.
Its search knows no bounds: `admissible` says whether its smoothings are weights at all, from 0 to
2/3 for the unordered column and to 1 for the ordered one, as those of the package always are.

Peer: pip install statsmodels; without it the package is timed alone. Writes mixed_data.csv and the
provenance as JSON.
"""

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import fourierkernels as fk
from fourierkernels.estimators import MixedDensity, MixedRegression
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import seconds_of
from fourierkernels.foundation.workers import one_thread

ROOT = Path(__file__).parents[2]
SEED = 2003
FITTED = {250: 2, 500: 2, 1000: 1}  # turns
SCALED = {10**4: 3}
KINDS = "cuo"
LARGEST = np.array([2 / 3, 1.0])  # smoothings


@dataclass(frozen=True)
class Row:
    """One task and size: medians of processor seconds, least and largest ratio of the turns."""

    task: str
    n: int
    turns: int
    evaluations: int
    share: float
    seconds: float
    other_seconds: float
    other_over_ours: float
    least: float
    largest: float
    our_score: float
    other_score: float
    admissible: bool | str  # empty where statsmodels did not search


def table(n: int) -> tuple[FloatArray, FloatArray]:
    """Return numbers and categories of shape ``(n, 3)``, and responses of shape ``(n,)``."""
    rng = np.random.default_rng([SEED, n])
    kind, rank = rng.integers(3, size=n), rng.integers(1, 5, size=n)
    x = rng.normal(size=n) + 1.5 * kind
    y = np.sin(2.0 * x) + 0.5 * kind - 0.3 * rank + 0.3 * rng.normal(size=n)
    return np.column_stack([x, kind, rank]).astype(float), y


def ours(task: str, X: FloatArray, y: FloatArray) -> FloatArray:
    """Fit, and return bandwidth and smoothings."""
    categories = {"unordered": [1], "ordered": [2]}
    if task == "density":
        model = MixedDensity(fk.KernelDensity("gaussian", radius="lscv"), **categories).fit(X)
    else:
        model = MixedRegression(fk.NadarayaWatson("gaussian", radius="loo"), **categories)
        model.fit(X, y)
    return np.append(1.0 / model.radius_, model.smoothing_)


class Other:
    """A model of statsmodels whose evaluations of the score are counted."""

    def __init__(self, task: str, X: FloatArray, y: FloatArray) -> None:
        from statsmodels.nonparametric.kernel_density import KDEMultivariate
        from statsmodels.nonparametric.kernel_regression import KernelReg

        known = [1.0, 0.1, 0.1]
        self.evaluations = 0
        if task == "density":
            self._model = KDEMultivariate(X, KINDS, bw=known)
            self._score = self._model.imse
            self._model.imse = self.score
        else:
            self._model = KernelReg(y, X, KINDS, reg_type="lc", bw=known)
            self._score = partial(self._model.cv_loo, func=self._model.est["lc"])
            self._model.cv_loo = lambda bw, func: self.score(bw)

    def score(self, bandwidths: FloatArray) -> float:
        """Return the criterion that the search minimises."""
        self.evaluations += 1
        return float(np.asarray(self._score(np.asarray(bandwidths))).item())

    def choose(self) -> FloatArray:
        """Search, as the constructor does with ``bw="cv_ls"``."""
        if hasattr(self._model, "imse"):
            return np.asarray(self._model._compute_bw("cv_ls"))
        return np.asarray(self._model._compute_reg_bw("cv_ls"))


def compared(task: str, n: int, turns: int, evaluations: int | None) -> Row:
    """Time both in turns; with a number of evaluations, statsmodels evaluates its score once."""
    X, y = table(n)
    found = ours(task, X, y)
    times: list[tuple[float, float]] = []
    for _ in range(turns):
        own = seconds_of(lambda: ours(task, X, y), time.process_time)
        other = Other(task, X, y)
        start = time.process_time()
        chosen = other.choose() if evaluations is None else found
        if evaluations is not None:
            other.score(found)
        spent = time.process_time() - start
        times.append((own, spent * (evaluations or 1)))
    counted = evaluations or other.evaluations
    own_seconds, other_seconds = np.median(times, axis=0)
    ratios = [theirs / mine for mine, theirs in times]
    score = math.nan if evaluations else other.score(chosen)
    inside = bool((chosen[1:] >= 0.0).all() and (chosen[1:] <= LARGEST).all())
    return Row(
        task,
        n,
        turns,
        counted,
        1.0 / evaluations if evaluations else 1.0,
        *(float(f"{v:.4g}") for v in (own_seconds, other_seconds)),
        *(float(f"{v:.4g}") for v in (np.median(ratios), min(ratios), max(ratios))),
        other.score(found),
        score,
        "" if evaluations else inside,
    )


def alone(task: str, n: int, turns: int) -> Row:
    """Time the package where there is nothing to compare with."""
    X, y = table(n)
    times = [seconds_of(lambda: ours(task, X, y), time.process_time) for _ in range(turns)]
    blank = (math.nan,) * 6
    return Row(task, n, turns, 0, 0.0, float(f"{np.median(times):.4g}"), *blank, "")


def rows(fitted: dict[int, int], scaled: dict[int, int]) -> Iterator[Row]:
    """Yield all sizes of both tasks."""
    for task in ("density", "regression"):
        ours(task, *table(100))  # what is compiled is not timed
        if find_spec("statsmodels") is None:
            yield from (alone(task, n, turns) for n, turns in (fitted | scaled).items())
            continue
        evaluations = 0
        for n, turns in fitted.items():
            yield (row := compared(task, n, turns, None))
            evaluations = row.evaluations
        for n, turns in scaled.items():
            yield compared(task, n, turns, evaluations)


def main() -> None:
    """Run all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="60 rows, and 200 scaled")
    options = parser.parse_args()
    sizes = ({60: 1}, {200: 1}) if options.quick else (FITTED, SCALED)
    found = []
    with one_thread():
        for row in rows(*sizes):
            found.append(row)
            print(row, flush=True)
    config = {"seed": SEED, "quick": options.quick, "kernel": "gaussian", "clock": "processor"}
    packages = ("statsmodels",)
    write_study(
        options.output, "mixed_data", found, config, source=Path(__file__), packages=packages
    )


if __name__ == "__main__":
    main()
