"""Monte Carlo estimates of the MISE, with standard errors.

The integrated squared error of one sample is exact, in frequency:
see `fourierkernels.theory.ise`.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.estimators.radius import choose_radius
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_radius, check_rng
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.density_error import check_dimension
from fourierkernels.theory.ise import IseCurve, ise

__all__ = ["Estimate", "MiseEstimate", "draw", "ise", "mise"]

_MOST = 2**20  # frequencies of one replicate


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


@dataclass(frozen=True)
class MiseEstimate(Estimate):
    """An estimate of the MISE.

    Attributes
    ----------
    radii : array of shape (replicates, dim)
        The radius of every replicate: the same in all, unless a rule found it.
    resolved : array of shape (replicates,)
        Whether a value is the exact ISE of its sample; see `mise`.
    """

    radii: FloatArray = field(repr=False)
    resolved: NDArray[np.bool_] = field(repr=False)


def mise(
    density: Density | str,
    kernel: Kernel | str,
    *,
    n: int,
    radius: ArrayLike | str,
    replicates: int,
    rng: np.random.Generator,
    dim: int = 1,
) -> MiseEstimate:
    """Return the Monte Carlo estimate of the MISE from independent samples of size `n`.

    Each value is the exact ISE of its sample. Only a sample whose range asks for more than 2^20
    frequencies (heavy tails) has its far points summed at frequencies that do not resolve them:
    such a value, marked in `resolved`, is not the ISE of its sample, but has its mean.

    Parameters
    ----------
    density, kernel, n, dim
        As for :func:`fourierkernels.theory.mise`; D at most 3.
    radius : float, array of shape (dim,) or str
        R, or a rule of `fourierkernels.estimators.radius` that finds it for each sample.
    replicates : int
        Number of samples, at least 2.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError, TypeError
        As :func:`fourierkernels.theory.mise`, for fewer than two replicates, for an unknown
        rule or one that does not fit the kernel or a sample.

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
    check_rng(rng)
    target, shape = as_density(density), as_kernel(kernel)
    dim = check_dimension(target, dim)
    if dim > 3:
        raise ValueError(f"dim must be at most 3 for the ISE in frequency, got {dim}")
    if not isinstance(radius, str):
        radius = check_radius(radius, dim)
    values, radii, resolved = np.empty(count), np.empty((count, dim)), np.empty(count, bool)
    for i in range(count):
        sample = draw(target, size, rng, dim=dim)
        radii[i] = _radius(sample, shape, radius)
        curve = IseCurve(target, shape, sample, largest=radii[i], most=_MOST, clip=True)
        values[i], resolved[i] = curve(radii[i]), curve.resolved
    return MiseEstimate(values, radii, resolved)


def draw(density: Density, n: int, rng: np.random.Generator, *, dim: int = 1) -> FloatArray:
    """Return `n` points of shape ``(n, dim)``: the density's own draws, or `dim` copies of them."""
    if density.dim > 1:
        return density.sample(n, rng)
    return np.stack([density.sample(n, rng) for _ in range(dim)], axis=1)


def _radius(sample: FloatArray, kernel: Kernel, radius: FloatArray | str) -> FloatArray:
    if not isinstance(radius, str):
        return radius
    ones = np.ones(len(sample))
    chosen = choose_radius(sample, ones, kernel, radius=radius, bandwidth=None)
    if chosen.ndim == 2:
        raise ValueError(f"radius must be a vector for the ISE, got a matrix from {radius!r}")
    return chosen
