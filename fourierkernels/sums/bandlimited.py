"""Band-limited sums: a nonuniform FFT, O((n + m) log) where the direct sum is O(n m).

K̂ has compact support, so K times a smooth window is a short Fourier series on a period just over
twice the range of the data. The window is 1 on all differences that occur, so the series is exact
there although the kernel itself has not decayed ("windowed periodisation"); plain periodisation
would need thousands of periods for l <= 4. The sum is then: type-1 transform of the weights,
times the coefficients, type-2 transform to the queries [barnett2019finufft]_.
"""

import math
from typing import NamedTuple

import finufft
import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from fourierkernels.kernels import FloatArray, GaussianKernel, Kernel
from fourierkernels.sums.result import KernelSums

_EPS = float(np.finfo(float).eps)
_LEAST_TOLERANCE = 1e-16  # of the window; below it is rounding
_TRANSFORMS = {1: (finufft.nufft1d1, finufft.nufft1d2), 2: (finufft.nufft2d1, finufft.nufft2d2),
               3: (finufft.nufft3d1, finufft.nufft3d2)}  # fmt: skip


class Series(NamedTuple):
    """A Fourier series in one dimension: Σ_k coefficients_k exp(2πi k x / period), k centred."""

    period: float
    coefficients: FloatArray


def bandlimited_sums(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    at: FloatArray,
    *,
    kernel: Kernel,
    radius: FloatArray,
    tol: float = 1e-12,
) -> KernelSums:
    """Sum in frequency; arguments as checked by :func:`fourierkernels.sums.kernel_sum`.

    The error of every sum is below `tol` (plus the rounding of the phases of high modes) times the
    largest sum; `error` states it. It is absolute: small sums are known to fewer digits.
    """
    low = np.minimum(points.min(axis=0), at.min(axis=0))
    high = np.maximum(points.max(axis=0), at.max(axis=0))
    centre = 0.5 * (low + high)
    series = [
        fourier_series(kernel, float(r), float(reach), tol=tol)
        for r, reach in zip(radius, high - low, strict=True)
    ]
    columns = np.column_stack([weights, responses * weights[:, None]])
    sums, peak = _transform(points - centre, _pairs(columns), at - centre, series, tol)
    real = sums.view(np.float64)[:, : columns.shape[1]]  # one column's sum in each real part
    accuracy = tol + 0.25 * _EPS * sum(len(s.coefficients) for s in series)
    error = np.full(len(at), accuracy * max(peak, float(np.abs(real[:, 0]).max())))
    return KernelSums(real[:, 1:].copy(), real[:, 0].copy(), error, np.zeros(len(at), np.int64))


def fourier_series(kernel: Kernel, radius: float, reach: float, *, tol: float) -> Series:
    """Return a series that equals shape(radius · x) for |x| <= `reach`, to about `tol`.

    Parameters
    ----------
    reach : float
        Largest difference of a query and a point.
    """
    reach = max(reach, 1e-3 / radius)
    tol = max(0.1 * tol, _LEAST_TOLERANCE)
    if isinstance(kernel, GaussianKernel):
        return _gaussian_series(radius, reach, tol)
    return _windowed_series(kernel, radius, reach, tol)


def _gaussian_series(radius: float, reach: float, tol: float) -> Series:
    """Periodise: the Gaussian has decayed after `width` bandwidths, so nothing wraps around."""
    width = math.sqrt(2.0 * math.log(1.0 / tol))
    period = reach + 1.05 * width / radius
    modes = _even(2.0 * width * radius * period / (2.0 * math.pi))
    s = 2.0 * math.pi / (radius * period) * np.arange(-modes // 2, modes // 2)
    scale = math.sqrt(2.0 * math.pi) / (radius * period)
    return Series(period, scale * np.exp(-0.5 * s * s))


def _windowed_series(kernel: Kernel, radius: float, reach: float, tol: float) -> Series:
    """Sample kernel times window on one period and take the FFT.

    The window ½ erfc(2a(u - ½)), u = (|x| - reach)/ramp, falls from 1 to 0 with error ½ erfc(a);
    its spectrum decays as exp(-(t · ramp / 4a)²), which sets the extra band. The ramp that needs
    the fewest modes is the geometric mean of the two lengths.
    """
    a = float(special.erfcinv(2.0 * tol))
    extra = 4.0 * a * math.sqrt(math.log(1.0 / tol))  # t · ramp at which that spectrum is gone
    band = kernel.cutoff * radius
    ramp = math.sqrt(2.0 * reach * extra / band)
    period = 2.0 * reach + ramp
    modes = _even((band + extra / ramp) * period / math.pi)
    size = fft.next_fast_len(2 * modes, real=True)
    x = period / size * np.arange(-(size // 2), size - size // 2, dtype=np.float64)

    def windowed(x: FloatArray) -> FloatArray:
        u = (np.abs(x) - reach) / ramp
        window = 0.5 * special.erfc(2.0 * a * (u - 0.5))
        return np.where(u < 1.0, kernel.value(radius * x) * kernel.constant * window, 0.0)

    wrapped = windowed(x) + windowed(np.where(x >= 0, x - period, x + period))
    spectrum = fft.fftshift(fft.fft(fft.ifftshift(wrapped))).real / size
    first = size // 2 - modes // 2
    return Series(period, np.ascontiguousarray(spectrum[first : first + modes]))


def _transform(
    points: FloatArray,
    columns: NDArray[np.complex128],
    at: FloatArray,
    series: list[Series],
    tol: float,
) -> tuple[NDArray[np.complex128], float]:
    """Return the sums, shape ``(m, pairs)``, and the root mean square of the first on a period."""
    forward, backward = _TRANSFORMS[len(series)]
    # One thread: below about 1e6 points the threads of finufft mostly wait for each other.
    options = {"eps": max(0.1 * tol, 1e-14), "nthreads": 1}
    scale = np.array([2.0 * math.pi / s.period for s in series])
    modes = tuple(len(s.coefficients) for s in series)
    spectrum = forward(*(points * scale).T.copy(), columns, modes, isign=-1, **options)
    spectrum *= math.prod(np.ix_(*(s.coefficients for s in series)))
    sums = backward(*(at * scale).T.copy(), spectrum, isign=1, **options)
    return np.ascontiguousarray(np.atleast_2d(sums).T), float(np.linalg.norm(spectrum[0]))


def _pairs(columns: FloatArray) -> NDArray[np.complex128]:
    """Two real columns travel as one complex one: the kernel is real, so they do not mix."""
    if columns.shape[1] % 2:
        columns = np.column_stack([columns, np.zeros(len(columns))])
    return np.ascontiguousarray(columns).view(np.complex128).T.copy()


def _even(modes: float) -> int:
    return 2 * math.ceil(0.5 * modes) + 4
