"""The mean squared error of a regression, its mean over five points inside the design.

Computed to first order in R^D/n and exactly in the radius, see
`fourierkernels.theory.regression_error`; a simulation confirms it at small n.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar

from fourierkernels.foundation.validation import check_integer
from fourierkernels.simulation import mse
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
from fourierkernels.theory import regression_at_radius, regression_next_order, regression_radius

NOISE = 0.3  # standard deviation of the responses, in computed and simulated errors alike


def first_order_mse(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the MSE of regression, its mean over five points, at its best radius.

    First order in R^D/n, exact in the radius: see `fourierkernels.theory.regression_error`.
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
    # A twentieth of room below and a tenth above: any that keeps the minimum inside.
    low, high = math.log(0.95 * radius), math.log(1.1 * radius * step ** (1 / (setting.dim + 2)))
    result = minimize_scalar(
        lambda log_radius: math.log(mse_at(setting, n, math.exp(log_radius))),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(float(result.x)), math.exp(float(result.fun))


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
                rng=generator(seed, n),
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


def _over_bound(bound: Bound, setting: Setting, n: float, radius: float) -> float:
    return mse_at(setting, n, radius) / bound(setting, n, radius)


ERROR_AT_POINTS = ErrorMeasure(
    name="mean squared error at a point",
    about_regression=True,
    compute=first_order_mse,
    sizes=decades(4, 9),
    log_sizes=decades(8, 16),
    over_bound=_over_bound,
    factors=tuple(np.geomspace(0.5, 2.0, 5).tolist()),
    simulation=simulated_mse,
    simulated_sizes=(1_000, 4_000, 16_000),
    beside=second_order_mse,
)
