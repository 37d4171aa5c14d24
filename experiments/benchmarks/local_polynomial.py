"""Time local linear regression beside the local mean and the libraries people use, in one run.

    python experiments/benchmarks/local_polynomial.py [--output FOLDER] [--quick]

Each row compares two methods on the same data: standard normal design, y = sin 2x + noise, as many
queries as samples, one Gaussian bandwidth h = 1.06 n^{-1/5} for both. They take turns, and each
turn gives a ratio of processor times, fit and prediction together; the ratio in the table is the
geometric mean, with its 95 % interval by Student's t for the logarithms. A method that is too slow
for all queries answers the first of them and its time is scaled; `share` says how many. Errors are
the largest difference from least squares in float64 at each of 100 queries, relative to the largest
value. Quote ratios from one run, not seconds.

Peers: pip install statsmodels scikit-fda. A missing one is left out.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
from scipy import stats

import fourierkernels as fk
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[2]
SEED = 2022
CHECKED = 100  # queries whose error is measured
Array = np.ndarray
Method = Callable[[Array, Array, Array, float], Array]


@dataclass(frozen=True)
class Comparison:
    """The local line of the package, and another method on the same data.

    `queries` is how many the other one answers, all if None; `degree` is of its polynomials.
    """

    other: str
    package: str
    run: Method
    n: int
    turns: int
    queries: int | None = None
    degree: int = 1


@dataclass(frozen=True)
class Row:
    """One comparison: seconds are medians over the turns, of all queries."""

    other: str
    n: int
    turns: int
    share: float
    seconds: float
    other_seconds: float
    other_over_ours: float
    low: float
    high: float
    error: float
    other_error: float


def local_line(x: Array, y: Array, at: Array, h: float) -> Array:
    """Predict by the package's local line."""
    return fk.LocalPolynomial("gaussian", degree=1, bandwidth=h).fit(x, y).predict(at)


def local_mean(x: Array, y: Array, at: Array, h: float) -> Array:
    """Predict by the package's Nadaraya-Watson regression."""
    return fk.NadarayaWatson("gaussian", bandwidth=h).fit(x, y).predict(at)


def statsmodels_line(x: Array, y: Array, at: Array, h: float) -> Array:
    """Predict by the local line of statsmodels."""
    from statsmodels.nonparametric.kernel_regression import KernelReg

    return np.asarray(KernelReg(y, x, "c", reg_type="ll", bw=[h]).fit(at)[0])


def skfda_line(x: Array, y: Array, at: Array, h: float) -> Array:
    """Predict by the local line of scikit-fda, through its hat matrix."""
    from skfda.misc.hat_matrix import LocalLinearRegressionHatMatrix

    hat = LocalLinearRegressionHatMatrix(bandwidth=h)
    return np.asarray(hat(delta_x=at - x[:, 0], X_train=x, X=at) @ y)


FULL = (
    Comparison("local mean (Nadaraya-Watson)", "fourierkernels", local_mean, 10**6, 15, degree=0),
    Comparison("statsmodels", "statsmodels", statsmodels_line, 10**4, 5, queries=100),
    Comparison("statsmodels", "statsmodels", statsmodels_line, 10**5, 5, queries=100),
    Comparison("scikit-fda", "scikit-fda", skfda_line, 10**4, 5, queries=100),
    Comparison("scikit-fda", "scikit-fda", skfda_line, 10**5, 5, queries=100),
)
QUICK = (
    Comparison("local mean (Nadaraya-Watson)", "fourierkernels", local_mean, 10**4, 3, degree=0),
    Comparison("statsmodels", "statsmodels", statsmodels_line, 10**3, 3, queries=20),
    Comparison("scikit-fda", "scikit-fda", skfda_line, 10**3, 3, queries=20),
)


def problem(n: int) -> tuple[Array, Array, Array, float]:
    """Return samples, responses, queries inside the range of the samples, bandwidth."""
    rng = np.random.default_rng(SEED)
    x, at = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)
    return x, y, np.clip(at, x.min(), x.max()), 1.06 * n**-0.2


def truth(x: Array, y: Array, at: Array, h: float, degree: int) -> Array:
    """Return local polynomials by weighted least squares, one query at a time."""
    fits = []
    for query in at[:, 0]:
        u = (x[:, 0] - query) / h
        near = np.abs(u) < 12.0  # beyond, weights are below e^-72
        root = np.exp(-0.25 * u[near] ** 2)
        design = u[near, None] ** np.arange(degree + 1) * root[:, None]
        fits.append(np.linalg.lstsq(design, root * y[near])[0][0])
    return np.array(fits)


def compare(case: Comparison) -> Row:
    """Let both methods take turns; one run of each goes before that is not timed."""
    x, y, at, h = problem(case.n)
    queries = at[: case.queries]
    ours, other = local_line(x, y, at, h), case.run(x, y, queries[:CHECKED], h)
    share = len(queries) / len(at)
    sides = {
        "ours": partial(local_line, x, y, at, h),
        "other": partial(case.run, x, y, queries, h),
    }
    taken = rounds(sides, least=case.turns, warm=0, clock=time.process_time)
    times = np.column_stack([taken["ours"], np.array(taken["other"]) / share])
    logs = np.log(times[:, 1] / times[:, 0])
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return Row(
        case.other,
        case.n,
        case.turns,
        share,
        *map(float, np.median(times, axis=0)),
        *(math.exp(logs.mean() + side * half) for side in (0, -1, 1)),
        _error(ours, x, y, at, h, 1),
        _error(other, x, y, queries, h, case.degree),
    )


def _error(values: Array, x: Array, y: Array, at: Array, h: float, degree: int) -> float:
    some = min(CHECKED, len(values), len(at))
    exact = truth(x, y, at[:some], h, degree)
    return float(np.abs(values[:some] - exact).max() / np.abs(exact).max())


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Run the comparisons and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    options = parser.parse_args()
    rows = []
    for case in QUICK if options.quick else FULL:
        if _is_installed(case.package):
            rows.append(compare(case))
            print(rows[-1], file=sys.stderr, flush=True)
    write_study(
        options.output,
        "local_polynomial",
        rows,
        {"seed": SEED, "quick": options.quick},
        source=Path(__file__),
        packages=("statsmodels", "scikit-fda"),
    )


if __name__ == "__main__":
    main()
