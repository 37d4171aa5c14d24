"""Theorem 4 of [nguyen2022fourierformer]_: regression, l = 1."""

import math

from fourierkernels.theorems.assumptions import (
    TAME_MEAN,
    bounded_second_moment,
    finite_moments,
    infinite_mean,
    power_is,
    supersmooth,
    supersmooth_product,
)
from fourierkernels.theorems.decay import common_order, polynomial_degree, product_decay
from fourierkernels.theorems.error_at_points import ERROR_AT_POINTS
from fourierkernels.theorems.measure import Setting
from fourierkernels.theorems.theorem import Case, Theorem, sharp_regression, variance
from fourierkernels.theory.rates import RadiusLaw, Rate


def _bound(setting: Setting, n: float, radius: float) -> float:
    """Return the bound with J(R), p² and f + C_5 put to one."""
    alpha, degree = common_order(setting), polynomial_degree(setting)
    tail = math.exp(-2.0 * product_decay(setting) * radius**alpha)
    bias = radius ** max(2.0 * degree + 2.0 - 2.0 * alpha, 0.0) * tail
    return float(bias) + variance(setting, n, radius)


def _claim(setting: Setting) -> Rate:
    return Rate(1.0, setting.dim / common_order(setting), "Theorem 4")


def _radius(setting: Setting) -> RadiusLaw:
    factor = 0.5 / product_decay(setting)
    return RadiusLaw(0.0, 1.0 / common_order(setting), factor, "Theorem 4")


THEOREM_4 = Theorem(
    name="4",
    source="[nguyen2022fourierformer]_, Theorem 4; Ho and Walker (2021), Theorem 9",
    statement=(
        r"\mathrm{MSE} \le C \frac{R^{\max\{2 \deg Q + 2 - 2\alpha, 0\}} e^{-2 c R^\alpha}"
        r" + (f + C_5) R^D/N}{p^2 J(R)}"
    ),
    error=ERROR_AT_POINTS,
    assumptions=(
        power_is(1),
        supersmooth(),
        supersmooth_product(),
        bounded_second_moment(),
        TAME_MEAN,
    ),
    weakest=(power_is(1), supersmooth(), supersmooth_product(), finite_moments(), TAME_MEAN),
    radius=_radius,
    refuted=infinite_mean,
    bound=_bound,
    claimed=_claim,
    sharp=sharp_regression,
    derivation=(
        "the bias is the tail of the transforms of f p and p beyond R; R grows like "
        "(log N)^{1/α} and only the variance R^D/N is left (symbolic.reproduction)"
    ),
    remark=(
        "The mean on the left is infinite for every N >= 2: the denominator is signed and has a "
        "density at 0, though a tiny one. What is measured is the mean given a design whose "
        "denominator is not near 0."
    ),
    cases=(
        Case("gaussian", "fourier1", "sine"),
        Case("gaussian", "fourier1", "quadratic"),
        Case("gaussian", "fourier1", "kink"),
        Case("gaussian", "fourier1", "kink", beyond=True),
    ),
)
