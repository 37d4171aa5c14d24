"""Monte Carlo estimates of the mean squared error of Nadaraya-Watson regression.

Only the design has to be simulated. Given the design X, the fit f̂(x) = Σ W_i y_i has the mean
Σ W_i f(x_i) and the variance Σ W_i² σ²(x_i), both known exactly, so E[(f̂(x) - f(x))² | X] is too;
its mean over designs is the MSE, with a smaller standard error than the mean of squared errors
(Rao and Blackwell). The squared errors with the noise drawn are kept as well, for their median.
"""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import (
    check_integer,
    check_points,
    check_radius,
    check_rng,
)
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.simulation.central_box import NODES, density_at, quadrature
from fourierkernels.simulation.conditional_moments import Task, conditional_moments, drawn_design
from fourierkernels.simulation.noise import Noise, as_noise
from fourierkernels.simulation.regression_errors import RegressionError
from fourierkernels.theory.densities import (
    Density,
    RegressionFunction,
    as_density,
    as_regression_function,
)


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
