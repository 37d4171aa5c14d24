"""Exact expressions with name and derivation, and the balance behind every rate."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray


@dataclass(frozen=True)
class Formula:
    r"""`left` = `expression`, and why.

    Attributes
    ----------
    left : str
        Left side, in LaTeX.
    expression : sympy.Expr
        Right side, exact.
    derivation : str
        How the right side was found, in one or two sentences.

    Examples
    --------
    >>> R, n = sympy.symbols("R n", positive=True)
    >>> variance = Formula(r"\mathrm{var}", R / (sympy.pi * n), "by hand")
    >>> print(variance.latex())
    \mathrm{var} = \frac{R}{\pi n}
    >>> round(float(variance(R=2.0, n=10)), 6)
    0.063662
    """

    left: str
    expression: Any
    derivation: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the free symbols, sorted."""
        return tuple(sorted(symbol.name for symbol in self.expression.free_symbols))

    def __call__(self, **values: ArrayLike) -> FloatArray:
        """Evaluate in float64, elementwise; every free symbol is named.

        Raises
        ------
        ValueError
            If the names are not those of the free symbols.
        """
        if set(values) != set(self.symbols):
            wanted, given = ", ".join(self.symbols), ", ".join(sorted(values))
            raise ValueError(f"values must name {wanted or 'no symbol'}, got {given or 'none'}")
        if not values:
            return np.asarray(float(self.expression))
        arrays = [np.asarray(values[name], dtype=np.float64) for name in self.symbols]
        return np.asarray(self._function(*arrays), dtype=np.float64)

    def latex(self) -> str:
        """Return left = right, without dollar signs."""
        return f"{self.left} = {sympy.latex(self.expression)}"

    @cached_property
    def _function(self) -> Any:
        symbols = sorted(self.expression.free_symbols, key=lambda symbol: symbol.name)
        return sympy.lambdify(symbols, self.expression, modules=["scipy", "numpy"])


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
