"""Theorem 3 of [nguyen2022fourierformer]_: densities, (a) for l = 1 and (b) for l = 2."""

import math

from fourierkernels.theorems.assumptions import (
    finite_energy,
    ordinary_smooth,
    power_is,
    supersmooth,
)
from fourierkernels.theorems.decay import decay
from fourierkernels.theorems.measure import INTEGRATED_ERROR, Setting
from fourierkernels.theorems.theorem import Case, Theorem, sharp_density, variance
from fourierkernels.theory.rates import RadiusLaw, Rate, balanced_radius, balanced_rate


def _bound_supersmooth(setting: Setting, n: float, radius: float) -> float:
    alpha = setting.density.smoothness.exponent
    bias = radius ** max(1.0 - alpha, 0.0) * math.exp(-decay(setting) * radius**alpha)
    return float(bias) + variance(setting, n, radius)


def _bound_ordinary(setting: Setting, n: float, radius: float) -> float:
    bias = float(radius ** (1.0 - setting.density.smoothness.exponent))
    return bias + variance(setting, n, radius)


def _claim_supersmooth(setting: Setting) -> Rate:
    power = setting.dim / setting.density.smoothness.exponent
    return Rate(1.0, power, "Theorem 3(a), supersmooth")


def _claim_ordinary(setting: Setting) -> Rate:
    q = setting.density.smoothness.exponent - 1.0
    return balanced_rate(q, setting.dim, "Theorem 3(a), ordinary smooth")


def _radius_supersmooth(setting: Setting) -> RadiusLaw:
    power = 1.0 / setting.density.smoothness.exponent
    return RadiusLaw(0.0, power, 1.0 / decay(setting), "Theorem 3(a), supersmooth")


def _radius_ordinary(setting: Setting) -> RadiusLaw:
    q = setting.density.smoothness.exponent - 1.0
    return balanced_radius(q, setting.dim, "Theorem 3(a), ordinary smooth")


THEOREM_3A_SUPERSMOOTH = Theorem(
    name="3a supersmooth",
    source="[nguyen2022fourierformer]_, Theorem 3(a)",
    statement=(
        r"\mathrm{MISE} \le C \left(R^{\max\{1-\alpha, 0\}} e^{-c R^\alpha}"
        r" + \frac{R^D}{N}\right)"
    ),
    error=INTEGRATED_ERROR,
    assumptions=(power_is(1), supersmooth()),
    bound=_bound_supersmooth,
    claimed=_claim_supersmooth,
    radius=_radius_supersmooth,
    sharp=sharp_density,
    derivation=(
        "squared bias is ∫ |p̂|² beyond R; the best R solves |p̂(R)|² = 1/(N+1) on the line "
        "(symbolic.asymptotics)"
    ),
    remark=(
        "The proof bounds |p̂|² by a multiple of |p̂|: the exponent c could be twice as large. "
        "The rate does not change, its constant does, by 2^{D/α}."
    ),
    errata=(
        "K_R(y) = (1/π) ∫ R φ(sinc Rx) e^{iyx} dx has 1/π for 1/A: right for l = 1 and 2, where "
        "A = π, and for no other power.",
        "Inequality 22 has C₁ e^{-C₂...} where squaring gives C₁² e^{-2C₂...}; 24 has e^{-C₁ R^α} "
        "for e^{-C₂ R^α}.",
    ),
    cases=(
        Case("gaussian", "fourier1"),
        Case("cauchy", "fourier1"),
        Case("cauchy", "fourier1", dim=2),
    ),
)

THEOREM_3A_ORDINARY_SMOOTH = Theorem(
    name="3a ordinary smooth",
    source="[nguyen2022fourierformer]_, Theorem 3(a)",
    statement=r"\mathrm{MISE} \le C \left(R^{-\beta+1} + \frac{R^D}{N}\right)",
    error=INTEGRATED_ERROR,
    assumptions=(power_is(1), ordinary_smooth(1.0)),
    bound=_bound_ordinary,
    claimed=_claim_ordinary,
    radius=_radius_ordinary,
    weakest=(power_is(1), ordinary_smooth(0.5)),
    sharp=sharp_density,
    derivation=(
        "squared bias is ∫ |p̂|² ~ ∫ t^{-2β} beyond R, which is R^{-(2β-1)}, not R^{-(β-1)} "
        "(symbolic.asymptotics)"
    ),
    remark=(
        "The proof bounds |p̂|² by a multiple of |p̂| and loses half of the exponent. β > 1/2 "
        "is enough."
    ),
    cases=(
        Case("laplace", "fourier1"),
        Case("gamma", "fourier1"),
        Case("beta", "fourier1"),
        Case("laplace", "fourier1", dim=2),
    ),
)


def _radius(setting: Setting) -> RadiusLaw:
    return balanced_radius(2.0, setting.dim, "Theorem 3(b)")


_IN_H1 = finite_energy(lambda setting: 1.0, "|t|²")
_STATEMENT = r"\mathrm{MISE} \le C \left(\frac{1}{R^2} + \frac{R^D}{N}\right)"


def _bound(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-2.0) + variance(setting, n, radius)


def _claim(setting: Setting) -> Rate:
    return balanced_rate(2.0, setting.dim, "Theorem 3(b)")


THEOREM_3B_SUPERSMOOTH = Theorem(
    name="3b supersmooth",
    source="[nguyen2022fourierformer]_, Theorem 3(b)",
    statement=_STATEMENT,
    error=INTEGRATED_ERROR,
    assumptions=(power_is(2), supersmooth()),
    bound=_bound,
    claimed=_claim,
    radius=_radius,
    weakest=(power_is(2), _IN_H1),
    sharp=sharp_density,
    derivation=(
        "1 - K̂(s) = |s|/2 up to |s| = 2: the cusp gives squared bias R^{-2} ∫ p'²/4 "
        "(symbolic.asymptotics)"
    ),
    cases=(Case("gaussian", "fourier2"), Case("gaussian", "fourier2", dim=2)),
)

THEOREM_3B_ORDINARY_SMOOTH = Theorem(
    name="3b ordinary smooth",
    source="[nguyen2022fourierformer]_, Theorem 3(b)",
    statement=_STATEMENT,
    error=INTEGRATED_ERROR,
    assumptions=(power_is(2), ordinary_smooth(3.0)),
    bound=_bound,
    claimed=_claim,
    radius=_radius,
    weakest=(power_is(2), _IN_H1),
    sharp=sharp_density,
    derivation="as for supersmooth densities: ∫ t²|p̂|² is finite for every β > 3/2",
    remark="β > 3 is only what the proof needs, with |p̂| for |p̂|²; β > 3/2 is enough.",
    cases=(
        Case("gamma(4)", "fourier2"),
        Case("beta(4, 4)", "fourier2"),
        Case("laplace", "fourier2", beyond=True),
        Case("gamma(1.2)", "fourier2", beyond=True),
    ),
)
