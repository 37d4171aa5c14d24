"""What a density offers, and the smoothness classes of the theory."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complexfloating]

GAUSSIAN_RANGE = 8.6  # |p̂|² of a unit Gaussian falls below 1e-32 there


@dataclass(frozen=True)
class Smoothness:
    """Definition 3 of [nguyen2022fourierformer]_.

    Supersmooth of order α: |p̂(t)| <= C exp(-c Σ|t_d|^α). Ordinary smooth of order β:
    |p̂(t)| <= c ∏ (1 + |t_d|^β)^{-1}.
    """

    kind: Literal["supersmooth", "ordinary_smooth"]
    exponent: float


@runtime_checkable
class Density(Protocol):
    """What every density offers. In one dimension, functions act elementwise on any shape."""

    @property
    def dim(self) -> int:
        """Dimension D; for D > 1 points and frequencies have shape ``(..., D)``."""

    @property
    def smoothness(self) -> Smoothness:
        """Smoothness class of the characteristic function."""

    @property
    def roughness(self) -> float:
        """∫ p(x)² dx; infinite if p is not square integrable."""

    @property
    def spectral_scale(self) -> float:
        """Frequency below which |p̂| has no structure: about 1 / (width of p)."""

    @property
    def spectral_range(self) -> float:
        """|p̂(t)|² < 1e-32 beyond it; ``inf`` for power tails, see :class:`HasSpectralTail`."""

    @property
    def spectral_span(self) -> float:
        """Largest angular frequency at which |p̂(t)|² oscillates in t; 0 if it does not."""

    def __hash__(self) -> int:
        """Hashable, so that results can be cached."""

    def pdf(self, x: ArrayLike) -> FloatArray:
        """p(x)."""

    def cf(self, t: ArrayLike) -> ComplexArray:
        """p̂(t) = E exp(i t·X)."""

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws: shape ``(n,)``, or ``(n, D)`` for D > 1."""


@runtime_checkable
class HasSpectralTail(Protocol):
    """What a density with an infinite spectral range offers besides."""

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂(s)|² ds."""
