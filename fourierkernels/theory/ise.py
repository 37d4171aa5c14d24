"""Integrated squared error of one sample, exact in the frequency domain.

By Plancherel, ISE = (2π)^{-D} ∫ |φ_n(t) K̄(t) - p̂(t)|² dt with φ_n the (weighted) empirical
characteristic function, on the same nodes as the exact MISE. No grid in x, no truncated tail.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.densities import Density, as_density
from fourierkernels.kernels import FloatArray, Kernel, as_kernel
from fourierkernels.theory.mise import check_dimension
from fourierkernels.theory.quadrature import tensor_axes
from fourierkernels.validation import check_points, check_radius, check_weights

_LARGEST_GRID = 2**23  # nodes
_BLOCK = 2**21  # nodes of one axis times samples held at once


class IseIntegral:
    """Everything of the ISE that does not depend on the sample.

    Raises
    ------
    ValueError
        For more than three dimensions, a density of another dimension, a radius not positive.
    """

    def __init__(
        self,
        density: Density | str,
        kernel: Kernel | str,
        radius: ArrayLike,
        dim: int,
        *,
        spans: FloatArray | None = None,
    ) -> None:
        target = as_density(density)
        dim = check_dimension(target, dim)
        if dim > 3:
            raise ValueError(f"dim must be at most 3 for the ISE on a tensor grid, got {dim}")
        kernel, radii = as_kernel(kernel), check_radius(radius, dim)
        axes = tensor_axes(target, kernel, radii, spans=spans)
        self._frequencies = [t for t, _ in axes]
        self._weights = [weight for _, weight in axes]
        self._filter = _outer(
            [kernel.transform(t / r) for (t, _), r in zip(axes, radii, strict=True)]
        )
        self._target = _characteristic(target, self._frequencies)
        missing = _energy(target, dim) - self._integral(np.square(np.abs(self._target)))
        self._beyond = max(0.0, missing)  # |p̂|² outside the nodes, where K̄ is zero

    def __call__(self, sample: FloatArray, weights: FloatArray | None = None) -> float:
        """Return the ISE of a sample of shape ``(n, dim)`` with weights of shape ``(n,)``."""
        shares = np.ones(len(sample)) if weights is None else weights
        gap = self._empirical(sample, shares / shares.sum()) * self._filter - self._target
        return self._integral(np.square(np.abs(gap))) + self._beyond

    def _empirical(self, sample: FloatArray, shares: FloatArray) -> NDArray[np.complexfloating]:
        letters = "abc"[: len(self._frequencies)]
        operands = ",".join(f"{letter}n" for letter in letters)
        rows = max(1, _BLOCK // max(map(len, self._frequencies)))
        total = np.zeros(self._target.shape, np.complex128)
        for i in range(0, len(sample), rows):
            waves = [
                np.exp(1j * np.outer(t, x))
                for t, x in zip(self._frequencies, sample[i : i + rows].T, strict=True)
            ]
            waves[0] = waves[0] * shares[i : i + rows]
            total += np.einsum(f"{operands}->{letters}", *waves, optimize=len(waves) > 1)
        return total

    def _integral(self, values: FloatArray) -> float:
        for weight in self._weights:  # each pass sums over the leading axis
            values = np.tensordot(weight, values, axes=1)
        return float(values)


def ise(
    density: Density | str,
    kernel: Kernel | str,
    sample: ArrayLike,
    *,
    radius: ArrayLike,
    weights: ArrayLike | None = None,
) -> float:
    """Return the integrated squared error of the density estimate from one sample.

    The nodes resolve the transform, the density and the oscillation of φ_n, whose frequency is the
    range of the sample. (A simulation needs no such nodes: its mean is unbiased at every node.)

    Parameters
    ----------
    density : Density or str
    kernel : Kernel or str
    sample : array of shape (n, dim)
    radius : float or array of shape (dim,)
    weights : array of shape (n,), optional

    Raises
    ------
    ValueError
        For a sample that is empty or not finite, more than three dimensions, a radius that is not
        positive, weights that are negative or all zero, a sample whose range needs too many nodes.

    Examples
    --------
    >>> sample = np.array([[-1.0], [0.0], [1.0]])
    >>> round(ise("gaussian", "fourier4", sample, radius=2.0), 4)
    0.0133
    """
    points = check_points("sample", sample)
    n, dim = points.shape
    shares = None if weights is None else check_weights("weights", weights, n)
    target, shape = as_density(density), as_kernel(kernel)
    reach = np.ptp(np.vstack([points, np.zeros(dim)]), axis=0) + 4.0 / target.spectral_scale
    needed = math.prod(1.0 + reach * check_radius(radius, dim) * shape.cutoff)
    if needed > _LARGEST_GRID:
        raise ValueError(
            f"sample must span less: its ISE in frequency needs {needed:.1e} nodes, "
            f"more than {_LARGEST_GRID:.1e}"
        )
    return IseIntegral(target, shape, radius, dim, spans=reach)(points, shares)


def _outer(factors: list[FloatArray]) -> FloatArray:
    return np.asarray(math.prod(np.ix_(*factors)))


def _characteristic(density: Density, frequencies: list[FloatArray]) -> NDArray[np.complexfloating]:
    if density.dim > 1:
        return density.cf(np.stack(np.meshgrid(*frequencies, indexing="ij"), axis=-1))
    return np.asarray(math.prod(np.ix_(*(density.cf(t) for t in frequencies))))


def _energy(density: Density, dim: int) -> float:
    return density.roughness if density.dim > 1 else density.roughness**dim
