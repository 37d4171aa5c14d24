"""What a regression function offers."""

import math
from typing import Literal, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.theory.densities.contract import Smoothness

Kind = Literal["supersmooth", "ordinary_smooth", "kink", "jump"]

BAND_LIMITED = Smoothness("supersmooth", math.inf)  # f̂ lives on finitely many frequencies


@runtime_checkable
class RegressionFunction(Protocol):
    """What every regression function offers; all functions act elementwise on any shape."""

    @property
    def name(self) -> str:
        """Key in :data:`REGRESSION_FUNCTIONS`, used in tables."""

    @property
    def kind(self) -> Kind:
        """Roughest feature on the line."""

    @property
    def smoothness(self) -> Smoothness:
        """Decay of f̂ (a distribution, taken away from t = 0), hence of the transform of f p.

        Order ``inf`` for a sum of waves or a polynomial: f p is then as smooth as p.
        """

    @property
    def breaks(self) -> tuple[float, ...]:
        """Points where f or one of its derivatives jumps, increasing."""

    @property
    def growth(self) -> float:
        """Smallest g with |f(x)| <= C (1 + |x|)^g: 0 for a bounded function."""

    def __hash__(self) -> int:
        """Hashable, so that results can be cached."""

    def value(self, x: ArrayLike) -> FloatArray:
        """f(x)."""

    def slope(self, x: ArrayLike) -> FloatArray:
        """f'(x); the mean of both sides at a break."""

    def curvature(self, x: ArrayLike) -> FloatArray:
        """f''(x); the mean of both sides at a break."""
