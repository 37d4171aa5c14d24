"""The (1 - δ) quantile of the error of a density estimate at a point, its mean over five points."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import special

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer
from fourierkernels.theorems.assumptions import moments_of_theorem_1
from fourierkernels.theorems.measure import (
    Bound,
    ErrorMeasure,
    Measured,
    Setting,
    Simulation,
    central_points,
    decades,
    generator,
)
from fourierkernels.theory.density_error import pointwise_error

LEVEL = 0.1  # δ of the rate in n; the constant is over several levels
_LEVELS = (0.5, 0.2, 0.1, 0.05, 0.01)  # δ of the constant of a bound


def tail_radius(setting: Setting, n: float) -> float:
    """Return the radius that balances the bound, n^{1/(D+2(m+1))}, in units of the density."""
    growth = 1.0 / (setting.dim + 2.0 * (moments_of_theorem_1(setting) + 1))
    return float(2.0 * setting.density.spectral_scale * n**growth)


def normal_quantile(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the (1 - δ) quantile of |p̂ - p|, normal with exact bias and variance, δ = 0.1."""
    radii = [tail_radius(setting, n) for n in sizes]
    errors = [quantile_at(setting, n, r, LEVEL) for n, r in zip(sizes, radii, strict=True)]
    method = "normal quantile with exact bias and variance"
    return Measured(np.array(sizes, float), np.array(radii), np.array(errors), None, method)


def quantile_at(setting: Setting, n: float, radius: float, level: float) -> float:
    """Return q with P(|b + sZ| > q) = level, its mean over five points."""
    bias, variance = _moments(setting, n, radius)
    spread, bias = np.sqrt(variance), np.abs(bias)
    low, high = bias * 0.0, bias + 40.0 * spread  # P is 0 in float64 at 40 standard deviations
    for _ in range(80):  # bisection, to the last bit: the probability falls as q grows
        q = 0.5 * (low + high)
        outside = special.ndtr((bias - q) / spread) + special.ndtr((-bias - q) / spread)
        low, high = np.where(outside > level, q, low), np.where(outside > level, high, q)
    return float(high.mean())


@lru_cache
def _moments(setting: Setting, n: float, radius: float) -> tuple[FloatArray, FloatArray]:
    at = central_points(setting.density, setting.dim)
    return pointwise_error(setting.density, setting.kernel, n=int(n), radius=radius, at=at)


def simulated_quantile(*, replicates: int = 400, seed: int = 0) -> Simulation:
    """Return a simulation of the (1 - δ) quantile of |p̂ - p| at a point, δ = 0.1.

    Raises
    ------
    ValueError
        For fewer than 100 replicates.
    """
    count = check_integer("replicates", replicates, least=100)

    def simulate(setting: Setting, sizes: Sequence[int]) -> Measured:
        radii = np.array([tail_radius(setting, n) for n in sizes])
        results = [
            _drawn_quantile(setting, n, float(r), count, generator(seed, n))
            for n, r in zip(sizes, radii, strict=True)
        ]
        quantiles, errors = np.array(results).T
        method = f"simulated quantile, {count} samples, seed {seed}"
        return Measured(np.array(sizes, float), radii, quantiles, errors, method)

    return simulate


def _drawn_quantile(
    setting: Setting, n: int, radius: float, count: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Quantile over samples, its mean over the points, and its standard error."""
    at = central_points(setting.density, setting.dim)
    truth = setting.density.pdf(at).prod(axis=1)
    gaps = np.empty((count, len(at)))
    for row in gaps:
        sample = np.stack([setting.density.sample(n, rng) for _ in range(setting.dim)], axis=1)
        for j, point in enumerate(at):
            weights = (radius * setting.kernel.value(radius * (point - sample))).prod(axis=1)
            row[j] = abs(weights.mean() - truth[j])
    half = math.sqrt(LEVEL * (1.0 - LEVEL) / count)
    low, middle, high = np.quantile(gaps, [1 - LEVEL - half, 1 - LEVEL, 1 - LEVEL + half], axis=0)
    # The points share their samples, so their errors are added, not their squares.
    return float(middle.mean()), float(0.5 * (high - low).mean())


def _over_bound(bound: Bound, setting: Setting, n: float, radius: float) -> float:
    return max(
        quantile_at(setting, n, radius, level) / bound(setting, n, radius, level)
        for level in _LEVELS
    )


TAIL_QUANTILE = ErrorMeasure(
    name="quantile of the error at a point",
    about_regression=False,
    compute=normal_quantile,
    sizes=decades(4, 12),
    log_sizes=decades(4, 12),
    over_bound=_over_bound,
    factors=tuple(np.geomspace(0.5, 2.0, 5).tolist()),
    simulation=simulated_quantile,
    simulated_sizes=(500, 2_000, 8_000),
)
