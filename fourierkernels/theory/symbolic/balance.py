"""The best radius of an error B R^{-q} + V R^D / n, solved once for all."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy

from fourierkernels.theory.symbolic.formula import Formula

B, V, Q, N, D, R = sympy.symbols("B V q n D R", positive=True)


@dataclass(frozen=True)
class Balance:
    """The minimum over R of B R^{-q} + V R^D / n.

    Attributes
    ----------
    error : Formula
        The error as a function of R.
    radius : Formula
        R*, where its derivative vanishes.
    best : Formula
        The error at R*.
    exponent : sympy.Expr
        e in best ~ n^{-e}.
    """

    error: Formula
    radius: Formula
    best: Formula
    exponent: Any


@lru_cache
def balance() -> Balance:
    r"""Return the best radius and error, derived.

    Examples
    --------
    >>> result = balance()
    >>> result.exponent
    q/(D + q)
    >>> print(result.radius.latex())
    R^* = \left(\frac{B n q}{D V}\right)^{\frac{1}{D + q}}
    """
    error = B * R ** (-Q) + V * R**D / N
    (radius,) = sympy.solve(sympy.diff(error, R), R)
    best = sympy.powsimp(sympy.simplify(error.subs(R, radius)), force=True)
    exponent = sympy.simplify(-N * sympy.diff(sympy.log(best), N))
    return Balance(
        error=Formula(r"\mathrm{MISE}(R)", error, "squared bias plus variance, leading order"),
        radius=Formula("R^*", radius, "the derivative in R is zero"),
        best=Formula(r"\mathrm{MISE}^*", best, "the error at the best radius"),
        exponent=exponent,
    )


def balanced(bias: Any, q: Any, variance: Any, dim: int) -> tuple[Any, Any, Any]:
    """Return radius, error and exponent with B, q, V and D filled in; n stays a symbol."""
    result = balance()
    values = {B: bias, Q: q, V: variance, D: dim}
    return (
        sympy.powsimp(result.radius.expression.subs(values)),
        sympy.powsimp(result.best.expression.subs(values)),
        result.exponent.subs(values),
    )
