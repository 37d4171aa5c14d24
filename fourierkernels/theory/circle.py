"""Exact error of the density estimate on a circle, a sum over frequencies.

With the Fourier coefficients c_m of the density and w_m = K̂(2πm/(RP)) of the kernel,

    MISE = (2/P) Σ_{m >= 1} [ |c_m|² (1 - w_m)² + (1/n) w_m² (1 - |c_m|²) ]:

the series of `fourierkernels.theory.density_error` in place of its integral. All terms are
positive, so no digits are lost. For l = 1 the radius matters through the number of frequencies
alone. Products, of circles with each other and with lines, are made of the same sums and integrals
of their factors as on the line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_radius
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.kernels.periodic import gaps, harmonics
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.densities.circular import CircularDensity, as_circular, is_circular
from fourierkernels.theory.density_error import check_dimension
from fourierkernels.theory.frequency_integrals import LineIntegrals, Mise, Parts, line_integrals
from fourierkernels.theory.optimum import Optimum

_MOST = 2**20  # frequencies of a density with a power tail
_EDGE = 0.99  # share of them beyond which a best number may be no more than the last one
_FEWEST = 64
_STEP = 1.02  # of the grid of radii


@dataclass(frozen=True)
class CircleOptimum(Optimum):
    """The best radius on a circle.

    Attributes
    ----------
    frequencies : int
        How many m >= 1 the estimate has, those with w_m > 0.
    """

    frequencies: int


@dataclass(frozen=True)
class _Spectrum:
    """|c_m|² and 1 - |c_m|² for m = 1 to M, and Σ_{k > m} |c_k|² for m = 0 to M."""

    kept: FloatArray
    gap: FloatArray
    beyond: FloatArray


def circle_mise(
    density: CircularDensity | str | Sequence[CircularDensity | Density | str],
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
) -> Mise:
    """Return the exact MISE of the estimate on a circle, ``KernelDensity(..., period=P)``.

    Parameters
    ----------
    density : CircularDensity or str, or a list of them
        "von_mises(2)", "wrapped_cauchy", ..., see `fourierkernels.theory.densities.circular`. Of a
        list it is the product, one factor per dimension; factors on the line are as for
        `fourierkernels.theory.mise`.
    kernel : Kernel or str
    n : int
    radius : float or array of shape (dim,)
        R = 1/bandwidth, in units of the circle; one for all dimensions or one each.

    Raises
    ------
    ValueError
        For a radius that is not positive or makes more than 2^20 frequencies; n < 1; a factor on
        the line that `fourierkernels.theory.mise` refuses or that has more than one dimension.

    Examples
    --------
    >>> error = circle_mise("cardioid(0.3)", "fourier1", n=100, radius=1.5)  # one frequency
    >>> error.bias2, round(error.variance * 100 * math.pi, 12)
    (0.0, 0.91)
    >>> torus = ["von_mises(2)", "wrapped_normal(0.4)"]
    >>> print(f"{circle_mise(torus, 'fourier4', n=1000, radius=3.0).total:.5f}")
    0.00860
    """
    targets = (
        [_factor(each) for each in density]
        if isinstance(density, Sequence) and not isinstance(density, str)
        else [as_circular(density)]
    )
    if not targets:
        raise ValueError("density must have a factor, got none")
    shape, samples = as_kernel(kernel), check_integer("n", n)
    radii = check_radius(radius, len(targets))
    factors = (
        _integrals(each, shape, float(r))
        if isinstance(each, CircularDensity)
        else line_integrals(each, shape, float(r))
        for each, r in zip(targets, radii, strict=True)
    )
    product = reduce(LineIntegrals.times, factors)
    return Parts(product.bias, product.noise).per(samples)


def _factor(density: CircularDensity | Density | str) -> CircularDensity | Density:
    """Return a density on a circle or on the line."""
    if isinstance(density, CircularDensity) or is_circular(density):
        return as_circular(density)
    line = as_density(density)
    if check_dimension(line, 1) > 1:
        raise ValueError(f"density must have factors on circles and lines, got {line}")
    return line


def circle_optimum(
    density: CircularDensity | str, kernel: Kernel | str, *, n: int
) -> CircleOptimum:
    """Return the radius that minimises the exact MISE on a circle, and that error.

    For l = 1 it is a number of frequencies, found by comparing all; the radius is the middle of
    those that have it. Otherwise the minimum is global over radii 2 % apart, then refined.

    Raises
    ------
    ValueError
        As :func:`circle_mise`; for so many samples that the best has more than 2^20 frequencies.

    Examples
    --------
    >>> best = circle_optimum("wrapped_cauchy(0.5)", "fourier1", n=1000)  # exp(-m) > 1/1001
    >>> best.frequencies, round(best.radius, 6)
    (6, 6.5)
    """
    target, shape, samples = as_circular(density), as_kernel(kernel), check_integer("n", n)
    flat = shape.cutoff == 1.0 and math.isinf(shape.order)
    search = _best_count if flat else _best_radius
    radius = search(target, shape, samples)
    error = _parts(target, shape, radius).per(samples)
    count = int(np.count_nonzero(harmonics(shape, radius * target.period)[1:]))
    return CircleOptimum(samples, 1, radius, error, (radius,), count)


def _parts(density: CircularDensity, kernel: Kernel, radius: float) -> Parts:
    found = _integrals(density, kernel, radius)
    return Parts(found.bias, found.noise)


def _integrals(density: CircularDensity, kernel: Kernel, radius: float) -> LineIntegrals:
    """Return the sums over frequencies, with m = 0, that take the place of integrals."""
    weights = harmonics(kernel, radius * density.period)[1:]
    missing = gaps(kernel, radius * density.period)[1:]
    spectrum = _spectrum(density, len(weights))
    m, both = len(weights), 2.0 / density.period
    power = spectrum.kept[:m]
    return LineIntegrals(
        bias=both * float(power @ np.square(missing) + spectrum.beyond[m]),
        cross=both * float(power @ (missing * weights)),
        kept=both * float(0.5 + power @ np.square(weights)),
        noise=both * float(spectrum.gap[:m] @ np.square(weights)),
    )


def _spectrum(density: CircularDensity, count: int) -> _Spectrum:
    """Return what is known of the density, at least `count` frequencies."""
    if count > _MOST:
        raise ValueError(f"radius must make at most {_MOST} frequencies, got {count}")
    if math.isinf(density.last):
        return _spectrum_to(density, _MOST)
    needed = max(count, math.ceil(density.last), _FEWEST)
    return _spectrum_to(density, 2 ** math.ceil(math.log2(needed)))


@lru_cache(maxsize=16)
def _spectrum_to(density: CircularDensity, most: int) -> _Spectrum:
    kept, gap = density.power_at(np.arange(1, most + 1))
    beyond = np.cumsum(np.append(kept, density.energy_beyond(most))[::-1])[::-1]
    return _Spectrum(kept, gap, beyond)


def _best_count(density: CircularDensity, kernel: Kernel, n: int) -> float:
    spectrum = _spectrum(density, 1)
    noise = np.concatenate([[0.0], np.cumsum(spectrum.gap)])
    best = int(np.argmin(spectrum.beyond + noise / n))
    if math.isinf(density.last) and best > _EDGE * _MOST:
        raise ValueError(f"n must be small enough for at most {_MOST} frequencies, got {n}")
    return (best + 0.5) * 2.0 * math.pi / density.period


def _best_radius(density: CircularDensity, kernel: Kernel, n: int) -> float:
    def total(log: float) -> float:
        return _parts(density, kernel, math.exp(log)).per(n).total

    least = math.log(2.0 * math.pi / (density.period * kernel.cutoff))
    grid = _grid(density, kernel, n, least)
    place = min(grid, key=total)
    step = math.log(_STEP)
    result = minimize_scalar(
        total, bounds=(place - step, place + step), method="bounded", options={"xatol": 1e-9}
    )
    return math.exp(float(result.x) if result.fun < total(place) else place)


def _grid(density: CircularDensity, kernel: Kernel, n: int, least: float) -> list[float]:
    """Return logarithms of radii from the first with no frequency to where noise is too much."""
    places, lowest = [least - math.log(_STEP)], math.inf
    while True:
        error = _parts(density, kernel, math.exp(places[-1])).per(n)
        lowest = min(lowest, error.total)
        if error.variance > 1.001 * lowest:
            return places
        places.append(places[-1] + math.log(_STEP))
