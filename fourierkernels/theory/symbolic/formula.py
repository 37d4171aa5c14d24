"""A formula: an exact expression with its name and derivation, for numbers and for LaTeX."""

from dataclasses import dataclass
from functools import cached_property
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
