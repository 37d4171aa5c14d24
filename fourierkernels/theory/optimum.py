"""The radius that minimises the exact MISE, one for all dimensions or one for each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import minimize, minimize_scalar

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.density_error import check_dimension, error_parts, marginals
from fourierkernels.theory.frequency_integrals import Mise, Parts

_SWEEPS = 2
_NEAR = 4  # radii of the grid on either side of the best
_TINY = 1e-300


@dataclass(frozen=True)
class Optimum:
    """The best radius for `n` samples in `dim` dimensions, and the error reached there.

    Attributes
    ----------
    radius : float
        R; with one radius per dimension, their geometric mean.
    radii : tuple of `dim` floats
    """

    n: int
    dim: int
    radius: float
    mise: Mise
    radii: tuple[float, ...]

    @property
    def slope(self) -> float:
        """Slope of log MISE* against log n, exactly: the envelope theorem gives -variance/total."""
        return -self.mise.variance / self.mise.total


def optimum(
    density: Density | str,
    kernel: Kernel | str,
    *,
    n: int,
    dim: int = 1,
    per_dimension: bool = False,
) -> Optimum:
    """Return the radius that minimises the exact MISE, and that error.

    The minimum is global over a grid of radii (12 % apart; closer for l = 1, whose MISE can have
    many minima), then refined to the rounding of a minimum, about 1e-8 relative. With one radius
    per dimension it is global along each dimension in turn, then refined jointly.

    Parameters
    ----------
    per_dimension : bool
        Whether each dimension has its own radius.

    Raises
    ------
    ValueError
        As :func:`fourierkernels.theory.mise`.

    Examples
    --------
    >>> best = optimum("gaussian", "fourier1", n=1000)
    >>> round(best.radius, 6), round(math.sqrt(math.log(1001)), 6)
    (2.628451, 2.628451)
    >>> from fourierkernels.theory.densities import Gaussian, Product
    >>> wide = Product((Gaussian(), Gaussian(0.0, 10.0)))
    >>> [round(r, 4) for r in optimum(wide, "fourier4", n=1000, per_dimension=True).radii]
    [2.5032, 0.2503]
    """
    density, kernel = as_density(density), as_kernel(kernel)
    samples = check_integer("n", n)
    dim = check_dimension(density, dim)
    if per_dimension and dim > 1:
        radii = _best_radii(density, kernel, samples, dim)
    else:
        radii = np.full(dim, _best_radius(density, kernel, samples, dim))
    best = error_parts(density, kernel, radii).per(samples)
    radius = float(radii[0]) if not per_dimension else math.exp(float(np.log(radii).mean()))
    return Optimum(samples, dim, radius, best, tuple(map(float, radii)))


def optimal_radius(density: Density | str, kernel: Kernel | str, *, n: int, dim: int = 1) -> float:
    """Return the radius R* that minimises the exact MISE; see :func:`optimum`.

    Examples
    --------
    >>> round(optimal_radius("cauchy", "fourier1", n=10_000), 4)
    4.6052
    """
    return optimum(density, kernel, n=n, dim=dim).radius


def _best_radius(density: Density, kernel: Kernel, n: int, dim: int) -> float:
    profile = _profile(density, kernel, dim)
    low, high = profile.bracket(n)
    if marginals(density, dim) is None:  # every radius costs a sum over millions of nodes
        total = profile.interpolated(n, low, high)
    else:
        exact = _log_total(density, kernel, n)
        total = lambda x: exact(np.full(dim, x))  # noqa: E731
    result = minimize_scalar(total, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    return math.exp(float(result.x))


def _best_radii(density: Density, kernel: Kernel, n: int, dim: int) -> FloatArray:
    total = _log_total(density, kernel, n)
    lines = marginals(density, dim)
    if lines is None:
        start = np.full(dim, _best_radius(density, kernel, n, dim))
        start = start * np.linspace(0.9, 1.1, dim)  # equal radii may be no more than a saddle
    else:
        start = np.array([_best_radius(line, kernel, n, 1) for line in lines])
    place = np.log(start)
    for _ in range(_SWEEPS):
        for d in range(dim):
            shifts = place + np.linspace(-1.5, 1.0, 26)[:, None] * (np.arange(dim) == d)
            place = min([place, *shifts], key=total)
    result = minimize(total, place, method="BFGS", options={"gtol": 1e-9})
    return np.asarray(np.exp(result.x))


def _log_total(density: Density, kernel: Kernel, n: int) -> Callable[[FloatArray], float]:
    def total(log_radii: FloatArray) -> float:
        return math.log(error_parts(density, kernel, np.exp(log_radii)).per(n).total)

    return total


class _Profile:
    """The integrals on a growing grid of radii: they do not depend on n, so all n share them."""

    def __init__(self, density: Density, kernel: Kernel, dim: int) -> None:
        self._density, self._kernel, self._dim = density, kernel, dim
        first = 0.1 if marginals(density, dim) is not None else 0.3
        self._radii: list[float] = [first * density.spectral_scale]
        self._parts: list[Parts] = []

    def bracket(self, n: int) -> tuple[float, float]:
        """Return the logarithms of the grid neighbours of the best radius on the grid."""
        best, place, i = math.inf, 0, 0
        while True:
            error = self._at(i).per(n)
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

    def interpolated(self, n: int, low: float, high: float) -> Callable[[float], float]:
        """Return the logarithm of the error between two logarithms of radii.

        Bias and noise are interpolated on a logarithmic scale from the nine radii of the grid that
        are nearest: to about 1e-8, so that the error at the minimum is exact to rounding.
        """
        middle = 0.5 * (low + high)
        place = int(np.argmin(np.abs(np.log(self._radii) - middle)))
        near = range(max(0, place - _NEAR), place + _NEAR + 1)
        parts = [self._at(i) for i in near]
        x = np.log([self._radii[i] for i in near])
        curves = BarycentricInterpolator(x, np.log([[max(v, _TINY) for v in p] for p in parts]))

        def total(at: float) -> float:
            bias, noise = curves(at)
            return float(np.logaddexp(bias, noise - math.log(n)))

        return total

    def _at(self, i: int) -> Parts:
        while len(self._parts) <= i:
            radius = self._radii[-1]
            radii = np.full(self._dim, radius)
            self._parts.append(error_parts(self._density, self._kernel, radii))
            self._radii.append(radius + self._step(radius))
        return self._parts[i]

    def _step(self, radius: float) -> float:
        step = 0.12 * radius
        wiggly = math.isinf(self._kernel.order) and self._density.spectral_span > 0
        if wiggly and radius < self._density.spectral_range:
            return min(step, max(0.8 / self._density.spectral_span, 0.01 * radius))
        return step


@lru_cache(maxsize=256)
def _profile(density: Density, kernel: Kernel, dim: int) -> _Profile:
    return _Profile(density, kernel, dim)
