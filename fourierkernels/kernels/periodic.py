"""Kernels on a circle: K_p(u) = Σ_k K(u + kp), the sum over all images of a sample, p = R P.

By Poisson's formula it is the Fourier series with the coefficients K̂(2πm/p)/p, finite where K̂ has
compact support: for the powers of the sinc, the kernels of Dirichlet, Fejér and Jackson and de la
Vallée Poussin where p is a multiple of 2π, and between these at other radii. For l = 1, whose sum
over images converges only conditionally, the series is the definition. Where a frequency falls on a
jump of K̂, as for l = 1 at the end of the band, it counts with the mean of both sides, half, which
is what sums over symmetric ranges of images tend to.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels.kernel import GaussianKernel, Kernel

_EPS = float(np.finfo(float).eps)
_EDGE = 16 * _EPS  # relative distance from a jump at which a frequency counts as on it
_LARGEST = 2**22  # harmonics
_FEW = 2.5  # period from which a sum over a few images of the Gaussian is exact, relative too
_GONE = 37.0  # exp(-37) < 1e-16


def harmonics(kernel: Kernel, period: float) -> FloatArray:
    """Return K̂(2πm/period) for m = 0, 1, ... up to the end of the band; at a jump the mean.

    Raises
    ------
    ValueError
        For more than 2^22 of them.

    Examples
    --------
    >>> from fourierkernels.kernels import FourierKernel
    >>> harmonics(FourierKernel(1), 4 * math.pi)
    array([1. , 1. , 0.5])
    """
    s = frequencies(kernel, period)
    return _at(kernel, s, kernel.transform(s), kernel.transform)


def gaps(kernel: Kernel, period: float) -> FloatArray:
    """Return 1 - K̂(2πm/period) for the same m, to full relative accuracy where it is small."""
    s = frequencies(kernel, period)
    return _at(kernel, s, kernel.gap(s), kernel.gap)


def frequencies(kernel: Kernel, period: float) -> FloatArray:
    """Return 2πm/period for m = 0, 1, ... up to the end of the band."""
    count = kernel.cutoff * period / (2.0 * math.pi) * (1.0 + _EDGE)
    if not count <= _LARGEST:
        raise ValueError(
            f"radius must be such that at most {_LARGEST} frequencies of the circle lie within the "
            f"band of the kernel, got {count:.3g}"
        )
    return np.asarray(2.0 * math.pi / period * np.arange(math.floor(count) + 1), float)


def _at(kernel: Kernel, s: FloatArray, values: FloatArray, function: Any) -> FloatArray:
    values = np.array(values)
    for knot in kernel.knots:
        near = np.abs(s - knot) <= _EDGE * knot
        if near.any():
            sides = np.array([knot * (1.0 - 4.0 * _EDGE), knot * (1.0 + 4.0 * _EDGE)])
            values[near] = function(sides).mean()
    return values


@dataclass(frozen=True)
class PeriodicKernel:
    """The sum over images of a kernel; facts that are not here are those of the kernel itself.

    Parameters
    ----------
    kernel : Kernel
    period : float
        In units of u: radius times the period of the data.

    Examples
    --------
    >>> from fourierkernels.kernels import FourierKernel
    >>> fejer = PeriodicKernel(FourierKernel(2), 4 * math.pi)  # coefficients 1, 3/4, 1/2, 1/4
    >>> fejer.value([0.0, 2 * math.pi]).round(12) * 4 * math.pi
    array([4., 0.])
    """

    kernel: Kernel
    period: float

    def __getattr__(self, name: str) -> Any:
        """Facts of the kernel."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "kernel"), name)

    @cached_property
    def coefficients(self) -> FloatArray:
        """Fourier coefficients of the shape, m = 0, 1, ...; those of -m are the same."""
        return harmonics(self.kernel, self.period) * (self.kernel.constant / self.period)

    def value(self, u: ArrayLike) -> FloatArray:
        """K_p(u)."""
        log, sign = self.log_shape(u)
        return np.asarray(sign * np.exp(log) / self.kernel.constant)

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|shape|, sign), of the Gaussian to full relative accuracy."""
        if self._has_images:
            log, shares, _ = self._images(u)
            return log + np.log(shares.sum(axis=-1)), np.ones_like(log)
        return _log(self._series(u, self.coefficients))

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        """Bound on the relative error: of a series, that of the largest value."""
        error = np.asarray(u_error, float)
        if self._has_images:
            return np.asarray(np.abs(self._wrapped(u)) * error + 8.0 * _EPS)
        peak = self._peak * (self.kernel.cutoff * error + 8.0 * _EPS)
        log, _ = self.log_shape(u)
        return np.asarray(peak * np.exp(np.minimum(-log, 600.0)))

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|shape'|, sign of shape')."""
        if self._has_images:
            log, shares, places = self._images(u)
            size, sign = _log(-(shares * places).sum(axis=-1))
            return log + size, sign
        return _log(self._series(u, self._turns * self.coefficients))

    def cumulative(self, u: ArrayLike) -> FloatArray:
        """Return the integral of K_p - 1/p whose mean is zero: K_p itself gains 1 per period."""
        inverse = np.zeros(len(self.coefficients), np.complex128)
        inverse[1:] = self.coefficients[1:] / self._turns[1:]
        return self._series(u, inverse) / self.kernel.constant

    def chord(self, u: ArrayLike) -> FloatArray:
        """Return (p/2π) sin(2πu/p), the offset on a circle that stands for u in moments."""
        turn = 2.0 * math.pi / self.period
        return np.asarray(np.sin(turn * self._wrapped(u)) / turn)

    def chord_slope(self, u: ArrayLike) -> FloatArray:
        """Return cos(2πu/p), the derivative of the chord."""
        return np.asarray(np.cos(2.0 * math.pi / self.period * self._wrapped(u)))

    @property
    def _has_images(self) -> bool:
        return isinstance(self.kernel, GaussianKernel) and self.period >= _FEW

    @property
    def _peak(self) -> float:
        size = np.abs(self.coefficients)
        return float(2.0 * size.sum() - size[0])

    @property
    def _turns(self) -> NDArray[np.complex128]:
        """The factors 2πim/p of a derivative."""
        return np.asarray(2j * math.pi / self.period * np.arange(len(self.coefficients)))

    def _wrapped(self, u: ArrayLike) -> FloatArray:
        u = np.asarray(u, dtype=np.float64)
        return np.asarray(u - self.period * np.round(u / self.period))

    def _images(self, u: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the log of the nearest image, the others relative to it, and their places."""
        near, count = self._wrapped(u), 1
        while count * (count + 1) * self.period**2 < 2.0 * _GONE:
            count += 1
        places = near[..., None] + self.period * np.arange(-count, count + 1)
        log = -0.5 * np.square(near)
        return log, np.exp(-0.5 * np.square(places) - log[..., None]), places

    def _series(
        self, u: ArrayLike, coefficients: FloatArray | NDArray[np.complex128]
    ) -> FloatArray:
        """Return Re(c_0 + 2 Σ_m c_m exp(2πimu/p)), by Horner's rule."""
        wave = np.exp(2j * math.pi / self.period * self._wrapped(u))
        total = np.zeros_like(wave)
        for coefficient in coefficients[:0:-1]:
            total += coefficient
            total *= wave
        return np.asarray(coefficients[0].real + 2.0 * total.real)


def _log(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    with np.errstate(divide="ignore"):
        return np.log(np.abs(values)), np.sign(values)


def kernels_along(
    kernel: Kernel, radius: FloatArray, periods: FloatArray | None
) -> Sequence[Kernel]:
    """Return the kernel of each dimension: the sum over images where there is a finite period."""
    if periods is None:
        return [kernel] * len(radius)
    return [
        cast("Kernel", PeriodicKernel(kernel, float(r * p))) if np.isfinite(p) else kernel
        for r, p in zip(radius, periods, strict=True)
    ]


def wrapped(points: FloatArray, periods: FloatArray | None) -> FloatArray:
    """Return points ``(n, dim)`` with columns of a finite period in [0, period).

    Examples
    --------
    >>> wrapped(np.array([[25.0, 25.0], [-1.0, -1.0]]), np.array([24.0, np.inf]))
    array([[ 1., 25.],
           [23., -1.]])
    """
    if periods is None or not np.isfinite(periods).any():
        return points
    within = points.copy()
    for d in np.flatnonzero(np.isfinite(periods)):
        column = np.mod(points[:, d], periods[d])
        within[:, d] = np.where(column < periods[d], column, 0.0)  # of -1e-20 the rest is a period
    return within
