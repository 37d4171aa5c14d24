"""Monte Carlo estimates of the mean squared error of Nadaraya-Watson regression.

Only the design has to be simulated. Given the design X, the fit f̂(x) = Σ W_i y_i has the mean
Σ W_i f(x_i) and the variance Σ W_i² σ²(x_i), both known exactly, so E[(f̂(x) - f(x))² | X] is too;
its mean over designs is the MSE, with a smaller standard error than the mean of squared errors
(Rao and Blackwell). The squared errors with the noise drawn are kept as well, for their median.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import (
    check_integer,
    check_points,
    check_radius,
    check_rng,
)
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.simulation.mise import draw
from fourierkernels.simulation.noise import Noise, as_noise
from fourierkernels.simulation.regression_errors import (
    NODES,
    RegressionError,
    density_at,
    quadrature,
)
from fourierkernels.sums import kernel_sum
from fourierkernels.theory.densities import (
    Density,
    RegressionFunction,
    as_density,
    as_regression_function,
)

_PAIRS = 2**16  # held at once: they stay in the cache
_FEW = 8  # queries that are cheaper summed one by one over many replicates
_FAINT = 1e-6  # a denominator this small beside its terms is summed again, with its error
_TINY = 1e-9  # likewise beside n K(0)^D: every sample is far away or at a zero of the kernel
_TOLERANCE = 1e-9  # of sums over many points: far below any statistical error


class Task(NamedTuple):
    """Kernel and radius of a fit, and the points where its error is simulated."""

    kernel: Kernel
    radius: FloatArray  # (dim,)
    points: FloatArray  # (m, dim)


class Design(NamedTuple):
    """Samples ``(n, dim)`` with f, the noise drawn and its variance there, each ``(n,)``."""

    samples: FloatArray
    signal: FloatArray
    noise: FloatArray
    variance: FloatArray


Moments = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Mean and variance of the fit given the design, the fit with noise, and R^D Σ K."""


def drawn_design(
    density: Density, f: RegressionFunction, law: Noise, n: int, dim: int, rng: np.random.Generator
) -> Design:
    """Draw a design of `n` samples, and the noise of its responses."""
    samples = draw(density, n, rng, dim=dim)
    signal = f.value(samples).sum(axis=1)
    return Design(samples, signal, law.sample(samples, rng), law.variance(samples))


def conditional_moments(task: Task, designs: Iterator[Design], n: int) -> Moments:
    """Return the moments of every design at every point, each of shape ``(replicates, m)``."""
    method = _in_batches if len(task.points) <= _FEW else _one_by_one
    return method(task, designs, n)


def _in_batches(task: Task, designs: Iterator[Design], n: int) -> Moments:
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


def _batch(task: Task, designs: list[Design]) -> Moments:
    stacked = Design(*map(np.stack, zip(*designs, strict=True)))
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
    weights: FloatArray, designs: Design, least: float
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


def _one_by_one(task: Task, designs: Iterator[Design], n: int) -> Moments:
    """Many points: the package's kernel sums, one replicate at a time."""
    parts = [_sums(task, design) for design in designs]
    mean, variance, noisy, total = map(np.stack, zip(*parts, strict=True))
    return mean, variance, noisy, total * float(task.radius.prod())


def _sums(task: Task, design: Design) -> Moments:
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
    check_rng(rng)
    law, f = as_noise(noise), as_regression_function(function)
    points, measure = _places(target, f, dim, at)
    size = check_integer("n", n, least=2)
    designs = (drawn_design(target, f, law, size, dim, rng) for _ in range(count))
    task = Task(shape, check_radius(radius, dim), points)
    mean, variance, noisy, total = conditional_moments(task, designs, size)
    truth = f.value(points).sum(axis=1)
    return RegressionError(
        points=points,
        truth=truth,
        bias=mean - truth,
        variance=variance,
        error=noisy - truth,
        denominator=total / (size * density_at(target, points)),
        measure=measure,
    )


def _places(
    density: Density, f: RegressionFunction, dim: int, at: ArrayLike | None
) -> tuple[FloatArray, FloatArray | None]:
    if at is None:
        return quadrature(density, dim, breaks=f.breaks)
    column = np.reshape(at, (-1, 1)) if dim == 1 and np.ndim(at) < 2 else at
    points = check_points("at", column, dim=dim)
    empty = np.flatnonzero(~(density_at(density, points) > 0))
    if len(empty):
        raise ValueError(f"at must have a positive density, got 0 at {points[empty[0]].tolist()}")
    return points, None


def _check_dim(density: Density, dim: int) -> int:
    dim = check_integer("dim", dim)
    if density.dim > 1 and dim not in {1, density.dim}:
        raise ValueError(f"dim must be {density.dim} for this density, got {dim}")
    dim = max(dim, density.dim)
    if dim > max(NODES):
        raise ValueError(f"dim must be at most {max(NODES)}, got {dim}")
    return dim
