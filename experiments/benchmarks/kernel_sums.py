"""Time density and regression beside the libraries people use, in one run.

    python experiments/benchmarks/kernel_sums.py [--output FOLDER] [--quick] [--seconds S]

Each cell (task, method, dimension, n) runs in its own process, with one thread: standard normal
data, as many queries as samples, one Gaussian bandwidth h = 1.06 n^{-1/(4+D)} for all (fastkde
chooses its own, and FFTKDE interpolates a grid: their errors say so). A method too slow for all
queries gets a subset and its time is scaled; the column `share` says how much was run. Regressions
are compared in one dimension, up to 100,000 samples; fastkde in one dimension, as two take it 36 s
at 10,000 samples. No cell has a time limit. Error: largest difference from the float64 reference
over 300 queries, relative to the largest value. `seconds` are of the processor. Writes CSV and the
provenance as JSON; quote ratios from one run, not seconds.

Peers: pip install statsmodels KDEpy fastkde scikit-fda pykeops. A missing one is reported as such.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module, metadata
from pathlib import Path

import numpy as np

import fourierkernels as fk
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[2]
SIZES = {1: (10**3, 10**4, 10**5, 10**6), 2: (10**5,), 3: (10**5,)}
QUICK = {1: (10**3,)}
APART = ("ours",)  # of the quick mode: in a process of its own, as every cell of the full one
_THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PAIRS = 2 * 10**8
_MOST_REPEATS = 7
CHECKED = 300  # queries whose error is measured
PACKAGES = (
    "fourierkernels",
    "scipy",
    "scikit-learn",
    "statsmodels",
    "KDEpy",
    "fastkde",
    "scikit-fda",
    "pykeops",
)
Array = np.ndarray
Evaluate = Callable[[Array], Array]


@dataclass(frozen=True)
class Peer:
    """One method: `prepare(x, y, h)` is timed together with the evaluation it returns."""

    task: str
    package: str
    prepare: Callable[[Array, Array, float], Evaluate]
    largest_dim: int = 3
    most: int = 10**6  # samples
    whole: bool = False  # its cost is not per query: always all of them, never scaled
    dense: bool = False  # holds all pairs in memory: never more than _PAIRS of them


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    task: str
    method: str
    dim: int
    n: int
    seconds: float
    share: float | str  # or why there is none
    peak_mb: float
    error: float


def _ours(kind: str, kernel: str, **options: object) -> Callable[[Array, Array, float], Evaluate]:
    def prepare(x: Array, y: Array, h: float) -> Evaluate:
        if kind == "density":
            return fk.KernelDensity(kernel, bandwidth=h, **options).fit(x).density
        return fk.NadarayaWatson(kernel, bandwidth=h, **options).fit(x, y).predict

    return prepare


def _scipy(x: Array, y: Array, h: float) -> Evaluate:
    from scipy.stats import gaussian_kde

    dim = x.shape[1]

    class Fixed(gaussian_kde):  # scipy scales by the covariance of the data; here it is h² I
        def _compute_covariance(self) -> None:
            self.covariance, self.cho_cov = h * h * np.eye(dim), h * np.eye(dim)
            self.log_det = 2 * dim * np.log(h * np.sqrt(2 * np.pi))

    model = Fixed(x.T)
    return lambda at: model(at.T)


def _sklearn(x: Array, y: Array, h: float) -> Evaluate:
    from sklearn.neighbors import KernelDensity

    model = KernelDensity(bandwidth=h, rtol=0, atol=0).fit(x)
    return lambda at: np.exp(model.score_samples(at))


def _sklearn_tolerant(x: Array, y: Array, h: float) -> Evaluate:
    from sklearn.neighbors import KernelDensity

    model = KernelDensity(bandwidth=h, rtol=1e-4).fit(x)
    return lambda at: np.exp(model.score_samples(at))


def _statsmodels(x: Array, y: Array, h: float) -> Evaluate:
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    dim = x.shape[1]
    return KDEMultivariate(x, var_type="c" * dim, bw=[h] * dim).pdf


def _statsmodels_regression(x: Array, y: Array, h: float) -> Evaluate:
    from statsmodels.nonparametric.kernel_regression import KernelReg

    dim = x.shape[1]
    model = KernelReg(y, x, var_type="c" * dim, reg_type="lc", bw=[h] * dim)
    return lambda at: model.fit(at)[0]


def _kdepy(name: str) -> Callable[[Array, Array, float], Evaluate]:
    def prepare(x: Array, y: Array, h: float) -> Evaluate:
        return getattr(import_module("KDEpy"), name)(kernel="gaussian", bw=h).fit(x).evaluate

    return prepare


def _kdepy_fft(x: Array, y: Array, h: float) -> Evaluate:
    from KDEpy import FFTKDE
    from scipy.interpolate import RegularGridInterpolator

    shape = {1: (2**14,), 2: (512, 512), 3: (64, 64, 64)}[x.shape[1]]
    grid, values = FFTKDE(kernel="gaussian", bw=h).fit(x).evaluate(shape)
    axes = tuple(np.unique(grid.reshape(len(values), -1)[:, d]) for d in range(x.shape[1]))
    return RegularGridInterpolator(axes, values.reshape(shape), bounds_error=False, fill_value=0.0)


def _fastkde(x: Array, y: Array, h: float) -> Evaluate:
    import fastkde

    def evaluate(at: Array) -> Array:
        return np.asarray(fastkde.pdf_at_points(*x.T, list_of_points=list(map(tuple, at))))

    return evaluate


def _keops(kind: str) -> Callable[[Array, Array, float], Evaluate]:
    def prepare(x: Array, y: Array, h: float) -> Evaluate:
        from pykeops.numpy import LazyTensor

        samples = LazyTensor(np.ascontiguousarray(x[None] / h))
        peak = len(x) * (h * np.sqrt(2 * np.pi)) ** x.shape[1]

        def evaluate(at: Array) -> Array:
            queries = LazyTensor(np.ascontiguousarray(at[:, None] / h))
            weights = (-((queries - samples) ** 2).sum(-1) / 2).exp()
            if kind == "density":
                return weights.sum(1)[:, 0] / peak
            responses = LazyTensor(np.ascontiguousarray(y[None, :, None]))
            return ((weights * responses).sum(1) / weights.sum(1))[:, 0]

        return evaluate

    return prepare


def _skfda(x: Array, y: Array, h: float) -> Evaluate:
    from skfda.misc.hat_matrix import NadarayaWatsonHatMatrix

    hat = NadarayaWatsonHatMatrix(bandwidth=h)

    def evaluate(at: Array) -> Array:
        delta = at[:, :1] - x[:, 0]
        matrix = hat(delta_x=delta, X_train=x[:, 0], X=at[:, 0])
        return matrix @ y

    return evaluate


_regression = partial(Peer, "regression", largest_dim=1, most=10**5)
METHODS = {
    "ours": Peer("density", "fourierkernels", _ours("density", "gaussian"), whole=True),
    "ours, direct": Peer(
        "density", "fourierkernels", _ours("density", "gaussian", method="direct")
    ),
    "ours, 1e-6": Peer(
        "density", "fourierkernels", _ours("density", "gaussian", tol=1e-6), whole=True
    ),
    "scipy": Peer("density", "scipy", _scipy),
    "scikit-learn": Peer("density", "scikit-learn", _sklearn),
    "scikit-learn, rtol 1e-4": Peer("density", "scikit-learn", _sklearn_tolerant),
    "statsmodels": Peer("density", "statsmodels", _statsmodels),
    "KDEpy NaiveKDE": Peer("density", "KDEpy", _kdepy("NaiveKDE"), dense=True),
    "KDEpy TreeKDE": Peer("density", "KDEpy", _kdepy("TreeKDE")),
    "KDEpy FFTKDE": Peer("density", "KDEpy", _kdepy_fft, whole=True),
    "fastkde": Peer("density", "fastkde", _fastkde, largest_dim=1, whole=True),
    "pykeops": Peer("density", "pykeops", _keops("density")),
    "ours (regression)": _regression("fourierkernels", _ours("regression", "gaussian"), whole=True),
    "statsmodels KernelReg": _regression("statsmodels", _statsmodels_regression),
    "scikit-fda": _regression("scikit-fda", _skfda, dense=True),
    "pykeops (regression)": _regression("pykeops", _keops("regression")),
}


def problem(dim: int, n: int) -> tuple[Array, Array, Array, float]:
    """Return samples, responses, queries inside the range of the samples, bandwidth."""
    rng = np.random.default_rng(2022)
    x, at = rng.normal(size=(n, dim)), rng.normal(size=(n, dim))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)
    return x, y, np.clip(at, x.min(axis=0), x.max(axis=0)), 1.06 * n ** (-1 / (4 + dim))


def truth(task: str, x: Array, y: Array, at: Array, h: float) -> Array:
    """Return the reference: every pair, in float64."""
    dim = x.shape[1]
    sums = fk.kernel_sum(x, at, kernel="gaussian", radius=1 / h, responses=y, method="reference")
    if task == "regression":
        return sums.ratios()[:, 0]
    return sums.totals() / (len(x) * (h * np.sqrt(2 * np.pi)) ** dim)


def measure(method: str, dim: int, n: int, budget: float) -> Cell:
    """Run one cell: all queries if a probe says that they fit into the budget, else a subset.

    Where they take less than the budget, they are run up to seven times.
    """
    peer = METHODS[method]
    x, y, at, h = problem(dim, n)
    probe = at[:CHECKED]
    peer.prepare(x[:100], y[:100], h)(probe[:10])  # imports and compilation are not timed
    start = time.process_time()
    values = np.asarray(peer.prepare(x, y, h)(probe), float).ravel()
    spent = time.process_time() - start
    one = spent / len(probe)
    count = n if peer.whole or one * n < budget else max(CHECKED, int(budget / one))
    count = min(count, _PAIRS // n) if peer.dense else min(count, n)
    expected = spent if peer.whole else one * count
    repeats = max(1, min(_MOST_REPEATS, int(budget / expected)))
    whole = {method: lambda: peer.prepare(x, y, h)(at[:count])}
    runs = rounds(whole, least=repeats, warm=0, clock=time.process_time)[method]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # before the reference runs
    exact = truth(peer.task, x, y, probe, h)
    error = float(np.nanmax(np.abs(values - exact)) / np.abs(exact).max())
    share = count / n
    return Cell(peer.task, method, dim, n, float(np.median(runs)) / share, share, peak, error)


def run_cell(method: str, dim: int, n: int, budget: float) -> Cell:
    """Measure in a fresh process; a failure becomes a row that says so."""
    command = [sys.executable, __file__, "--cell", method, str(dim), str(n), str(budget)]
    env = os.environ | dict.fromkeys(_THREADS, "1")
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1][:80]
        return Cell(METHODS[method].task, method, dim, n, math.nan, reason, math.nan, math.nan)
    return Cell(**json.loads(done.stdout.splitlines()[-1]))


def cells(sizes: dict[int, tuple[int, ...]]) -> list[tuple[str, int, int]]:
    """Return what to run; a peer that is not installed is left out."""
    installed = {p for p in PACKAGES if _is_installed(p)}
    return [
        (name, dim, n)
        for dim, counts in sizes.items()
        for n in counts
        for name, peer in METHODS.items()
        if peer.package in installed and dim <= peer.largest_dim and n <= peer.most
    ]


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Run all cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="smallest sizes only")
    parser.add_argument("--seconds", type=float, default=10.0, help="budget of one evaluation")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        method, dim, n, budget = options.cell
        print(json.dumps(asdict(measure(method, int(dim), int(n), float(budget)))))
        return
    budget = 0.5 if options.quick else options.seconds
    rows: list[Cell] = []
    for method, dim, n in cells(QUICK if options.quick else SIZES):
        run = measure if options.quick and method not in APART else run_cell
        rows.append(run(method, dim, n, budget))
        print(rows[-1], file=sys.stderr, flush=True)
    write_study(
        options.output,
        "kernel_sums",
        rows,
        {"seed": 2022, "seconds": budget, "threads": 1},
        source=Path(__file__),
        packages=PACKAGES,
    )


if __name__ == "__main__":
    main()
