"""Theorem 1 of [nguyen2022fourierformer]_: densities and functions φ of sinc with moments."""

from fourierkernels.theorems.assumptions import absolute_moments, smooth_density
from fourierkernels.theorems.measure import INTEGRATED_ERROR, Setting
from fourierkernels.theorems.theorem import Case, Theorem, sharp_density, variance
from fourierkernels.theory.rates import Rate, balanced_rate

_M = 1  # the largest m with ∫ sinc^l z^j = 0 for 1 <= j <= m: the second moment is never zero


def _bound(setting: Setting, n: float, radius: float) -> float:
    return float(radius ** -(_M + 1.0)) + variance(setting, n, radius)


def _claim(setting: Setting) -> Rate:
    return balanced_rate(_M + 1.0, setting.dim, "Theorem 1, m = 1")


THEOREM_1 = Theorem(
    name="1",
    source="[nguyen2022fourierformer]_, Theorem 1",
    statement=r"\mathrm{MISE} \le \frac{C}{R^{m+1}} + \frac{C' R^D}{N}",
    error=INTEGRATED_ERROR,
    assumptions=(absolute_moments(_M, _M + 1), smooth_density(_M + 1)),
    bound=_bound,
    claimed=_claim,
    sharp=sharp_density,
    derivation=(
        "1 - K̂(s) ~ (μ₂/2) s², so that squared bias is (μ₂²/4) R^{-4} ∫ p''², the square of "
        "the pointwise bias C/R^{m+1} of the proof (symbolic.asymptotics)"
    ),
    remark=(
        "The proof bounds the bias at a point and stops: the integrated error needs its "
        "square, integrated over the whole space."
    ),
    cases=(
        Case("gaussian", "fourier4"),
        Case("cauchy", "fourier4"),
        Case("gaussian", "fourier6"),
        Case("gaussian", "fourier4", dim=2),
        Case("laplace", "fourier4"),
        Case("gaussian", "fourier3"),
    ),
)
