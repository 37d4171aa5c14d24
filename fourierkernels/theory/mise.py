"""Exact mean integrated squared error, and the radius that minimises it.

Plancherel gives, with p̂ the characteristic function and K̄(t) = ∏ K̂(t_d/R_d),

    MISE = (2π)^{-D} [ ∫ |p̂|² (1 - K̄)² dt + (1/n) ∫ (1 - |p̂|²) K̄² dt ]:

integrated squared bias and integrated variance, with no simulation. Source: proof of Theorem 3 in
[nguyen2022fourierformer]_, going back to [watson1963estimation]_.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from fourierkernels.densities import Density, HasSpectralTail, as_density
from fourierkernels.kernels import FloatArray, Kernel, as_kernel
from fourierkernels.theory.quadrature import (
    spectral_nodes,
    tensor_axes,
    tensor_nodes,
)
from fourierkernels.validation import check_integer, check_radius

_LARGEST_LOG = 300.0  # of an error: floats end at about exp(±700), and R^D comes on top
_LARGEST_TENSOR = 3  # dimensions of a density that is not a product


@dataclass(frozen=True)
class Mise:
    """Integrated squared bias, integrated variance, and their sum."""

    bias2: float
    variance: float

    @property
    def total(self) -> float:
        """bias2 + variance."""
        return self.bias2 + self.variance


@dataclass(frozen=True)
class Optimum:
    """The best radius for `n` samples in `dim` dimensions, and the error reached there."""

    n: int
    dim: int
    radius: float
    mise: Mise

    @property
    def slope(self) -> float:
        """Slope of log MISE* against log n, exactly: the envelope theorem gives -variance/total."""
        return -self.mise.variance / self.mise.total


class _Spectrum(NamedTuple):
    """Integrals over frequency, each over (2π)^D; all are non-negative, so nothing cancels.

    bias = ∫|p̂|²(1-K̄)²,  cross = ∫|p̂|²(1-K̄)K̄,  kept = ∫|p̂|²K̄²,  noise = ∫(1-|p̂|²)K̄².
    """

    bias: float
    cross: float
    kept: float
    noise: float

    def times(self, other: "_Spectrum") -> "_Spectrum":
        """Return the integrals of the product density and product kernel.

        With A = kept + 2 cross + bias (∫|p̂|²), B = kept + cross, C = kept, the bias of a product
        is ∏A - 2∏B + ∏C; multiplied out, every term is non-negative.
        """
        c, e, b, g = self.kept, self.cross, self.bias, self.noise
        k, x, q, v = other.kept, other.cross, other.bias, other.noise
        bias = b * (k + 2 * x + q) + q * (c + 2 * e) + 2 * e * x
        return _Spectrum(bias, e * k + c * x + e * x, c * k, g * (k + v) + c * v)


def mise(
    density: Density | str, kernel: Kernel | str, *, n: int, radius: ArrayLike, dim: int = 1
) -> Mise:
    """Return the exact MISE of the kernel density estimator.

    Parameters
    ----------
    density : Density or str
        A density on the line stands for the product of `dim` copies of it; a density with its own
        dimension (at most 3) is integrated on a tensor grid.
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
        For a radius that is not positive, n < 1, a density that is not square integrable.

    Examples
    --------
    >>> from fourierkernels.densities import Gaussian
    >>> from fourierkernels.kernels import FourierKernel
    >>> result = mise(Gaussian(), FourierKernel(1), n=100, radius=2.0)
    >>> round(result.bias2, 8), round(result.variance, 8)
    (0.00131956, 0.00355845)
    """
    density, kernel = as_density(density), as_kernel(kernel)
    samples = check_integer("n", n)
    dim = check_dimension(density, dim)
    radii = check_radius(radius, dim)
    return _assemble(_spectrum(density, kernel, radii), samples)


def optimum(density: Density | str, kernel: Kernel | str, *, n: int, dim: int = 1) -> Optimum:
    """Return the radius (one for all dimensions) that minimises the exact MISE, and that error.

    The minimum is global over a grid of radii (12 % apart; closer for l = 1, whose MISE can have
    many minima), then refined to the rounding of a minimum, about 1e-8 relative.

    Raises
    ------
    ValueError
        As :func:`mise`.

    Examples
    --------
    >>> best = optimum("gaussian", "fourier1", n=1000)
    >>> round(best.radius, 6), round(math.sqrt(math.log(1001)), 6)
    (2.628451, 2.628451)
    """
    density, kernel = as_density(density), as_kernel(kernel)
    samples = check_integer("n", n)
    dim = check_dimension(density, dim)

    def total(log_radius: float) -> float:
        radii = np.full(dim, math.exp(log_radius))
        return _assemble(_spectrum(density, kernel, radii), samples).total

    low, high = _profile(density, kernel, dim).bracket(samples)
    found = minimize_scalar(total, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    radius = math.exp(float(found.x))
    best = _assemble(_spectrum(density, kernel, np.full(dim, radius)), samples)
    return Optimum(samples, dim, radius, best)


def optimal_radius(density: Density | str, kernel: Kernel | str, *, n: int, dim: int = 1) -> float:
    """Return the radius R* that minimises the exact MISE; see :func:`optimum`.

    Examples
    --------
    >>> round(optimal_radius("cauchy", "fourier1", n=10_000), 4)
    4.6052
    """
    return optimum(density, kernel, n=n, dim=dim).radius


def check_dimension(density: Density, dim: int) -> int:
    """Return D: the density's own, or `dim` copies of a density on the line."""
    dim = check_integer("dim", dim)
    if density.dim > 1 and dim not in {1, density.dim}:
        raise ValueError(f"dim must be {density.dim} for this density, got {dim}")
    if density.dim > _LARGEST_TENSOR:
        raise ValueError(f"density must have at most 3 dimensions of its own, got {density.dim}")
    if not math.isfinite(density.roughness):
        raise ValueError(f"density must be square integrable, got {density}")
    if density.dim == 1 and dim * abs(math.log(density.roughness)) > _LARGEST_LOG:
        raise ValueError(f"dim must keep (∫p²)^dim within floating point, got {dim}")
    return max(dim, density.dim)


def _assemble(spectrum: _Spectrum, n: int) -> Mise:
    return Mise(spectrum.bias, spectrum.noise / n)


def _spectrum(density: Density, kernel: Kernel, radii: FloatArray) -> _Spectrum:
    if density.dim > 1:
        return _tensor_spectrum(density, kernel, tuple(map(float, radii)))
    product = _line_spectrum(density, kernel, float(radii[0]))
    for radius in radii[1:]:
        product = product.times(_line_spectrum(density, kernel, float(radius)))
    return product


@lru_cache(maxsize=8192)
def _line_spectrum(density: Density, kernel: Kernel, radius: float) -> _Spectrum:
    t, weight = spectral_nodes(density, kernel, radius)
    power, kept = np.square(np.abs(density.cf(t))), kernel.transform(t / radius)
    weight = weight / math.pi  # both half-lines, over 2π
    inside = _integrate(weight, power, kept)
    if isinstance(density, HasSpectralTail):  # else the nodes went on to the end of |p̂|²
        beyond = density.spectral_tail(radius * kernel.cutoff)
        return inside._replace(bias=inside.bias + beyond)
    return inside


def _integrate(weight: FloatArray, power: FloatArray, kept: FloatArray) -> _Spectrum:
    gap = 1.0 - kept
    return _Spectrum(
        bias=float(weight @ (power * gap * gap)),
        cross=float(weight @ (power * gap * kept)),
        kept=float(weight @ (power * kept * kept)),
        noise=float(weight @ ((1.0 - power) * kept * kept)),
    )


@lru_cache(maxsize=512)
def _tensor_spectrum(density: Density, kernel: Kernel, radii: tuple[float, ...]) -> _Spectrum:
    t, weight = tensor_nodes(tensor_axes(density, kernel, np.array(radii)))
    kept = kernel.transform(t / np.array(radii)).prod(axis=-1)
    power = np.square(np.abs(density.cf(t)))
    return _integrate(np.ravel(weight), np.ravel(power), np.ravel(kept))


class _Profile:
    """The integrals on a growing grid of radii: they do not depend on n, so all n share them."""

    def __init__(self, density: Density, kernel: Kernel, dim: int) -> None:
        self._density, self._kernel, self._dim = density, kernel, dim
        self._radii: list[float] = [0.1 * density.spectral_scale]
        self._spectra: list[_Spectrum] = []

    def bracket(self, n: int) -> tuple[float, float]:
        """Return the logarithms of the grid neighbours of the best radius on the grid."""
        best, place, i = math.inf, 0, 0
        while True:
            error = _assemble(self._at(i), n)
            if math.isnan(error.total):  # no radius would ever be the last
                radius = self._radii[i]
                raise ValueError(f"density must have a finite cf, got NaN at radius {radius:g}")
            if error.total < best:
                best, place = error.total, i
            if error.variance > best:  # the variance grows with R: nothing better can follow
                break
            i += 1
        self._at(place + 1)
        low = self._radii[place - 1] if place else 0.5 * self._radii[0]
        return math.log(low), math.log(self._radii[place + 1])

    def _at(self, i: int) -> _Spectrum:
        while len(self._spectra) <= i:
            radius = self._radii[-1]
            radii = np.full(self._dim, radius)
            self._spectra.append(_spectrum(self._density, self._kernel, radii))
            self._radii.append(radius + self._step(radius))
        return self._spectra[i]

    def _step(self, radius: float) -> float:
        step = 0.12 * radius
        wiggly = math.isinf(self._kernel.order) and self._density.spectral_span > 0
        if wiggly and radius < self._density.spectral_range:
            return min(step, max(0.8 / self._density.spectral_span, 0.01 * radius))
        return step


@lru_cache(maxsize=256)
def _profile(density: Density, kernel: Kernel, dim: int) -> _Profile:
    return _Profile(density, kernel, dim)
