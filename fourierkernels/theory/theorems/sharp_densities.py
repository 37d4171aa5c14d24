"""Theorems 1 and 3 of [nguyen2022fourierformer]_ on densities, and what they leave open."""

import math

from fourierkernels.theory.rates import Rate, balanced_rate, sharp_rate
from fourierkernels.theory.theorems.assumptions import (
    absolute_moments,
    decay,
    ordinary_smooth,
    power_is,
    smooth_density,
    supersmooth,
)
from fourierkernels.theory.theorems.base import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Setting,
    Theorem,
)

_M = 1  # the largest m with ∫ sinc^l z^j = 0 for 1 <= j <= m: the second moment is never zero


def sharp(setting: Setting) -> Rate:
    """Return the sharp rate of the MISE."""
    return sharp_rate(setting.density, setting.kernel, dim=setting.dim)


def _variance(setting: Setting, n: float, radius: float) -> float:
    return float(radius**setting.dim) / n


def _bound_1(setting: Setting, n: float, radius: float) -> float:
    return float(radius ** -(_M + 1.0)) + _variance(setting, n, radius)


def _bound_3a_supersmooth(setting: Setting, n: float, radius: float) -> float:
    alpha = setting.density.smoothness.exponent
    bias = radius ** max(1.0 - alpha, 0.0) * math.exp(-decay(setting) * radius**alpha)
    return float(bias) + _variance(setting, n, radius)


def _bound_3a_ordinary(setting: Setting, n: float, radius: float) -> float:
    return float(radius ** (1.0 - setting.density.smoothness.exponent)) + _variance(
        setting, n, radius
    )


def _bound_3b(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-2.0) + _variance(setting, n, radius)


def _bound_order_2(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-4.0) + _variance(setting, n, radius)


def _bound_by_smoothness(setting: Setting, n: float, radius: float) -> float:
    q = 2.0 * setting.density.smoothness.exponent - 1.0
    return float(radius**-q) + _variance(setting, n, radius)


def _claim_1(setting: Setting) -> Rate:
    return balanced_rate(_M + 1.0, setting.dim, "Theorem 1, m = 1")


def _claim_3a_supersmooth(setting: Setting) -> Rate:
    power = setting.dim / setting.density.smoothness.exponent
    return Rate(1.0, power, "Theorem 3(a), supersmooth")


def _claim_3a_ordinary(setting: Setting) -> Rate:
    q = setting.density.smoothness.exponent - 1.0
    return balanced_rate(q, setting.dim, "Theorem 3(a), ordinary smooth")


def _claim_3b(setting: Setting) -> Rate:
    return balanced_rate(2.0, setting.dim, "Theorem 3(b)")


def _second_order(setting: Setting) -> tuple[bool, str]:
    order = setting.kernel.order
    return order == 2.0, f"{setting.kernel.name} has order {order:g}"


def _finite_curvature(setting: Setting) -> tuple[bool, str]:
    smooth = setting.density.smoothness
    if smooth.kind == "supersmooth":
        return True, "supersmooth: ∫ t⁴|p̂|² is finite"
    holds = smooth.exponent > 2.5
    return holds, f"∫ t⁴|p̂|² {'is finite' if holds else 'diverges'}: β = {smooth.exponent:g}"


def _rough_for_the_kernel(setting: Setting) -> tuple[bool, str]:
    smooth, order = setting.density.smoothness, setting.kernel.order
    if smooth.kind == "supersmooth":
        return False, "the density is supersmooth: the order of the kernel limits"
    holds = 0.5 < smooth.exponent < order + 0.5
    return holds, f"β = {smooth.exponent:g} and the order is {order:g}"


THEOREMS = (
    Theorem(
        name="1",
        source="[nguyen2022fourierformer]_, Theorem 1",
        statement=r"\mathrm{MISE} \le \frac{C}{R^{m+1}} + \frac{C' R^D}{N}",
        error="mise",
        assumptions=(absolute_moments(_M, _M + 1), smooth_density(_M + 1)),
        bound=_bound_1,
        claimed=_claim_1,
        sharp=sharp,
        derivation=(
            "1 - K̂(s) ~ (μ₂/2) s², so that squared bias is (μ₂²/4) R^{-4} ∫ p''², the square of "
            "the pointwise bias C/R^{m+1} of the proof (symbolic.asymptotics)"
        ),
        remark=(
            "The proof bounds the bias at a point and stops: the integrated error needs its "
            "square, integrated over the whole space."
        ),
    ),
    Theorem(
        name="3a supersmooth",
        source="[nguyen2022fourierformer]_, Theorem 3(a)",
        statement=(
            r"\mathrm{MISE} \le C \left(R^{\max\{1-\alpha, 0\}} e^{-c R^\alpha}"
            r" + \frac{R^D}{N}\right)"
        ),
        error="mise",
        assumptions=(power_is(1), supersmooth()),
        bound=_bound_3a_supersmooth,
        claimed=_claim_3a_supersmooth,
        sharp=sharp,
        derivation=(
            "squared bias is ∫ |p̂|² beyond R; the best R solves |p̂(R)|² = 1/(N+1) on the line "
            "(symbolic.asymptotics)"
        ),
        remark=(
            "The proof bounds |p̂|² by a multiple of |p̂|: the exponent c could be twice as large. "
            "The rate does not change, its constant does, by 2^{D/α}."
        ),
    ),
    Theorem(
        name="3a ordinary smooth",
        source="[nguyen2022fourierformer]_, Theorem 3(a)",
        statement=r"\mathrm{MISE} \le C \left(R^{-\beta+1} + \frac{R^D}{N}\right)",
        error="mise",
        assumptions=(power_is(1), ordinary_smooth(1.0)),
        bound=_bound_3a_ordinary,
        claimed=_claim_3a_ordinary,
        sharp=sharp,
        derivation=(
            "squared bias is ∫ |p̂|² ~ ∫ t^{-2β} beyond R, which is R^{-(2β-1)}, not R^{-(β-1)} "
            "(symbolic.asymptotics)"
        ),
        remark=(
            "The proof bounds |p̂|² by a multiple of |p̂| and loses half of the exponent. β > 1/2 "
            "is enough."
        ),
    ),
    Theorem(
        name="3b supersmooth",
        source="[nguyen2022fourierformer]_, Theorem 3(b)",
        statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^2} + \frac{R^D}{N}\right)",
        error="mise",
        assumptions=(power_is(2), supersmooth()),
        bound=_bound_3b,
        claimed=_claim_3b,
        sharp=sharp,
        derivation=(
            "1 - K̂(s) = |s|/2 up to |s| = 2: the cusp gives squared bias R^{-2} ∫ p'²/4 "
            "(symbolic.asymptotics)"
        ),
    ),
    Theorem(
        name="3b ordinary smooth",
        source="[nguyen2022fourierformer]_, Theorem 3(b)",
        statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^2} + \frac{R^D}{N}\right)",
        error="mise",
        assumptions=(power_is(2), ordinary_smooth(3.0)),
        bound=_bound_3b,
        claimed=_claim_3b,
        sharp=sharp,
        derivation="as for supersmooth densities: ∫ t²|p̂|² is finite for every β > 3/2",
        remark="β > 3 is only what the proof needs, with |p̂| for |p̂|²; β > 3/2 is enough.",
    ),
    Theorem(
        name="density of order 2",
        source=NOT_IN_THE_PAPERS,
        statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^4} + \frac{R^D}{N}\right)",
        error="mise",
        assumptions=(
            Assumption("the kernel has order 2: l >= 3, or the Gaussian", _second_order),
            Assumption("∫ t⁴ |p̂|² is finite", _finite_curvature),
        ),
        bound=_bound_order_2,
        claimed=None,
        sharp=sharp,
        derivation=(
            "the order counts in the transform: 1 - K̂(s) ~ (μ₂/2) s² for l = 3 too, where "
            "∫ |K| x² diverges and Taylor's theorem says nothing (symbolic.asymptotics)"
        ),
    ),
    Theorem(
        name="density limited by smoothness",
        source=NOT_IN_THE_PAPERS,
        statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^{2\beta-1}} + \frac{R^D}{N}\right)",
        error="mise",
        assumptions=(
            Assumption("p is ordinary smooth, 1/2 < β < order + 1/2", _rough_for_the_kernel),
        ),
        bound=_bound_by_smoothness,
        claimed=None,
        sharp=sharp,
        derivation=(
            "squared bias is ∫ |p̂|²(1 - K̂(t/R))² ~ R^{-(2β-1)} L² ∫ s^{-2β}(1 - K̂(s))² ds/π "
            "(symbolic.asymptotics)"
        ),
    ),
)
