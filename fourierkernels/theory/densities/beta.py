"""The Beta density, whose characteristic function needs numerical care."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.theory.densities.contract import Power, Smoothness, power_of_mixture
from fourierkernels.theory.densities.panels import panels
from fourierkernels.theory.densities.waves import Wave


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

    @property
    def edge_powers(self) -> tuple[float, ...]:
        """P ~ x^{a-1} at 0 and (1-x)^{b-1} at 1."""
        return (self.a - 1.0, self.b - 1.0)

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

    @property
    def waves_from(self) -> float:
        """Start of the far field."""
        return self._far_from

    @property
    def waves(self) -> tuple[Wave, ...]:
        """Those of the ends 0 and 1; none if |p̂| vanishes first."""
        if self._vanishes:
            return ()
        return (
            Wave(0.0, lambda z: self._ends(z)[0], float(self.a)),
            Wave(1.0, lambda z: self._ends(z)[1], float(self.b)),
        )

    @property
    def far_field(self) -> float:
        """Where the waves of ``faded_power`` have ended."""
        return self._far_from + 12.0 * _FADE

    def faded_power(self, t: ArrayLike) -> Power:
        """|p̂|² without its waves in the far field.

        They end with ½ erfc, whose transform at their frequency is exp(-_FADE²/4) < 1e-18.
        """
        t = np.asarray(t, float)
        kept, gap = self.power(t)
        far = np.abs(t) > self._far_from
        size = np.abs(t[far])
        at_zero, at_one = self._ends(size)
        waves = 2.0 * np.real(at_zero * np.conj(np.exp(1j * size) * at_one))
        share = 0.5 * special.erfc((size - self._far_from) / _FADE - 6.0)
        level = np.square(np.abs(at_zero)) + np.square(np.abs(at_one))
        kept[far] = 0.0 if self._vanishes else level + share * waves
        gap[far] = 1.0 - kept[far]
        return Power(kept, gap)

    def faded_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ of the far field without its waves."""
        return 0.0 if self._vanishes else self._squares_beyond(t) / math.pi

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
            more = [max(0, int(power) - _LARGEST_WEIGHT) for power in (self.a, self.b)]
            n = 34 + (int(self._far_from) + sum(more)) // 2
            x, weight = special.roots_jacobi(n, self.b - 1.0 - more[1], self.a - 1.0 - more[0])
            x = 0.5 * (x + 1.0)  # what is left of a large power is a polynomial
            weight = weight * np.exp(special.xlogy(more[0], x) + special.xlog1py(more[1], -x))
        return x, weight / weight.sum()

    def _far(self, t: FloatArray) -> ComplexArray:
        if self._vanishes:
            return np.zeros(t.shape, complex)
        at_zero, at_one = self._ends(t)
        return np.asarray(at_zero + np.exp(1j * t) * at_one)

    def _ends(self, t: "FloatArray | ComplexArray") -> tuple[ComplexArray, ComplexArray]:
        """Contributions of x = 0 and, without its factor exp(it), of x = 1."""
        return self._end(self.a, self.b, -1j * t), self._end(self.b, self.a, 1j * t)

    def _end(self, a: float, b: float, z: ComplexArray) -> ComplexArray:
        """Return what x = 0 adds to E e^{-zX}: Γ(a)/B(a, b) z^{-a} Σ_k (1-b)_k (a)_k/k! z^{-k}."""
        k = np.arange(min(_TERMS, int(b)) if b == int(b) else _TERMS)  # it ends for a whole b
        ratios = (1.0 - b + k) * (a + k) / (k + 1.0)
        total = np.ones_like(z)
        for ratio in ratios[::-1]:
            total = 1.0 + ratio * total / z
        return np.asarray(np.exp(self._log_size(a) - a * np.log(z)) * total)

    def _log_size(self, power: float) -> float:
        """Log of the factor of t^{-power} at an end where p ~ x^{power - 1}."""
        return math.lgamma(power) - float(special.betaln(self.a, self.b))

    def _far_energy(self, start: float) -> float:
        """∫_start^∞ |p̂|²: the squares of the ends in closed form, their product along a ray.

        The product oscillates like exp(-it); turning the path to start - is makes it decay.
        """
        if self._vanishes:
            return 0.0
        squares = self._squares_beyond(start)
        s, share = _LAGUERRE
        at_zero = self._ends(start - 1j * s)[0]
        at_one = np.conj(self._ends(start + 1j * s)[1])  # the conjugate, continued analytically
        product = -1j * np.exp(-1j * start) * (share @ (at_zero * at_one))
        return float(squares + 2.0 * np.real(product))

    def _squares_beyond(self, start: float) -> float:
        """∫_start^∞ of the squares of both ends, by terms in 1/t; infinite for powers <= 1/2."""
        total = 0.0
        for power, other in ((self.a, self.b), (self.b, self.a)):
            if power <= 0.5:
                return math.inf
            terms = _endpoint_terms(power, other, start)
            terms = terms * (1j) ** np.arange(len(terms))
            square = np.convolve(terms, np.conj(terms)).real
            size = 2.0 * (self._log_size(power) - power * math.log(start)) + math.log(start)
            total += math.exp(size) * float(
                (square / (2.0 * power - 1.0 + np.arange(len(square)))).sum()
            )
        return total


def _endpoint_terms(a: float, b: float, z: float) -> FloatArray:
    """Return (1-b)_k (a)_k/(k! z^k), each term at most a fourth of the one before."""
    k = np.arange(_TERMS)
    return np.cumprod(np.append(1.0, (1.0 - b + k) * (a + k) / ((k + 1.0) * z)))


_SMOOTH_FROM = 20
_NEAR = 2.0  # |t| below which 1 - |p̂|² cancels
_LARGEST_PRODUCT = 2500
_LARGEST_WEIGHT = 20  # power of a Gauss-Jacobi weight that does not overflow
_FADE = 13.0  # radians
_TERMS = 28  # of the far field; each is at most a fourth of the one before
_LAGUERRE = np.polynomial.laguerre.laggauss(24)
