"""Regression functions with one jump, kink or bend, smooth on both sides of it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.theory.densities.contract import Smoothness
from fourierkernels.theory.densities.regression_function import Kind


@dataclass(frozen=True)
class Break:
    """|x - at|^degree, times the sign of x - at for even degrees: a jump, a kink, a bend, ...

    Its derivative of order `degree` jumps at one point and all others are smooth there, so |f̂|
    falls exactly like |t|^{-(degree + 1)}: 2/|t| for the jump, 2/t² for the kink.

    Examples
    --------
    >>> Break(degree=1).value([-2.0, 3.0]), Break(degree=0).value([-2.0, 3.0])
    (array([2., 3.]), array([-1.,  1.]))
    """

    degree: int = 1
    at: float = 0.0

    def __post_init__(self) -> None:
        check_integer("degree", self.degree, least=0)
        check_number("at", self.at)

    @property
    def name(self) -> str:
        """``jump``, ``kink``, ``bend``, and ``break<degree>`` from the third derivative on."""
        return {0: "jump", 1: "kink", 2: "bend"}.get(self.degree, f"break{self.degree}")

    @property
    def kind(self) -> Kind:
        """A jump of f, a kink, or smoother than both."""
        kinds: dict[int, Kind] = {0: "jump", 1: "kink"}
        return kinds.get(self.degree, "ordinary_smooth")

    @property
    def smoothness(self) -> Smoothness:
        """β = degree + 1."""
        return Smoothness("ordinary_smooth", self.degree + 1.0)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The one point."""
        return (self.at,)

    @property
    def growth(self) -> float:
        """The degree."""
        return float(self.degree)

    def value(self, x: ArrayLike) -> FloatArray:
        """|x - at|^degree, with its sign."""
        return self._derivative(x, 0)

    def slope(self, x: ArrayLike) -> FloatArray:
        """First derivative; 0 at the break of a jump or a kink."""
        return self._derivative(x, 1)

    def curvature(self, x: ArrayLike) -> FloatArray:
        """Second derivative; 0 at the break of a jump, a kink or a bend."""
        return self._derivative(x, 2)

    def _derivative(self, x: ArrayLike, times: int) -> FloatArray:
        z = np.asarray(x, float) - self.at
        if times > self.degree:
            return np.zeros(z.shape)
        falling = float(math.perm(self.degree, times))
        sign = np.sign(z) ** (self.degree + 1 + times)
        return np.asarray(falling * np.abs(z) ** (self.degree - times) * sign)
