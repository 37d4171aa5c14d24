"""Measure what robust density estimates gain on contaminated samples, and cost on clean ones.

    python experiments/robust_densities.py [--output FOLDER] [--quick]

Of 300 samples of a normal or a bimodal density none, 5 % or 20 % are replaced by a clump,
N(4, 0.25²), or by a wide normal, N(0, 5²). The mean of kernels is compared with

- the median of means [humbert2022robust]_: the sample is split at random into S blocks, the median
  of their estimates is taken at each point, and divided by its integral. S is the best of `BLOCKS`,
  or 2|O| + 1 for |O| outliers, the least for which most blocks are clean;
- M-estimates in the kernel's Hilbert space [kim2012robust]_, Σ w_i K_R(x - x_i), with Huber's
  loss, which is convex, and with Hampel's, which leaves out what is far. Their cuts are the median,
  and the 75th and 95th percentile, of the distances from the solution for the absolute loss.

Each has its own radius (and S), of least mean error in 20 samples, and is measured on 60 others,
the same for all: integrated squared error against the density without outliers, over ∫p².

What decides, said before the run: a robust estimate gains where the interval of the ratio of its
mean error to that of the mean of kernels lies below 1, and costs where it lies above. Intervals are
of 95 % for all comparisons together. `detectable` is the change of the ratio that would have been
found with probability 0.8.

Writes robust_densities.csv and the provenance as JSON.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm, t

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study
from fourierkernels.kernels import as_kernel
from fourierkernels.theory import optimum
from fourierkernels.theory.densities import as_density

ROOT = Path(__file__).parents[1]
SEED, N = 2012, 300
DENSITIES, KERNELS = ("gaussian", "mw6"), ("fourier4", "gaussian")
SETTINGS = (("none", 0.0), ("clump", 0.05), ("clump", 0.2), ("wide", 0.05), ("wide", 0.2))
OUTLIERS = {"clump": (4.0, 0.25), "wide": (0.0, 5.0)}  # means and standard deviations
ROBUST = ("median of means, best S", "median of means, 2|O| + 1", "Huber", "Hampel")
BLOCKS = (3, 7, 15, 31)
ITERATIONS = 500
SUSPECTED = 0.05  # the share of outliers for which 2|O| + 1 is taken where there are none
FACTORS = (0.18, 0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0)  # of that of least MISE
GRID = np.linspace(-30.0, 30.0, 601)  # sums are exact: squared estimates have no frequency above 60
STEP = GRID[1] - GRID[0]

Choice = tuple[str, float, int]  # estimate, radius, number of blocks


@dataclass(frozen=True)
class Row:
    """One estimate in one setting: mean and largest error, and the ratio to the mean of kernels."""

    density: str
    kernel: str
    contamination: str
    share: float
    estimate: str
    n: int
    samples: int
    radius: float
    of_optimum: float
    blocks: int
    error: float
    largest: float
    ratio: float
    ratio_low: float
    ratio_high: float
    detectable: float
    comparisons: int


def contaminated(name: str, contamination: str, share: float, number: int) -> FloatArray:
    """Draw a sample in random order; those of one number differ in the outliers alone."""
    clean = as_density(name).sample(N, np.random.default_rng([SEED, DENSITIES.index(name), number]))
    rng = np.random.default_rng([SEED, 99, number])
    outliers = rng.standard_normal(N)[: round(share * N)]
    if outliers.size:
        mean, deviation = OUTLIERS[contamination]
        clean[: outliers.size] = mean + deviation * outliers
    return rng.permutation(clean)


def median_of_means(kernels: FloatArray, blocks: int) -> FloatArray:
    """Return the normalised median of blocks' estimates, from kernels on the grid ``(m, n)``."""
    size = kernels.shape[1] // blocks
    used = kernels[:, : size * blocks].reshape(len(kernels), blocks, size)
    median = np.median(used.mean(axis=2), axis=1)
    area = median.sum() * STEP
    return median / area if area > 0 else median


def robust_weights(gram: FloatArray, loss: str) -> FloatArray:
    """Return the weights ``(n,)`` of an M-estimate; `gram` has K_R(x_i - x_j)."""
    distance = _reweighted(gram, np.ones_like)[1]
    cuts = np.percentile(distance, [50.0, 75.0, 95.0])
    return _reweighted(gram, lambda d: SLOPES[loss](d, cuts))[0]


def _reweighted(
    gram: FloatArray, slope: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Iterate w_i ∝ ψ(d_i)/d_i from equal weights; return them and the distances d_i."""
    weights = np.full(len(gram), 1.0 / len(gram))
    for _ in range(ITERATIONS):
        smoothed = gram @ weights
        squares = np.diag(gram) - 2.0 * smoothed + weights @ smoothed
        distance = np.sqrt(np.maximum(squares, 1e-12 * gram[0, 0]))
        new = slope(distance) / distance
        new /= new.sum()
        change = np.abs(new - weights).sum()
        weights = new
        if change < 1e-6:
            break
    return weights, distance


def huber(distance: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return ψ: rising to the first cut, then level."""
    return np.minimum(distance, cuts[0])


def hampel(distance: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return ψ: rising to the first cut, level to the second, falling to zero at the third."""
    a, b, c = cuts
    return np.minimum(distance, a) * np.clip((c - distance) / (c - b), 0.0, 1.0)


SLOPES = {"Huber": huber, "Hampel": hampel}


def errors(name: str, kernel: str, sample: FloatArray, choices: list[Choice]) -> FloatArray:
    """Return the integrated squared error of each choice over ∫p², of one sample."""
    density, row = as_density(name), as_kernel(kernel)
    truth, found = density.pdf(GRID), np.empty(len(choices))
    for radius in sorted({choice[1] for choice in choices}):
        kernels = radius * row.value(radius * (GRID[:, None] - sample))
        for i, (estimate, own, blocks) in enumerate(choices):
            if own != radius:
                continue
            if estimate in SLOPES:
                gram = radius * row.value(radius * (sample[:, None] - sample))
                values = kernels @ robust_weights(gram, estimate)
            else:  # one block is the mean of kernels, but for its normalisation
                values = median_of_means(kernels, blocks) if blocks > 1 else kernels.mean(axis=1)
            found[i] = ((values - truth) ** 2).sum() * STEP / density.roughness
    return found


def candidates(share: float, radii: FloatArray) -> Iterator[list[Choice]]:
    """Yield what each estimate is chosen from; the mean of kernels comes first."""
    most = 2 * round((share or SUSPECTED) * N) + 1
    for estimate, blocks in zip(
        ("mean", *ROBUST), ((1,), BLOCKS, (most,), (1,), (1,)), strict=True
    ):
        yield [(estimate, float(r), s) for r, s in itertools.product(radii, blocks)]


def setting(
    name: str, kernel: str, contamination: str, share: float, pilots: int, samples: int
) -> Iterator[Row]:
    """Tune all estimates on the first samples and compare them on the others."""
    best = optimum(as_density(name), kernel, n=N).radius
    groups = list(candidates(share, best * np.array(FACTORS)))
    drawn = [contaminated(name, contamination, share, i) for i in range(pilots + samples)]
    flat = list(itertools.chain(*groups))
    pilot = np.mean([errors(name, kernel, x, flat) for x in drawn[:pilots]], axis=0)
    mean_error = dict(zip(flat, pilot, strict=True))
    chosen = [min(group, key=mean_error.__getitem__) for group in groups]
    measured = np.array([errors(name, kernel, x, chosen) for x in drawn[pilots:]])
    comparisons = len(DENSITIES) * len(KERNELS) * len(SETTINGS) * len(ROBUST)
    plain = measured[:, 0].mean()
    wide = float(t.ppf(1.0 - 0.025 / comparisons, samples - 1))
    for (estimate, radius, blocks), error in zip(chosen, measured.T, strict=True):
        ratio = error.mean() / plain
        scatter = (error - ratio * measured[:, 0]).std(ddof=1) / plain / np.sqrt(samples)
        yield Row(
            name,
            kernel,
            contamination,
            share,
            estimate,
            N,
            samples,
            radius,
            radius / best,
            blocks,
            float(error.mean()),
            float(error.max()),
            float(ratio),
            float(ratio - wide * scatter),
            float(ratio + wide * scatter),
            float((wide + norm.ppf(0.8)) * scatter),
            comparisons,
        )


def main() -> None:
    """Run all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="1 sample to tune on, 2 to measure")
    options = parser.parse_args()
    pilots, samples = (1, 2) if options.quick else (20, 60)
    rows = [
        row
        for name, kernel in itertools.product(DENSITIES, KERNELS)
        for contamination, share in SETTINGS
        for row in setting(name, kernel, contamination, share, pilots, samples)
    ]
    config = {
        "seed": SEED,
        "quick": options.quick,
        "pilots": pilots,
        "radius": "each its own, of least mean error in the pilots",
        "decides": "the simultaneous 95 % interval of the ratio below 1: gains; above 1: costs",
    }
    write_study(options.output, "robust_densities", rows, config, source=Path(__file__))


if __name__ == "__main__":
    main()
