"""Products of densities on the line: independent coordinates, each of its own kind."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.theory.densities.contract import Density, Power, Smoothness, least_smooth


@dataclass(frozen=True)
class Product:
    """∏_d p_d(x_d), in two or more dimensions.

    Parameters
    ----------
    marginals : tuple of densities on the line

    Raises
    ------
    ValueError
        For fewer than two marginals, or one that is not on the line.

    Examples
    --------
    >>> from fourierkernels.theory.densities import Gaussian, Laplace
    >>> Product((Gaussian(), Laplace())).smoothness
    Smoothness(kind='ordinary_smooth', exponent=2.0)
    """

    marginals: tuple[Density, ...]

    breaks = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "marginals", tuple(self.marginals))
        for marginal in self.marginals:
            if not isinstance(marginal, Density):
                raise TypeError(f"marginals must be densities, got {marginal!r}")
        dims = [marginal.dim for marginal in self.marginals]
        if len(dims) < 2 or set(dims) != {1}:
            raise ValueError(
                f"marginals must be two or more densities on the line, got {dims} dims"
            )

    @property
    def dim(self) -> int:
        """Number of marginals."""
        return len(self.marginals)

    @property
    def smoothness(self) -> Smoothness:
        """That of the least smooth marginal: any power tail is worse than an exponential."""
        return least_smooth(self.marginals)

    @property
    def roughness(self) -> float:
        """Product of the marginals' ∫p²."""
        return math.prod(marginal.roughness for marginal in self.marginals)

    @property
    def spectral_scale(self) -> float:
        """Smallest of the marginals."""
        return min(marginal.spectral_scale for marginal in self.marginals)

    @property
    def spectral_range(self) -> float:
        """Largest of the marginals."""
        return max(marginal.spectral_range for marginal in self.marginals)

    @property
    def spectral_span(self) -> float:
        """Largest of the marginals."""
        return max(marginal.spectral_span for marginal in self.marginals)

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at points of shape ``(..., D)``; shape ``(...)``."""
        x = np.asarray(x, float)
        return np.asarray(math.prod(m.pdf(x[..., d]) for d, m in enumerate(self.marginals)))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """∏ p̂_d(t_d) at frequencies of shape ``(..., D)``; shape ``(...)``."""
        t = np.asarray(t, float)
        return np.asarray(math.prod(m.cf(t[..., d]) for d, m in enumerate(self.marginals)))

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and its gap; 1 - ∏(1 - g_d) is summed up from terms that are not negative."""
        t = np.asarray(t, float)
        kept, gap = self.marginals[0].power(t[..., 0])
        for d, marginal in enumerate(self.marginals[1:], start=1):
            factor = marginal.power(t[..., d])
            kept, gap = kept * factor.kept, gap + kept * factor.gap
        return Power(np.asarray(kept), np.asarray(gap))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n, D)``."""
        return np.stack([marginal.sample(n, rng) for marginal in self.marginals], axis=1)
