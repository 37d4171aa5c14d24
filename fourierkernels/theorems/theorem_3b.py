"""Theorem 3(b) of [nguyen2022fourierformer]_: densities, l = 2."""

from fourierkernels.theorems.assumptions import ordinary_smooth, power_is, supersmooth
from fourierkernels.theorems.measures.integrated_error import INTEGRATED_ERROR
from fourierkernels.theorems.shared_terms import sharp_density, variance
from fourierkernels.theorems.theorem import Case, Theorem
from fourierkernels.theory.rates import Rate, balanced_rate
from fourierkernels.theory.setting import Setting

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
