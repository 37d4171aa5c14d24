"""Fourier series of a kernel on a period just over twice the range of the data.

The kernel is multiplied by a window, 1 on all differences that occur, then a ramp to 0 whose
spectrum ends soon: the integral of a bump of Kaiser and Bessel, which for its width needs half of
the band of a ramp that is an error function. The Gaussian decays, and is periodised instead.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy import fft, special

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import GaussianKernel, Kernel
from fourierkernels.sums.parts import PARTS

_LEAST_TOLERANCE = 1e-16  # of the window; below it is rounding
_DEGREE = 160  # of the bump: far beyond what its exponent needs at 1e-16
_SPARE = 2.0  # of the exponent: the bump ends with a small step, whose spectrum falls slowly


class Series(NamedTuple):
    """A Fourier series in one dimension: Σ_k coefficients_k exp(2πi k x / period), k centred.

    The modes are the last axis of the coefficients.
    """

    period: float
    coefficients: NDArray[np.float64] | NDArray[np.complex128]


def fourier_series(
    kernel: Kernel,
    radius: float,
    reach: float,
    *,
    tol: float,
    part: str = "value",
    moment: int = 0,
) -> Series:
    """Return a series that equals g(radius · x) for |x| <= `reach`, to about `tol`.

    Parameters
    ----------
    reach : float
        Largest difference of a query and a point.
    part : str
        What g is: a name of :data:`fourierkernels.sums.PARTS`.
    moment : int
        The highest moment that the period and the modes must serve, at least that of the part.
    """
    among, radii = (radius, radius), np.array([radius])
    table = series_table(kernel, radii, reach, tol=tol, part=part, moment=moment, among=among)
    return Series(table.period, table.coefficients[0])


def series_table(
    kernel: Kernel,
    radii: FloatArray,
    reach: float,
    *,
    among: tuple[float, float],
    tol: float,
    part: str = "value",
    moment: int = 0,
) -> Series:
    """Return the series of :func:`fourier_series` for several radii, ``(q,)``, on one grid.

    Parameters
    ----------
    among : (smallest, largest)
        Radii that the period must serve; the number of modes serves those that are given.

    Returns
    -------
    Series
        With coefficients of shape ``(q, modes)``.
    """
    smallest, largest = among
    reach = max(reach, 1e-3 / smallest)  # of one point it is 0, and a ramp needs a length
    tol = max(0.1 * tol, _LEAST_TOLERANCE)
    power = PARTS[part].moment
    grid = _Grid(radii[:, None], smallest, largest, reach, tol, max(moment, power))
    if part == "cumulative":
        return _cumulative_series(kernel, grid)
    series = _moment_series(kernel, grid, power)
    return _differentiated(series, grid.radii) if PARTS[part].radius_power == 2 else series


class _Grid(NamedTuple):
    """What the period and the modes of a series follow from, besides the kernel."""

    radii: FloatArray  # (q, 1)
    smallest: float
    largest: float
    reach: float
    tol: float
    moment: int

    @property
    def highest(self) -> float:
        """The largest of the radii themselves."""
        return float(self.radii.max())


def _moment_series(kernel: Kernel, grid: _Grid, power: int) -> Series:
    """Return the series of u^power shape(u): as band-limited as the shape, real or imaginary."""
    if isinstance(kernel, GaussianKernel):
        return _gaussian_series(grid, power)

    def moment(x: FloatArray) -> FloatArray:
        u = grid.radii * x
        return kernel.value(u) * (kernel.constant * u**power)

    period, spectrum = _windowed_spectrum(moment, kernel.cutoff, grid)
    return Series(period, _odd(spectrum.imag) if power % 2 else spectrum.real.copy())


def _odd(imaginary: FloatArray) -> NDArray[np.complex128]:
    """Return coefficients of an odd real function."""
    coefficients = np.zeros(imaginary.shape, np.complex128)
    coefficients.imag = imaginary
    coefficients[..., 0] = 0.0  # this mode has no partner to keep the function real
    return coefficients


def _differentiated(series: Series, radii: FloatArray) -> Series:
    """Multiply mode k by 2πik/period; in u, so over the radius."""
    period, coefficients = series
    modes = coefficients.shape[-1]
    factor = 2j * math.pi / (period * radii) * np.arange(-modes // 2, modes // 2)
    factor[..., 0] = 0.0  # as in an odd function
    return Series(period, np.asarray(factor * coefficients, np.complex128))


def _cumulative_series(kernel: Kernel, grid: _Grid) -> Series:
    """Window the integral from 0: it is odd, and band-limited but for a pole at frequency 0."""

    def integral(x: FloatArray) -> FloatArray:
        return kernel.constant * (kernel.cumulative(grid.radii * x) - 0.5)

    period, spectrum = _windowed_spectrum(integral, kernel.cutoff, grid)
    coefficients = _odd(spectrum.imag)
    coefficients[..., spectrum.shape[-1] // 2] = 0.5 * kernel.constant
    return Series(period, coefficients)


def _gaussian_series(grid: _Grid, power: int) -> Series:
    """Periodise: u^j exp(-u²/2) has decayed after `width` bandwidths, so nothing wraps around.

    Its transform is √(2π) (-i)^j He_j(s) exp(-s²/2), He_j the Hermite polynomial.
    """
    width = _gaussian_width(grid.tol, grid.moment)
    period = grid.reach + 1.05 * width / grid.smallest
    modes = _even(2.0 * width * grid.highest * period / (2.0 * math.pi))
    s = 2.0 * math.pi / (grid.radii * period) * np.arange(-modes // 2, modes // 2)
    scale = math.sqrt(2.0 * math.pi) / (grid.radii * period)
    size = scale * special.eval_hermitenorm(power, s) * np.exp(-0.5 * s * s)
    if power % 2:
        return Series(period, _odd(-size if power % 4 == 1 else size))
    return Series(period, -size if power % 4 == 2 else size)


def _gaussian_width(tol: float, moment: int) -> float:
    """Return where u^j exp(-u²/2) is below tol times its largest value."""
    width = math.sqrt(2.0 * math.log(1.0 / tol))
    peak = 0.5 * moment * (math.log(moment) - 1.0) if moment else 0.0
    for _ in range(4 if moment else 0):  # each step is a contraction
        width = math.sqrt(2.0 * (math.log(1.0 / tol) + moment * math.log(width) - peak))
    return width


def _windowed_spectrum(
    function: Callable[[FloatArray], FloatArray], cutoff: float, grid: _Grid
) -> tuple[float, NDArray[np.complex128]]:
    """Sample functions of x, times the window, on one period and take the FFT, ``(q, modes)``.

    The window falls from 1 to 0 on a ramp beyond `reach`; the shorter the ramp, the wider its band.
    The ramp that needs the fewest modes is the geometric mean of the two lengths.
    """
    extra, reach = ramp_band(grid.tol), grid.reach
    ramp = math.sqrt(2.0 * reach * extra / (cutoff * grid.largest))
    period = 2.0 * reach + ramp
    modes = _even((cutoff * grid.highest + extra / ramp) * period / math.pi)
    size = fft.next_fast_len(2 * modes, real=True)
    x = period / size * np.arange(-(size // 2), size - size // 2, dtype=np.float64)

    def windowed(x: FloatArray) -> FloatArray:
        return function(x) * window((np.abs(x) - reach) / ramp, grid.tol)

    wrapped = windowed(x) + windowed(np.where(x >= 0, x - period, x + period))
    spectrum = fft.fftshift(fft.fft(fft.ifftshift(wrapped, axes=-1)), axes=-1) / size
    first = size // 2 - modes // 2
    return period, spectrum[..., first : first + modes]


def _even(modes: float) -> int:
    return 2 * math.ceil(0.5 * modes) + 4


# ---- the window ----------------------------------------------------------------------------------


def ramp_band(tol: float) -> float:
    """Return t · width beyond which the spectrum of a ramp of that width is below `tol`."""
    return 2.0 * _exponent(tol)


def window(u: FloatArray, tol: float) -> FloatArray:
    """Return 1 for u <= 0, a smooth ramp to 0 at u = 1, and 0 beyond; shape of `u`.

    Examples
    --------
    >>> window(np.array([-3.0, 0.5, 2.0]), 1e-12).round(12)
    array([1. , 0.5, 0. ])
    """
    values = np.where(u <= 0.0, 1.0, 0.0)
    inside = (u > 0.0) & (u < 1.0)
    values[inside] = chebyshev.chebval(2.0 * u[inside] - 1.0, _ramp(tol))
    return values


@lru_cache(maxsize=32)
def _ramp(tol: float) -> FloatArray:
    """Chebyshev coefficients on [-1, 1] of 1 - ∫_{-1}^t bump / ∫_{-1}^1 bump."""
    exponent = _exponent(tol)

    def bump(t: FloatArray) -> FloatArray:
        size = exponent * np.sqrt(1.0 - t * t)
        return np.asarray(special.i0e(size) * np.exp(size - exponent))

    series: FloatArray = chebyshev.chebinterpolate(bump, _DEGREE)  # type: ignore[arg-type]
    series = series[: 1 + int(np.flatnonzero(np.abs(series) > 1e-17 * np.abs(series).max())[-1])]
    integral = chebyshev.chebint(series, lbnd=-1)
    return np.asarray(chebyshev.chebsub([1.0], integral / chebyshev.chebval(1.0, integral)))


def _exponent(tol: float) -> float:
    return math.log(1.0 / tol) + _SPARE
