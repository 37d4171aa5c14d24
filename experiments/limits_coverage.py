"""Count how often limits cover the function itself, with the bias ignored and corrected.

    python experiments/limits_coverage.py [--output FOLDER] [--quick]

Regression: sine, bump and kink, uniform and normal design, noise N(0, 0.3²), 200 and 1,000
samples, at the radius of least expected error (oracle), by generalised cross-validation and by
leave-one-out. Density: normal, bimodal (Marron-Wand 6) and Laplace, 200 samples, at the radius of
least exact MISE. Intervals and bands of level 0.95 for each of these:

    ignore        f̂ and its standard error, as if E f̂ were f
    corrected     twicing (regression) or two radii (density): what bias="corrected" does
    two radii     regression only: 2 f̂_R - f̂_S, S = R / 2^(1/order)
    radius x 1.4, radius x 2    undersmoothing

The limits are those of the package, written with matrices, so that many replicates share one
matrix; a test compares them. Designs are drawn anew for every block of replicates, and the
intervals of the coverages are over these blocks.

Writes coverage_regression.csv and coverage_density.csv, with the provenance as JSON.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fourierkernels.foundation.provenance import write_study
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.theory.densities import as_density, as_regression_function

ROOT = Path(__file__).parents[1]
SEED = 2026
NOISE, CRITICAL, DRAWS = 0.3, 1.959963984540054, 300
KERNELS = ("gaussian", "fourier2", "fourier4")
FUNCTIONS, DENSITIES = ("sine", "bump", "kink"), ("gaussian", "mw6", "laplace")
SIZES = (200, 1_000)
BLOCKS = {200: (100, 10), 1_000: (25, 40)}  # designs, and draws of the noise for each
SAMPLES = 500  # of each density
AT = np.linspace(-1.5, 1.5, 41)
OCTAVE = 6  # radii in a factor of two, so that those of all ways lie on one grid
FIRST, LAST = 6, 31  # the grid from which a radius is chosen: 2 to 32 or so
RADII = 2.0 ** (np.arange(LAST + OCTAVE) / OCTAVE)
LARGER = {"radius x 1.4": OCTAVE // 2, "radius x 2": OCTAVE}


@dataclass(frozen=True)
class Limits:
    """One way at one radius: centres ``(queries, columns)``, errors, critical value of the band."""

    centre: np.ndarray
    error: np.ndarray
    critical: float


@dataclass(frozen=True)
class Row:
    """Coverage of one way in one setting, with 95 % intervals over the designs."""

    target: str
    design: str
    n: int
    kernel: str
    rule: str
    way: str
    replicates: int
    radius: float
    pointwise: float
    pointwise_low: float
    pointwise_high: float
    worst_query: float
    simultaneous: float
    simultaneous_low: float
    simultaneous_high: float
    width: float
    band_width: float


def smoothing_matrix(kernel: Kernel, radius: float, at: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the weights of kernel regression, ``(m, n)``."""
    values = kernel.value(radius * (at[:, None] - x))
    return values / values.sum(axis=1, keepdims=True)


def critical_value(rows: np.ndarray, normal: np.ndarray) -> float:
    """Return the 95 % quantile of max |rows @ ξ| / |rows| over the draws ξ, ``(n, draws)``."""
    deviations = rows @ normal
    deviations /= np.sqrt(np.square(rows).sum(axis=1))[:, None]
    return float(np.quantile(np.abs(deviations).max(axis=0), 0.95, method="higher"))


def regression_limits(
    kernel: Kernel, x: np.ndarray, y: np.ndarray, normal: np.ndarray
) -> tuple[list[dict[str, Limits]], dict[str, np.ndarray]]:
    """Return the limits at each radius, and the scores that choose one, ``(radii, columns)``.

    Parameters
    ----------
    x, y : arrays of shape (n,) and (n, columns)
    normal : array of shape (n, draws)
    """
    rows, limits, scores = [], [], {"gcv": [], "loo": []}
    down = round(OCTAVE / kernel.order)
    for k, radius in enumerate(RADII):
        hat = smoothing_matrix(kernel, radius, x, x)
        own, residual = hat.diagonal()[:, None], y - hat @ y
        spread = 1.0 - 2.0 * own + np.square(hat).sum(axis=1)[:, None]
        known = spread[:, 0] > 1e-8  # others are their own fit
        scores["gcv"].append(np.square(residual).mean(axis=0) / (1.0 - own.mean()) ** 2)
        left = np.divide(residual, 1.0 - own, out=np.full_like(residual, np.inf), where=own < 1)
        scores["loo"].append(np.square(left).mean(axis=0))
        sigma = np.sqrt((np.square(residual[known]) / spread[known]).mean(axis=0))
        rows.append(smoothing_matrix(kernel, radius, AT, x))
        ways = {"ignore": rows[k], "corrected": 2.0 * rows[k] - rows[k] @ hat}
        if k >= down:
            ways["two radii"] = 2.0 * rows[k] - rows[k - down]
        limits.append(
            {
                way: Limits(
                    w @ y,
                    np.sqrt(np.square(w).sum(axis=1))[:, None] * sigma,
                    critical_value(w, normal),
                )
                for way, w in ways.items()
            }
        )
    return limits, {name: np.array(score) for name, score in scores.items()}


def with_larger_radii(limits: list[dict[str, Limits]]) -> list[dict[str, Limits]]:
    """Return the limits at each radius with those of larger radii beside them."""
    return [
        {**limits[k], **{way: limits[k + up]["ignore"] for way, up in LARGER.items()}}
        for k in range(len(limits) - OCTAVE)
    ]


@dataclass(frozen=True)
class Covered:
    """What one block of replicates found, for one way and the radius of each column."""

    points: np.ndarray  # (queries,), shares
    all_points: float
    width: float
    band_width: float
    radius: float


def covered(limits: list[Limits], radius: np.ndarray, truth: np.ndarray) -> Covered:
    """Return the coverage by one set of limits for each column."""
    centre = np.stack([each.centre for each in limits], axis=1)
    error = np.stack([each.error for each in limits], axis=1)
    critical = np.array([each.critical for each in limits])
    gap = np.abs(centre - truth[:, None])
    return Covered(
        (gap <= CRITICAL * error).mean(axis=1),
        float((gap <= critical * error).all(axis=0).mean()),
        float(2.0 * CRITICAL * error.mean()),
        float(2.0 * (critical * error).mean()),
        float(radius.mean()),
    )


def column(limits: Limits, c: int) -> Limits:
    """Return the limits of one column of the responses."""
    return Limits(limits.centre[:, c], limits.error[:, c], limits.critical)


def oracle(designs: list[np.ndarray], kernel: Kernel, value: np.ndarray, function: str) -> int:
    """Return the place of the radius of least mean squared error over queries and designs."""
    f = as_regression_function(function).value
    errors = []
    for radius in RADII[FIRST:LAST]:
        rows = [smoothing_matrix(kernel, radius, AT, x) for x in designs]
        bias = [np.square(w @ f(x) - value).mean() for w, x in zip(rows, designs, strict=True)]
        variance = [NOISE**2 * np.square(w).sum(axis=1).mean() for w in rows]
        errors.append(np.mean(bias) + np.mean(variance))
    return FIRST + int(np.argmin(errors))


def regression(
    kernel_name: str, design: str, n: int, blocks: int, repeats: int, draws: int
) -> Iterator[Row]:
    """Yield the rows of one kernel, design and size: functions, rules and ways."""
    rng = np.random.default_rng([SEED, n, KERNELS.index(kernel_name), design == "normal"])
    kernel = as_kernel(kernel_name)
    designs = [
        rng.uniform(-2.0, 2.0, n) if design == "uniform" else rng.standard_normal(n)
        for _ in range(blocks)
    ]
    targets = {name: as_regression_function(name).value for name in FUNCTIONS}
    best = {name: oracle(designs[:10], kernel, f(AT), name) for name, f in targets.items()}
    found: dict[tuple[str, str, str], list[Covered]] = {}
    for x in designs:
        noise = NOISE * rng.standard_normal((n, len(FUNCTIONS) * repeats))
        y = np.repeat(np.stack([f(x) for f in targets.values()], axis=1), repeats, axis=1) + noise
        limits, scores = regression_limits(kernel, x, y, rng.standard_normal((n, draws)))
        limits = with_larger_radii(limits)
        for i, name in enumerate(FUNCTIONS):
            own = np.arange(i * repeats, (i + 1) * repeats)
            chosen = {"oracle": np.full(repeats, best[name])}
            for rule, score in scores.items():
                chosen[rule] = FIRST + score[FIRST:LAST, own].argmin(axis=0)
            for rule, places in chosen.items():
                for way in limits[best[name]]:
                    mine = [column(limits[k][way], c) for k, c in zip(places, own, strict=True)]
                    result = covered(mine, RADII[places], targets[name](AT))
                    found.setdefault((name, rule, way), []).append(result)
    yield from summarised(found, design, n, kernel_name, repeats)


def density_ways(
    kernel: Kernel, radius: float, x: np.ndarray, normal: np.ndarray
) -> dict[str, Limits]:
    """Return the limits of each way, for one sample."""

    def rows(factor: float) -> np.ndarray:
        return factor * radius * kernel.value(factor * radius * (AT[:, None] - x))

    ways = {"ignore": rows(1.0), "radius x 1.4": rows(2.0**0.5), "radius x 2": rows(2.0)}
    if np.isfinite(kernel.order):
        ways["corrected"] = 2.0 * ways["ignore"] - rows(0.5 ** (1.0 / kernel.order))
    return {
        way: Limits(
            each.mean(axis=1),
            each.std(axis=1, ddof=1) / np.sqrt(len(x)),
            critical_value(each - each.mean(axis=1, keepdims=True), normal),
        )
        for way, each in ways.items()
    }


def density(kernel_name: str, target: str, n: int, samples: int, draws: int) -> Iterator[Row]:
    """Yield the rows of one kernel, density and size, one for each way."""
    names = ("fourier1", *KERNELS)
    rng = np.random.default_rng([SEED, n, names.index(kernel_name), DENSITIES.index(target), 1])
    law, kernel = as_density(target), as_kernel(kernel_name)
    truth, best = law.pdf(AT), float(np.ravel(optimal_radius(law, kernel, n=n))[0])
    found: dict[tuple[str, str, str], list[Covered]] = {}
    for _ in range(samples):
        x = law.sample(n, rng)
        normal = rng.standard_normal((n, draws))
        for way, limits in density_ways(kernel, best, x, normal).items():
            result = covered([limits], np.array([best]), truth)
            found.setdefault((target, "oracle", way), []).append(result)
    yield from summarised(found, "", n, kernel_name, 1)


def summarised(
    found: dict[tuple[str, str, str], list[Covered]], design: str, n: int, kernel: str, repeats: int
) -> Iterator[Row]:
    """Yield one row for each target, rule and way; widths are relative to those of `ignore`."""
    for (target, rule, way), blocks in found.items():
        plain = found[target, rule, "ignore"]
        points = np.array([block.points for block in blocks])
        yield Row(
            target,
            design,
            n,
            kernel,
            rule,
            way,
            repeats * len(blocks),
            float(np.mean([block.radius for block in blocks])),
            *mean_and_interval(points.mean(axis=1)),
            float(points.mean(axis=0).min()),
            *mean_and_interval(np.array([block.all_points for block in blocks])),
            float(np.mean([b.width for b in blocks]) / np.mean([b.width for b in plain])),
            float(np.mean([b.band_width for b in blocks]) / np.mean([b.band_width for b in plain])),
        )


def mean_and_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval by two standard errors over independent values."""
    half = 2.0 * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


def main() -> None:
    """Run all settings and write both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="60 samples, few replicates")
    options = parser.parse_args()
    sizes = (60,) if options.quick else SIZES
    count = {n: (2, 3) if options.quick else BLOCKS[n] for n in sizes}
    draws = 50 if options.quick else DRAWS
    config = {"seed": SEED, "quick": options.quick, "noise": f"N(0, {NOISE}²)", "level": 0.95}
    config |= {"queries": f"{len(AT)} from {AT[0]} to {AT[-1]}", "bootstrap draws": draws}
    regressions = [
        row
        for n in sizes
        for design in ("uniform", "normal")
        for kernel in KERNELS
        for row in regression(kernel, design, n, *count[n], draws)
    ]
    write_study(options.output, "coverage_regression", regressions, config, source=Path(__file__))
    densities = [
        row
        for target in DENSITIES
        for kernel in ("fourier1", *KERNELS)
        for row in density(kernel, target, sizes[0], 6 if options.quick else SAMPLES, draws)
    ]
    write_study(options.output, "coverage_density", densities, config, source=Path(__file__))


if __name__ == "__main__":
    main()
