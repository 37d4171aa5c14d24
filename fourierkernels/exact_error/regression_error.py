"""Mean squared error of Nadaraya-Watson regression for many samples, without simulation.

Two levels. At a *fixed radius* R and n → ∞, with Δ(y) = f(y) - f(x) and integrals over y,

    b = ∫ K_R Δ p / ∫ K_R p,    variance = ∫ K_R² (σ² + (Δ - b)²) p / (n (∫ K_R p)²),

up to a relative error of order R^D/n, which `fourierkernels.exact_error.ratio` adds: nothing is
expanded in 1/R. When R → ∞ *as well*, b and the variance have the closed leading terms of
:func:`regression_asymptotics`. Both are for products: a
density on the line for every coordinate, and f(x_1) + ... + f(x_D).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from fourierkernels.arrays import FloatArray
from fourierkernels.densities import Beta, Density, Gamma, Laplace, as_density
from fourierkernels.densities.responses import RegressionFunction, as_regression_function
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.validation import check_integer, check_points, check_positive, check_radius

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PHASE = 16.0  # 16 nodes integrate a wave of this many radians to rounding
_STRUCTURE = 20.0  # angular frequencies of f, and of densities with kinks, taken as resolved
_NOTHING = 1e-18  # a density this small is zero
_LARGEST_REACH = 2000.0  # in units of the density's width; beyond, only Cauchy tails are left
_BLOCK = 2**20  # nodes times points held at once
# Points where a density is not smooth; panels of the quadrature end there.
_EDGES: dict[type, Callable[[Any], tuple[float, ...]]] = {
    Laplace: lambda density: (density.location,),
    Gamma: lambda density: (0.0,),
    Beta: lambda density: (0.0, 1.0),
}


@dataclass(frozen=True)
class RegressionTerms:
    """Bias and variance of f̂ at m points.

    Attributes
    ----------
    bias, variance : arrays of shape (m,)
    """

    bias: FloatArray
    variance: FloatArray

    @property
    def total(self) -> FloatArray:
        """Mean squared error, bias² + variance, shape ``(m,)``."""
        return np.asarray(np.square(self.bias) + self.variance)


def regression_at_radius(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    at: ArrayLike,
    noise_variance: ArrayLike,
) -> RegressionTerms:
    """Return bias and variance for large n at this radius; for every kernel.

    Parameters
    ----------
    density : Density or str
        On the line; the design is the product of D copies, D the width of `at`.
    function : RegressionFunction or str
    kernel : Kernel or str
    n : int
    radius : float or array of shape (dim,)
    at : array of shape (m, dim)
    noise_variance : float or array of shape (m,)
        σ² at the points.

    Raises
    ------
    ValueError
        For a density with its own dimension, points where it is zero, a radius or variance that is
        not positive.

    Examples
    --------
    >>> terms = regression_at_radius("gaussian", "sine", "fourier4", n=500, radius=8.0,
    ...                              at=[[0.5]], noise_variance=0.09)
    >>> print(f"{terms.total[0]:.5f}")
    0.00208
    """
    problem = pose(density, function, kernel, at, radius)
    moments = _moments(problem)
    shift, second = moments.slope / moments.mass, moments.square_slope / moments.square
    bias = shift.sum(axis=1)
    spread = moments.square_curve / moments.square - np.square(second)
    local = spread.sum(axis=1) + np.square(second.sum(axis=1) - bias)
    scale = (moments.square / np.square(moments.mass)).prod(axis=1) / check_integer("n", n)
    noise = check_positive("noise_variance", noise_variance)
    return RegressionTerms(bias, scale * (noise + local))


def regression_asymptotics(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    at: ArrayLike,
    noise_variance: ArrayLike,
) -> RegressionTerms:
    """Return the leading terms of bias and variance as n and R grow.

    Bias, summed over coordinates: (μ₂/R²)(f''/2 + f' p'/p) for kernels of order 2. For order 1,
    where 1 - K̂(s) ~ c|s| (the cusp of l = 2 has c = 1/2),

        (c/(π R p(x))) ∫_0^∞ [G(x + t) + G(x - t)]/t² dt,    G(y) = (f(y) - f(x)) p(y):

    -(c/R) times |d/dx| applied to G, over p. The whole line contributes, not f and p near x alone.
    Variance: σ² ρ^D ∏R_d/(n p), ρ = ∫K².

    Parameters
    ----------
    density, function, kernel, n, radius, at, noise_variance
        As for :func:`regression_at_radius`.

    Raises
    ------
    ValueError
        As :func:`regression_at_radius`; for a kernel whose order is neither 1 nor 2 (for l = 1 the
        bias is smaller than every power of R), and at a break of f.

    Examples
    --------
    >>> terms = regression_asymptotics("gaussian", "sine", "fourier4", n=500, radius=8.0,
    ...                                at=[[0.5]], noise_variance=0.09)
    >>> print(f"{terms.bias[0]:.4f} {terms.variance[0]:.5f}")
    -0.0261 0.00140
    """
    problem = pose(density, function, kernel, at, radius)
    points, shape = problem.points, problem.kernel
    for end in problem.function.breaks:
        if np.any(points == end):
            raise ValueError(f"at must avoid the break of f at {end}, got {points.tolist()}")
    if shape.order not in _LEADING_BIAS:
        raise ValueError(f"kernel must have order 1 or 2, got {shape.name} of order {shape.order}")
    bias = _LEADING_BIAS[shape.order](problem).sum(axis=1)
    peak = (shape.roughness * problem.radius / problem.density.pdf(points)).prod(axis=1)
    noise = check_positive("noise_variance", noise_variance)
    return RegressionTerms(bias, noise * peak / check_integer("n", n))


def regression_radius(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    at: ArrayLike,
    noise_variance: ArrayLike,
    weights: ArrayLike | None = None,
) -> float:
    """Return the radius that minimises the (weighted) mean of the error at these points.

    The error is that of :func:`regression_at_radius`. With one point the bias may vanish at some
    radius and the minimum be an accident of that point; with many it is the integrated error.

    Raises
    ------
    ValueError
        As :func:`regression_at_radius`.

    Examples
    --------
    >>> at = np.linspace(-1.5, 1.5, 9)[:, None]
    >>> sizes = (10**4, 10**6)
    >>> small, large = (regression_radius("gaussian", "sine", "fourier4", n=n, at=at,
    ...                                   noise_variance=0.09) for n in sizes)
    >>> print(f"{math.log(large / small) / math.log(100):.2f}")  # R ~ n^(1/5)
    0.20
    """
    points = check_points("at", at)
    share = np.ones(len(points)) if weights is None else check_positive("weights", weights)

    def error(log_radius: float) -> float:
        terms = regression_at_radius(
            density,
            function,
            kernel,
            n=n,
            radius=math.exp(log_radius),
            at=points,
            noise_variance=noise_variance,
        )
        return math.log(float(share @ terms.total))

    low, high = _bracket(error, math.log(0.4 * as_density(density).spectral_scale))
    found = minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-4})
    return math.exp(float(found.x))


def _bracket(error: Callable[[float], float], start: float) -> tuple[float, float]:
    """Go up in steps of 20 % until the error is twice the least; return the neighbours of that."""
    step, place, best = math.log(1.2), 0, math.inf
    errors: list[float] = []
    while not errors or errors[-1] < best + math.log(2.0):
        errors.append(error(start + step * len(errors)))
        place = int(np.argmin(errors))
        best = errors[place]
    return start + step * (place - 1), start + step * (place + 1)


class Problem(NamedTuple):
    """A checked question: points x, one radius per coordinate."""

    density: Density
    function: RegressionFunction
    kernel: Kernel
    points: FloatArray  # (m, dim)
    radius: FloatArray  # (dim,)


class _Moments(NamedTuple):
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
    return Problem(target, as_regression_function(function), as_kernel(kernel), points, radii)


def _moments(problem: Problem) -> _Moments:
    return _Moments(*integrals(problem, _ORDERS))


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
    reach = _reach(problem.density, x)
    breaks = (*_edges(problem), float(x.min() - reach), float(x.max() + reach))
    top = max(j for j, _ in orders)
    waves = top * radius * problem.kernel.cutoff
    y, weight = _panels(breaks, _PHASE / (waves + _bandwidth(problem.density)))
    mass, value = weight * problem.density.pdf(y), problem.function.value(y)
    blocks = []
    for part in np.array_split(x, math.ceil(len(x) * len(y) / _BLOCK)):
        shape = radius * problem.kernel.value(radius * (part[:, None] - y))  # (points, nodes)
        rise = value - problem.function.value(part)[:, None]
        shapes, rises = list(accumulate([shape] * top, np.multiply)), (1.0, rise, rise * rise)
        blocks.append([(shapes[j - 1] * rises[i]) @ mass for j, i in orders])
    return [np.concatenate(each)[place] for each in zip(*blocks, strict=True)]


def _order_two(problem: Problem) -> FloatArray:
    """(μ₂/R²)(f''/2 + f' p'/p), shape ``(m, dim)``."""
    x, f = problem.points, problem.function
    curve = 0.5 * f.curvature(x) + f.slope(x) * _log_slope(problem.density, x)
    return np.asarray(problem.kernel.second_moment * curve / np.square(problem.radius))


def _order_one(problem: Problem) -> FloatArray:
    """(c/(π R p)) ∫_0^∞ [G(x+t) + G(x-t)]/t² dt, shape ``(m, dim)``."""
    small = 1e-6
    cusp = (1.0 - float(problem.kernel.transform(small))) / small
    integral = np.array(
        [[_hypersingular(problem, float(x)) for x in row] for row in problem.points]
    )
    return np.asarray(cusp * integral / (math.pi * problem.radius))


_LEADING_BIAS: dict[float, Callable[[Problem], FloatArray]] = {1.0: _order_one, 2.0: _order_two}


def _hypersingular(problem: Problem, x: float) -> float:
    """∫_0^∞ [G(x+t) + G(x-t)]/t² dt / p(x): the symmetric sum is of order t² at 0."""
    density, f = problem.density, problem.function
    breaks = [0.0, _reach(density, np.array([x])), *(abs(x - edge) for edge in _edges(problem))]
    t, weight = _panels(tuple(breaks), _PHASE / _bandwidth(density))
    total = np.zeros(len(t))
    for y in (x + t, x - t):
        total += (f.value(y) - f.value(x)) * density.pdf(y)
    return float(weight @ (total / np.square(t))) / float(density.pdf(x))


def _log_slope(density: Density, x: FloatArray) -> FloatArray:
    """p'/p by a central difference of fourth order."""
    h = 0.02 / _bandwidth(density)
    rise = 8.0 * (density.pdf(x + h) - density.pdf(x - h))
    rise -= density.pdf(x + 2 * h) - density.pdf(x - 2 * h)
    return np.asarray(rise / (12.0 * h * density.pdf(x)))


def _bandwidth(density: Density) -> float:
    """Angular frequency to resolve: the end of p̂, as far as there is one, and some for f."""
    end = density.spectral_range
    return _STRUCTURE + (end if math.isfinite(end) else _STRUCTURE * density.spectral_scale)


def _reach(density: Density, x: FloatArray) -> float:
    """Distance from the points beyond which p is nothing, or all that Cauchy tails leave is."""
    unit = 1.0 / density.spectral_scale
    reach = 8.0 * unit
    while reach < _LARGEST_REACH * unit:
        ends = np.array([x.min() - reach, x.max() + reach])
        if density.pdf(ends).max() < _NOTHING:
            break
        reach *= 1.5
    return reach


def _edges(problem: Problem) -> tuple[float, ...]:
    edges = _EDGES.get(type(problem.density), lambda _: ())(problem.density)
    return (*edges, *problem.function.breaks)


def _panels(breaks: tuple[float, ...], longest: float) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre panels between the breaks, none longer than `longest`."""
    ends = np.unique(breaks)
    cuts = [np.linspace(a, b, 1 + math.ceil((b - a) / longest))[:-1] for a, b in pairwise(ends)]
    edges = np.append(np.concatenate(cuts), ends[-1])
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
    return nodes.ravel(), (half[:, None] * _WEIGHTS).ravel()
