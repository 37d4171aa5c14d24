"""Theorem 2 of [nguyen2022fourierformer]_: regression, l >= 6."""

from fourierkernels.theorems.assumptions import absolute_moments, smooth_density, smooth_function
from fourierkernels.theorems.error_at_points import ERROR_AT_POINTS
from fourierkernels.theorems.measure import Setting
from fourierkernels.theorems.theorem import Case, Theorem, sharp_regression, variance
from fourierkernels.theory.rates import Rate, balanced_rate

_M = 1


def _bound(setting: Setting, n: float, radius: float) -> float:
    """Return the bound with what does not set its rate put to one: J(R), p² and f + C_2.

    J(R) is one less a multiple of R^{-2(m+1)} + R^D log(NR)/N, and tends to one; D_v = 1.
    """
    return float(radius ** (-2.0 * (_M + 1))) + variance(setting, n, radius)


def _claim(setting: Setting) -> Rate:
    return balanced_rate(2.0 * (_M + 1), setting.dim, "Theorem 2, m = 1")


THEOREM_2 = Theorem(
    name="2",
    source="[nguyen2022fourierformer]_, Theorem 2",
    statement=(
        r"\mathrm{MSE} \le \left(\frac{C_1}{R^{2(m+1)}} + \frac{(f + C_2) R^D}{N}\right)"
        r" \Big/ \left(p^2 J(R)\right)"
    ),
    error=ERROR_AT_POINTS,
    assumptions=(absolute_moments(_M, 2 * _M + 2), smooth_density(_M + 1), smooth_function(_M + 1)),
    bound=_bound,
    claimed=_claim,
    sharp=sharp_regression,
    derivation=(
        "bias (μ₂/R²)(f''/2 + f'p'/p) against variance σ² ρ^D R^D/(N p) (symbolic.expansion)"
    ),
    remark=(
        "The moments asked for (l >= 6) are those of the proof: the rate holds for l = 3, 4, 5 "
        "too. For odd l the mean itself is infinite: the denominator has a density at 0."
    ),
    cases=(
        Case("gaussian", "fourier6", "sine"),
        Case("gaussian", "fourier6", "kink"),
        Case("gaussian", "fourier4", "sine", beyond=True),
    ),
)
