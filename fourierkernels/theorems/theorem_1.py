"""Theorem 1 of [nguyen2022fourierformer]_: densities and functions φ of sinc with moments."""

import math

from fourierkernels.theorems.assumptions import (
    absolute_moments,
    energy_beyond,
    of_order,
    smooth_density,
)
from fourierkernels.theorems.assumptions import moments_of_theorem_1 as moments
from fourierkernels.theorems.measure import INTEGRATED_ERROR, Setting
from fourierkernels.theorems.theorem import Case, Theorem, sharp_density, variance
from fourierkernels.theory.rates import RadiusLaw, Rate, balanced_radius, balanced_rate


def _exponent(setting: Setting) -> float:
    return moments(setting) + 1.0


def _bound(setting: Setting, n: float, radius: float) -> float:
    return float(radius ** -_exponent(setting)) + variance(setting, n, radius)


def _source(setting: Setting) -> str:
    return f"Theorem 1, m = {moments(setting)}"


def _claim(setting: Setting) -> Rate:
    return balanced_rate(_exponent(setting), setting.dim, _source(setting))


def _radius(setting: Setting) -> RadiusLaw:
    return balanced_radius(_exponent(setting), setting.dim, _source(setting))


def _refuted(setting: Setting) -> str:
    infinite = math.isinf(setting.density.roughness)
    return "p is not square integrable: the MISE is infinite" if infinite else ""


THEOREM_1 = Theorem(
    name="1",
    source="[nguyen2022fourierformer]_, Theorem 1",
    statement=r"\mathrm{MISE} \le \frac{C}{R^{m+1}} + \frac{C' R^D}{N}",
    error=INTEGRATED_ERROR,
    assumptions=(absolute_moments(moments, lambda m: m + 1), smooth_density(moments)),
    weakest=(of_order(1.0), energy_beyond(_exponent, "q = m + 1")),
    bound=_bound,
    claimed=_claim,
    sharp=sharp_density,
    radius=_radius,
    refuted=_refuted,
    derivation=(
        "1 - K̂(s) ~ b s^r, so that squared bias is b² R^{-2r} ∫ t^{2r} |p̂|²/(2π), for r = 2 the "
        "square of the pointwise bias C/R^{m+1} of the proof (symbolic.asymptotics). It is "
        "O(R^{-q}), q < 2r, if and only if ∫ |p̂|² beyond R is: K̂ vanishes beyond its support, and "
        "∫ t^{2r} |p̂|² up to R is summed by parts. At q = 2r = 2 that integral must be finite"
    ),
    remark=(
        "Printed without a condition on p, and false: the uniform density has R² bias² ~ R. The "
        "proof bounds the bias at a point by C/R^{m+1} and stops; ∫ bias² <= sup|bias| ∫|bias| <= "
        "(C/R^{m+1}) (1 + ∫|K|) completes it, and loses the square."
    ),
    errata=(
        "C and C' depend on p, not on D and A alone: for p of scale 1/s, R^{m+1} bias² is "
        "multiplied by s^{m+1+D} at the same R/s. The proof has them depend on sup|p^{(m+1)}| "
        "and sup p.",
    ),
    cases=(
        Case("gaussian", "fourier4"),
        Case("cauchy", "fourier4"),
        Case("gaussian", "fourier6"),
        Case("gaussian", "fourier4", dim=2),
        Case("laplace", "fourier4"),
        Case("gaussian", "fourier3"),
        Case("gamma(1.2)", "fourier4"),
        Case("gaussian", "order4"),
        Case("gaussian", "order6"),
        Case("laplace", "order4"),
    ),
)
