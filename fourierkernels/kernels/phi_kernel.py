"""A kernel from a user's own φ: constants and transform computed numerically, with their error."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels.kernel import FourierKernel, Kernel
from fourierkernels.kernels.sinc import Side, cosine_tail, mean_power, sides, sinc, tail_error

PhiFunction = Callable[[FloatArray], FloatArray]

_SINC_LEAST = -0.21723362821122166  # the minimum of sin(u)/u, at u = 4.4934
_POLYNOMIAL_DEGREE = 12
_HALF_PERIODS = 256
_PANELS = 4  # per half-period: cos(su) is resolved up to s = 24; more for a narrow peak
_CUTOFF = 24.0
_PEAK = 8.0  # cutoff times half-width from which on the transform of a peak is below 1e-9
_FINEST = 64
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(20)


def log_and_sign(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (log|x|, sign of x), elementwise: -inf and 0 at 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(values)), np.sign(values)


def noise_of(phi: PhiFunction, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
    """Return the largest change of φ over the error of sinc u, relative to φ."""
    base, step = sinc(u), np.asarray(u_error, float)
    shape = phi(base)
    change = np.maximum(*(np.abs(phi(base + sign * step) - shape) for sign in (1, -1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(shape == 0, np.inf, change / np.abs(shape))


def is_nonnegative(phi: PhiFunction) -> bool:
    """Tell whether φ is nonnegative on a grid of the range of sinc."""
    return bool((phi(np.linspace(_SINC_LEAST, 1.0, 4001)) >= 0.0).all())


def fineness_of(phi: PhiFunction) -> int:
    """Return how many times 24 the frequencies of the peak at u = 0 reach, at least 1.

    Raises
    ------
    ValueError
        If φ(sinc u) falls to half of its peak too fast to be integrated.
    """
    u = np.geomspace(1e-6, 1.0, 1000)
    low = np.abs(phi(sinc(u))) < 0.5 * np.abs(phi(np.ones(1)))
    width = float(u[np.argmax(low)]) if low.any() else 1.0
    times = math.ceil(_PEAK / (_CUTOFF * width))
    if times > _FINEST:
        least = _PEAK / (_CUTOFF * _FINEST)
        raise ValueError(
            f"phi must be above half of its value at 1 up to u = {least:.2g}, got u = {width:.2g}"
        )
    return times


@dataclass(frozen=True)
class PhiKernel:
    """A kernel from a user's own φ: K(u) = φ(sinc u)/A, A = ∫ φ(sinc u) du, all numerically.

    φ is split as P + ρ, P a polynomial without constant term. The integrals of P are those of the
    Fourier kernels, exact; those of ρ = φ - P, small where sinc is small, are summed over the
    half-periods [kπ, (k+1)π] and the rest bounded by extrapolating its decay; `error` states it. If
    φ itself is a polynomial of degree at most 12, ρ is zero and everything is exact to rounding. If
    φ is another power next to 0, like |z|^{3/2} or max(z, 0)², P is zero and the far tail is summed
    in closed form.
    Source: [nguyen2022fourierformer]_ eq. 12.

    Parameters
    ----------
    phi : callable
        Vectorised φ on [-0.2173, 1] (the range of sinc), with φ(0) = 0.
    name : str
        Shown in tables.

    Raises
    ------
    ValueError
        If φ(0) is not 0, φ is not finite, φ(sinc u) is not integrable, or its peak is narrower than
        0.0052, as that of z^l beyond l = 150,000.

    Examples
    --------
    >>> kernel = PhiKernel(lambda z: z**4)
    >>> round(kernel.constant, 6), kernel.order, kernel.support
    (2.094395, 2.0, 4.0)
    """

    phi: PhiFunction
    name: str = "phi"

    def __post_init__(self) -> None:
        if not callable(self.phi):
            raise TypeError(f"phi must be a function of an array, got {self.phi!r}")
        values = np.asarray(self.phi(np.array([_SINC_LEAST, 0.0, 0.5, 1.0])), float)
        if values.shape != (4,) or not np.isfinite(values).all():
            raise ValueError(f"phi must be finite on [{_SINC_LEAST:.4f}, 1], got {values}")
        if abs(values[1]) > 1e-14:
            raise ValueError(f"phi must be 0 at 0 for an integrable kernel, got {values[1]}")
        if not self._split.integral > 0:
            raise ValueError(f"phi must give a positive integral, got {self._split.integral}")

    @property
    def constant(self) -> float:
        """∫ φ(sinc u) du."""
        return self._split.integral

    @property
    def error(self) -> float:
        """Bound on the error of `constant`, and of `transform` times `constant`."""
        return self._split.error

    @cached_property
    def lowest_power(self) -> float:
        """L in φ(z) ~ |z|^l near 0, so that |K(u)| falls like |u|^{-l}; to two digits."""
        near, nearer = (np.abs(self.phi(np.array([-z, z]))).max() for z in (2e-3, 1e-3))
        return round(math.log2(near / nearer), 2)

    @cached_property
    def order(self) -> float:
        """How 1 - K̂ starts at 0; infinite if it is noise.

        Where φ(sinc u) has a mean over its periods like u^{-p}, p < 3, that is p - 1 (and for p = 3
        it is 2 but for a logarithm); else it is the slope of the gap, to the nearest half.
        """
        if self._split.mean_power <= 3.0:
            return self._split.mean_power - 1.0
        gap = self.gap(np.array([1 / 16, 1 / 32]))
        if abs(gap[0]) < 10 * max(self.error / self.constant, 1e-14):
            return math.inf
        return round(2.0 * math.log2(abs(gap[0] / gap[1]))) / 2.0

    @cached_property
    def second_moment(self) -> float:
        """∫ u² K(u) du = -K̂''(0); 0 above order 2, infinite below."""
        if self.order != 2:
            return 0.0 if self.order > 2 else math.inf
        return self._split.second_moment / self.constant

    @cached_property
    def roughness(self) -> float:
        """∫ K², by the same splitting of φ²."""
        return _PhiSplit(lambda z: np.square(self.phi(z))).integral / self.constant**2

    @property
    def support(self) -> float:
        """The degree if φ is a polynomial, else infinite."""
        return self._split.degree if self._split.is_polynomial else math.inf

    @property
    def cutoff(self) -> float:
        """The support; if it is infinite 24, or a multiple of it for a narrow peak at u = 0.

        The transform is taken as zero beyond: that of a peak is below 1e-9 there, that of kinks
        of φ need not be.
        """
        return min(self.support, _CUTOFF * self._split.fineness)

    @property
    def knots(self) -> tuple[float, ...]:
        """Every integer up to the cutoff: knots of even and odd powers may both be present."""
        return tuple(float(k) for k in range(1, int(self.cutoff) + 1))

    @cached_property
    def nonnegative(self) -> bool:
        """Checked on a grid of the range of sinc."""
        return is_nonnegative(self.phi)

    def value(self, u: ArrayLike) -> FloatArray:
        """φ(sinc u)/A, elementwise."""
        return self.phi(sinc(u)) / self.constant

    def transform(self, s: ArrayLike) -> FloatArray:
        """∫ φ(sinc u) cos(su) du / A up to the cutoff, to within `error` / `constant`."""
        size = np.abs(np.asarray(s, float))
        inside = self._split.cosine_integral(np.minimum(size, self.cutoff)) / self.constant
        return np.where(size <= self.cutoff, inside, 0.0)

    def gap(self, s: ArrayLike) -> FloatArray:
        """Return 1 - K̂(s): the same integral with 1 - cos(su) in place of the cosine."""
        size = np.abs(np.asarray(s, float))
        inside = self._split.gap_integral(np.minimum(size, self.cutoff)) / self.constant
        return np.where(size <= self.cutoff, inside, 1.0)

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|φ(sinc u)|, sign)."""
        return log_and_sign(self.phi(sinc(u)))

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        """Largest change of φ over the error of sinc u, relative to φ."""
        return noise_of(self.phi, u, u_error)

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Sum of the slopes of the sinc powers: for a polynomial φ only."""
        parts = [(c, kernel.log_slope(u)) for c, kernel in self._powers()]
        slope = sum((c * sign * np.exp(log) for c, (log, sign) in parts), np.zeros(np.shape(u)))
        return log_and_sign(slope)

    def cumulative(self, u: ArrayLike) -> FloatArray:
        """Sum of the integrals of the sinc powers: for a polynomial φ only."""
        parts = [c * kernel.constant * kernel.cumulative(u) for c, kernel in self._powers()]
        return np.asarray(sum(parts) / self.constant)

    @property
    def squared(self) -> tuple[Kernel, float]:
        """φ² at the same u."""
        return PhiKernel(lambda z: np.square(self.phi(z)), f"{self.name}-squared"), 1.0

    def _powers(self) -> list[tuple[float, FourierKernel]]:
        if not self._split.is_polynomial:
            raise ValueError(
                "phi must be a polynomial of degree at most 12 for slopes and cumulative "
                f"distributions, got kernel {self.name!r}"
            )
        coefficients = enumerate(self._split.coefficients, start=1)
        return [(float(c), FourierKernel(power)) for power, c in coefficients if c]

    @cached_property
    def _split(self) -> "_PhiSplit":
        return _PhiSplit(self.phi)


class _PhiSplit:
    """∫ φ(sinc u) cos(su) du = Σ c_l A_l K̂_l(s) + the integral of ρ over half-periods."""

    def __init__(self, phi: PhiFunction) -> None:
        self._phi = phi
        self._nodes, self._weighted_rest = np.zeros(0), np.zeros(0)
        misfit = self._fit_polynomial()
        self.is_polynomial = misfit is not None
        self.error = 1e-14 if misfit is None else 1e-14 + misfit * math.pi
        self._sides: tuple[Side, ...] = sides(phi) if misfit is None else ()
        self.mean_power = mean_power(self._sides)
        self.fineness = 1 if self._sides or misfit is not None else fineness_of(phi)
        if self._sides:
            self.coefficients = np.zeros(1)
            self.error += self._integrate_power()
        elif misfit is None:
            # A low power that only the truncation brings in would have a false, slow tail.
            self.coefficients = self._fit(-0.05, 0.05, 8, noise=1e-6)
            try:
                self.error += self._integrate_rest()
            except ValueError:  # a kink at 0 is no polynomial: without one, φ itself may decay
                self.coefficients = np.zeros(1)
                self.error += self._integrate_rest()
        if misfit is None:
            self.error += self._rounding()
        self.degree = float(len(self.coefficients))
        self.integral = float(self.cosine_integral(np.zeros(())))

    @property
    def second_moment(self) -> float:
        """∫ u² φ(sinc u) du; infinite if the part beyond the last half-period is not small."""
        moments = [
            coefficient * FourierKernel(power).constant * FourierKernel(power).second_moment
            for power, coefficient in enumerate(self.coefficients, start=1)
            if coefficient and power > 2  # below, only noise can be left in a kernel of order 2
        ]
        rest = self._weighted_rest * np.square(self._nodes)
        if self._sides:
            if self.mean_power <= 3.0:
                return math.inf
            tail = cosine_tail(self._sides, _HALF_PERIODS * math.pi, np.zeros(()), times=2.0)
            return float(2.0 * (rest.sum() + tail))
        far = np.abs(rest[len(rest) // 2 :]).sum()
        total = float(math.fsum(moments) + 2.0 * rest.sum())
        return math.inf if far > 1e-3 * abs(total) else total

    def cosine_integral(self, s: FloatArray) -> FloatArray:
        return self._integral(s, FourierKernel.transform, np.cos) + 2.0 * self._tail(s)

    def gap_integral(self, s: FloatArray) -> FloatArray:
        """∫ φ(sinc u) (1 - cos su) du, which does not cancel near s = 0."""
        near = self._integral(s, FourierKernel.gap, lambda x: 2.0 * np.square(np.sin(0.5 * x)))
        return near + 2.0 * (self._tail(np.zeros(())) - self._tail(s))

    def _tail(self, s: FloatArray) -> FloatArray:
        """∫ φ(sinc u) cos(su) du beyond the last half-period, for a φ that is a power next to 0."""
        return cosine_tail(self._sides, _HALF_PERIODS * math.pi, s)

    def _integral(
        self,
        s: FloatArray,
        part: Callable[[FourierKernel, FloatArray], FloatArray],
        wave: PhiFunction,
    ) -> FloatArray:
        total = np.zeros(s.shape)
        for power, coefficient in enumerate(self.coefficients, start=1):
            kernel = FourierKernel(power)
            total = total + coefficient * kernel.constant * part(kernel, s)
        flat, (nodes, weights) = np.ravel(s), self._felt
        blocks = np.array_split(flat, 1 + flat.size * nodes.size // 2**22)
        rest = [wave(np.outer(block, nodes)) @ weights for block in blocks]
        return np.asarray(total + 2.0 * np.concatenate(rest).reshape(s.shape))

    @cached_property
    def _felt(self) -> tuple[FloatArray, FloatArray]:
        """Return the nodes, and weighted ρ there, without those far below rounding."""
        size = np.abs(self._weighted_rest)
        felt = size > np.finfo(float).eps ** 2 * size.sum()
        return self._nodes[felt], self._weighted_rest[felt]

    def _fit_polynomial(self) -> float | None:
        """Set the coefficients of the lowest degree that gives φ to rounding; return the misfit."""
        grid = np.linspace(_SINC_LEAST, 1.0, 2001)
        scale = float(np.abs(self._phi(grid)).max())
        for degree in range(1, _POLYNOMIAL_DEGREE + 1):
            self.coefficients = self._fit(_SINC_LEAST, 1.0, degree, noise=1e-12)
            misfit = float(np.abs(self._rest(grid)).max())
            if misfit <= 1e-13 * scale:
                return misfit
        return None

    def _fit(self, low: float, high: float, degree: int, noise: float) -> FloatArray:
        """Coefficients c_1..c_degree of P(z) = Σ c_l z^l near φ, those in the noise set to zero."""
        angle = math.pi * (np.arange(64) + 0.5) / 64
        z = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle)
        powers = z[:, None] ** np.arange(degree)  # for φ(z)/z, so that P(0) = 0
        size = np.abs(powers).max(axis=0)
        fit = np.linalg.lstsq(powers / size, self._phi(z) / z, rcond=1e-15)[0]
        return np.where(np.abs(fit) < noise * np.abs(fit).max(), 0.0, fit / size)

    def _rest(self, z: FloatArray) -> FloatArray:
        powers = z[:, None] ** np.arange(1, len(self.coefficients) + 1)
        return np.asarray(self._phi(z) - powers @ self.coefficients)

    def _integrate_rest(self) -> float:
        """Set nodes and weighted ρ on the first half-periods; return a bound on what is missed.

        That is the tail, geometric as each octave is a fraction of the one below, and four times
        what finer panels change: nothing for a smooth φ, the error of the rule for one with kinks.
        """
        panels = _PANELS * self.fineness
        self._nodes, self._weighted_rest = self._rule(panels)
        total = self._weighted_rest.sum()
        finer = (float(self._rule(k * panels)[1].sum() - total) for k in (2, 3))
        missed = 8.0 * max(map(abs, finer))  # both half-lines
        octaves = np.split(np.abs(self._weighted_rest), len(self._nodes) // np.array([4, 2]))
        before, last = (2.0 * float(octave.sum()) for octave in octaves[1:])
        if last <= 1e-11 * float(self._phi(np.ones(1))[0]):  # rounding of φ, which does not decay
            return missed + last
        if last >= 0.9 * before:
            raise ValueError("phi must vanish at 0 fast enough for phi(sinc u) to be integrable")
        return missed + last * last / (before - last)

    def _integrate_power(self) -> float:
        """Set nodes and weighted φ on the first half-periods; return a bound on what is missed."""
        if min(side.power for side in self._sides) <= 1.0:
            raise ValueError("phi must vanish at 0 fast enough for phi(sinc u) to be integrable")
        self._nodes, self._weighted_rest = self._power_rule(_PANELS)
        total = self._weighted_rest.sum()
        finer = (float(self._power_rule(k * _PANELS)[1].sum() - total) for k in (2, 3))
        missed = 8.0 * max(map(abs, finer))
        return missed + tail_error(self._sides, _HALF_PERIODS * math.pi, self._phi)

    def _rounding(self) -> float:
        """Sixteen units of all that is summed: a steep P is large where sinc is, and cancels."""
        powers = enumerate(np.abs(self.coefficients), start=1)
        steep = sum(float(c) * FourierKernel(power).constant for power, c in powers if c)
        total = steep + 2.0 * float(np.abs(self._weighted_rest).sum())
        return float(16.0 * np.finfo(float).eps * total)

    def _power_rule(self, panels: int) -> tuple[FloatArray, FloatArray]:
        """As :meth:`_rule`, with the nodes of Gauss-Jacobi where sinc u passes through 0."""
        half = 0.5 * math.pi / panels
        place = np.tile(_PANEL_NODES, (_HALF_PERIODS, panels, 1))
        weight = np.tile(_PANEL_WEIGHTS, (_HALF_PERIODS, panels, 1))
        for side in self._sides:
            z, share = special.roots_jacobi(len(_PANEL_NODES), 0.0, side.power)
            share = share * (1.0 + z) ** -side.power
            lobes = slice(0 if side.sign > 0 else 1, None, 2)
            place[lobes, -1], weight[lobes, -1] = -z, share
            starts = slice(2 if side.sign > 0 else 1, None, 2)  # not at u = 0, where sinc is 1
            place[starts, 0], weight[starts, 0] = z, share
        lobe = math.pi * np.arange(_HALF_PERIODS)[:, None, None]
        middle = half * (2.0 * np.arange(panels) + 1.0)[:, None]
        nodes = (lobe + middle + half * place).ravel()
        return nodes, half * weight.ravel() * self._rest(sinc(nodes))

    def _rule(self, panels: int) -> tuple[FloatArray, FloatArray]:
        """Return nodes on the first half-periods, and their weights times ρ."""
        count, half = panels * _HALF_PERIODS, 0.5 * math.pi / panels
        middle = half * (2.0 * np.arange(count) + 1.0)
        nodes = (middle[:, None] + half * _PANEL_NODES).ravel()
        return nodes, np.tile(half * _PANEL_WEIGHTS, count) * self._rest(sinc(nodes))
