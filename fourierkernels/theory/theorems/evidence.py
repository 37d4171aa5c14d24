"""Errors at the best radius for growing n: exact, to first order in R^D/n, or simulated."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import special
from scipy.optimize import minimize_scalar

from fourierkernels.arrays import FloatArray
from fourierkernels.densities import Density
from fourierkernels.exact_error.mise import mise
from fourierkernels.exact_error.optimum import optimum
from fourierkernels.exact_error.pointwise import pointwise_error
from fourierkernels.exact_error.regression_error import regression_at_radius, regression_radius
from fourierkernels.exact_error.regression_next_order import regression_next_order
from fourierkernels.simulation import mse
from fourierkernels.theory.theorems.base import Measured, Setting
from fourierkernels.theory.theorems.tail import LEVEL, tail_radius
from fourierkernels.validation import check_integer

Computation = Callable[[Setting, Sequence[int]], Measured]
Simulation = Callable[[Setting, Sequence[int]], Measured]

NOISE = 0.3  # standard deviation of the responses, in computed and simulated errors alike
_LEVELS = (0.15, 0.3, 0.45, 0.6, 0.75)  # quantiles of the design at which regression is judged


def exact_mise(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the exact MISE at its best radius."""
    best = [optimum(setting.density, setting.kernel, n=n, dim=setting.dim) for n in sizes]
    radii, errors = [b.radius for b in best], [b.mise.total for b in best]
    return Measured(np.array(sizes, float), np.array(radii), np.array(errors), None, "exact MISE")


def first_order_mse(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the MSE of regression, its mean over five points, at its best radius.

    First order in R^D/n, exact in the radius: see `fourierkernels.exact_error.regression_error`.
    """
    radii, errors = _first_order(setting, tuple(sizes))
    method = "MSE to first order in R^D/n"
    return Measured(np.array(sizes, float), np.array(radii), np.array(errors), None, method)


def second_order_mse(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the MSE of :func:`first_order_mse` with the next order in R^D/n, at its radii."""
    first = first_order_mse(setting, sizes)
    extra = [
        regression_next_order(
            setting.density,
            setting.response,
            setting.kernel,
            n=n,
            radius=radius,
            at=central_points(setting.density, setting.dim),
            noise_variance=NOISE**2,
        ).mean()
        for n, radius in zip(sizes, first.radii, strict=True)
    ]
    return replace(first, errors=first.errors + extra, method="MSE to second order in R^D/n")


@lru_cache
def _first_order(
    setting: Setting, sizes: tuple[int, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    at = central_points(setting.density, setting.dim)
    radii = [
        regression_radius(
            setting.density,
            setting.response,
            setting.kernel,
            n=sizes[0],
            at=at,
            noise_variance=NOISE**2,
        )
    ]
    errors = [mse_at(setting, sizes[0], radii[0])]
    for before, n in pairwise(sizes):
        radius, error = _next_best(setting, n, radii[-1], n / before)
        radii.append(radius)
        errors.append(error)
    return tuple(radii), tuple(errors)


def _next_best(setting: Setting, n: int, radius: float, step: float) -> tuple[float, float]:
    """Best radius and error at n, near that of a sample `step` times smaller.

    R grows at most like n^{1/(D+2)}, the rate of l = 2, and never falls.
    """
    low, high = math.log(0.95 * radius), math.log(1.1 * radius * step ** (1 / (setting.dim + 2)))
    found = minimize_scalar(
        lambda log_radius: math.log(mse_at(setting, n, math.exp(log_radius))),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(float(found.x)), math.exp(float(found.fun))


@lru_cache(maxsize=4096)
def mse_at(setting: Setting, n: float, radius: float) -> float:
    """Return the MSE to first order in R^D/n, its mean over five points."""
    terms = regression_at_radius(
        setting.density,
        setting.response,
        setting.kernel,
        n=int(n),
        radius=radius,
        at=central_points(setting.density, setting.dim),
        noise_variance=NOISE**2,
    )
    return float(terms.total.mean())


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
    low, high = bias * 0.0, bias + 40.0 * spread
    for _ in range(80):  # bisection: the probability falls as q grows
        q = 0.5 * (low + high)
        outside = special.ndtr((bias - q) / spread) + special.ndtr((-bias - q) / spread)
        low, high = np.where(outside > level, q, low), np.where(outside > level, high, q)
    return float(high.mean())


@lru_cache
def _moments(setting: Setting, n: float, radius: float) -> tuple[FloatArray, FloatArray]:
    at = central_points(setting.density, setting.dim)
    return pointwise_error(setting.density, setting.kernel, n=int(n), radius=radius, at=at)


def simulated_mse(*, replicates: int = 100, seed: int = 0) -> Simulation:
    """Return a simulation of the regression error, at the radii best to first order.

    Raises
    ------
    ValueError
        For fewer than two replicates.
    """
    count = check_integer("replicates", replicates, least=2)

    def simulate(setting: Setting, sizes: Sequence[int]) -> Measured:
        computed = first_order_mse(setting, sizes)
        at = central_points(setting.density, setting.dim)
        means, errors, undefined, faint = [], [], 0.0, 0.0
        for n, radius in zip(sizes, computed.radii, strict=True):
            result = mse(
                setting.density,
                setting.response,
                setting.kernel,
                n=n,
                radius=radius,
                at=at,
                dim=setting.dim,
                noise=NOISE,
                replicates=count,
                rng=_generator(seed, n),
            )
            values = result.values.mean(axis=1)  # over the points
            values = values[~np.isnan(values)]
            means.append(values.mean())
            errors.append(values.std(ddof=1) / math.sqrt(len(values)))
            undefined = max(undefined, float(result.undefined.max()))
            faint = max(faint, float(result.near_zero.max()))
        notes = f"undefined in {undefined:.2%} at most, denominator near zero in {faint:.2%}"
        method = f"simulated MSE, {count} designs, seed {seed}"
        return Measured(
            computed.sizes, computed.radii, np.array(means), np.array(errors), method, notes
        )

    return simulate


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
            _drawn_quantile(setting, n, float(r), count, _generator(seed, n))
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


@lru_cache
def _quantiles(density: Density) -> tuple[float, ...]:
    sample = density.sample(2**14, np.random.default_rng(0))
    return tuple(float(x) for x in np.quantile(sample, _LEVELS))


def central_points(density: Density, dim: int) -> FloatArray:
    """Return five points inside the bulk of a product density, shape ``(5, dim)``."""
    if density.dim > 1:
        raise ValueError(f"density must be on the line, got one in {density.dim} dimensions")
    column = np.array(_quantiles(density))
    return np.stack([np.roll(column, 2 * d) for d in range(dim)], axis=1)


def _generator(seed: int, n: int) -> np.random.Generator:
    return np.random.default_rng([seed, n])


def mise_at(setting: Setting, n: float, radius: float) -> float:
    """Return the exact MISE at a radius."""
    return mise(setting.density, setting.kernel, n=int(n), radius=radius, dim=setting.dim).total
