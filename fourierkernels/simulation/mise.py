"""Monte Carlo estimates of the MISE, with standard errors.

The integrated squared error of one sample is exact, in frequency: see `fourierkernels.theory.ise`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.densities import Density, as_density
from fourierkernels.kernels import FloatArray, Kernel
from fourierkernels.theory.ise import IseIntegral, ise
from fourierkernels.theory.mise import check_dimension
from fourierkernels.validation import check_integer

__all__ = ["Estimate", "draw", "ise", "mise"]


@dataclass(frozen=True)
class Estimate:
    """Mean over independent replicates, with its standard error.

    Attributes
    ----------
    values : array of shape (replicates,)
    """

    values: FloatArray

    @property
    def mean(self) -> float:
        """Mean over replicates."""
        return float(self.values.mean())

    @property
    def standard_error(self) -> float:
        """Standard deviation of the mean (ddof = 1)."""
        return float(self.values.std(ddof=1) / math.sqrt(len(self.values)))


def mise(
    density: Density | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike,
    replicates: int,
    rng: np.random.Generator,
    dim: int = 1,
) -> Estimate:
    """Return the Monte Carlo estimate of the MISE from independent samples of size `n`.

    Parameters
    ----------
    density, kernel, n, radius, dim
        As for :func:`fourierkernels.theory.mise`; D at most 3.
    replicates : int
        Number of samples, at least 2.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError, TypeError
        As :func:`fourierkernels.theory.mise`, and for fewer than two replicates.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> result = mise("gaussian", "fourier4", n=100, radius=2.0, replicates=200, rng=rng)
    >>> from fourierkernels import theory
    >>> exact = theory.mise("gaussian", "fourier4", n=100, radius=2.0).total
    >>> abs(result.mean - exact) < 4 * result.standard_error
    True
    """
    size = check_integer("n", n)
    count = check_integer("replicates", replicates, least=2)
    target = as_density(density)
    dim = check_dimension(target, dim)
    integral = IseIntegral(target, kernel, radius, dim)
    return Estimate(np.array([integral(draw(target, size, rng, dim=dim)) for _ in range(count)]))


def draw(density: Density, n: int, rng: np.random.Generator, *, dim: int = 1) -> FloatArray:
    """Return `n` points of shape ``(n, dim)``: the density's own draws, or `dim` copies of them."""
    if density.dim > 1:
        return density.sample(n, rng)
    return np.stack([density.sample(n, rng) for _ in range(dim)], axis=1)
