"""Integrals ∫ K_R^j Δ^i p in the error of regression, Δ(y) = f(y) - f(x), and their existence."""

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_points, check_positive, check_radius
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import (
    Density,
    HasEdges,
    HasSpectralRange,
    RegressionFunction,
    as_density,
    as_regression_function,
)
from fourierkernels.theory.densities.panels import panels

_FAR = 1e6  # widths of the density at which its tail is a power, or nothing
_WAVES = np.linspace(1e3, 1.02e3, 20_001)  # where the envelope of a kernel is seen
_TOLERANCE = 0.01  # of an exponent that is read off


def check_moments(density: Density, function: RegressionFunction, kernel: Kernel) -> None:
    """Refuse a question whose answer is infinite: E K_R² f² must exist, and E |K_R f|.

    With a density ~ |x|^{-a}, a kernel ~ |u|^{-l} and f ~ |x|^g, E |K_R f|^j exists if
    j l + a - j g > 1. The exponents of the tails are read off far out; g is that of f.

    Raises
    ------
    ValueError
        If one of them does not exist.
    """
    tail, decay, growth = density_tail(density), kernel_decay(kernel), function.growth
    for times in (1, 2):
        if times * (decay - growth) + tail <= 1.0 + _TOLERANCE:
            raise ValueError(
                "function must grow slowly enough for the error to have a mean and a variance, got "
                f"{function.name} ~ |x|^{growth:g} for a density ~ |x|^-{tail:.3g} and a kernel "
                f"~ |u|^-{decay:.3g}: E |K f|^{times} is infinite"
            )


@lru_cache
def density_tail(density: Density) -> float:
    """Return a in p(x) ~ |x|^{-a}, the smaller of both sides; infinite beneath every power."""
    far = _FAR / density.spectral_scale
    exponents = []
    for side in (-1.0, 1.0):
        near, double = (float(density.pdf(side * far * times)) for times in (1.0, 2.0))
        exponents.append(math.log2(near / double) if double > 0.0 else math.inf)
    return min(exponents)


@lru_cache
def kernel_decay(kernel: Kernel) -> float:
    """Return l in |K(u)| <= C |u|^{-l}, from its envelope; infinite for the Gaussian."""
    near, double = (float(np.max(kernel.log_shape(times * _WAVES)[0])) for times in (1.0, 2.0))
    if not math.isfinite(double):
        return math.inf
    return (near - double) / math.log(2.0)


PHASE = 16.0  # 16 nodes integrate a wave of this many radians to rounding
_STRUCTURE = 20.0  # angular frequency to resolve in f at least, and in densities with kinks
_NOTHING = 1e-18  # a density this small is zero
_LARGEST_REACH = 2000.0  # in units of the density's width; beyond, only Cauchy tails are left
_BLOCK = 2**20  # nodes times points held at once


class Problem(NamedTuple):
    """A checked question: points x, one radius per coordinate."""

    density: Density
    function: RegressionFunction
    kernel: Kernel
    points: FloatArray  # (m, dim)
    radius: FloatArray  # (dim,)


class Moments(NamedTuple):
    """Per point and coordinate, shape ``(m, dim)``, Δ = f(y) - f(x).

    mass = ∫K_R p, slope = ∫K_R Δ p, square = ∫K_R² p, square_slope = ∫K_R² Δ p,
    square_curve = ∫K_R² Δ² p.
    """

    mass: FloatArray
    slope: FloatArray
    square: FloatArray
    square_slope: FloatArray
    square_curve: FloatArray


_ORDERS = ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2))  # (j, i) of the moments, K^j Δ^i


def pose(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    at: ArrayLike,
    radius: ArrayLike,
) -> Problem:
    """Return the question; raises as :func:`regression_at_radius`."""
    target, points = as_density(density), check_points("at", at)
    if target.dim > 1:
        raise ValueError(f"density must be on the line, got one in {target.dim} dimensions")
    empty = points[~(target.pdf(points) > 0)]
    if len(empty):
        raise ValueError(f"at must have a positive density, got 0 at {empty[0]}")
    radii = check_radius(radius, points.shape[1])
    f, shape = as_regression_function(function), as_kernel(kernel)
    check_moments(target, f, shape)
    return Problem(target, f, shape, points, radii)


def check_noise(value: ArrayLike, count: int) -> FloatArray:
    """Return variances of the noise, one for all points or one each.

    Raises
    ------
    ValueError
        If one is not positive and finite, or there is another number of them.
    """
    noise = check_positive("noise_variance", value)
    if noise.shape not in {(), (count,)}:
        raise ValueError(
            f"noise_variance must be a number or have shape ({count},), got shape {noise.shape}"
        )
    return noise


def moments(problem: Problem) -> Moments:
    """Return the integrals of the error at a fixed radius."""
    return Moments(*integrals(problem, _ORDERS))


def integrals(problem: Problem, orders: tuple[tuple[int, int], ...]) -> list[FloatArray]:
    """Return ∫ K_R^j Δ^i p for every (j, i), per point and coordinate, each ``(m, dim)``."""
    columns = [
        _line_integrals(problem, x, float(r), orders)
        for x, r in zip(problem.points.T, problem.radius, strict=True)
    ]
    return [np.stack(each, axis=1) for each in zip(*columns, strict=True)]


def _line_integrals(
    problem: Problem, x: FloatArray, radius: float, orders: tuple[tuple[int, int], ...]
) -> list[FloatArray]:
    """Return the integrals of one coordinate, each ``(m,)``: one set of nodes for all points."""
    x, place = np.unique(x, return_inverse=True)  # a tensor grid repeats its coordinates
    reach = reach_of(problem.density, x)
    ends = (*breaks(problem), float(x.min() - reach), float(x.max() + reach))
    top = max(j for j, _ in orders)
    waves = top * radius * problem.kernel.cutoff
    longest = PHASE / (waves + bandwidth(problem.density) + excess(problem.function))
    y, weight = panels(np.unique(ends), longest=longest, powers=singular(problem.density))
    mass, value = weight * problem.density.pdf(y), problem.function.value(y)
    blocks = []
    for part in np.array_split(x, math.ceil(len(x) * len(y) / _BLOCK)):
        shape = radius * problem.kernel.value(radius * (part[:, None] - y))  # (points, nodes)
        rise = value - problem.function.value(part)[:, None]
        shapes, rises = list(accumulate([shape] * top, np.multiply)), (1.0, rise, rise * rise)
        blocks.append([(shapes[j - 1] * rises[i]) @ mass for j, i in orders])
    return [np.concatenate(each)[place] for each in zip(*blocks, strict=True)]


def singular(density: Density) -> Mapping[float, float]:
    """Return the breaks at which the density is a power that is no polynomial."""
    if not isinstance(density, HasEdges):
        return {}
    edges = zip(density.breaks, density.edge_powers, strict=True)
    return {place: power for place, power in edges if power < 0.0 or power % 1.0}


def bandwidth(density: Density) -> float:
    """Angular frequency to resolve: the end of p̂, as far as there is one, and 20 for f."""
    end = density.spectral_range
    return _STRUCTURE + (end if math.isfinite(end) else _STRUCTURE * density.spectral_scale)


def excess(function: RegressionFunction) -> float:
    """Angular frequency of f beyond those 20."""
    fast = function.spectral_range if isinstance(function, HasSpectralRange) else 0.0
    return max(0.0, fast - _STRUCTURE)


def reach_of(density: Density, x: FloatArray) -> float:
    """Distance from the points beyond which p is negligible, at most 2000 of its widths."""
    unit = 1.0 / density.spectral_scale
    reach = 8.0 * unit
    while reach < _LARGEST_REACH * unit:
        ends = np.array([x.min() - reach, x.max() + reach])
        if density.pdf(ends).max() < _NOTHING:
            break
        reach *= 1.5
    return reach


def breaks(problem: Problem) -> tuple[float, ...]:
    """Return the points where the density or f is not smooth."""
    return (*problem.density.breaks, *problem.function.breaks)
