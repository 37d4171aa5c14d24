"""Rates that the papers leave open.

Densities: kernels of order 2 and of higher orders, and densities whose smoothness limits the rate.
Regression: l = 2, l = 3, 4, 5, and kernels of higher orders.
"""

import math

import numpy as np

from fourierkernels.theorems.assumptions import TAME_MEAN, empty_point, finite_energy, power_is
from fourierkernels.theorems.error_at_points import ERROR_AT_POINTS
from fourierkernels.theorems.measure import INTEGRATED_ERROR, Setting, central_points
from fourierkernels.theorems.theorem import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Case,
    Theorem,
    sharp_density,
    sharp_regression,
    variance,
)


def _bound_of_order(setting: Setting, n: float, radius: float) -> float:
    return float(radius ** (-2.0 * setting.kernel.order)) + variance(setting, n, radius)


def _bound_by_smoothness(setting: Setting, n: float, radius: float) -> float:
    q = 2.0 * setting.density.smoothness.exponent - 1.0
    return float(radius**-q) + variance(setting, n, radius)


def _second_order(setting: Setting) -> tuple[bool, str]:
    order = setting.kernel.order
    return order == 2.0, f"{setting.kernel.name} has order {order:g}"


def _higher_order(setting: Setting) -> tuple[bool, str]:
    order = setting.kernel.order
    return 2.0 < order < math.inf, f"{setting.kernel.name} has order {order:g}"


def _rough_for_the_kernel(setting: Setting) -> tuple[bool, str]:
    smooth, order = setting.density.smoothness, setting.kernel.order
    if smooth.kind == "supersmooth":
        return False, "the density is supersmooth: the order of the kernel limits"
    holds = 0.5 < smooth.exponent < order + 0.5
    return holds, f"β = {smooth.exponent:g} and the order is {order:g}"


DENSITY_OF_ORDER_2 = Theorem(
    name="density of order 2",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^4} + \frac{R^D}{N}\right)",
    error=INTEGRATED_ERROR,
    assumptions=(
        Assumption("the kernel has order 2: l >= 3, or the Gaussian", _second_order),
        finite_energy(lambda setting: 2.0, "t⁴"),
    ),
    bound=_bound_of_order,
    claimed=None,
    sharp=sharp_density,
    derivation=(
        "the order counts in the transform: 1 - K̂(s) ~ (μ₂/2) s² for l = 3 too, where "
        "∫ |K| x² diverges and Taylor's theorem says nothing (symbolic.asymptotics)"
    ),
    cases=(
        Case("gaussian", "fourier3"),
        Case("gaussian", "fourier5"),
        Case("cauchy", "fourier3"),
        Case("gaussian", "fourier3", dim=2),
    ),
)

DENSITY_OF_HIGHER_ORDER = Theorem(
    name="density of higher order",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^{2r}} + \frac{R^D}{N}\right)",
    error=INTEGRATED_ERROR,
    assumptions=(
        Assumption("the kernel has a finite order r > 2", _higher_order),
        finite_energy(lambda setting: setting.kernel.order, "|t|^{2r}"),
    ),
    bound=_bound_of_order,
    claimed=None,
    sharp=sharp_density,
    derivation=(
        "1 - K̂(s) ~ b s^r: squared bias is b² R^{-2r} ∫ t^{2r} |p̂|²/(2π), and R^{2r} bias² "
        "is bounded if and only if the integral is finite"
    ),
    remark="The kernels are signed, and so may the estimate be.",
    cases=(
        Case("gaussian", "order4"),
        Case("gaussian", "order6"),
        Case("cauchy", "order4"),
        Case("gaussian", "order4", dim=2),
    ),
)

DENSITY_LIMITED_BY_SMOOTHNESS = Theorem(
    name="density limited by smoothness",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^{2\beta-1}} + \frac{R^D}{N}\right)",
    error=INTEGRATED_ERROR,
    assumptions=(Assumption("p is ordinary smooth, 1/2 < β < order + 1/2", _rough_for_the_kernel),),
    bound=_bound_by_smoothness,
    claimed=None,
    sharp=sharp_density,
    derivation=(
        "squared bias is ∫ |p̂|²(1 - K̂(t/R))² ~ R^{-(2β-1)} L² ∫ s^{-2β}(1 - K̂(s))² ds/π "
        "(symbolic.asymptotics)"
    ),
    cases=(
        Case("laplace", "fourier3"),
        Case("laplace", "fourier4"),
        Case("laplace", "fourier5"),
        Case("laplace", "order4"),
        Case("gamma(1.2)", "fourier4"),
    ),
)


def _bound_order_1(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-2.0) + variance(setting, n, radius)


def _smooth_near_the_points(setting: Setting) -> tuple[bool, str]:
    """Two continuous derivatives at every point: none at a break that is rougher."""
    empty = empty_point(setting)
    if empty is not None:
        return False, f"p is zero at x = {empty:g}"
    density, f = setting.density, setting.response
    x = np.unique(central_points(density, setting.dim))
    nearest = math.inf
    for name, part in (("p", density), ("f", f)):
        for place in part.breaks:
            distance = float(np.abs(x - place).min())
            if distance < _TOUCHING / density.spectral_scale and part.smoothness.exponent <= 3.0:
                return False, f"{name} has a break at the point x = {place:g}"
            nearest = min(nearest, distance)
    far = "there is none" if math.isinf(nearest) else f"the nearest break is {nearest:.2g} away"
    return True, f"no point is at a rough break of f or p: {far}"


_TOUCHING = 1e-6  # widths of the density
_LOCAL = Assumption(
    "f and p have two continuous derivatives near x, and p(x) > 0", _smooth_near_the_points
)

REGRESSION_OF_ORDER_1 = Theorem(
    name="regression of order 1",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MSE} \le \frac{C}{p^2}\left(\frac{1}{R^2} + \frac{R^D}{N}\right)",
    error=ERROR_AT_POINTS,
    assumptions=(power_is(2), _LOCAL),
    bound=_bound_order_1,
    claimed=None,
    sharp=sharp_regression,
    derivation=(
        "the kernel's mass at distance u is 1/(2πRu²): the bias is the singular integral of "
        "(f(y) - f(x)) p(y)/(x - y)² over 2πR p(x) (symbolic.regression_bias)"
    ),
    remark='Left for "future work" in Appendix A.2.',
    cases=tuple(Case("gaussian", "fourier2", "sine", dim) for dim in (1, 2)),
)

REGRESSION_OF_ORDER_2 = Theorem(
    name="regression of order 2",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MSE} \le \frac{C}{p^2}\left(\frac{1}{R^4} + \frac{R^D}{N}\right)",
    error=ERROR_AT_POINTS,
    assumptions=(power_is(3, 4, 5), _LOCAL),
    bound=_bound_of_order,
    claimed=None,
    sharp=sharp_regression,
    derivation=(
        "as for l >= 6: μ₂ = -K̂''(0) is finite from l = 3 on, and the far lobes average out "
        "to R^{-3} at most (symbolic.expansion)"
    ),
    remark='Left for "future work" in Appendix A.2.',
    cases=tuple(
        Case("gaussian", f"fourier{power}", "sine", dim) for dim in (1, 2) for power in (3, 4, 5)
    ),
)

REGRESSION_OF_HIGHER_ORDER = Theorem(
    name="regression of higher order",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MSE} \le \frac{C}{p^2}\left(\frac{1}{R^{2r}} + \frac{R^D}{N}\right)",
    error=ERROR_AT_POINTS,
    assumptions=(
        Assumption("the kernel has a finite order r > 2", _higher_order),
        _LOCAL,
        TAME_MEAN,
    ),
    bound=_bound_of_order,
    claimed=None,
    sharp=sharp_regression,
    derivation="the bias is -b R^{-r} times the r-th derivative of (f - f(x)) p, over p",
    remark="The mean is over designs whose denominator is at least p/2: the kernels are signed.",
    cases=(Case("gaussian", "order4", "sine"), Case("gaussian", "order6", "sine")),
)
