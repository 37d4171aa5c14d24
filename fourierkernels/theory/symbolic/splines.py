"""Powers of sinc: transform, constant, moments and roughness, by convolving the box exactly.

sinc(x) = E cos(xU) with U uniform on (-1, 1), so sinc^l(x) = E cos(xS) with S the sum of l of them:
the Fourier transform of sinc^l is 2π f_S, a piecewise polynomial. Everything about the kernel is
read off f_S, in rational arithmetic. Source: [nguyen2022fourierformer]_ eq. 12 for the kernel.
"""

from functools import lru_cache
from typing import Any

import sympy

from fourierkernels.foundation.validation import check_integer
from fourierkernels.theory.symbolic.formula import Formula

_S = sympy.Symbol("s", real=True)
_X = sympy.Symbol("x", positive=True)


@lru_cache
def uniform_sum(power: int) -> tuple[tuple[int, Any], ...]:
    """Return the density of the sum of `power` uniforms on (-1, 1), as (left end, polynomial in s).

    The pieces are two long. By induction: f_{l+1}(s) = (F_l(s+1) - F_l(s-1))/2, F_l' = f_l.

    Examples
    --------
    >>> uniform_sum(2)
    ((-2, s/4 + 1/2), (0, 1/2 - s/4))
    """
    if check_integer("power", power) == 1:
        return ((-1, sympy.Rational(1, 2)),)
    below = _cumulative(power - 1)
    pieces = []
    for j in range(power):
        above = below[j].subs(_S, _S + 1) if j < power - 1 else sympy.Integer(1)
        under = below[j - 1].subs(_S, _S - 1) if j else sympy.Integer(0)
        pieces.append((2 * j - power, sympy.expand((above - under) / 2)))
    return tuple(pieces)


def _cumulative(power: int) -> list[Any]:
    total, antiderivatives = sympy.Integer(0), []
    for left, piece in uniform_sum(power):
        rising = sympy.integrate(piece, _S)
        rising = sympy.expand(rising - rising.subs(_S, left) + total)
        antiderivatives.append(rising)
        total = rising.subs(_S, left + 2)
    return antiderivatives


@lru_cache
def positive_pieces(power: int) -> tuple[tuple[int, int, Any], ...]:
    """Return K̂ on s > 0 as (left, right, polynomial); K̂ = f_S/f_S(0)."""
    peak = _peak(power)
    return tuple(
        (max(left, 0), left + 2, sympy.expand(piece / peak))
        for left, piece in uniform_sum(power)
        if left + 2 > 0
    )


def _peak(power: int) -> Any:
    middle = uniform_sum(power)[power // 2]
    return sympy.sympify(middle[1]).subs(_S, 0)


def transform(power: int) -> Formula:
    """Return K̂_l(s) for s >= 0, a piecewise polynomial: the B-spline of degree l - 1.

    Examples
    --------
    >>> float(transform(2)(s=0.5))
    0.75
    """
    pieces = [(piece, sympy.Le(_S, right)) for _, right, piece in positive_pieces(power)]
    expression = sympy.Piecewise(*pieces, (0, True))
    reason = "the box convolved with itself, over its value at 0; s stands for |s|"
    return Formula(rf"\widehat K_{{{power}}}(s)", expression, reason)


def constant(power: int) -> Formula:
    """Return A_l = ∫ sinc^l = 2π f_S(0).

    Examples
    --------
    >>> constant(4).expression
    2*pi/3
    """
    value = 2 * sympy.pi * _peak(power)
    return Formula(f"A_{{{power}}}", value, "the transform of sinc^l at frequency 0 is 2π f_S(0)")


def constant_series(power: int) -> Formula:
    """Return A_l by its alternating sum, a second derivation of :func:`constant`.

    f_S is the l-fold difference of a one-sided power: expand (e^{is} - e^{-is})^l/(2is)^l.
    """
    l = check_integer("power", power)  # noqa: E741 - the literature's letter
    terms = [
        (-1) ** k * sympy.binomial(l, k) * sympy.Integer(l - 2 * k) ** (l - 1)
        for k in range((l + 1) // 2)
    ]
    value = sympy.pi / (2 ** (l - 1) * sympy.factorial(l - 1)) * sum(terms)
    return Formula(f"A_{{{l}}}", value, "binomial expansion of the l-th difference")


def order(power: int) -> Any:
    """Return the smallest k with 1 - K̂(s) ~ s^k at 0+: an integer, or oo.

    Examples
    --------
    >>> [order(power) for power in (1, 2, 3, 4)]
    [oo, 1, 2, 2]
    """
    gap = sympy.Poly(1 - positive_pieces(power)[0][2], _S)
    return sympy.oo if gap.is_zero else min(monomial[0] for monomial in gap.monoms())


def flatness(power: int) -> Any:
    """Return b in 1 - K̂(s) = b s^order + ...: 0 for l = 1, 1/2 for l = 2, μ₂/2 from l = 3 on."""
    rank = order(power)
    if rank == sympy.oo:
        return sympy.Integer(0)
    return sympy.Poly(1 - positive_pieces(power)[0][2], _S).coeff_monomial(_S**rank)


def second_moment(power: int) -> Formula:
    """Return μ₂ = -K̂''(0), infinite where K̂ has a cusp at 0.

    Examples
    --------
    >>> [second_moment(power).expression for power in (1, 2, 3, 4, 5, 6)]
    [0, oo, 2/3, 3/4, 12/23, 5/11]
    """
    centre = positive_pieces(power)[0][2]
    cusp = sympy.diff(centre, _S).subs(_S, 0) != 0
    value = sympy.oo if cusp else -sympy.diff(centre, _S, 2).subs(_S, 0)
    return Formula(rf"\mu_2(K_{{{power}}})", value, "second derivative of the transform at 0")


def roughness(power: int) -> Formula:
    """Return ∫ K² = (1/π) ∫_0^l K̂², by Plancherel.

    Examples
    --------
    >>> roughness(2).expression
    2/(3*pi)
    """
    pieces = positive_pieces(power)
    total = sum(sympy.integrate(piece**2, (_S, left, right)) for left, right, piece in pieces)
    reason = "Plancherel: the square of the transform, integrated piece by piece"
    return Formula(rf"\int K_{{{power}}}^2", total / sympy.pi, reason)


@lru_cache
def lost_energy(power: int, beta: Any) -> Any:
    """Return ∫_0^∞ s^{-2β} (1 - K̂(s))² ds; finite if 1/2 < β < order + 1/2, infinite otherwise."""
    beta = sympy.nsimplify(beta, rational=True)
    rank = order(power)
    if not (beta > sympy.Rational(1, 2) and 2 * beta < 2 * rank + 1):
        return sympy.oo
    total = power ** (1 - 2 * beta) / (2 * beta - 1)  # beyond the support, where K̂ = 0
    for left, right, piece in positive_pieces(power):
        for (k,), coefficient in sympy.Poly((1 - piece) ** 2, _S).terms():
            total += _moment(sympy.sympify(coefficient), k - 2 * beta, left, right)
    return sympy.expand(total)


def _moment(coefficient: Any, exponent: Any, left: int, right: int) -> Any:
    """∫ coefficient · x^exponent from `left` to `right`."""
    if coefficient == 0:
        return sympy.Integer(0)
    return coefficient * sympy.integrate(_X**exponent, (_X, left, right))
