"""Compare a radius of each sample with one for all, in exact error and on samples.

    python experiments/adaptive_radii.py [--output FOLDER] [--quick] [--part PART]

Exact: with the true density as the pilot, the samples' kernels are independent and alike, so that
E p̂(x) = ∫ r(y) K(r(y)(x - y)) p(y) dy and n Var p̂(x) = ∫ r² K² p - (E p̂)², r(y) = R λ(y): the MISE
by Gauss's rule, each estimator at its own best R. `doubled` is how much twice the nodes change it.

Samples: Gaussian kernel, 1,000 samples, 20 replicates; λ from estimated pilots. Each estimator at
its own best of multiples of R (the best one for one radius), and at the plug-in R. Ratios of mean
errors are of paired samples, with 95 % intervals; `detectable` is the smallest gain, 1 less the
ratio, that these pairs would have shown with probability 0.8. Regressions of sin(2x) with noise
0.3: error averaged over the design, at the best multiples.

Chosen: densities of the same samples, one radius and the square root of its density as the pilot,
each at the radius of its own least squares cross-validation; `factor` is the mean of their ratio.

Times: sums at n queries of n normal samples, processor seconds of one thread: one radius, a radius
of each sample, and the latter pair by pair, from the first queries; three interleaved repetitions.

Writes adaptive_radii_exact, _samples, _chosen and _times (CSV), and JSON.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import AdaptiveDensity, AdaptiveRegression
from fourierkernels.estimators.radius import normal_reference
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.sums import SampleSum
from fourierkernels.sums.factors import FactorSum
from fourierkernels.theory import optimum
from fourierkernels.theory.densities import Density, as_density

ROOT = Path(__file__).parents[1]
SEED = 1982
# Where the density is narrowest, and how narrow: nodes are dense there.
DENSITIES = {
    "gaussian": (0.0, 1.0),
    "laplace": (0.0, 0.3),
    "cauchy": (0.0, 0.5),
    "mw3": (-2.9, 0.1),
    "mw6": (0.0, 1.0),
    "mw10": (0.0, 0.5),
}
PARTS = ("all", "exact", "samples", "chosen", "times")
MULTIPLES = tuple(2.0 ** (k / 3.0) for k in range(-3, 4))
RULES: dict[str, dict[str, Any]] = {
    "abramson": {"adaptive": "abramson"},
    "neighbours": {"adaptive": "neighbours"},
    "neighbours, α = 1/2": {"adaptive": "neighbours", "sensitivity": 0.5},
}


class Nodes(NamedTuple):
    """Nodes and weights of a rule for integrals over the line."""

    x: FloatArray
    weights: FloatArray


def nodes_of(name: str, panels: int, reach: float = 1e4) -> Nodes:
    """Return Gauss's rule in s of x = centre + width sinh(s), up to `reach` from the centre."""
    centre, width = DENSITIES[name]
    node, weight = np.polynomial.legendre.leggauss(16)
    half = math.asinh(reach / width) / panels
    edges = half * np.arange(-panels, panels, 2.0)[:, None]  # one of them at the centre
    s = (edges + half * (1.0 + node)).ravel()
    x = centre + width * np.sinh(s)
    return Nodes(x, width * np.cosh(s) * half * np.tile(weight, panels))


class Ideal:
    """The estimator whose pilot is the density itself, to a power α."""

    def __init__(self, name: str, kernel: str, alpha: float, panels: int) -> None:
        density, self.nodes = as_density(name), nodes_of(name, panels)
        self.kernel: Kernel = as_kernel(kernel)
        self.p = np.asarray(density.pdf(self.nodes.x), np.float64)
        mass = self.nodes.weights * self.p
        used = mass > 1e-30 * mass.max()
        logs = np.log(self.p[used])
        self.y, self.mass = self.nodes.x[used], mass[used]
        self.factors = np.exp(alpha * (logs - self.mass @ logs / self.mass.sum()))

    def errors(self, radius: float, n: int) -> tuple[float, float]:
        """Return integrated squared bias and variance."""
        r = radius * self.factors
        mean = np.concatenate(
            [
                (self.kernel.value((x[:, None] - self.y) * r) * r) @ self.mass
                for x in np.array_split(self.nodes.x, 16)
            ]
        )
        bias2 = float(self.nodes.weights @ np.square(mean - self.p))
        square = self.kernel.roughness * float(r @ self.mass)
        return bias2, (square - float(self.nodes.weights @ np.square(mean))) / n

    def best(self, n: int, start: float) -> tuple[float, float, float]:
        """Return the best radius with its bias² and variance."""

        def total(log: float) -> float:
            return sum(self.errors(start * math.exp(log), n))

        options: Any = {"xatol": 3e-3}
        found = minimize_scalar(total, bounds=(-2.0, 0.3), method="bounded", options=options)
        radius = start * math.exp(float(found.x))
        return radius, *self.errors(radius, n)


@dataclass(frozen=True)
class Exact:
    """Exact errors: of one radius, and of the density itself as the pilot, over the former."""

    density: str
    kernel: str
    n: int
    alpha: float
    radius: float
    mise: float
    bias_share: float
    ideal_radius: float
    ideal_bias_share: float
    ratio: float
    ratio_at_the_same_radius: float
    doubled: float


def exact(name: str, kernel: str, n: int, alpha: float, panels: int) -> Exact:
    """Return the errors of one setting."""
    fixed = optimum(as_density(name), kernel, n=n)
    error, ideal = fixed.mise, Ideal(name, kernel, alpha, panels)
    radius, bias2, variance = ideal.best(n, fixed.radius)
    total = bias2 + variance
    same = sum(ideal.errors(fixed.radius, n))
    finer = Ideal(name, kernel, alpha, 2 * panels)
    twice = [sum(finer.errors(r, n)) for r in (radius, fixed.radius)]
    return Exact(
        name,
        kernel,
        n,
        alpha,
        fixed.radius,
        error.total,
        error.bias2 / error.total,
        radius,
        bias2 / total,
        total / error.total,
        same / error.total,
        max(abs(twice[0] / total - 1.0), abs(twice[1] / same - 1.0)),
    )


@dataclass(frozen=True)
class Sampled:
    """Mean errors on samples, over those of one radius; at the best multiples, at the plug-in R."""

    kind: str
    target: str
    rule: str
    n: int
    replicates: int
    fixed: float
    fixed_multiple: float
    multiple: float
    ratio: float
    low: float
    high: float
    detectable: float
    at_plug_in: float
    at_plug_in_low: float
    at_plug_in_high: float
    at_plug_in_detectable: float


def paired(errors: FloatArray, other: FloatArray) -> tuple[float, float, float, float]:
    """Return the ratio of mean errors with its 95 % interval, and the smallest gain to be shown."""
    ratio = errors.mean() / other.mean()
    error = (errors - ratio * other).std(ddof=1) / other.mean() / math.sqrt(len(other))
    half, least = 1.96 * error, (1.96 + norm.ppf(0.8)) * error
    return float(ratio), float(ratio - half), float(ratio + half), float(least)


Errors = Callable[[Any, str | None, float | str], float]


def table_of(
    kind: str, target: str, n: int, base: float, samples: list[Any], error: Errors
) -> Iterator[Sampled]:
    """Yield one row per rule; the errors of all estimators are on the same samples."""
    found = {
        rule: np.array([[error(s, rule, base * c) for c in MULTIPLES] for s in samples])
        for rule in (None, *RULES)
    }
    plug_in = {}
    if kind == "density":
        plug_in = {r: np.array([error(s, r, "plugin") for s in samples]) for r in (None, *RULES)}
    best = {rule: int(errors.mean(axis=0).argmin()) for rule, errors in found.items()}
    fixed = found[None][:, best[None]]
    for rule in RULES:
        ratios = paired(found[rule][:, best[rule]], fixed)
        others = paired(plug_in[rule], plug_in[None]) if plug_in else (math.nan,) * 4
        multiples = MULTIPLES[best[None]], MULTIPLES[best[rule]]
        mean = float(fixed.mean())
        yield Sampled(kind, target, rule, n, len(samples), mean, *multiples, *ratios, *others)


def density_problem(
    name: str, n: int, replicates: int, panels: int
) -> tuple[list[FloatArray], Errors]:
    """Return samples of a density, and the integrated squared error of an estimate from one."""
    density: Density = as_density(name)
    nodes = nodes_of(name, panels, reach=60.0)  # beyond, ∫p² of the Cauchy density is 2e-7
    p = np.asarray(density.pdf(nodes.x))
    rng = np.random.default_rng([SEED, list(DENSITIES).index(name)])
    samples = [density.sample(n, rng)[:, None] for _ in range(replicates)]

    def error(x: FloatArray, rule: str | None, radius: float | str) -> float:
        options: dict[str, Any] = {"radius": radius, "tol": 1e-8}
        model = KernelDensity("gaussian", **options)
        if rule is not None:
            model = AdaptiveDensity("gaussian", **options, **RULES[rule])
        gap = model.fit(x).density(nodes.x[:, None]) - p
        return float(nodes.weights @ np.square(gap))

    return samples, error


def density_rows(name: str, n: int, replicates: int, panels: int) -> Iterator[Sampled]:
    """Yield the rows of one density."""
    samples, error = density_problem(name, n, replicates, panels)
    base = optimum(as_density(name), "gaussian", n=n).radius
    yield from table_of("density", name, n, base, samples, error)


@dataclass(frozen=True)
class Chosen:
    """Mean errors at radii by cross-validation of each estimate itself, over that of one radius."""

    density: str
    n: int
    replicates: int
    fixed: float
    ratio: float
    low: float
    high: float
    detectable: float
    factor: float


def chosen(name: str, n: int, replicates: int, panels: int) -> Chosen:
    """Return the row of one density."""
    samples, error = density_problem(name, n, replicates, panels)
    models: tuple[type[KernelDensity], ...] = KernelDensity, AdaptiveDensity
    radii = [[m("gaussian", radius="lscv").fit(x).radius_[0] for m in models] for x in samples]
    one, each = (
        np.array([error(x, rule, r[k]) for x, r in zip(samples, radii, strict=True)])
        for k, rule in enumerate((None, "abramson"))
    )
    factor = float(np.mean([mine / fixed for fixed, mine in radii]))
    return Chosen(name, n, replicates, float(one.mean()), *paired(each, one), factor)


DESIGNS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 1)),
    "exponential": lambda rng, n: rng.exponential(size=(n, 1)),
    "t, 3 degrees of freedom": lambda rng, n: rng.standard_t(3, size=(n, 1)),
}


def regression_rows(design: str, n: int, replicates: int) -> Iterator[Sampled]:
    """Yield the rows of one design."""
    rng = np.random.default_rng([SEED, 100 + list(DESIGNS).index(design)])
    samples = []
    for _ in range(replicates):
        x, at = DESIGNS[design](rng, n), DESIGNS[design](rng, n)
        samples.append((x, np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=n), at))

    def error(sample: Any, rule: str | None, radius: float | str) -> float:
        x, y, at = sample
        options: dict[str, Any] = {"radius": radius, "tol": 1e-8}
        model = NadarayaWatson("gaussian", **options)
        if rule is not None:
            model = AdaptiveRegression("gaussian", **options, **RULES[rule])
        gap = model.fit(x, y).predict(at) - np.sin(2.0 * at[:, 0])
        return float(np.square(gap).mean())

    yield from table_of("regression", design, n, 8.0, samples, error)


@dataclass(frozen=True)
class Timed:
    """Processor seconds of one thread: least of the repetitions."""

    dim: int
    kernel: str
    tol: float
    n: int
    one_radius: float
    each: float
    pair_by_pair: float
    over_one_radius: float
    pair_by_pair_over_each: float


def timed(dim: int, kernel: str, tol: float, n: int, repeats: int) -> Timed:
    """Measure sums of normal samples with the ideal factors, at as many queries."""
    rng = np.random.default_rng([SEED, 200 + dim])
    x, at, some = rng.normal(size=(n, dim)), rng.normal(size=(n, dim)), min(n, 200)
    shape = as_kernel(kernel)
    log = -0.25 * np.square(x).sum(axis=1)
    plain: dict[str, Any] = {"kernel": shape, "radius": normal_reference(x, np.ones(n), shape)}
    plain |= {"weights": np.ones(n), "responses": np.zeros((n, 0)), "tol": tol}
    each = plain | {"factors": np.exp(log - log.mean())}
    works: dict[str, Callable[[], object]] = {
        "one": lambda: SampleSum(x, **plain).at(at, refine=False),
        "each": lambda: FactorSum(x, method="bandlimited", **each).at(at, refine=False),
        "pairs": lambda: FactorSum(x, method="reference", **each).at(at[:some], refine=False),
    }
    times = rounds(works, least=repeats, clock=time.process_time)
    one, all_, pairs = (min(times[name]) for name in works)
    pairs *= n / some
    return Timed(dim, kernel, tol, n, one, all_, pairs, all_ / one, pairs / all_)


def main() -> None:
    """Run the parts asked for and write their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="few samples, two densities")
    parser.add_argument("--part", choices=PARTS, default="all")
    options = parser.parse_args()
    names = list(DENSITIES)[:2] if options.quick else list(DENSITIES)
    n, replicates = (100, 3) if options.quick else (1000, 20)
    sizes = (1000,) if options.quick else (1000, 10_000)
    write = partial(write_study, options.output, source=Path(__file__))
    config = {"seed": SEED, "quick": options.quick}
    if options.part in ("all", "exact"):
        settings = [(d, k, m) for d in names for k in ("gaussian", "fourier4") for m in sizes]
        panels = 30 if options.quick else 64
        write("adaptive_radii_exact", [exact(*each, 0.5, panels) for each in settings], config)
    if options.part in ("all", "samples"):
        sampled = [row for d in names for row in density_rows(d, n, replicates, 30)]
        sampled += [row for d in DESIGNS for row in regression_rows(d, n, replicates)]
        write("adaptive_radii_samples", sampled, config | {"multiples": MULTIPLES})
    if options.part in ("all", "chosen"):
        write("adaptive_radii_chosen", [chosen(d, n, replicates, 30) for d in names], config)
    if options.part in ("all", "times"):
        size, repeats = (1000, 1) if options.quick else (100_000, 3)
        cases = [(1, "gaussian", 1e-12), (1, "fourier4", 1e-12), (1, "fourier4", 1e-6)]
        cases += [(2, "fourier4", 1e-12), (2, "fourier4", 1e-6)]
        times = [timed(*case, size, repeats) for case in cases]
        write("adaptive_radii_times", times, config)


if __name__ == "__main__":
    main()
