"""Monte Carlo estimates of the mean squared error of Nadaraya-Watson regression.

Only the design has to be simulated. Given the design X, the fit f̂(x) = Σ W_i y_i has the mean
Σ W_i f(x_i) and the variance Σ W_i² σ²(x_i), both known exactly, so E[(f̂(x) - f(x))² | X] is too;
its mean over designs is the MSE, with a smaller standard error than the mean of squared errors
(Rao and Blackwell). The squared errors with the noise drawn are kept as well, for their median.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.arrays import FloatArray
from fourierkernels.densities import Density, as_density
from fourierkernels.densities.responses import RegressionFunction, as_regression_function
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.simulation.mise import Estimate, draw
from fourierkernels.simulation.noise import Noise, as_noise
from fourierkernels.sums import kernel_sum
from fourierkernels.validation import check_integer, check_points, check_radius

_PAIRS = 2**16  # held at once: they stay in the cache
_FEW = 8  # queries that are cheaper summed one by one over many replicates
_FAINT = 1e-6  # a denominator this small beside its terms is summed again, with its error
_TINY = 1e-9  # likewise beside n K(0)^D: every sample is far away or at a zero of the kernel
_TOLERANCE = 1e-9  # of sums over many points: far below any statistical error
_NEAR_ZERO = 0.1  # of the density: denominators below it make the heavy tail
_GROUPS = 16  # whose means the robust centre is the median of
_NODES = {1: 96, 2: 24, 3: 10}  # per dimension, of the integrated error


@dataclass(frozen=True)
class RegressionError:
    """Simulated errors of regression at m points, one row per replicate.

    Attributes
    ----------
    points : array of shape (m, dim)
    truth : array of shape (m,)
        f at the points.
    bias : array of shape (replicates, m)
        Σ W_i f(x_i) - f(x), given the design; NaN where the fit is undefined.
    variance : array of shape (replicates, m)
        Σ W_i² σ²(x_i), given the design.
    error : array of shape (replicates, m)
        f̂(x) - f(x), with the noise drawn.
    denominator : array of shape (replicates, m)
        Estimated over true density, about 1; near 0 the ratio is wild.
    measure : array of shape (m,) or None
        Weights of the integrated error (quadrature times density), if it was asked for.
    """

    points: FloatArray
    truth: FloatArray
    bias: FloatArray
    variance: FloatArray
    error: FloatArray
    denominator: FloatArray
    measure: FloatArray | None = None

    @cached_property
    def values(self) -> FloatArray:
        """Mean squared error given the design, shape ``(replicates, m)``."""
        return np.square(self.bias) + self.variance

    @property
    def mean(self) -> FloatArray:
        """MSE at each point, shape ``(m,)``: the mean of `values` where they are defined."""
        return _over_columns(self.values, np.mean)

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of `mean`, shape ``(m,)``."""
        return _over_columns(self.values, _standard_error)

    @property
    def mean_bias(self) -> FloatArray:
        """Mean of `bias`, shape ``(m,)``."""
        return _over_columns(self.bias, np.mean)

    @property
    def mean_variance(self) -> FloatArray:
        """Mean of `variance`, shape ``(m,)``; the bias varies with the design on top of it."""
        return _over_columns(self.variance, np.mean)

    @property
    def robust(self) -> FloatArray:
        """Median of the means of 16 groups of `values`, shape ``(m,)``.

        It estimates `mean` and does not follow a few wild replicates: signed kernels have a heavy
        tail, because their denominators can come near zero.
        """
        return _over_columns(self.values, median_of_means)

    @property
    def median(self) -> FloatArray:
        """Median of the squared errors with the noise drawn, shape ``(m,)``.

        Not an estimate of the mean: for normal errors without bias it is 0.455 of it.
        """
        return _over_columns(np.square(self.error), np.median)

    @property
    def plain_mean(self) -> FloatArray:
        """Mean of the squared errors with the noise drawn, shape ``(m,)``: `mean`, less exactly."""
        return _over_columns(np.square(self.error), np.mean)

    @property
    def plain_standard_error(self) -> FloatArray:
        """Standard error of `plain_mean`, shape ``(m,)``."""
        return _over_columns(np.square(self.error), _standard_error)

    @property
    def undefined(self) -> FloatArray:
        """Share of replicates where the denominator is zero within its own error, ``(m,)``."""
        return np.asarray(np.isnan(self.bias).mean(axis=0))

    @property
    def near_zero(self) -> FloatArray:
        """Share of replicates with a denominator below a tenth of the density, ``(m,)``."""
        return np.asarray((self.denominator < _NEAR_ZERO).mean(axis=0))

    @property
    def integrated(self) -> Estimate:
        """∫ MSE(x) p(x) dx over the box of `central_box`, per replicate and in the mean.

        NaN in a replicate with an undefined node.

        Raises
        ------
        ValueError
            If points were given: it is the error simulated without them.
        """
        if self.measure is None:
            raise ValueError(f"at must be None for an integrated error, got {len(self.points)}")
        return Estimate(np.asarray(self.values @ self.measure))


def mse(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    replicates: int,
    rng: np.random.Generator,
    dim: int = 1,
    at: ArrayLike | None = None,
    noise: Noise | str | float = "gaussian",
) -> RegressionError:
    """Return simulated errors of regression over independent designs of size `n`.

    Parameters
    ----------
    density : Density or str
        Of the design; on the line it stands for the product of `dim` copies.
    function : RegressionFunction or str
        f; in D dimensions the sum of f over the coordinates.
    kernel : Kernel or str
    n : int
        Size of a design.
    radius : float or array of shape (dim,)
    replicates : int
        Number of designs, at least 2.
    rng : numpy.random.Generator
    dim : int
        D, at most 3; left at 1 for a density that has its own.
    at : array of shape (m, dim), or (m,) on the line, optional
        Where the error is wanted; by default nodes for the integrated error.
    noise : Noise, str or float
        "gaussian", "heteroscedastic", "student", a law, or the standard deviation of a normal one.

    Raises
    ------
    ValueError, TypeError
        For points where the density is zero, fewer than two replicates or samples, a radius that
        is not positive, more than three dimensions, unknown names.

    Examples
    --------
    >>> result = mse("gaussian", "sine", "fourier4", n=500, radius=8.0, at=[0.5],
    ...              replicates=200, rng=np.random.default_rng(0))
    >>> print(f"{result.mean[0]:.5f} ± {result.standard_error[0]:.5f}")
    0.00208 ± 0.00004
    """
    target, shape = as_density(density), as_kernel(kernel)
    dim = _check_dim(target, dim)
    count = check_integer("replicates", replicates, least=2)
    law, f = as_noise(noise), as_regression_function(function)
    points, measure = _places(target, f, dim, at)
    size = check_integer("n", n, least=2)
    designs = (_design(target, f, law, size, dim, rng) for _ in range(count))
    task = _Task(shape, check_radius(radius, dim), points)
    method = _in_batches if len(points) <= _FEW else _one_by_one
    mean, variance, noisy, total = method(task, designs, size)
    truth = f.value(points).sum(axis=1)
    return RegressionError(
        points=points,
        truth=truth,
        bias=mean - truth,
        variance=variance,
        error=noisy - truth,
        denominator=total / (size * _density_at(target, points)),
        measure=measure,
    )


@lru_cache
def central_box(density: Density, dim: int = 1) -> tuple[tuple[float, float], ...]:
    """Return (low, high) per dimension: 5 % and 95 % quantiles of 2^16 draws with a fixed seed.

    Examples
    --------
    >>> low, high = central_box(as_density("gaussian"))[0]
    >>> print(f"{low:.2f} {high:.2f}")
    -1.64 1.63
    """
    sample = draw(density, 2**16, np.random.default_rng(0), dim=dim)
    low, high = np.quantile(sample, [0.05, 0.95], axis=0)
    return tuple((float(a), float(b)) for a, b in zip(low, high, strict=True))


def median_of_means(values: FloatArray) -> float:
    """Return the median of the means of 16 groups: a mean that a few wild values cannot move."""
    groups = np.array_split(values, min(_GROUPS, len(values)))
    return float(np.median([group.mean() for group in groups]))


def quadrature(
    density: Density, dim: int = 1, *, nodes: int | None = None, breaks: tuple[float, ...] = ()
) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre points ``(m, dim)`` on the central box and weights for ∫ g(x) p(x) dx.

    Parameters
    ----------
    nodes : int, optional
        Per dimension and piece; by default 96, 24 or 10 in one, two or three dimensions.
    breaks : tuple of float
        Where f is not smooth: the box is cut there, in every dimension.
    """
    unit = np.polynomial.legendre.leggauss(nodes or _NODES[dim])
    axes = [_pieces(box, breaks, unit) for box in central_box(density, dim)]
    grid = np.meshgrid(*(x for x, _ in axes), indexing="ij")
    points = np.stack([axis.ravel() for axis in grid], axis=1)
    weights = np.ravel(math.prod(np.ix_(*(weight for _, weight in axes))))
    return points, weights * _density_at(density, points)


def _pieces(
    box: tuple[float, float], breaks: tuple[float, ...], unit: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of all pieces of one side of the box; they crowd towards the breaks."""
    low, high = box
    ends = [low, *(end for end in breaks if low < end < high), high]
    pieces = [(0.5 * (b - a), 0.5 * (a + b)) for a, b in pairwise(ends)]
    x = np.concatenate([half * unit[0] + middle for half, middle in pieces])
    return x, np.concatenate([half * unit[1] for half, _ in pieces])


class _Task(NamedTuple):
    kernel: Kernel
    radius: FloatArray  # (dim,)
    points: FloatArray  # (m, dim)


class _Design(NamedTuple):
    """Samples ``(n, dim)`` with f, the noise drawn and its variance there, each ``(n,)``."""

    samples: FloatArray
    signal: FloatArray
    noise: FloatArray
    variance: FloatArray


_Moments = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Mean and variance of the fit given the design, the fit with noise, and R^D Σ K."""


def _design(
    density: Density, f: RegressionFunction, law: Noise, n: int, dim: int, rng: np.random.Generator
) -> _Design:
    samples = draw(density, n, rng, dim=dim)
    signal = f.value(samples).sum(axis=1)
    return _Design(samples, signal, law.sample(samples, rng), law.variance(samples))


def _in_batches(task: _Task, designs: Iterator[_Design], n: int) -> _Moments:
    """Few points: many replicates at a time, one point after the other."""
    rows, batch, parts = max(1, _PAIRS // n), [], []
    for design in designs:
        batch.append(design)
        if len(batch) == rows:
            parts.append(_batch(task, batch))
            batch = []
    if batch:
        parts.append(_batch(task, batch))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))  # type: ignore[return-value]


def _batch(task: _Task, designs: list[_Design]) -> _Moments:
    stacked = _Design(*map(np.stack, zip(*designs, strict=True)))
    moments = np.empty((4, len(designs), len(task.points)))
    least = _TINY * stacked.signal.shape[1] * float(task.kernel.value(0.0)) ** len(task.radius)
    for j, point in enumerate(task.points):
        u = task.radius * (point - stacked.samples)  # (replicates, n, dim)
        weights = task.kernel.value(u).prod(axis=-1)
        moments[:, :, j], faint = _ratios(weights, stacked, least)
        for i in np.flatnonzero(faint):
            alone = task._replace(points=point[None])
            moments[:, i, j] = [each[0] for each in _sums(alone, designs[i])]
    moments[3] *= float(task.radius.prod())
    return tuple(moments)  # type: ignore[return-value]


def _ratios(
    weights: FloatArray, designs: _Design, least: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the moments, shape ``(4, replicates)``, and which denominators are faint."""
    total = weights.sum(axis=1)
    size = np.abs(weights).sum(axis=1)
    faint = np.abs(total) <= np.maximum(_FAINT * size, least)
    safe = np.where(faint, 1.0, total)
    mean = np.einsum("rn,rn->r", weights, designs.signal) / safe
    noise = np.einsum("rn,rn->r", weights, designs.noise) / safe
    variance = np.einsum("rn,rn,rn->r", weights, weights, designs.variance) / np.square(safe)
    return np.stack([mean, variance, mean + noise, total]), faint


def _one_by_one(task: _Task, designs: Iterator[_Design], n: int) -> _Moments:
    """Many points: the package's kernel sums, one replicate at a time."""
    parts = [_sums(task, design) for design in designs]
    mean, variance, noisy, total = map(np.stack, zip(*parts, strict=True))
    return mean, variance, noisy, total * float(task.radius.prod())


def _sums(task: _Task, design: _Design) -> _Moments:
    """Return the moments at all points, each ``(m,)``; NaN where the fit is undefined."""
    kernel, radius, points = task
    columns = np.column_stack([design.signal, design.noise])
    sums = kernel_sum(
        design.samples, points, kernel=kernel, radius=radius, responses=columns, tol=_TOLERANCE
    )
    square, scale = kernel.squared
    squares = kernel_sum(
        design.samples,
        points,
        kernel=square,
        radius=scale * radius,
        responses=design.variance,
        tol=_TOLERANCE,
    )
    mean, noise = sums.ratios().T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = squares.exponent - 2 * sums.exponent
        variance = np.ldexp(squares.numerator[:, 0] / np.square(sums.denominator), gap)
    variance = np.where(sums.undefined, np.nan, variance)
    return mean, variance, mean + noise, sums.totals() / kernel.constant ** len(radius)


def _places(
    density: Density, f: RegressionFunction, dim: int, at: ArrayLike | None
) -> tuple[FloatArray, FloatArray | None]:
    if at is None:
        return quadrature(density, dim, breaks=f.breaks)
    column = np.reshape(at, (-1, 1)) if dim == 1 and np.ndim(at) < 2 else at
    points = check_points("at", column, dim=dim)
    empty = np.flatnonzero(~(_density_at(density, points) > 0))
    if len(empty):
        raise ValueError(f"at must have a positive density, got 0 at {points[empty[0]].tolist()}")
    return points, None


def _density_at(density: Density, points: FloatArray) -> FloatArray:
    """Return the density at points of shape ``(m, dim)``: its own, or the product of copies."""
    if density.dim > 1:
        return density.pdf(points)
    return np.asarray(density.pdf(points).prod(axis=1))


def _check_dim(density: Density, dim: int) -> int:
    dim = check_integer("dim", dim)
    if density.dim > 1 and dim not in {1, density.dim}:
        raise ValueError(f"dim must be {density.dim} for this density, got {dim}")
    dim = max(dim, density.dim)
    if dim > max(_NODES):
        raise ValueError(f"dim must be at most {max(_NODES)}, got {dim}")
    return dim


def _over_columns(values: FloatArray, statistic: Callable[[FloatArray], float]) -> FloatArray:
    """Apply a statistic to what is defined in each column; NaN where nothing is."""
    columns = (column[~np.isnan(column)] for column in values.T)
    return np.array([statistic(c) if len(c) > 1 else math.nan for c in columns])


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))
