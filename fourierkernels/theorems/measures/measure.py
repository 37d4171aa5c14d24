"""What a measure of error is: how it is computed and simulated, and over which sample sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.theory.setting import Setting


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
