"""Theorem 2 of [nguyen2022fourierformer]_: regression, l >= 6."""

from fourierkernels.theorems.assumptions import (
    TAME_MEAN,
    absolute_moments,
    bounded_second_moment,
    even_differences,
    finite_moments,
    infinite_mean,
    of_finite_order,
    smooth_density,
    smooth_function,
)
from fourierkernels.theorems.assumptions import moments_of_theorem_2 as moments
from fourierkernels.theorems.error_at_points import ERROR_AT_POINTS
from fourierkernels.theorems.measure import Setting
from fourierkernels.theorems.theorem import Case, Theorem, sharp_regression, variance
from fourierkernels.theory.rates import RadiusLaw, Rate, balanced_radius, balanced_rate


def _exponent(setting: Setting) -> float:
    return 2.0 * (moments(setting) + 1)


def _bound(setting: Setting, n: float, radius: float) -> float:
    """Return the bound with what does not set its rate put to one: J(R), p² and f + C_2.

    J(R) is one less a multiple of R^{-2(m+1)} + R^D log(NR)/N, and tends to one; D_v = 1.
    """
    return float(radius ** -_exponent(setting)) + variance(setting, n, radius)


def _source(setting: Setting) -> str:
    return f"Theorem 2, m = {moments(setting)}"


def _claim(setting: Setting) -> Rate:
    return balanced_rate(_exponent(setting), setting.dim, _source(setting))


def _radius(setting: Setting) -> RadiusLaw:
    return balanced_radius(_exponent(setting), setting.dim, _source(setting))


THEOREM_2 = Theorem(
    name="2",
    source="[nguyen2022fourierformer]_, Theorem 2",
    statement=(
        r"\mathrm{MSE} \le \left(\frac{C_1}{R^{2(m+1)}} + \frac{(f + C_2) R^D}{N}\right)"
        r" \Big/ \left(p^2 J(R)\right)"
    ),
    error=ERROR_AT_POINTS,
    assumptions=(
        absolute_moments(moments, lambda m: 2 * m + 2),
        smooth_density(moments),
        smooth_function(moments),
        bounded_second_moment(ours=True),
        TAME_MEAN,
    ),
    weakest=(of_finite_order(2.0), even_differences(moments), finite_moments(), TAME_MEAN),
    bound=_bound,
    claimed=_claim,
    sharp=sharp_regression,
    radius=_radius,
    refuted=infinite_mean,
    derivation=(
        "bias (μ₂/R²)(f''/2 + f'p'/p) against variance σ² ρ^D R^D/(N p) (symbolic.expansion); an "
        "even kernel sees the even half of (f - f(x)) p alone, and a break that it sees at x as "
        "|t|^k leaves R^{-k}"
    ),
    remark=(
        "The moments asked for (l >= 6) are those of the proof: the rate holds for l = 3, 4, 5 "
        "too. For odd l the mean itself is infinite at large R: the denominator has a density at "
        "0. So it is for every m >= 2: a kernel whose second moment vanishes is signed."
    ),
    errata=(
        "f(k) + C₂ is (f² + sup f²p + σ² sup p) in the proof. As printed the variance is negative "
        "once f(k) < -C₂, while a shift of all responses changes no error.",
        "J(R) is negative for small R or N, and with it the bound: it needs J(R) > 0 and p(k) > 0.",
    ),
    cases=(
        Case("gaussian", "fourier6", "sine"),
        Case("gaussian", "fourier6", "kink"),
        Case("gaussian", "fourier4", "sine", beyond=True),
        Case("gaussian", "fourier7", "sine"),
    ),
)
