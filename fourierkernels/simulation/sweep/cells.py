"""One cell of a sweep: its identity, and its computation by task.

To add a task, write the function of its errors and put a row into :data:`TASKS`; to add a rule for
the radius, put it into the `rules` of a task. Rules of
:data:`fourierkernels.estimators.radius.RADIUS_RULES`, which look at each sample, are known to the
task of densities as they are.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fourierkernels.estimators.radius import RADIUS_RULES
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.workers import Work, one_thread
from fourierkernels.simulation.mise import mise
from fourierkernels.simulation.mse import mse
from fourierkernels.simulation.noise import as_noise
from fourierkernels.simulation.regression_errors import quadrature
from fourierkernels.theory import optimal_radius, regression_radius
from fourierkernels.theory.densities import as_density, as_regression_function


@dataclass(frozen=True)
class Cell:
    """One unit of work: a block of replicates of one setting.

    Attributes
    ----------
    task : str
        Key in :data:`fourierkernels.simulation.sweep.TASKS`.
    density, kernel : str
    n, dim : int
    radius : str
        A number, or a rule of its task in :data:`fourierkernels.simulation.sweep.TASKS`.
    block, replicates : int
        Number of the block, and how many replicates it holds.
    seed : int
        Of the sweep; with the other fields it determines the random numbers.
    function, noise : str
        Of a regression, else empty.
    at : float or None
        Every coordinate of the point of a regression; None for the integrated error.
    """

    task: str
    density: str
    kernel: str
    n: int
    dim: int
    radius: str
    block: int
    replicates: int
    seed: int
    function: str = ""
    noise: str = ""
    at: float | None = None

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(canonical(asdict(self)).encode()).digest()

    @property
    def key(self) -> str:
        """Identity of the cell, 32 hexadecimal digits."""
        return self._digest.hex()[:32]

    def rng(self) -> np.random.Generator:
        """Return the cell's own generator: seeded by what the cell is, not by when it runs."""
        words = np.frombuffer(self._digest, dtype="<u4")
        return np.random.default_rng(np.random.SeedSequence([int(word) for word in words]))

    def __str__(self) -> str:
        return (
            f"{self.task} {self.density} {self.kernel} n={self.n} dim={self.dim} "
            f"radius={self.radius} block={self.block}"
        )


def as_number(rule: str) -> float | None:
    """Return the radius if the rule is a number, else None."""
    try:
        return float(rule)
    except ValueError:
        return None


def canonical(value: dict[str, Any]) -> str:
    """Return the one JSON text of a record."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


_PILOT = {1: 24, 2: 8, 3: 5}  # nodes per dimension of the integrated error that a radius minimises


@dataclass(frozen=True)
class Outcome:
    """Result of a finished cell.

    Attributes
    ----------
    values : tuple of float
        Error per replicate: ISE of a density, squared error of a regression given its design.
    undefined : int
        Replicates whose fit is undefined; they have no value.
    radius : float
        Mean over replicates, where the rule looks at each sample.
    seconds : float
        Time it took; it is not part of the result.
    """

    values: tuple[float, ...]
    undefined: int
    radius: float
    seconds: float


def compute(cell: Cell) -> Outcome:
    """Return the errors of a cell, on one thread; the same wherever it runs.

    Examples
    --------
    >>> cell = Cell("density", "gaussian", "fourier4", 100, 1, "optimal", 0, 3, seed=0)
    >>> compute(cell).values == compute(cell).values
    True
    """
    start = time.perf_counter()
    with one_thread():
        task = TASKS[cell.task]
        values, radius = task.errors(cell, task.radius(cell))
    kept = values[~np.isnan(values)]
    seconds = time.perf_counter() - start
    return Outcome(tuple(map(float, kept)), len(values) - len(kept), radius, seconds)


CELLS = Work(compute, piece="cell", whole="sweep")


class Task(NamedTuple):
    """A kind of error that cells simulate.

    Attributes
    ----------
    title : str
        Of the summary.
    errors : callable (cell, radius) -> (errors, radius)
        Errors per replicate, and the radius in the mean; it is given a number, or the name of a
        rule that looks at each sample.
    rules : dict of callables cell -> float
        Radii that are known before a sample is drawn.
    sample_rules : mapping
        Names of the rules that look at each sample.
    """

    title: str
    errors: Callable[[Cell, float | str], tuple[FloatArray, float]]
    rules: dict[str, Callable[[Cell], float]]
    sample_rules: Mapping[str, object] = MappingProxyType({})

    @property
    def rule_names(self) -> list[str]:
        """Return the names that a cell of this task may give as its radius."""
        return [*self.rules, *self.sample_rules]

    def radius(self, cell: Cell) -> float | str:
        """Return the radius of a cell, or the name of the rule that finds it in each sample."""
        number = as_number(cell.radius)
        if number is not None:
            return number
        return self.rules[cell.radius](cell) if cell.radius in self.rules else cell.radius


def _density_errors(cell: Cell, radius: float | str) -> tuple[FloatArray, float]:
    errors = mise(
        cell.density,
        cell.kernel,
        n=cell.n,
        radius=radius,
        dim=cell.dim,
        replicates=cell.replicates,
        rng=cell.rng(),
    )
    return errors.values, float(errors.radii.mean())


def _regression_errors(cell: Cell, radius: float | str) -> tuple[FloatArray, float]:
    at = None if cell.at is None else np.full((1, cell.dim), cell.at)
    number = float(radius)
    errors = mse(
        cell.density,
        cell.function,
        cell.kernel,
        n=cell.n,
        radius=number,
        dim=cell.dim,
        at=at,
        noise=cell.noise,
        replicates=cell.replicates,
        rng=cell.rng(),
    )
    return errors.integrated.values if at is None else errors.values[:, 0], number


def _best_for_density(cell: Cell) -> float:
    return _density_optimum(cell.density, cell.kernel, cell.n, cell.dim)


@lru_cache(maxsize=4096)
def _density_optimum(density: str, kernel: str, n: int, dim: int) -> float:
    return optimal_radius(density, kernel, n=n, dim=dim)


def _best_for_regression(cell: Cell) -> float:
    setting = (cell.density, cell.function, cell.kernel, cell.n, cell.dim, cell.noise)
    return _regression_optimum(*setting)


@lru_cache(maxsize=4096)
def _regression_optimum(
    density: str, function: str, kernel: str, n: int, dim: int, noise: str
) -> float:
    """Return the radius of the least integrated large-sample error on the central box."""
    breaks = as_regression_function(function).breaks
    points, weights = quadrature(as_density(density), dim, nodes=_PILOT[dim], breaks=breaks)
    level = as_noise(noise).variance(points)
    return regression_radius(
        density, function, kernel, n=n, at=points, noise_variance=level, weights=weights
    )


TASKS: dict[str, Task] = {
    "density": Task(
        "mean integrated squared error",
        _density_errors,
        {"optimal": _best_for_density},
        RADIUS_RULES,
    ),
    "regression": Task("mean squared error", _regression_errors, {"optimal": _best_for_regression}),
}
