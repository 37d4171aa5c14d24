"""Kernels on the line: value, transform, order and constants.

A kernel K integrates to one; its transform K̂(s) = ∫ K(u) e^{isu} du has K̂(0) = 1. In D dimensions
the product kernel R^D ∏ K(R u_d) is used everywhere, R the radius (bandwidth h = 1/R).

To add a kernel, write a frozen dataclass with the members of :class:`Kernel` and put an instance
into :data:`~fourierkernels.kernels.KERNELS`; the contract tests pick it up from there. A
nonnegative kernel that also has ``sample(n, rng)``, draws from K of shape ``(n,)``, serves
``KernelDensity.sample`` as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.interpolate import BSpline

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer
from fourierkernels.kernels.sinc import sinc, sinc_integral, sinc_slope

_LARGEST_SPLINE = 40  # power up to which the transform is evaluated as a B-spline
_NEGLIGIBLE = 16.0  # sinc(u)^l < exp(-l u²/6) < 1e-18 from u = 16/√l on, up to π
_GAUSSIAN_CUTOFF = 8.6  # exp(-8.6^2 / 2) < 1e-16: beyond it the transform is zero to rounding


@runtime_checkable
class Kernel(Protocol):
    """What every kernel offers; all functions are elementwise on arrays of any shape."""

    @property
    def name(self) -> str:
        """What tables and messages call it; of a row of :data:`KERNELS`, its key."""

    @property
    def constant(self) -> float:
        """∫ shape(u) du, so that value = shape / constant."""

    @property
    def order(self) -> float:
        """Smallest r > 0 with 1 - K̂(s) ~ |s|^r at 0; ``inf`` if K̂ is 1 near 0."""

    @property
    def second_moment(self) -> float:
        """-K̂''(0) = ∫ u² K(u) du; ``inf`` where the transform has a cusp at 0."""

    @property
    def roughness(self) -> float:
        """∫ K(u)² du."""

    @property
    def support(self) -> float:
        """K̂(s) = 0 for |s| > support; ``inf`` if it never vanishes."""

    @property
    def cutoff(self) -> float:
        """|K̂(s)| is below rounding for |s| > cutoff (equal to the support if that is finite)."""

    @property
    def knots(self) -> tuple[float, ...]:
        """Points s > 0, increasing, the cutoff last, between which K̂ is smooth.

        16 Gauss–Legendre nodes between neighbours integrate K̂ to nine digits: a smooth transform
        that they do not resolve has further points.
        """

    @property
    def nonnegative(self) -> bool:
        """Whether K(u) >= 0 everywhere."""

    def __hash__(self) -> int:
        """Hashable, so that results can be cached."""

    def value(self, u: ArrayLike) -> FloatArray:
        """K(u)."""

    def transform(self, s: ArrayLike) -> FloatArray:
        """K̂(s), real and even."""

    def gap(self, s: ArrayLike) -> FloatArray:
        """1 - K̂(s), to full relative accuracy where it is small."""

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|shape(u)|, sign of shape(u))."""

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        """Bound on the relative error of shape(u) when u has the absolute error `u_error`."""

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|shape'(u)|, sign of shape'(u))."""

    def cumulative(self, u: ArrayLike) -> FloatArray:
        """∫_{-∞}^u K(v) dv; monotone only if the kernel is nonnegative."""

    @property
    def squared(self) -> tuple["Kernel", float]:
        """Kernel and factor c with shape(u)² = the other kernel's shape(c·u)."""


@dataclass(frozen=True)
class GaussianKernel:
    """The control in every table: K(u) = exp(-u²/2)/√(2π), K̂(s) = exp(-s²/2).

    Examples
    --------
    >>> round(float(GaussianKernel().value(0.0)), 6)
    0.398942
    """

    name: str = field(default="gaussian", init=False)
    constant: float = field(default=math.sqrt(2 * math.pi), init=False)
    order: float = field(default=2.0, init=False)
    second_moment: float = field(default=1.0, init=False)
    roughness: float = field(default=0.5 / math.sqrt(math.pi), init=False)
    support: float = field(default=math.inf, init=False)
    cutoff: float = field(default=_GAUSSIAN_CUTOFF, init=False)
    knots: tuple[float, ...] = field(default=(_GAUSSIAN_CUTOFF,), init=False)
    nonnegative: bool = field(default=True, init=False)

    def value(self, u: ArrayLike) -> FloatArray:
        """exp(-u²/2)/√(2π), elementwise."""
        return np.exp(-0.5 * _square(u)) / self.constant

    def transform(self, s: ArrayLike) -> FloatArray:
        """exp(-s²/2), elementwise."""
        return np.exp(-0.5 * _square(s))

    def gap(self, s: ArrayLike) -> FloatArray:
        """1 - exp(-s²/2), elementwise."""
        return -np.expm1(-0.5 * _square(s))

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(-u²/2, 1): exact where the value itself underflows."""
        log = -0.5 * _square(u)
        return log, np.ones_like(log)

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        """|d log K/du| times the error of u."""
        return np.asarray(np.abs(np.asarray(u, float)) * np.asarray(u_error, float))

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|u| - u²/2, -sign u)."""
        u = np.asarray(u, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.log(np.abs(u)) - 0.5 * _square(u), -np.sign(u)

    def cumulative(self, u: ArrayLike) -> FloatArray:
        """Φ(u), by the error function."""
        return np.asarray(special.ndtr(np.asarray(u, dtype=np.float64)))

    @property
    def squared(self) -> tuple[Kernel, float]:
        """exp(-u²) is the Gaussian shape of √2·u."""
        return self, math.sqrt(2.0)


@dataclass(frozen=True)
class FourierKernel:
    """Generalised Fourier-integral kernel K(u) = sinc(u)^l / A_l, sinc(u) = sin(u)/u.

    l = 1 is the Fourier-integral (sinc) kernel, l = 2 that of Fejér, l = 4 that of Jackson and
    de la Vallée Poussin. sinc^l(u) = E cos(uS), S the sum of l independent uniforms on (-1, 1):
    the transform is the B-spline density of S over its value at 0, never negative, 0 beyond l.
    Source: [nguyen2022fourierformer]_ eq. 12 (kernel); constants derived here and tested.

    Parameters
    ----------
    power : int
        The exponent l >= 1. Odd powers give a signed kernel.

    Raises
    ------
    TypeError, ValueError
        If `power` is not an integer of at least 1.

    Examples
    --------
    >>> kernel = FourierKernel(power=4)
    >>> round(kernel.constant, 6), kernel.order, kernel.second_moment
    (2.094395, 2.0, 0.75)
    """

    power: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", check_integer("power", self.power))

    @property
    def name(self) -> str:
        """``fourier<power>``."""
        return f"fourier{self.power}"

    @property
    def lowest_power(self) -> int:
        """Return l: |K(u)| falls like |u|^{-l}."""
        return self.power

    @property
    def constant(self) -> float:
        """A_l = ∫ sinc(u)^l du, from an exact rational multiple of π; above l = 40 from a sum."""
        if self.power > _LARGEST_SPLINE:
            return float(self._lattice[1].sum())
        return math.pi * float(_constant_over_pi(self.power))

    @property
    def order(self) -> float:
        """Infinite for l = 1, 1 for l = 2 (cusp at 0), 2 from l = 3 on."""
        return {1: math.inf, 2: 1.0}.get(self.power, 2.0)

    @property
    def second_moment(self) -> float:
        """-K̂''(0): 0 for l = 1, infinite for l = 2, a rational number from l = 3 on."""
        if self.power <= 2:
            return {1: 0.0, 2: math.inf}[self.power]
        if self.power > _LARGEST_SPLINE:
            u, weight = self._lattice
            return float(np.square(u) @ weight / weight.sum())
        return float(-_spline_derivative(self.power, 2) / _spline_derivative(self.power, 0))

    @property
    def roughness(self) -> float:
        """∫ K² = A_{2l}/A_l²."""
        if self.power > _LARGEST_SPLINE:
            return FourierKernel(2 * self.power).constant / self.constant**2
        ratio = _constant_over_pi(2 * self.power) / _constant_over_pi(self.power) ** 2
        return float(ratio) / math.pi

    @property
    def support(self) -> float:
        """The transform vanishes beyond l."""
        return float(self.power)

    @property
    def cutoff(self) -> float:
        """Equal to the support."""
        return self.support

    @property
    def knots(self) -> tuple[float, ...]:
        """The positive knots of the B-spline: l, l - 2, ..."""
        return tuple(float(k) for k in range(2 - self.power % 2, self.power + 1, 2))

    @property
    def nonnegative(self) -> bool:
        """Even powers only."""
        return self.power % 2 == 0

    def value(self, u: ArrayLike) -> FloatArray:
        """sinc(u)^l / A_l, elementwise."""
        return np.asarray(sinc(u) ** self.power / self.constant)

    def transform(self, s: ArrayLike) -> FloatArray:
        """Return the B-spline of degree l - 1 on [-l, l], scaled to 1 at 0; elementwise."""
        size = np.abs(np.asarray(s, float))
        if self.power == 1:  # a step is its own closed form, with the edge included
            return np.where(size <= 1.0, 1.0, 0.0)
        inside = np.minimum(size, self.support)  # the spline is continuous: zero at its end
        if self.power > _LARGEST_SPLINE:
            waves = self._lattice_sum(inside, np.cos)
            return np.where(size < self.support, np.maximum(waves, 0.0), 0.0)
        return np.asarray(self._spline(inside) / self._peak)

    def gap(self, s: ArrayLike) -> FloatArray:
        """Return 1 - K̂(s), elementwise: near 0 from the spline's own polynomial there."""
        size = np.abs(np.asarray(s, float))
        if self.power > _LARGEST_SPLINE:
            inside = np.minimum(size, self.support)
            return self._lattice_sum(inside, lambda x: 2.0 * np.square(np.sin(0.5 * x)))
        near = np.polynomial.polynomial.polyval(np.minimum(size, 1.0), self._gap_series)
        return np.where(size < 0.5 * self.knots[0], near, 1.0 - self.transform(size))

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(l log|sinc u|, sign), with -inf where sinc is exactly zero."""
        base = sinc(u)
        with np.errstate(divide="ignore"):
            return self.power * np.log(np.abs(base)), np.sign(base) ** self.power

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        """|l cot u - l/u| is at most l (1/|sin u| + 1/|u|), and l|u|/2 near 0."""
        size = np.abs(np.asarray(u, float))
        large = np.maximum(size, 1.0)
        with np.errstate(divide="ignore"):
            far = 1.0 / np.abs(np.sin(large)) + 1.0 / large
        slope = np.where(size < 1.0, 0.5 * size, far)
        return np.asarray(self.power * slope * np.asarray(u_error, float))

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log, sign) of l sinc(u)^{l-1} sinc'(u)."""
        rest, base = sinc_slope(u), sinc(u)
        with np.errstate(divide="ignore"):
            log = math.log(self.power) + np.log(np.abs(rest))
            if self.power > 1:
                log = log + (self.power - 1) * np.log(np.abs(base))
        return log, np.sign(rest) * np.sign(base) ** (self.power - 1)

    def cumulative(self, u: ArrayLike) -> FloatArray:
        """1/2 + (1/A_l) ∫_0^u sinc(v)^l dv; its error is a few 1e-15, 2e-14 at l = 512."""
        return np.asarray(0.5 + sinc_integral(u, self.power) / self.constant)

    @property
    def squared(self) -> tuple[Kernel, float]:
        """sinc^{2l} at the same u."""
        return FourierKernel(2 * self.power), 1.0

    @cached_property
    def _lattice(self) -> tuple[FloatArray, FloatArray]:
        """Points u = πj/l, and sinc(u)^l times their distance, as far as it is not negligible.

        sinc^l has no frequencies above l: on these points sums over cosines are integrals, exactly.
        """
        step = math.pi / self.power
        reach = math.ceil(_NEGLIGIBLE / math.sqrt(self.power) / step)
        u = np.asarray(step * np.arange(-reach, reach + 1), float)
        return u, np.asarray(step * sinc(u) ** self.power, float)

    def _lattice_sum(self, s: FloatArray, wave: Callable[[FloatArray], FloatArray]) -> FloatArray:
        u, weight = self._lattice
        return np.asarray(wave(s[..., None] * u) @ (weight / weight.sum()))

    @cached_property
    def _spline(self) -> BSpline:
        l = self.power  # noqa: E741 - the literature's letter
        return BSpline.basis_element(np.arange(-l, l + 1, 2.0), extrapolate=False)

    @cached_property
    def _peak(self) -> float:
        return float(self._spline(0.0))

    @cached_property
    def _gap_series(self) -> FloatArray:
        """Coefficients of 1 - K̂(s) in powers of s, from 0 to the first knot, rounded once."""
        series = sinc_series(self.power)
        return np.array([0.0, *(float(-term / series[0]) for term in series[1:])])


def _square(x: ArrayLike) -> FloatArray:
    return np.square(np.asarray(x, dtype=np.float64))


@lru_cache
def _constant_over_pi(power: int) -> Fraction:
    """A_l/π as an exact fraction: alternating sums of large binomials would cancel in floats."""
    return Fraction(1, 2 ** (power - 1)) * _alternating_sum(power, power - 1)


@lru_cache
def sinc_series(power: int) -> tuple[Fraction, ...]:
    """Return the coefficients of A_l K̂_l(s)/π in powers of s, from 0 to the first knot.

    Examples
    --------
    >>> sinc_series(2)
    (Fraction(1, 1), Fraction(-1, 2))
    """
    scale = Fraction(1, 2 ** (power - 1))
    return tuple(
        (-1) ** j * scale * _spline_derivative(power, j) / math.factorial(j) for j in range(power)
    )


def _spline_derivative(power: int, times: int) -> Fraction:
    """f_S^{(times)}(0) up to one common factor, f_S the density of the sum of `power` uniforms."""
    return _alternating_sum(power, power - 1 - times)


def _alternating_sum(power: int, exponent: int) -> Fraction:
    terms = (
        (-1) ** k * math.comb(power, k) * (power - 2 * k) ** exponent
        for k in range((power + 1) // 2)
    )
    return Fraction(sum(terms), math.factorial(exponent))
