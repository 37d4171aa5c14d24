"""Hold the kernel sums against what bounds them, in one run; quote the ratios.

    python experiments/benchmarks/kernel_limits.py [--output FOLDER] [--quick] [--repeats K]
                                                   [--part PART]

- `transform`: a band-limited sum over a bare pair of finufft transforms (type 1, type 2) with the
  same points and modes, complex as finufft's are; tol = 1e-12, normal-reference radius.
- `fitted density`, `fitted regression`: an estimator fitted and evaluated, over the same bare pair;
  for the regression the detail says how many rows were faint and summed again over all pairs.
- `regression`: Nadaraya-Watson over the density alone.
- `direct`: billions of pairs times dimensions a second on one thread, over the multiply-add peak of
  this core in the same precision, measured here; the ratio is a rate, not a time.
- `lscv`: choosing the radius over one evaluation of the density at all samples.
- `plan`: the time of the method that the plan chose over that of the fastest: direct, band-limited,
  split and reference, each where the plan gives it less than half a second; the detail names both.

Processor seconds of one thread, the two sides of a ratio in turn: medians of each, and median,
least and largest of the ratios (of `direct`, the ratio of the rates alone).
Fits are kernel_limits_fitted (CSV, JSON), plans kernel_limits_plan, the rest kernel_limits.
"""

import argparse
import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import finufft
import numba
import numpy as np

import fourierkernels as fk
from fourierkernels.estimators import UndefinedWarning
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import Ratios, in_turn, rounds
from fourierkernels.kernels import as_kernel
from fourierkernels.sums import PreparedSum, kernel_sum
from fourierkernels.sums.series import fourier_series
from fourierkernels.theory import optimal_radius

ROOT = Path(__file__).parents[2]
SEED = 2022
KERNELS = ("gaussian", *(f"fourier{power}" for power in range(1, 7)))
METHODS = ("direct", "bandlimited", "split", "reference")  # of the plan
NAMES = {
    "fitted": "kernel_limits_fitted",
    "prepared": "kernel_limits",
    "plan": "kernel_limits_plan",
}
Run = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One comparison: `value` over `limit`, in seconds or, for `direct`, in 1e9 per second."""

    what: str
    kernel: str
    dim: int
    n: int
    m: int
    detail: str
    value: float
    limit: float
    ratio: float
    least: float
    largest: float


def compared(value: Run, limit: Run, repeats: int) -> Ratios:
    """Return processor seconds of both, and their ratios."""
    return in_turn(value, limit, repeats=repeats, clock=time.process_time)


def sample(n: int, dim: int, stream: int = 0) -> np.ndarray:
    """Return standard normal points of shape ``(n, dim)``."""
    return np.random.default_rng([SEED, n, dim, stream]).normal(size=(n, dim))


def transform_rows(sizes: list[tuple[int, int]], repeats: int) -> Iterator[Row]:
    """Band-limited sums over a bare pair of transforms."""
    for (dim, n), name in itertools.product(sizes, KERNELS):
        x, at = sample(n, dim), sample(n, dim, 1)
        radius = optimal_radius("gaussian", name, n=n, dim=dim)
        options = {"kernel": name, "radius": radius, "method": "bandlimited", "refine": False}
        try:
            pair, modes = bare_pair(x, at, name, radius)
            times = compared(partial(kernel_sum, x, at, **options), pair, repeats)
        except ValueError as refusal:
            print(f"transform {name} D={dim} n={n}: {refusal}")
            continue
        yield Row("transform", name, dim, n, n, "x".join(map(str, modes)), *times)


def bare_pair(x: np.ndarray, at: np.ndarray, name: str, radius: float) -> tuple[Run, list[int]]:
    """Return a bare type 1 and type 2 transform with the points and modes of the sum."""
    prepared = PreparedSum(x, kernel=name, radius=radius, method="bandlimited")
    prepared.plan(at)  # refuses what would not fit
    reach = np.maximum(x.max(0), at.max(0)) - np.minimum(x.min(0), at.min(0))
    series = [fourier_series(as_kernel(name), radius, r, tol=1e-12) for r in reach]
    phases = [
        [np.ascontiguousarray(points[:, d] * (2 * np.pi / s.period)) for d, s in enumerate(series)]
        for points in (x, at)
    ]
    modes = [len(s.coefficients) for s in series]
    forward, backward = (getattr(finufft, f"nufft{len(modes)}d{type_}") for type_ in (1, 2))
    strengths, options = np.ones(len(x), np.complex128), {"eps": 1e-13, "nthreads": 1}

    def pair() -> object:
        spectrum = forward(*phases[0], strengths, tuple(modes), isign=-1, **options)
        return backward(*phases[1], spectrum, isign=1, **options)

    return pair, modes


def fitted_rows(sizes: list[int], repeats: int) -> Iterator[Row]:
    """Estimators fitted and evaluated, over a bare pair of transforms."""
    for n, name in itertools.product(sizes, KERNELS):
        x, at = sample(n, 1), sample(n, 1, 1)
        radius = optimal_radius("gaussian", name, n=n)
        pair, modes = bare_pair(x, at, name, radius)
        density = partial(fitted, fk.KernelDensity(name, radius=radius), at, x)
        yield Row("fitted density", name, 1, n, n, str(modes[0]), *compared(density, pair, repeats))
        sums = PreparedSum(x, kernel=name, radius=radius).at(at, refine=False)
        faint = int((np.abs(sums.denominator) < 1e6 * sums.error).sum())  # error over √tol
        y, model = np.sin(2 * x[:, 0]), fk.NadarayaWatson(name, radius=radius)
        regression = partial(fitted, model, at, x, y)
        detail = f"{modes[0]}, {faint} faint"
        yield Row("fitted regression", name, 1, n, n, detail, *compared(regression, pair, repeats))


def fitted(
    model: fk.KernelDensity | fk.NadarayaWatson, at: FloatArray, *data: FloatArray
) -> object:
    """Fit an estimator and evaluate it."""
    model.fit(*data)
    return model.density(at) if isinstance(model, fk.KernelDensity) else model.predict(at)


def regression_rows(sizes: list[int], repeats: int) -> Iterator[Row]:
    """Regression over density, at as many queries as samples."""
    for n, name in itertools.product(sizes, ("gaussian", "fourier4")):
        x, at = sample(n, 1), sample(n, 1, 1)
        y = np.sin(2 * x[:, 0])
        radius = optimal_radius("gaussian", name, n=n)
        regression = fk.NadarayaWatson(name, radius=radius).fit(x, y)
        density = fk.KernelDensity(name, radius=radius).fit(x)
        pair = compared(partial(regression.predict, at), partial(density.density, at), repeats)
        yield Row("regression", name, 1, n, n, regression.plan_.method, *pair)


def direct_rows(dims: list[int], pairs: int, repeats: int) -> Iterator[Row]:
    """Rates of the direct sums on one thread, over the multiply-add peak in their precision."""
    methods = {"direct": np.float64, "direct_float32": np.float32}
    for (method, dtype), name, dim in itertools.product(
        methods.items(), ("fourier4", "gaussian"), dims
    ):
        n = 4096
        x, at = sample(n, dim), sample(max(64, pairs // (n * dim)), dim, 1)
        prepared = PreparedSum(x, kernel=name, radius=2.0, method=method, tol=1e-2)
        elements = len(at) * n * dim
        times = compared(
            partial(prepared.at, at, refine=False), partial(multiply_add, dtype), repeats
        )
        rate, peak = 1e-9 * elements / times.seconds, 1e-9 * _FUSED / times.other_seconds
        share = rate / peak
        yield Row("direct", name, dim, n, len(at), method, rate, peak, share, math.nan, math.nan)


_FUSED = 2**28  # multiply-adds of one measurement of the peak


def multiply_add(dtype: type[np.floating]) -> float:
    """Run _FUSED multiply-adds that the compiler can keep in registers."""
    return float(_multiply_add(np.full(128, 0.5, dtype), dtype(0.999), _FUSED // 128))


@numba.njit(fastmath=True)
def _multiply_add(x: np.ndarray, factor: float, count: int) -> float:
    for _ in range(count // 16):
        for j in range(128):
            y = x[j]
            for _ in range(16):  # a chain; those of the 128 lanes run side by side
                y = y * factor + factor
            x[j] = y
    return x.sum()


def lscv_rows(sizes: list[int], repeats: int) -> Iterator[Row]:
    """Cross-validated radii over one evaluation of the density."""
    for n, name in itertools.product(sizes, KERNELS):
        x = sample(n, 1)
        chosen = fk.KernelDensity(name, radius="lscv").fit(x).radius_
        density = fk.KernelDensity(name, radius=chosen).fit(x)
        choose = fk.KernelDensity(name, radius="lscv")
        pair = compared(partial(choose.fit, x), partial(density.density, x), repeats)
        yield Row("lscv", name, 1, n, n, f"radius {chosen[0]:.3f}", *pair)


def affordable(name: str, radius: float, x: FloatArray, at: FloatArray, method: str) -> bool:
    """Tell whether a method can do the sum, in less than half a second."""
    try:
        return PreparedSum(x, kernel=name, radius=radius, method=method).plan(at).seconds < 0.5
    except ValueError:  # it refuses, and says why
        return False


def plan_rows(counts: list[int], radii: list[float], repeats: int) -> Iterator[Row]:
    """Chosen method over the fastest."""
    cases = itertools.product(("gaussian", "fourier4"), (1, 2, 3), counts, counts, radii)
    for name, dim, n, m, radius in cases:
        x, at = sample(n, dim), sample(m, dim, 1)
        able = [method for method in METHODS if affordable(name, radius, x, at, method)]
        chosen = PreparedSum(x, kernel=name, radius=radius).plan(at).method
        if chosen not in able or len(able) < 2:
            continue
        run = partial(kernel_sum, x, at, kernel=name, radius=radius, refine=False)
        calls = {method: partial(run, method=method) for method in able}
        times = rounds(calls, least=repeats, clock=time.process_time)
        seconds = {method: statistics.median(each) for method, each in times.items()}
        fastest = min(able, key=seconds.__getitem__)
        ratios = sorted(np.divide(times[chosen], times[fastest]).tolist())
        detail = f"{chosen}, fastest {fastest}, R = {radius:g}"
        middle = statistics.median(ratios)
        yield Row(
            "plan",
            name,
            dim,
            n,
            m,
            detail,
            seconds[chosen],
            seconds[fastest],
            middle,
            ratios[0],
            ratios[-1],
        )


def rows(quick: bool, repeats: int) -> Iterator[Row]:
    """Yield the rows of prepared sums; the quick mode has the smallest sizes."""
    dims, pairs = ([1, 16], 2**22) if quick else ([1, 2, 4, 16, 64], 2**27)
    yield from direct_rows(dims, pairs, repeats)
    transforms = [(1, 10**4)] if quick else [(1, 10**5), (1, 10**6), (2, 10**5), (3, 10**5)]
    yield from transform_rows(transforms, repeats)
    yield from regression_rows([10**4] if quick else [10**5, 10**6], repeats)
    yield from lscv_rows([10**3] if quick else [10**4, 10**5, 10**6], repeats)


def all_plan_rows(quick: bool, repeats: int) -> Iterator[Row]:
    """Yield the rows of plans."""
    counts = [10**2, 10**3] if quick else [10**2, 10**3, 10**4, 10**5]
    yield from plan_rows(counts, [1.0] if quick else [1.0, 4.0, 20.0], min(repeats, 3))


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="smallest sizes only")
    parser.add_argument("--part", choices=("all", *NAMES), default="all")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    repeats = 1 if options.quick else options.repeats
    warnings.simplefilter("ignore", UndefinedWarning)
    numba.set_num_threads(1)
    config = {"seed": SEED, "repeats": repeats, "threads": 1}
    parts = {
        "fitted": fitted_rows([10**4] if options.quick else [10**6], repeats),
        "prepared": rows(options.quick, repeats),
        "plan": all_plan_rows(options.quick, repeats),
    }
    for part, found in parts.items():
        if options.part not in ("all", part):
            continue
        table = []
        for row in found:
            print(row, flush=True)
            table.append(row)
        write_study(options.output, NAMES[part], table, config, source=Path(__file__))


if __name__ == "__main__":
    main()
