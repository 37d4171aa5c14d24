"""Lemma 1 of [nguyen2022fourierformer]_: the tail of the density estimate at a point."""

import math

from fourierkernels.theorems.assumptions import absolute_moments, smooth_density
from fourierkernels.theorems.assumptions import moments_of_theorem_1 as moments
from fourierkernels.theorems.measure import Setting
from fourierkernels.theorems.tail_quantile import LEVEL, TAIL_QUANTILE
from fourierkernels.theorems.theorem import Assumption, Case, Theorem
from fourierkernels.theory.rates import Rate


def tail_bound(setting: Setting, n: float, radius: float, level: float = LEVEL) -> float:
    """R^{-(m+1)} + √(R^D log(2/δ)/n)."""
    noise = math.sqrt(radius**setting.dim * math.log(2.0 / level) / n)
    return float(radius ** -(moments(setting) + 1.0) + noise)


def _rate(setting: Setting) -> Rate:
    m = moments(setting)
    return Rate((m + 1.0) / (setting.dim + 2.0 * (m + 1)), 0.0, f"Lemma 1, m = {m}")


def _fixed_level(setting: Setting) -> tuple[bool, str]:
    del setting
    return True, "δ = 0.1 is fixed and R^D/N falls"


def _refuted(setting: Setting) -> str:
    del setting
    return "no constant serves all R and δ: for fixed N the estimate may be as large as R^D"


LEMMA_1 = Theorem(
    name="lemma 1",
    source="[nguyen2022fourierformer]_, Lemma 1",
    statement=(
        r"P\left(|p_{N,R} - p| \ge C'\left(\frac{1}{R^{m+1}}"
        r" + \sqrt{\frac{R^D \log(2/\delta)}{N}}\right)\right) \le \delta"
    ),
    error=TAIL_QUANTILE,
    assumptions=(
        absolute_moments(moments, lambda m: m + 1),
        smooth_density(moments),
        Assumption("R^D log(2/δ)/N is bounded", _fixed_level, ours=True),
    ),
    refuted=_refuted,
    bound=tail_bound,
    claimed=_rate,
    sharp=_rate,
    derivation=(
        "pointwise bias is (μ₂/2R²) p'', standard deviation √(p ρ^D R^D/N), and the error is "
        "asymptotically normal: both terms are attained"
    ),
    remark=(
        "The proof takes t from (0, C''], so it needs R^D log(2/δ)/N bounded, which the lemma "
        "leaves out. Without it the lemma is false: all N points within 1/R of x have the "
        "probability δ = (c/R)^{DN} and make the estimate as large as R^D, more than "
        "√(R^D log(2/δ)/N) ~ √(D R^D log R)."
    ),
    cases=(Case("gaussian", "fourier4"),),
)
