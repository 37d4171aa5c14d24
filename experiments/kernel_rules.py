"""Which kernel, which rule? Errors of kernels and rules of the radius, beside the peers' defaults.

    python experiments/kernel_rules.py [--output FOLDER] [--quick]

For each density and n: the least exact MISE of nine kernels; and with five of them every rule of
the package for one dimension, and with the Gaussian the defaults of other libraries as formulas
(`_peer_bandwidths.py`), on the same samples. The error of a choice c with kernel k is

    E ISE_c = MISE_k(R*) + E [ISE_c - ISE_k(R*)],

of which the first term is exact and only the second is a mean over samples: what the rule adds to
the error of the best radius of its kernel. `ratio` is that over the least MISE of the best kernel,
an oracle that no rule can know.

`kernel_rules` has a row per density, n and choice; intervals are t intervals of 95 % over samples.
`kernel_rules_overall` has the geometric mean of the ratios over all densities but the Cauchy, whose
long tails make some rules slow or impossible, and its quotient by that of the package's default and
by that of the best rule of the peers, paired by sample. Said before the run: a choice is better
than another where the interval of the quotient lies below 1, worse where it lies above. Intervals
of quotients are of 95 % for all choices at one n together (Bonferroni). `detectable` is the
quotient by the default that would have been told from 1 with probability 0.8. A choice that a rule
refused once is not in the geometric mean. Seconds are processor time of one thread for the rule
alone, medians.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _peer_bandwidths import PEERS
from scipy.stats import norm, t

from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.workers import one_thread
from fourierkernels.kernels import as_kernel
from fourierkernels.theory import IseCurve, optimum
from fourierkernels.theory.densities import as_density

ROOT = Path(__file__).parents[1]
SEED = 34
SAMPLES = {10**2: 30, 10**3: 20, 10**4: 12, 10**5: 6, 10**6: 4}
FEW = {10**2: 8, 10**3: 6, 10**4: 4}  # of the Cauchy density
DENSITIES = ("gaussian", "mw3", "mw6", "mw10", "laplace", "beta", "uniform", "cauchy")
ORACLES = ("gaussian", *(f"fourier{power}" for power in range(1, 7)), "order4", "order6")
KERNELS = ("gaussian", "fourier1", "fourier4", "order4", "order6")
KERNELS_OF_TAILS = ("gaussian", "fourier4", "order4")
LONG_TAILS = "cauchy"
DEFAULT, PEER = ("fourier4", "normal_reference"), ("gaussian", "improved_sheather_jones")

Choice = tuple[str, str]  # kernel, rule
Find = Callable[[FloatArray], float]


@dataclass(frozen=True)
class Row:
    """One choice: its error over the least of the best kernel, R over R*, and seconds."""

    density: str
    n: int
    kernel: str
    rule: str
    samples: int
    refused: int
    best_kernel: str
    least: float
    ratio: float
    low: float
    high: float
    radius: float
    seconds: float


@dataclass(frozen=True)
class Overall:
    """One choice over all densities: geometric mean, worst density, quotients by two others."""

    n: int
    kernel: str
    rule: str
    densities: int
    ratio: float
    low: float
    high: float
    worst: float
    worst_density: str
    over_default: float
    over_default_low: float
    over_default_high: float
    detectable: float
    over_peer: float
    over_peer_low: float
    over_peer_high: float
    seconds: float


def rules_of(kernel: str) -> dict[str, Find]:
    """Return the rules that fit a kernel, as functions of a sample to a radius.

    Rules of a matrix are for several dimensions.
    """
    shape = as_kernel(kernel)
    own = RADIUS_RULES | (GAUSSIAN_RULES if kernel == "gaussian" else {})

    def found(rule: str) -> Find:
        return lambda x: float(own[rule](x[:, None], np.ones(len(x)), shape)[0])

    finds = {rule: found(rule) for rule in own if not rule.endswith("_full")}
    if kernel == "gaussian":
        finds |= {peer.name: lambda x, of=peer.function: 1.0 / of(x) for peer in PEERS}
    return finds


def timed(find: Find, x: FloatArray) -> tuple[float, float]:
    """Return a radius, NaN if the rule refuses the sample, and the seconds it took."""
    start = time.process_time()
    try:
        radius = find(x)
    except ValueError:
        radius = math.nan
    return radius, time.process_time() - start


@dataclass(frozen=True)
class Study:
    """All samples of one density and size: an array over samples for each choice.

    Attributes
    ----------
    least : dict
        MISE*/∫p² of each kernel.
    excess : dict
        ISE of a choice less that of the best radius of its kernel, over ∫p².
    radii : dict
        R/R*.
    """

    density: str
    n: int
    least: dict[str, float]
    excess: dict[Choice, FloatArray]
    radii: dict[Choice, FloatArray]
    seconds: dict[Choice, FloatArray]

    @property
    def best(self) -> str:
        """The kernel of least MISE."""
        return min(self.least, key=lambda kernel: self.least[kernel])

    def error(self, choice: Choice) -> float:
        """Return the mean error of a choice, over ∫p²; NaN if a sample was refused."""
        return self.least[choice[0]] + float(self.excess[choice].mean())


def studied(name: str, n: int, samples: int, kernels: tuple[str, ...]) -> Study:
    """Try all choices on all samples of a density."""
    density = as_density(name)
    optima = {kernel: optimum(density, kernel, n=n) for kernel in ORACLES}
    finds = {kernel: rules_of(kernel) for kernel in kernels}
    choices = [(kernel, rule) for kernel, own in finds.items() for rule in own]
    excess, radii, seconds = (np.full((len(choices), samples), math.nan) for _ in range(3))
    for sample in range(samples):
        rng = np.random.default_rng([SEED, DENSITIES.index(name), n, sample])
        x = density.sample(n, rng)
        found = {choice: timed(finds[choice[0]][choice[1]], x) for choice in choices}
        for kernel in kernels:
            mine = {rule: found[kernel, rule][0] for rule in finds[kernel]}
            errors = over_best(name, kernel, x, optima[kernel].radius, mine)
            for rule, value in errors.items():
                excess[choices.index((kernel, rule)), sample] = value / density.roughness
        best = np.array([optima[kernel].radius for kernel, _ in choices])
        radii[:, sample] = np.array([found[choice][0] for choice in choices]) / best
        seconds[:, sample] = [found[choice][1] for choice in choices]
    least = {kernel: best.mise.total / density.roughness for kernel, best in optima.items()}
    by_choice = (dict(zip(choices, values, strict=True)) for values in (excess, radii, seconds))
    return Study(name, n, least, *by_choice)


def over_best(
    name: str, kernel: str, x: FloatArray, best: float, radii: dict[str, float]
) -> dict[str, float]:
    """Return the exact ISE at each radius less that at the best one."""
    known = [radius for radius in radii.values() if math.isfinite(radius)]
    curve = IseCurve(name, kernel, x[:, None], largest=max(best, *known))
    least = curve(best)
    return {
        rule: curve(radius) - least if math.isfinite(radius) else math.nan
        for rule, radius in radii.items()
    }


def rows_of(study: Study) -> Iterator[Row]:
    """Yield the oracles of a study, then its choices."""
    least = study.least[study.best]
    for kernel, error in study.least.items():
        ratio = error / least
        blank = (0, 0, study.best, error, ratio, ratio, ratio, 1.0, math.nan)
        yield Row(study.density, study.n, kernel, "oracle", *blank)
    for choice, excess in study.excess.items():
        half = student(len(excess) - 1) * spread(excess)
        middle = study.error(choice)
        yield Row(
            study.density,
            study.n,
            *choice,
            len(excess),
            int(np.isnan(excess).sum()),
            study.best,
            study.least[choice[0]],
            *((middle + shift) / least for shift in (0.0, -half, half)),
            float(np.median(study.radii[choice])),
            float(np.median(study.seconds[choice])),
        )


def student(freedom: float, comparisons: int = 1) -> float:
    """Return the two-sided 95 % quantile of t, for so many comparisons together."""
    return float(t.ppf(1.0 - 0.025 / comparisons, freedom))


def spread(values: FloatArray) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def quotient(
    studies: list[Study], choice: Choice, other: Choice | None, comparisons: int
) -> tuple[float, float, float, float]:
    """Return a geometric mean of ratios of errors, its interval, and what would be detectable.

    Parameters
    ----------
    other : tuple of str, optional
        The choice in the denominator; without one, the best kernel at its best radius.
    """
    logs, variances = [], []
    for study in studies:
        error, excess = study.error(choice), study.excess[choice]
        base = study.least[study.best] if other is None else study.error(other)
        against = 0.0 if other is None else study.excess[other] / base
        logs.append(math.log(error / base))
        variances.append(spread(excess / error - against) ** 2)
    middle, error = float(np.mean(logs)), math.sqrt(sum(variances)) / len(studies)
    sizes = [len(study.excess[choice]) for study in studies]
    squares = sum(v * v / (size - 1) for v, size in zip(variances, sizes, strict=True))
    freedom = sum(variances) ** 2 / squares if squares > 0 else 1.0  # Welch and Satterthwaite
    half = student(freedom, comparisons) * error
    told = half + float(norm.ppf(0.8)) * error
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half), math.exp(-told)


def overall(studies: list[Study]) -> Iterator[Overall]:
    """Yield what each choice comes to over the densities of one size."""
    choices = [
        c for c in studies[0].excess if not any(np.isnan(s.excess[c]).any() for s in studies)
    ]
    for choice in choices:
        ratios = {s.density: s.error(choice) / s.least[s.best] for s in studies}
        worst = max(ratios, key=lambda name: ratios[name])
        *default, told = quotient(studies, choice, DEFAULT, len(choices) - 1)
        *peer, _ = quotient(studies, choice, PEER, len(choices) - 1)
        yield Overall(
            studies[0].n,
            *choice,
            len(studies),
            *quotient(studies, choice, None, 1)[:3],
            ratios[worst],
            worst,
            *default,
            told,
            *peer,
            float(np.median([np.median(s.seconds[choice]) for s in studies])),
        )


def main() -> None:
    """Run all densities and sizes, and write both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="3 samples of 100, three densities")
    options = parser.parse_args()
    sizes, few = ({100: 3}, {100: 2}) if options.quick else (SAMPLES, FEW)
    names = ("gaussian", "mw10", LONG_TAILS) if options.quick else DENSITIES
    warnings.simplefilter("ignore")
    begun, studies = time.process_time(), []
    with one_thread():
        studied("gaussian", 100, 2, KERNELS)  # what is compiled is not timed
        for n in sizes:
            for name in names:
                plan = (few, KERNELS_OF_TAILS) if name == LONG_TAILS else (sizes, KERNELS)
                if n in plan[0]:
                    studies.append(studied(name, n, plan[0][n], plan[1]))
                    print(f"{time.process_time() - begun:.0f} s: {name}, n = {n}", flush=True)
    config = {"seed": SEED, "quick": options.quick, "samples": sizes, "samples_of_cauchy": few}
    config |= {"seconds": round(time.process_time() - begun)}
    common = [study for study in studies if study.density != LONG_TAILS]
    tables = {
        "kernel_rules": [rounded(row) for study in studies for row in rows_of(study)],
        "kernel_rules_overall": [
            rounded(row) for n in sizes for row in overall([s for s in common if s.n == n])
        ],
    }
    for table, rows in tables.items():
        write_study(options.output, table, rows, config, source=Path(__file__))


def rounded(row: Row | Overall) -> dict[str, object]:
    """Return a row with four digits of each number."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in vars(row).items()}


if __name__ == "__main__":
    main()
