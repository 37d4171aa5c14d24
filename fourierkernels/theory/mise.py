"""Exact mean integrated squared error.

Plancherel gives, with p̂ the characteristic function and K̄(t) = ∏ K̂(t_d/R_d),

    MISE = (2π)^{-D} [ ∫ |p̂|² (1 - K̄)² dt + (1/n) ∫ (1 - |p̂|²) K̄² dt ]:

integrated squared bias and integrated variance, with no simulation. Source: proof of Theorem 3 in
[nguyen2022fourierformer]_, going back to [watson1963estimation]_.
"""

import math

from numpy.typing import ArrayLike

from fourierkernels.foundation.validation import check_integer, check_radius
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import Density, HasMarginals, as_density
from fourierkernels.theory.integrals import error_parts, marginals
from fourierkernels.theory.joint_integrals import LARGEST_TENSOR, joint_parts
from fourierkernels.theory.mise_parts import Mise
from fourierkernels.theory.one_factor import separates

_LARGEST_LOG = 300.0  # of an error: floats end at about exp(±700), and R^D comes on top
_FINER = 1.5


def mise(
    density: Density | str, kernel: Kernel | str, *, n: int, radius: ArrayLike, dim: int = 1
) -> Mise:
    """Return the exact MISE of the kernel density estimator.

    Parameters
    ----------
    density : Density or str
        A density on the line stands for the product of `dim` copies of it, and `Product` for one
        of different densities, in any D. Any other density with its own dimension (at most 3) is
        integrated on a tensor grid; :func:`mise_error` states the error. Normal densities with one
        common correlation ρ >= 0 (``CorrelatedGaussian``) have any D: given one normal variable
        their coordinates separate.
    kernel : Kernel or str
    n : int
        Number of samples.
    radius : float or array of shape (dim,)
        R, one for all dimensions or one each.
    dim : int
        D; left at 1 for a density that has its own.

    Returns
    -------
    Mise
        `bias2`, `variance`, `total`.

    Raises
    ------
    ValueError
        For a radius that is not positive, n < 1, a density that is not square integrable, one that
        needs too many nodes.

    Examples
    --------
    >>> from fourierkernels.theory.densities import Gaussian
    >>> from fourierkernels.kernels import FourierKernel
    >>> result = mise(Gaussian(), FourierKernel(1), n=100, radius=2.0)
    >>> round(result.bias2, 8), round(result.variance, 8)
    (0.00131956, 0.00355845)
    """
    density, kernel = as_density(density), as_kernel(kernel)
    samples = check_integer("n", n)
    dim = check_dimension(density, dim)
    return error_parts(density, kernel, check_radius(radius, dim)).per(samples)


def mise_error(density: Density | str, kernel: Kernel | str, *, n: int, radius: ArrayLike) -> Mise:
    """Return what a second rule with 1.5 times the nodes changes in either part of the MISE.

    For densities with a dimension of their own, which are not products: the tensor grid's rule is
    compared with the same on finer panels.

    Raises
    ------
    ValueError
        As :func:`mise`, and for products and densities on the line.

    Examples
    --------
    >>> error = mise_error("correlated", "fourier4", n=100, radius=2.0)
    >>> error.bias2 < 1e-15, error.variance < 1e-15
    (True, True)
    """
    density, kernel = as_density(density), as_kernel(kernel)
    samples = check_integer("n", n)
    dim = check_dimension(density, 1)
    if marginals(density, dim) is not None:
        raise ValueError(f"density must be a joint density in 2 or 3 dimensions, got {density}")
    radii = tuple(map(float, check_radius(radius, dim)))
    plain, finer = (joint_parts(density, kernel, radii, refine=k) for k in (1.0, _FINER))
    return Mise(abs(plain.bias - finer.bias), abs(plain.noise - finer.noise) / samples)


def check_dimension(density: Density, dim: int) -> int:
    """Return D: the density's own, or `dim` copies of a density on the line."""
    dim = check_integer("dim", dim)
    if density.dim > 1 and dim not in {1, density.dim}:
        raise ValueError(f"dim must be {density.dim} for this density, got {dim}")
    free = isinstance(density, HasMarginals) or separates(density)
    if density.dim > LARGEST_TENSOR and not free:
        raise ValueError(f"density must have at most 3 dimensions of its own, got {density.dim}")
    if not math.isfinite(density.roughness):
        raise ValueError(f"density must be square integrable, got {density}")
    factors = marginals(density, dim) or (density,)
    if sum(abs(math.log(factor.roughness)) for factor in factors) > _LARGEST_LOG:
        raise ValueError(f"dim must keep (∫p²)^dim within floating point, got {dim}")
    return max(dim, density.dim)
