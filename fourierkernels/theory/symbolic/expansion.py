"""Bias and variance of the regression estimate at a point, expanded in 1/R.

With a(x) = (1/n) Σ y_i K_R(x - x_i) and p̂_R its denominator, f̂ = a/p̂_R. Their means are expanded by
Taylor's theorem where the kernel has the moments 1, 0, μ₂ (l >= 3, the Gaussian). The Fejér kernel
(l = 2) has no second moment: its mass at distance u is 1/(2πRu²) after the fast oscillation is
averaged, and the bias is a singular integral over the whole line. Rates for l = 2, ..., 5 are left
open by [nguyen2022fourierformer]_ (Appendix A.2).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy

from fourierkernels.foundation.validation import check_integer
from fourierkernels.theory.symbolic.formula import Formula, N, R, balanced
from fourierkernels.theory.symbolic.splines import order, roughness, second_moment

_X, _H, _U = sympy.symbols("x h u", real=True)
_MU, _SIGMA, _P = sympy.symbols("mu2 sigma p0", positive=True)
_P1, _F1, _F2 = sympy.symbols("p1 f1 f2", real=True)
_B = sympy.Symbol("b", positive=True)


@dataclass(frozen=True)
class RegressionExpansion:
    """Leading order of the mean squared error at a point, and its best radius.

    In the formulas p0 = p(x), p1 = p'(x), f1 = f'(x), f2 = f''(x), sigma² the variance of the noise
    at x; `b` is the size of the bias coefficient: |bias| = b R^{-q/2}.

    Attributes
    ----------
    bias, variance : Formula
    radius, best : Formula
        In b, n, p0, sigma.
    exponent : sympy.Expr
        e in best ~ n^{-e}.
    """

    bias: Formula
    variance: Formula
    radius: Formula
    best: Formula
    exponent: Any


def expansion(power: int, *, dim: int = 1) -> RegressionExpansion:
    """Return the expansion for sinc^l, l >= 2, in D dimensions.

    In D > 1 the bias is the sum of its terms over the coordinates, f and p differentiated along
    each.

    Raises
    ------
    ValueError
        For l = 1, whose bias has no expansion in powers of 1/R.

    Examples
    --------
    >>> [expansion(power).exponent for power in (2, 3, 4, 5, 6)]
    [2/3, 4/5, 4/5, 4/5, 4/5]
    """
    if check_integer("power", power) == 1:
        raise ValueError("power must be at least 2 for an expansion in 1/R, got 1")
    dim = check_integer("dim", dim)
    q = 2 * order(power)
    noise = _SIGMA**2 * roughness(power).expression ** dim / _P
    radius, best, exponent = balanced(_B**2, q, noise, dim)
    return RegressionExpansion(
        bias=regression_bias(power),
        variance=regression_variance(power, dim=dim),
        radius=Formula("R^*", radius, "squared bias balanced against variance"),
        best=Formula(r"\mathrm{MSE}^*", best, "the error at the best radius"),
        exponent=exponent,
    )


def regression_bias(power: int) -> Formula:
    """Return the leading bias at a point where f and p are smooth and p(x) > 0.

    For l = 2 the singular integral is left as it stands, in functions f and p.

    Examples
    --------
    >>> regression_bias(4).expression
    3*(f1*p1 + f2*p0/2)/(4*R**2*p0)
    """
    if power == 2:
        return _singular_bias()
    moment = second_moment(power).expression
    value = _taylor_bias().subs(_MU, moment)
    reason = "Taylor's theorem to second order in numerator and denominator, moments 1, 0, μ₂"
    return Formula(r"\mathrm{bias}", value, reason)


@lru_cache
def _taylor_bias() -> Any:
    f, p = sympy.Function("f"), sympy.Function("p")

    def mean(g: Any) -> Any:
        moments = {0: 1, 1: 0, 2: _MU}
        return sum(
            (-_H) ** k / sympy.factorial(k) * moments[k] * sympy.diff(g, _X, k) for k in moments
        )

    ratio = mean(f(_X) * p(_X)) / mean(p(_X))
    second = sympy.diff(ratio, _H, 2).subs(_H, 0).doit() / 2  # the terms of order 0 and 1: f and 0
    named = {sympy.diff(f(_X), _X, 2): _F2, sympy.diff(f(_X), _X): _F1, sympy.diff(p(_X), _X): _P1}
    value = sympy.expand(second).subs(named).subs(p(_X), _P)
    inner = sympy.simplify(value * _P / _MU)
    return _MU / (R**2 * _P) * inner


def _singular_bias() -> Formula:
    f, p = sympy.Function("f"), sympy.Function("p")
    scaled = sympy.sin(R * _U) ** 2 / (sympy.pi * R * _U**2)  # R K_2(R u)
    period = sympy.pi / R
    phase = sympy.Symbol("v", real=True)
    average = sympy.integrate(sympy.sin(R * phase) ** 2, (phase, 0, period)) / period
    tail = scaled.subs(sympy.sin(R * _U) ** 2, average)
    integrand = (f(_X + _U) - f(_X)) * p(_X + _U) * tail / p(_X)
    value = sympy.Integral(integrand, (_U, -sympy.oo, sympy.oo))
    return Formula(r"\mathrm{bias}", value, "the kernel's mass far out, its square wave averaged")


def regression_variance(power: int, *, dim: int = 1) -> Formula:
    """Return the leading variance, σ² (roughness R)^D/(n p).

    Examples
    --------
    >>> regression_variance(2).expression
    2*R*sigma**2/(3*pi*n*p0)
    """
    p = sympy.Function("p")
    rough = roughness(power).expression
    # E[K_R²] = R ∫ K(u)² p(x - u/R) du: p at x to leading order, in every dimension alike
    square = (R * rough) ** dim * p(_X - _U * _H).subs(_H, 0).subs(p(_X), _P)
    value = _SIGMA**2 * square / (N * _P**2)
    return Formula(
        r"\mathrm{variance}", sympy.simplify(value), "mean square of the kernel, over p²"
    )
