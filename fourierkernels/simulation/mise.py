"""Monte Carlo estimates of the MISE, with standard errors.

The integrated squared error of one sample is computed in frequency, by Plancherel:
ISE = (2π)^{-D} ∫ |φ_n(t) K̄(t) - p̂(t)|² dt with φ_n the empirical characteristic function, on the
same nodes as the exact theory. No grid in x, no truncated tail.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.densities import Density, as_density
from fourierkernels.kernels import FloatArray, Kernel, as_kernel
from fourierkernels.theory.mise import check_dimension
from fourierkernels.theory.quadrature import tensor_axes
from fourierkernels.validation import check_integer, check_points, check_radius


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


class _IseIntegral:
    """Everything of the ISE that does not depend on the sample."""

    def __init__(self, density: Density, kernel: Kernel, radii: FloatArray) -> None:
        axes = tensor_axes(density, kernel, radii)
        self._frequencies = [t for t, _ in axes]
        self._weights = [weight for _, weight in axes]
        self._filter = _outer(
            [kernel.transform(t / r) for (t, _), r in zip(axes, radii, strict=True)]
        )
        self._target = _characteristic(density, self._frequencies)
        missing = _energy(density, len(radii)) - self._integral(np.square(np.abs(self._target)))
        self._beyond = max(0.0, missing)  # |p̂|² outside the nodes, where K̄ is zero

    def __call__(self, sample: FloatArray) -> float:
        """Return the ISE of a sample of shape ``(n, dim)``."""
        gap = self._empirical(sample) * self._filter - self._target
        return self._integral(np.square(np.abs(gap))) + self._beyond

    def _empirical(self, sample: FloatArray) -> NDArray[np.complexfloating]:
        waves = [
            np.exp(1j * np.outer(t, x)) for t, x in zip(self._frequencies, sample.T, strict=True)
        ]
        letters = "abc"[: len(waves)]
        operands = ",".join(f"{letter}n" for letter in letters)
        total = np.einsum(f"{operands}->{letters}", *waves, optimize=len(waves) > 1)
        return np.asarray(total / len(sample))

    def _integral(self, values: FloatArray) -> float:
        for weight in self._weights:  # each pass sums over the leading axis
            values = np.tensordot(weight, values, axes=1)
        return float(values)


def ise(
    density: Density | str, kernel: Kernel | str, sample: ArrayLike, *, radius: ArrayLike
) -> float:
    """Return the integrated squared error of the density estimate from one sample.

    The nodes resolve the transform and the density; for a single heavy-tailed sample the highest
    oscillation of φ_n may go beyond them, which leaves the mean over samples exact (each node is
    unbiased) but not the single value.

    Parameters
    ----------
    density : Density or str
    kernel : Kernel or str
    sample : array of shape (n, dim)
    radius : float or array of shape (dim,)

    Raises
    ------
    ValueError
        For a sample that is empty or not finite, more than three dimensions, a radius that is not
        positive.

    Examples
    --------
    >>> sample = np.array([[-1.0], [0.0], [1.0]])
    >>> round(ise("gaussian", "fourier4", sample, radius=2.0), 4)
    0.0133
    """
    points = check_points("sample", sample)
    integral = _integral(density, kernel, radius, points.shape[1])
    return integral(points)


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
    integral = _integral(target, kernel, radius, dim)
    return Estimate(np.array([integral(draw(target, size, rng, dim=dim)) for _ in range(count)]))


def draw(density: Density, n: int, rng: np.random.Generator, *, dim: int = 1) -> FloatArray:
    """Return `n` points of shape ``(n, dim)``: the density's own draws, or `dim` copies of them."""
    if density.dim > 1:
        return density.sample(n, rng)
    return np.stack([density.sample(n, rng) for _ in range(dim)], axis=1)


def _integral(
    density: Density | str, kernel: Kernel | str, radius: ArrayLike, dim: int
) -> _IseIntegral:
    target = as_density(density)
    dim = check_dimension(target, dim)
    if dim > 3:
        raise ValueError(f"dim must be at most 3 for a simulation on a tensor grid, got {dim}")
    return _IseIntegral(target, as_kernel(kernel), check_radius(radius, dim))


def _outer(factors: list[FloatArray]) -> FloatArray:
    return np.asarray(math.prod(np.ix_(*factors)))


def _characteristic(density: Density, frequencies: list[FloatArray]) -> NDArray[np.complexfloating]:
    if density.dim > 1:
        return density.cf(np.stack(np.meshgrid(*frequencies, indexing="ij"), axis=-1))
    return np.asarray(math.prod(np.ix_(*(density.cf(t) for t in frequencies))))


def _energy(density: Density, dim: int) -> float:
    return density.roughness if density.dim > 1 else density.roughness**dim
