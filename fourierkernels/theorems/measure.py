"""Measures of error: how each is computed and simulated, in which setting and over which sizes.

Here too: the integrated error of a density, which is exact, so that nothing is simulated, and the
points at which the other measures judge an error.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import (
    Density,
    RegressionFunction,
    as_density,
    as_regression_function,
)
from fourierkernels.theory.density_error import dimension, mise
from fourierkernels.theory.optimum import optimum


@dataclass(frozen=True)
class Setting:
    """Setting of a theorem: a product of `dim` copies, a kernel, a regression function."""

    density: Density
    kernel: Kernel
    dim: int = 1
    function: RegressionFunction | None = None

    @classmethod
    def of(
        cls,
        density: Density | str,
        kernel: Kernel | str,
        function: RegressionFunction | str | None = None,
        *,
        dim: int = 1,
    ) -> "Setting":
        """Return the setting of names or objects.

        Raises
        ------
        ValueError, TypeError
            For unknown names, a `dim` below 1, and one that is not that of the density.
        """
        target = as_density(density)
        f = None if function is None else as_regression_function(function)
        return cls(target, as_kernel(kernel), dimension(target, dim), f)

    @property
    def response(self) -> RegressionFunction:
        """The regression function.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.function is None:
            raise ValueError("function must be given for a theorem on regression, got None")
        return self.function


@dataclass(frozen=True)
class Measured:
    """Errors at the best radius for growing n.

    Attributes
    ----------
    sizes, radii, errors : arrays of shape (k,)
    standard_errors : array of shape (k,) or None
        None for errors that are computed, not simulated.
    method : str
        How they were found.
    notes : str
        What else the method saw, such as the share of undefined ratios.
    """

    sizes: FloatArray
    radii: FloatArray
    errors: FloatArray
    standard_errors: FloatArray | None
    method: str
    notes: str = ""


Computation = Callable[[Setting, Sequence[int]], Measured]
Simulation = Callable[[Setting, Sequence[int]], Measured]
Bound = Callable[..., float]  # (setting, n, radius); of a tail also the level


class MakesSimulation(Protocol):
    """Build a simulation; without arguments, the one that :func:`verify` uses."""

    def __call__(self, *, replicates: int = ..., seed: int = ...) -> Simulation:
        """Return the simulation with these replicates per size."""


@dataclass(frozen=True, eq=False)
class ErrorMeasure:
    """An error that theorems bound, with everything needed to measure it.

    Attributes
    ----------
    name : str
    about_regression : bool
        Whether a setting needs a regression function.
    compute : callable (setting, sizes) -> Measured
        Errors without simulation, at the best radius.
    sizes, log_sizes : tuple of int
        Windows of n, in geometric progression; the second where the sharp rate has a logarithm and
        the next order is slow.
    over_bound : callable (bound, setting, n, radius) -> float
        Error over bound, the largest if the measure has levels.
    factors : tuple of float
        Radii at which the constant of a bound is measured, as multiples of the best.
    simulation : callable (replicates=, seed=) -> Simulation, or None
        None where the computed error is exact.
    simulated_sizes : tuple of int
        Window of n of the simulation.
    beside : callable (setting, sizes) -> Measured, or None
        What a simulation is compared with, at its small n; by default `compute`.
    """

    name: str
    about_regression: bool
    compute: Computation
    sizes: tuple[int, ...]
    log_sizes: tuple[int, ...]
    over_bound: Callable[[Bound, Setting, float, float], float]
    factors: tuple[float, ...]
    simulation: MakesSimulation | None = None
    simulated_sizes: tuple[int, ...] = ()
    beside: Computation | None = None

    def compare_with(self, setting: Setting, sizes: Sequence[int]) -> Measured:
        """Return what a simulation is compared with."""
        return (self.beside or self.compute)(setting, sizes)


def decades(first: int, last: int) -> tuple[int, ...]:
    """Return the powers of ten from 10^first to 10^last."""
    return tuple(10**e for e in range(first, last + 1))


def generator(seed: int, n: int) -> np.random.Generator:
    """Return the generator of one sample size of a simulation."""
    return np.random.default_rng([seed, n])


_LEVELS = (0.15, 0.3, 0.45, 0.6, 0.75)  # quantiles of the density


@lru_cache
def _quantiles(density: Density) -> tuple[float, ...]:
    # Of a sample, for a density need not have a quantile function; the seed keeps the points.
    sample = density.sample(2**14, np.random.default_rng(0))
    return tuple(float(x) for x in np.quantile(sample, _LEVELS))


def central_points(density: Density, dim: int) -> FloatArray:
    """Return five points inside the bulk of a product density, shape ``(5, dim)``."""
    if density.dim > 1:
        raise ValueError(f"density must be on the line, got one in {density.dim} dimensions")
    column = np.array(_quantiles(density))
    # Rolled, so that the points are not all on the diagonal.
    return np.stack([np.roll(column, 2 * d) for d in range(dim)], axis=1)


_TOUCHING = 1e-6  # widths of the density


def order_at_points(setting: Setting) -> float:
    """Return the lowest power |t|^k in [G(x + t) + G(x - t)]/2, G = (f - f(x)) p, at five points.

    Kernels are even: they see this half of G only, and the bias at x is of no higher order than k.
    Infinite where no break of f or p is at a point.
    """
    density, f = setting.density, setting.response
    x = np.unique(central_points(density, setting.dim))
    orders = [math.inf]
    for part, factor in ((f, 0.0), (density, 1.0)):  # p comes with f - f(x) ~ t
        touched = (np.abs(x - place).min() for place in part.breaks)
        if any(gap < _TOUCHING / density.spectral_scale for gap in touched):
            orders.append(_even_order(part.smoothness.exponent - 1.0 + factor))
    return min(orders)


def _even_order(power: float) -> float:
    """Return the order of a break |t|^power in the even half: at an even power it is odd there."""
    return power + 1.0 if power % 2.0 == 0.0 else power


def exact_mise(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the exact MISE at its best radius."""
    best = [optimum(setting.density, setting.kernel, n=n, dim=setting.dim) for n in sizes]
    radii, errors = [b.radius for b in best], [b.mise.total for b in best]
    return Measured(np.array(sizes, float), np.array(radii), np.array(errors), None, "exact MISE")


def mise_at(setting: Setting, n: float, radius: float) -> float:
    """Return the exact MISE at a radius."""
    return mise(setting.density, setting.kernel, n=int(n), radius=radius, dim=setting.dim).total


def _over_bound(bound: Bound, setting: Setting, n: float, radius: float) -> float:
    return mise_at(setting, n, radius) / bound(setting, n, radius)


INTEGRATED_ERROR = ErrorMeasure(
    name="mean integrated squared error",
    about_regression=False,
    compute=exact_mise,
    sizes=decades(6, 14),
    log_sizes=decades(6, 14),
    over_bound=_over_bound,
    factors=tuple(np.geomspace(0.25, 4.0, 9).tolist()),
)
