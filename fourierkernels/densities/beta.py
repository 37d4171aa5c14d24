"""The Beta density, whose characteristic function needs numerical care."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.arrays import ComplexArray, FloatArray
from fourierkernels.densities.contract import Power, Smoothness, power_of_mixture
from fourierkernels.densities.panels import panels
from fourierkernels.validation import check_number


@dataclass(frozen=True)
class Beta:
    """Beta(a, b) on [0, 1]; p̂ = ₁F₁(a; a + b; it), ordinary smooth with β = min(a, b).

    p̂ is a Gauss-Jacobi sum (exact to rounding once the nodes outnumber t/2) up to
    |t| = max(60, 4ab), and the asymptotic series of ₁F₁ beyond, where its terms fall fast. If both
    parameters are at least 20, p̂ is below 1e-18 from |t| = 20 / std on, and set to 0 there.
    """

    a: float = 2.0
    b: float = 2.0

    dim = 1
    breaks = (0.0, 1.0)
    spectral_scale = 4.0
    spectral_range = math.inf
    spectral_span = 1.0

    def __post_init__(self) -> None:
        check_number("a", self.a, above=0.0)
        check_number("b", self.b, above=0.0)
        if not self._vanishes and self.a * self.b > _LARGEST_PRODUCT:
            raise ValueError(
                f"a · b must be at most {_LARGEST_PRODUCT} unless both are at least {_SMOOTH_FROM} "
                f"(the far field of p̂ starts at 4ab), got {self.a} and {self.b}"
            )

    @property
    def smoothness(self) -> Smoothness:
        """β = min(a, b)."""
        return Smoothness("ordinary_smooth", float(min(self.a, self.b)))

    @property
    def roughness(self) -> float:
        """B(2a-1, 2b-1)/B(a, b)²; infinite if a or b is at most 1/2."""
        if min(self.a, self.b) <= 0.5:
            return math.inf
        log = special.betaln(2 * self.a - 1, 2 * self.b - 1) - 2 * special.betaln(self.a, self.b)
        return math.exp(log)

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density, elementwise; 0 outside (0, 1)."""
        x = np.asarray(x, float)
        inside = np.where((x > 0) & (x < 1), x, 0.5)
        log = special.xlogy(self.a - 1, inside) + special.xlog1py(self.b - 1, -inside)
        return np.where(inside == x, np.exp(log - special.betaln(self.a, self.b)), 0.0)

    def cf(self, t: ArrayLike) -> ComplexArray:
        """₁F₁(a; a + b; it), elementwise."""
        t = np.asarray(t, float)
        flat = np.ravel(t)
        near = np.abs(flat) <= self._far_from
        result = np.empty(flat.shape, complex)
        nodes, weights = self._nodes
        phases = np.outer(flat[near], nodes)
        result.real[near] = np.cos(phases) @ weights
        result.imag[near] = np.sin(phases) @ weights
        far = self._far(np.abs(flat[~near]))
        result[~near] = np.where(flat[~near] > 0, far, np.conj(far))
        return result.reshape(t.shape)

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and its gap, elementwise: near t = 0 from the centred nodes."""
        t = np.asarray(t, float)
        kept = np.asarray(np.square(np.abs(self.cf(t))))
        gap = np.asarray(1.0 - kept)
        near = np.abs(t) < _NEAR
        nodes, weights = self._nodes
        phases = t[near][..., None] * (nodes - weights @ nodes)
        gap[near] = power_of_mixture(weights, phases, np.zeros_like(phases)).gap
        return Power(kept, gap)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws, shape ``(n,)``."""
        return rng.beta(self.a, self.b, n)

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂|²: panels up to the far field, asymptotic series beyond."""
        start = max(t, self._far_from)
        near = 0.0
        if t < start:
            nodes, weights = panels(np.linspace(t, start, 2 + int((start - t) / 8.0)))
            near = float(weights @ np.square(np.abs(self.cf(nodes))))
        far = self._far_energy(start) if t > self._far_from else self._whole_far_energy
        return (near + far) / math.pi

    @cached_property
    def _whole_far_energy(self) -> float:
        return self._far_energy(self._far_from)

    @property
    def _vanishes(self) -> bool:
        """Both ends are so smooth that |p̂| is below rounding before its power tail starts."""
        return min(self.a, self.b) >= _SMOOTH_FROM

    @property
    def _far_from(self) -> float:
        if self._vanishes:
            total = self.a + self.b
            return 20.0 * total * math.sqrt((total + 1.0) / (self.a * self.b))  # 20 / std
        return max(60.0, 4.0 * self.a * self.b)

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Nodes and weights of E exp(itX), exact to rounding for |t| up to the far field.

        Gauss-Jacobi; where the density vanishes smoothly at both ends, midpoints do as well.
        """
        if self._vanishes:
            n = 8 + math.ceil(self._far_from / math.pi)
            x = (np.arange(n) + 0.5) / n
            weight = self.pdf(x)
        else:
            n = 34 + int(self._far_from / 2)
            x, weight = special.roots_jacobi(n, self.b - 1.0, self.a - 1.0)
            x = 0.5 * (x + 1.0)
        return x, weight / weight.sum()

    def _far(self, t: FloatArray) -> ComplexArray:
        if self._vanishes:
            return np.zeros(t.shape, complex)
        at_zero, at_one = self._ends(t)
        return np.asarray(at_zero + np.exp(1j * t) * at_one)

    def _ends(self, t: "FloatArray | ComplexArray") -> tuple[ComplexArray, ComplexArray]:
        """Contributions of x = 0 and, without its factor exp(it), of x = 1."""
        scale = math.exp(-special.betaln(self.a, self.b))
        at_zero = scale * _endpoint_series(self.a, self.b, -1j * t)
        return at_zero, scale * _endpoint_series(self.b, self.a, 1j * t)

    def _far_energy(self, start: float) -> float:
        """∫_start^∞ |p̂|²: the squares of the ends over octaves, their product along a ray.

        The product oscillates like exp(-it); turning the path to start - is makes it decay.
        """
        if self._vanishes:
            return 0.0
        nodes, weights = panels(start * np.exp2(np.arange(61.0)))
        squares = sum(np.square(np.abs(end)) for end in self._ends(nodes))
        s, share = _LAGUERRE
        at_zero = self._ends(start - 1j * s)[0]
        at_one = np.conj(self._ends(start + 1j * s)[1])  # the conjugate, continued analytically
        product = -1j * np.exp(-1j * start) * (share @ (at_zero * at_one))
        return float(weights @ squares + 2.0 * np.real(product))


def _endpoint_series(a: float, b: float, z: ComplexArray) -> ComplexArray:
    """∫_0 x^{a-1} (1-x)^{b-1} e^{-zx} dx near x = 0: Σ_k (1-b)_k Γ(a+k)/k! z^{-a-k}."""
    term = math.gamma(a) * z ** (-a)
    total = term.copy()
    for k in range(40):
        term = term * ((1 - b + k) * (a + k) / (k + 1)) / z
        total += term
        if np.all(np.abs(term) <= 1e-17 * np.abs(total)):
            break
    return total


_SMOOTH_FROM = 20
_NEAR = 2.0  # |t| below which 1 - |p̂|² cancels
_LARGEST_PRODUCT = 2500
_LAGUERRE = np.polynomial.laguerre.laggauss(24)
