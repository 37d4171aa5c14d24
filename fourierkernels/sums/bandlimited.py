"""Band-limited sums: a nonuniform FFT, O((n + m) log) where the direct sum is O(n m).

K̂ has compact support, so K times a smooth window is a short Fourier series on a period just over
twice the range of the data. The window is 1 on all differences that occur, so the series is exact
there although the kernel itself has not decayed ("windowed periodisation"); plain periodisation
would need thousands of periods for l <= 4. The sum is then: type-1 transform of the weights,
times the coefficients, type-2 transform to the queries [barnett2019finufft]_.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import finufft
import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from fourierkernels.arrays import FloatArray
from fourierkernels.kernels import GaussianKernel, Kernel
from fourierkernels.sums.box import Box
from fourierkernels.sums.result import KernelSums

_EPS = float(np.finfo(float).eps)
_LEAST_TOLERANCE = 1e-16  # of the window; below it is rounding
_TRANSFORMS = {
    1: (finufft.nufft1d1, finufft.nufft1d2),
    2: (finufft.nufft2d1, finufft.nufft2d2),
    3: (finufft.nufft3d1, finufft.nufft3d2),
}


Grid = tuple[tuple[float, int], ...]  # period and number of modes, per dimension


class Series(NamedTuple):
    """A Fourier series in one dimension: Σ_k coefficients_k exp(2πi k x / period), k centred."""

    period: float
    coefficients: NDArray[np.float64] | NDArray[np.complex128]


class BandlimitedSum:
    """Sums in frequency; arguments as :class:`fourierkernels.sums.SampleSum` passes them.

    The error of every sum is below `tol` (plus the rounding of the phases of high modes) times the
    largest sum; `error` states it. It is absolute: small sums are known to fewer digits.

    The type-1 transform of the samples and the series of the kernel are kept for further blocks of
    queries; `box` contains the samples and all queries.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        box: Box,
        tol: float = 1e-12,
    ) -> None:
        self._points, self._kernel, self._radius, self._tol = points, kernel, radius, tol
        self._columns = 1 + responses.shape[1]
        self._pairs = _pairs(weights, responses)
        self._spans = box.spans
        self._centre = 0.5 * np.array(box.low) + 0.5 * np.array(box.high)
        self._series: dict[tuple[str, ...], list[Series]] = {}
        self._spectra: dict[Grid, NDArray[np.complex128]] = {}

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)`` within the box."""
        series = self._series_of(parts)
        sums, peak = self._evaluate(queries, series)
        real = sums.view(np.float64)[:, : self._columns]  # one column's sum in each real part
        accuracy = self._tol + 0.25 * _EPS * sum(len(s.coefficients) for s in series)
        size = accuracy * max(peak, float(np.abs(real[:, 0]).max()))
        error, exponent = np.broadcast_to(size, len(real)), np.broadcast_to(0, len(real))
        return KernelSums(real[:, 1:].copy(), real[:, 0].copy(), error, exponent)

    def _series_of(self, parts: tuple[str, ...]) -> list[Series]:
        if parts not in self._series:
            self._series[parts] = [
                fourier_series(self._kernel, float(r), float(span), tol=self._tol, part=part)
                for r, span, part in zip(self._radius, self._spans, parts, strict=True)
            ]
        return self._series[parts]

    def _evaluate(
        self, queries: FloatArray, series: list[Series]
    ) -> tuple[NDArray[np.complex128], float]:
        """Return the sums, shape ``(m, pairs)``, and the root mean square of the first."""
        grid = tuple((s.period, len(s.coefficients)) for s in series)
        if grid not in self._spectra:
            self._spectra[grid] = self.transformed(grid)
        spectrum = self._spectra[grid] * math.prod(np.ix_(*(s.coefficients for s in series)))
        backward = _TRANSFORMS[len(grid)][1]
        sums = backward(*self._phases(queries, grid), spectrum, isign=1, **self._options)
        power = np.square(spectrum[0].real) + np.square(spectrum[0].imag)
        return np.ascontiguousarray(np.atleast_2d(sums).T), math.sqrt(power.sum())

    def transformed(self, grid: Grid) -> NDArray[np.complex128]:
        """Return the type-1 transform of the samples, shape ``(pairs, *modes)``."""
        modes = tuple(count for _, count in grid)
        forward, phases = _TRANSFORMS[len(grid)][0], self._phases(self._points, grid)
        spectrum: NDArray[np.complex128] = forward(
            *phases, self._pairs, modes, isign=-1, **self._options
        )
        return spectrum

    def _phases(self, points: FloatArray, grid: Grid) -> list[FloatArray]:
        return [
            (column - middle) * (2.0 * math.pi / period)
            for column, middle, (period, _) in zip(points.T, self._centre, grid, strict=True)
        ]

    @property
    def _options(self) -> dict[str, float]:
        # One thread: below about 1e6 points the threads of finufft mostly wait for each other.
        return {"eps": max(0.1 * self._tol, 1e-14), "nthreads": 1}


def fourier_series(
    kernel: Kernel, radius: float, reach: float, *, tol: float, part: str = "value"
) -> Series:
    """Return a series that equals g(radius · x) for |x| <= `reach`, to about `tol`.

    Parameters
    ----------
    reach : float
        Largest difference of a query and a point.
    part : {"value", "slope", "cumulative"}
        What g is: the shape, its slope in u, or its integral from -∞.
    """
    reach = max(reach, 1e-3 / radius)
    tol = max(0.1 * tol, _LEAST_TOLERANCE)
    return _SERIES[part](kernel, radius, reach, tol)


def _value_series(kernel: Kernel, radius: float, reach: float, tol: float) -> Series:
    if isinstance(kernel, GaussianKernel):
        return _gaussian_series(radius, reach, tol)

    def shape(x: FloatArray) -> FloatArray:
        return kernel.value(radius * x) * kernel.constant

    period, spectrum = _windowed_spectrum(shape, kernel.cutoff * radius, reach, tol)
    return Series(period, spectrum.real.copy())


def _slope_series(kernel: Kernel, radius: float, reach: float, tol: float) -> Series:
    """Multiply mode k by 2πik/period; in u, so over the radius."""
    period, coefficients = _value_series(kernel, radius, reach, tol)
    modes = len(coefficients)
    factor = 2j * math.pi / (period * radius) * np.arange(-modes // 2, modes // 2)
    factor[0] = 0.0  # this mode has no partner to keep the slope real
    return Series(period, factor * coefficients)


def _cumulative_series(kernel: Kernel, radius: float, reach: float, tol: float) -> Series:
    """Window the integral from 0: it is odd, and band-limited but for a pole at frequency 0."""

    def integral(x: FloatArray) -> FloatArray:
        return kernel.constant * (kernel.cumulative(radius * x) - 0.5)

    period, spectrum = _windowed_spectrum(integral, kernel.cutoff * radius, reach, tol)
    coefficients = np.zeros(len(spectrum), np.complex128)
    coefficients.imag = spectrum.imag
    coefficients[0] = 0.0
    coefficients[len(spectrum) // 2] = 0.5 * kernel.constant
    return Series(period, coefficients)


_SERIES: dict[str, Callable[[Kernel, float, float, float], Series]] = {
    "value": _value_series,
    "slope": _slope_series,
    "cumulative": _cumulative_series,
}


def _gaussian_series(radius: float, reach: float, tol: float) -> Series:
    """Periodise: the Gaussian has decayed after `width` bandwidths, so nothing wraps around."""
    width = math.sqrt(2.0 * math.log(1.0 / tol))
    period = reach + 1.05 * width / radius
    modes = _even(2.0 * width * radius * period / (2.0 * math.pi))
    s = 2.0 * math.pi / (radius * period) * np.arange(-modes // 2, modes // 2)
    scale = math.sqrt(2.0 * math.pi) / (radius * period)
    return Series(period, scale * np.exp(-0.5 * s * s))


def _windowed_spectrum(
    function: Callable[[FloatArray], FloatArray], band: float, reach: float, tol: float
) -> tuple[float, NDArray[np.complex128]]:
    """Sample a function of this band, times the window, on one period and take the FFT.

    The window ½ erfc(2a(u - ½)), u = (|x| - reach)/ramp, falls from 1 to 0 with error ½ erfc(a);
    its spectrum decays as exp(-(t · ramp / 4a)²), which sets the extra band. The ramp that needs
    the fewest modes is the geometric mean of the two lengths.
    """
    a = float(special.erfcinv(2.0 * tol))
    extra = 4.0 * a * math.sqrt(math.log(1.0 / tol))  # t · ramp at which that spectrum is gone
    ramp = math.sqrt(2.0 * reach * extra / band)
    period = 2.0 * reach + ramp
    modes = _even((band + extra / ramp) * period / math.pi)
    size = fft.next_fast_len(2 * modes, real=True)
    x = period / size * np.arange(-(size // 2), size - size // 2, dtype=np.float64)

    def windowed(x: FloatArray) -> FloatArray:
        u = (np.abs(x) - reach) / ramp
        window = 0.5 * special.erfc(2.0 * a * (u - 0.5))
        return np.where(u < 1.0, function(x) * window, 0.0)

    wrapped = windowed(x) + windowed(np.where(x >= 0, x - period, x + period))
    spectrum = fft.fftshift(fft.fft(fft.ifftshift(wrapped))) / size
    first = size // 2 - modes // 2
    return period, spectrum[first : first + modes]


def _pairs(weights: FloatArray, responses: FloatArray) -> NDArray[np.complex128]:
    """Two real columns travel as one complex one: the kernel is real, so they do not mix."""
    pairs = np.zeros((responses.shape[1] // 2 + 1, len(weights)), np.complex128)
    pairs[0].real = weights
    for k, column in enumerate(responses.T, start=1):
        half = pairs[k // 2].imag if k % 2 else pairs[k // 2].real
        np.multiply(column, weights, out=half)
    return pairs


def _even(modes: float) -> int:
    return 2 * math.ceil(0.5 * modes) + 4
