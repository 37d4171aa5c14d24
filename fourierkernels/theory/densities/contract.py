"""Interfaces of densities and regression functions, smoothness classes, and shared formulas."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.theory.densities.waves import Wave

GAUSSIAN_RANGE = 8.6  # |p̂|² of a unit Gaussian falls below 1e-32 there


class Power(NamedTuple):
    """|p̂|² and 1 - |p̂|²: near t = 0 the difference from one would lose every digit."""

    kept: FloatArray
    gap: FloatArray


class Components(NamedTuple):
    """A normal mixture as arrays of shapes ``(k,)``, ``(k, D)`` and ``(k, D, D)``."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray


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
    """Interface of every density. In one dimension, functions act elementwise on any shape."""

    @property
    def dim(self) -> int:
        """Dimension D; for D > 1 points and frequencies have shape ``(..., D)``."""

    @property
    def smoothness(self) -> Smoothness:
        """Smoothness class of the characteristic function."""

    @property
    def breaks(self) -> tuple[float, ...]:
        """Points on the line where p or one of its derivatives jumps, increasing.

        Quadrature in x ends its panels there. Empty where p is smooth, and for D > 1.
        """

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

    def power(self, t: ArrayLike) -> Power:
        """|p̂(t)|² and 1 - |p̂(t)|², each to full relative accuracy."""

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws: shape ``(n,)``, or ``(n, D)`` for D > 1."""


@runtime_checkable
class HasSpectralTail(Protocol):
    """Additional interface of densities with an infinite spectral range."""

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂(s)|² ds."""


@runtime_checkable
class HasFarField(HasSpectralTail, Protocol):
    """Optional interface of densities whose |p̂|² waves without end; it keeps large radii cheap.

    Against a transform that changes over R >> 1, waves of |p̂|² average out but for their start:
    they may be faded out over a stretch of many waves.
    """

    @property
    def far_field(self) -> float:
        """Frequency from which on the faded |p̂|² does not wave."""

    def faded_power(self, t: ArrayLike) -> Power:
        """|p̂|² with its waves faded out before the far field, and its gap."""

    def faded_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ of it, t in the far field."""


@runtime_checkable
class HasWaves(Protocol):
    """Optional interface of densities with a power tail: a mixture may have them as parts."""

    @property
    def waves_from(self) -> float:
        """Frequency from which on p̂ is the sum of its waves."""

    @property
    def waves(self) -> tuple[Wave, ...]:
        """The waves, one per break."""


@runtime_checkable
class HasEdges(Protocol):
    """Optional interface of densities that vanish on one side of each break, like a power."""

    @property
    def edge_powers(self) -> tuple[float, ...]:
        """Q in p(x) ~ |x - break|^q, one per break; the other factor is analytic."""


@runtime_checkable
class HasSpectralWindow(Protocol):
    """Optional interface in D > 1 dimensions: integrals skip where |p̂| vanishes."""

    def spectral_window(self, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of t_D outside which |p̂|² < 1e-32, each of shape ``(q,)``.

        `rest` holds the other frequencies, shape ``(q, D - 1)``. Where there is no such t_D, the
        lower end is above the upper one.
        """


@runtime_checkable
class HasComponents(Protocol):
    """Additional interface of normal densities and their mixtures."""

    @property
    def components(self) -> Components:
        """The normal components."""


@runtime_checkable
class HasMarginals(Protocol):
    """Additional interface of products of densities on the line."""

    @property
    def marginals(self) -> tuple[Density, ...]:
        """One density per dimension."""


def squared_modulus(z: ComplexArray) -> FloatArray:
    """|z|², elementwise, without a square root."""
    return np.asarray(np.square(z.real) + np.square(z.imag))


def least_smooth(parts: Iterable[Density]) -> Smoothness:
    """Return the class of the least smooth: any power tail is worse than an exponential."""
    classes = [part.smoothness for part in parts]
    ordinary = [c for c in classes if c.kind == "ordinary_smooth"]
    return min(ordinary or classes, key=lambda c: c.exponent)


def power_of_exponent(exponent: FloatArray) -> Power:
    """Return exp(-q) and 1 - exp(-q) for exponents q >= 0 of any shape."""
    kept = np.exp(-exponent)
    gap = np.asarray(1.0 - kept)
    small = exponent < 0.5
    gap[small] = -np.expm1(-exponent[small])
    return Power(kept, gap)


def power_of_mixture(weights: FloatArray, phases: FloatArray, exponents: FloatArray) -> Power:
    """Return |Σ w exp(iθ - q)|² and one minus it; phases θ and exponents q of shape ``(..., k)``.

    With the mean taken out (Σ w θ = 0), u = 1 - Re and v = Im give the gap 2u - u² - v² without
    cancellation.
    """
    size = np.exp(-exponents)
    real = (size * np.cos(phases)) @ weights
    imaginary = (size * np.sin(phases)) @ weights
    missing = (-np.expm1(-exponents) + 2.0 * size * np.square(np.sin(0.5 * phases))) @ weights
    square = np.square(imaginary)
    return Power(np.square(real) + square, missing * (2.0 - missing) - square)


Kind = Literal["supersmooth", "ordinary_smooth", "kink", "jump"]

BAND_LIMITED = Smoothness("supersmooth", math.inf)  # f̂ lives on finitely many frequencies


@runtime_checkable
class RegressionFunction(Protocol):
    """Interface of every regression function; all functions act elementwise on any shape."""

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


@runtime_checkable
class HasSpectralRange(Protocol):
    """Optional interface of regression functions that vary fast, beyond 20 radians a unit."""

    @property
    def spectral_range(self) -> float:
        """Angular frequency b: 16 nodes over a length 16/b integrate f and f² times a wave."""


def normal_pdf(x: FloatArray, mean: float, std: "float | FloatArray") -> FloatArray:
    """N(mean, std²) at x, elementwise."""
    return np.asarray(np.exp(-0.5 * np.square((x - mean) / std)) / (std * math.sqrt(2 * math.pi)))


def rational_tail(t: float, power: float) -> float:
    """(1/π) ∫_t^∞ (1 + s²)^{-power} ds, without the cancellation of an arctangent."""
    if power <= 0.5:
        return math.inf
    whole = special.beta(power - 0.5, 0.5)
    part = special.betainc(power - 0.5, 0.5, 1.0 / (1.0 + t * t))
    return float(0.5 * whole * part / math.pi)
