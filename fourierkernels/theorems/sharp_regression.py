"""The powers of regression that the papers leave open: l = 2, and l = 3, 4, 5."""

import math

import numpy as np

from fourierkernels.theorems.assumptions import power_is
from fourierkernels.theorems.measures.central_points import central_points
from fourierkernels.theorems.measures.error_at_points import ERROR_AT_POINTS
from fourierkernels.theorems.shared_terms import sharp_regression, variance
from fourierkernels.theorems.theorem import NOT_IN_THE_PAPERS, Assumption, Case, Theorem
from fourierkernels.theory.setting import Setting


def _bound_order_1(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-2.0) + variance(setting, n, radius)


def _bound_order_2(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-4.0) + variance(setting, n, radius)


def _smooth_near_the_points(setting: Setting) -> tuple[bool, str]:
    """Two continuous derivatives at every point: none at a break that is rougher."""
    density, f = setting.density, setting.response
    x = np.unique(central_points(density, setting.dim))
    empty = x[~(density.pdf(x) > 0.0)]
    if len(empty):
        return False, f"p is zero at x = {empty[0]:g}"
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
    bound=_bound_order_2,
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
