"""Theorems 2 and 4 of [nguyen2022fourierformer]_ on regression, and the powers left open there."""

import math

from fourierkernels.theory.rates import Rate, balanced_rate, sharp_regression_rate
from fourierkernels.theory.theorems.assumptions import (
    absolute_moments,
    bounded_second_moment,
    common_order,
    power_is,
    product_decay,
    smooth_density,
    smooth_function,
    supersmooth,
    supersmooth_product,
)
from fourierkernels.theory.theorems.base import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Setting,
    Theorem,
)

_M = 1


def sharp(setting: Setting) -> Rate:
    """Return the sharp rate of the mean squared error at a point."""
    return sharp_regression_rate(setting.density, setting.response, setting.kernel, dim=setting.dim)


def _power_bound(setting: Setting, n: float, radius: float) -> float:
    """Numerator of the bound of Theorem 2, with J = 1."""
    return float(radius ** (-2.0 * (_M + 1))) + float(radius**setting.dim) / n


def _bound_4(setting: Setting, n: float, radius: float) -> float:
    """Numerator of the bound of Theorem 4, with deg Q = 0 and J = 1."""
    alpha = common_order(setting)
    tail = math.exp(-2.0 * product_decay(setting) * radius**alpha)
    bias = radius ** max(2.0 - 2.0 * alpha, 0.0) * tail
    return float(bias) + float(radius**setting.dim) / n


def _bound_order_1(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-2.0) + float(radius**setting.dim) / n


def _claim_2(setting: Setting) -> Rate:
    return balanced_rate(2.0 * (_M + 1), setting.dim, "Theorem 2, m = 1")


def _claim_4(setting: Setting) -> Rate:
    return Rate(1.0, setting.dim / common_order(setting), "Theorem 4")


def _smooth_near_the_points(setting: Setting) -> tuple[bool, str]:
    return True, f"the points avoid the breaks of f: {setting.response.breaks or 'none'}"


_LOCAL = Assumption("f and p are smooth near x, and p(x) > 0", _smooth_near_the_points)

THEOREMS = (
    Theorem(
        name="2",
        source="[nguyen2022fourierformer]_, Theorem 2",
        statement=(
            r"\mathrm{MSE} \le \left(\frac{C_1}{R^{2(m+1)}} + \frac{(f + C_2) R^D}{N}\right)"
            r" \Big/ \left(p^2 J(R)\right)"
        ),
        error="mse",
        assumptions=(
            absolute_moments(_M, 2 * _M + 2),
            smooth_density(_M + 1),
            smooth_function(_M + 1),
        ),
        bound=_power_bound,
        claimed=_claim_2,
        sharp=sharp,
        derivation=(
            "bias (μ₂/R²)(f''/2 + f'p'/p) against variance σ² ρ^D R^D/(N p) (symbolic.expansion)"
        ),
        remark=(
            "The moments asked for (l >= 6) are those of the proof: the rate holds for l = 3, 4, 5 "
            "too. For odd l the mean itself is infinite: the denominator has a density at 0."
        ),
    ),
    Theorem(
        name="4",
        source="[nguyen2022fourierformer]_, Theorem 4; Ho and Walker (2021), Theorem 9",
        statement=(
            r"\mathrm{MSE} \le C \frac{R^{\max\{2 \deg Q + 2 - 2\alpha, 0\}} e^{-2 c R^\alpha}"
            r" + (f + C_5) R^D/N}{p^2 J(R)}"
        ),
        error="mse",
        assumptions=(
            power_is(1),
            supersmooth(),
            supersmooth_product(),
            bounded_second_moment(),
        ),
        bound=_bound_4,
        claimed=_claim_4,
        sharp=sharp,
        derivation=(
            "the bias is the tail of the transforms of f p and p beyond R; R grows like "
            "(log N)^{1/α} and only the variance R^D/N is left (symbolic.reproduction)"
        ),
        remark=(
            "The mean on the left is infinite for every N: the denominator is signed and has a "
            "density at 0, though a tiny one. What is measured is the mean given a design whose "
            "denominator is not near 0."
        ),
    ),
    Theorem(
        name="regression of order 1",
        source=NOT_IN_THE_PAPERS,
        statement=r"\mathrm{MSE} \le \frac{C}{p^2}\left(\frac{1}{R^2} + \frac{R^D}{N}\right)",
        error="mse",
        assumptions=(power_is(2), _LOCAL),
        bound=_bound_order_1,
        claimed=None,
        sharp=sharp,
        derivation=(
            "the kernel's mass at distance u is 1/(2πRu²): the bias is the singular integral of "
            "(f(y) - f(x)) p(y)/(x - y)² over 2πR p(x) (symbolic.regression_bias)"
        ),
        remark='Left for "future work" in Appendix A.2.',
    ),
    Theorem(
        name="regression of order 2",
        source=NOT_IN_THE_PAPERS,
        statement=r"\mathrm{MSE} \le \frac{C}{p^2}\left(\frac{1}{R^4} + \frac{R^D}{N}\right)",
        error="mse",
        assumptions=(power_is(3, 4, 5), _LOCAL),
        bound=_power_bound,
        claimed=None,
        sharp=sharp,
        derivation=(
            "as for l >= 6: μ₂ = -K̂''(0) is finite from l = 3 on, and the far lobes average out "
            "to R^{-3} at most (symbolic.expansion)"
        ),
        remark='Left for "future work" in Appendix A.2.',
    ),
)
