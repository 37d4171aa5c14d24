"""Symmetric stable densities, p̂ = exp(-|scale t|^α) with α < 1: supersmooth below order 1."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.theory.densities.contract import Power, Smoothness, power_of_exponent

_STEP = 0.01  # of log s; the integrand is analytic there, and a rectangle rule exact to rounding
_LEAST, _MOST = 0.2, 0.9  # beyond, the integral takes too many nodes
_CUSP = 2.0**-24  # p̂ has a cusp at 0: panels go down to here


@dataclass(frozen=True)
class Stable:
    """Symmetric stable density of index alpha, 0.2 <= alpha <= 0.9; supersmooth of that order.

    It has no mean, and a tail ~ |x|^{-1-alpha}. For the indices 1 and 2 there are ``Cauchy`` and
    ``Gaussian``. It is not in the registry of densities: its tails make simulations take too long.

    Examples
    --------
    >>> round(float(Stable(0.5).pdf(0.0)), 6), Stable(0.5).smoothness.exponent
    (0.63662, 0.5)
    """

    alpha: float = 0.5
    scale: float = 1.0

    dim = 1
    breaks = ()
    spectral_span = 0.0

    def __post_init__(self) -> None:
        alpha = check_number("alpha", self.alpha, above=0.0)
        if not _LEAST <= alpha <= _MOST:
            raise ValueError(f"alpha must be from {_LEAST} to {_MOST}, got {alpha}")
        check_number("scale", self.scale, above=0.0)

    @property
    def smoothness(self) -> Smoothness:
        """Supersmooth of order alpha."""
        return Smoothness("supersmooth", self.alpha)

    @property
    def roughness(self) -> float:
        """Γ(1 + 1/α) 2^{-1/α} / (π scale)."""
        inverse = 1.0 / self.alpha
        return float(math.gamma(1.0 + inverse) * 2.0**-inverse / (math.pi * self.scale))

    @property
    def spectral_scale(self) -> float:
        """2^{-24}/scale: p̂ has a cusp at 0."""
        return _CUSP / self.scale

    @property
    def spectral_range(self) -> float:
        """37^{1/α}/scale: exp(-2 · 37) < 1e-32."""
        return float(37.0 ** (1.0 / self.alpha)) / self.scale

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise: the inversion integral along the imaginary axis.

        p(x) = (1/π) ∫_0^∞ exp(-xs - s^α cos(πα/2)) sin(s^α sin(πα/2)) ds for x >= 0.
        """
        size = np.abs(np.asarray(x, float)) / self.scale
        angle = 0.5 * math.pi * self.alpha
        end = math.log(40.0 / math.cos(angle)) / self.alpha
        log = np.arange(-40.0 / (1.0 + self.alpha) - 25.0, end, _STEP * math.cos(angle))
        s = np.exp(log)
        power = s**self.alpha
        wave = np.exp(-math.cos(angle) * power) * np.sin(math.sin(angle) * power) * s
        flat = np.ravel(size)
        blocks = np.array_split(flat, 1 + flat.size * s.size // 2**22)
        sums = np.concatenate([np.exp(-np.outer(block, s)) @ wave for block in blocks])
        step = _STEP * math.cos(angle)
        return np.asarray(step * sums.reshape(size.shape) / (math.pi * self.scale))

    def cf(self, t: ArrayLike) -> ComplexArray:
        """exp(-|scale t|^α)."""
        return np.asarray(np.exp(-self._exponent(t)), dtype=np.complex128)

    def power(self, t: ArrayLike) -> Power:
        """exp(-2 |scale t|^α) and its gap, elementwise."""
        return power_of_exponent(2.0 * self._exponent(t))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws by the formula of Chambers, Mallows and Stuck, shape ``(n,)``."""
        a, angle = self.alpha, rng.uniform(-0.5 * math.pi, 0.5 * math.pi, n)
        rest = (np.cos((1.0 - a) * angle) / rng.exponential(size=n)) ** ((1.0 - a) / a)
        return np.asarray(self.scale * np.sin(a * angle) / np.cos(angle) ** (1.0 / a) * rest)

    def _exponent(self, t: ArrayLike) -> FloatArray:
        return np.asarray(np.abs(self.scale * np.asarray(t, float)) ** self.alpha)
