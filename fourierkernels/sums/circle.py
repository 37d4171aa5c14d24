"""Fourier series on a circle: of the sum over a kernel's images, finite and exact.

The coefficients are the values of K̂ at the frequencies of the circle, whatever the range of the
data. Slopes and integrals multiply and divide them, moments shift them: the offset of a moment is
the chord (p/2π) sin(2πu/p), which moves a mode to its two neighbours [dimarzio2009local]_.
"""

import math

import numpy as np

from fourierkernels.foundation.arrays import ComplexArray
from fourierkernels.kernels import Kernel, PeriodicKernel
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.series import Series, fourier_series


def series_of(
    kernel: Kernel,
    radius: float,
    reach: float,
    period: float,
    *,
    tol: float,
    part: str,
    moment: int,
) -> Series:
    """Return the series of a part of the kernel for one dimension, a line or a circle.

    Parameters
    ----------
    reach : float
        On a line, the largest difference of a query and a point.
    period : float
        Infinite for a line.
    part, moment
        As for :func:`fourierkernels.sums.series.fourier_series`.
    """
    if math.isinf(period):
        return fourier_series(kernel, radius, reach, tol=tol, part=part, moment=moment)
    power = PARTS[part].moment
    half = PeriodicKernel(kernel, radius * period).coefficients
    reached = len(half) - 1 + max(moment, power)
    modes = np.arange(-reached - 1, reached + 1)  # the first has no partner, and stays 0
    coefficients: ComplexArray = np.zeros(len(modes), np.complex128)
    inside = np.abs(modes) < len(half)
    coefficients[inside] = half[np.abs(modes[inside])]
    for _ in range(power):
        coefficients = _times_chord(coefficients, radius * period)
    turns = 2j * math.pi / (radius * period) * modes
    if PARTS[part].radius_power == 2:
        coefficients = turns * coefficients
    if part == "cumulative":
        coefficients = np.divide(coefficients, turns, where=modes != 0, out=0.0 * coefficients)
    even = power + (PARTS[part].radius_power != 1)
    if even % 2:
        return Series(period, np.asarray(coefficients, np.complex128))
    return Series(period, np.asarray(coefficients.real, np.float64))


def _times_chord(coefficients: ComplexArray, period: float) -> ComplexArray:
    """Multiply by (p/2π) sin(2πu/p) = (p/4πi) (exp(2πiu/p) - exp(-2πiu/p))."""
    shifted = np.zeros_like(coefficients)
    shifted[1:] += coefficients[:-1]
    shifted[:-1] -= coefficients[1:]
    return np.asarray(shifted * (period / (4j * math.pi)))
