"""What one cell computes: a row per task and per radius rule.

To add a task or a rule, write its function, put a row here, and its name beside the others in
:mod:`fourierkernels.simulation.sweep.cells`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.densities import as_density, as_regression_function
from fourierkernels.exact_error import optimal_radius, regression_radius
from fourierkernels.simulation.central_box import quadrature
from fourierkernels.simulation.mise import mise
from fourierkernels.simulation.mse import mse
from fourierkernels.simulation.noise import as_noise
from fourierkernels.simulation.sweep.cells import Cell, as_number

_PILOT = {1: 24, 2: 8, 3: 5}  # nodes per dimension of the integrated error that a radius minimises


@dataclass(frozen=True)
class Outcome:
    """What a finished cell found.

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
    with _one_thread():
        values, radius = TASKS[cell.task](cell)
    kept = values[~np.isnan(values)]
    seconds = time.perf_counter() - start
    return Outcome(tuple(map(float, kept)), len(values) - len(kept), radius, seconds)


def failure(cell: Cell, error: Exception) -> ValueError:
    """Return the error to raise when a cell fails: it names the cell."""
    return ValueError(f"cell {cell} failed: {type(error).__name__}: {error}")


def _density(cell: Cell) -> tuple[FloatArray, float]:
    return RULES["number" if as_number(cell.radius) is not None else cell.radius](cell)


def _regression(cell: Cell) -> tuple[FloatArray, float]:
    fixed = as_number(cell.radius)
    radius = _best_for_regression(*_setting(cell)) if fixed is None else fixed
    at = None if cell.at is None else np.full((1, cell.dim), cell.at)
    found = mse(
        cell.density,
        cell.function,
        cell.kernel,
        n=cell.n,
        radius=radius,
        dim=cell.dim,
        at=at,
        noise=cell.noise,
        replicates=cell.replicates,
        rng=cell.rng(),
    )
    return found.integrated.values if at is None else found.values[:, 0], radius


def _setting(cell: Cell) -> tuple[str, str, str, int, int, str]:
    return cell.density, cell.function, cell.kernel, cell.n, cell.dim, cell.noise


@lru_cache(maxsize=4096)
def _best_for_regression(
    density: str, function: str, kernel: str, n: int, dim: int, noise: str
) -> float:
    """Return the radius of the least integrated large-sample error on the central box."""
    breaks = as_regression_function(function).breaks
    points, weights = quadrature(as_density(density), dim, nodes=_PILOT[dim], breaks=breaks)
    level = as_noise(noise).variance(points)
    return regression_radius(
        density, function, kernel, n=n, at=points, noise_variance=level, weights=weights
    )


def _at_number(cell: Cell) -> tuple[FloatArray, float]:
    return _at_radius(cell, float(cell.radius))


def _at_optimum(cell: Cell) -> tuple[FloatArray, float]:
    return _at_radius(cell, _best_for_density(cell.density, cell.kernel, cell.n, cell.dim))


def _at_radius(cell: Cell, radius: float | str) -> tuple[FloatArray, float]:
    found = mise(
        cell.density,
        cell.kernel,
        n=cell.n,
        radius=radius,
        dim=cell.dim,
        replicates=cell.replicates,
        rng=cell.rng(),
    )
    return found.values, float(found.radii.mean())


@lru_cache(maxsize=4096)
def _best_for_density(density: str, kernel: str, n: int, dim: int) -> float:
    return optimal_radius(density, kernel, n=n, dim=dim)


def _estimated(cell: Cell) -> tuple[FloatArray, float]:
    """Choose the radius anew for each sample, as a user of the estimator would."""
    return _at_radius(cell, cell.radius)


Errors = Callable[[Cell], tuple[FloatArray, float]]
TASKS: dict[str, Errors] = {"density": _density, "regression": _regression}
RULES: dict[str, Errors] = {
    "number": _at_number,
    "optimal": _at_optimum,
    **dict.fromkeys(("normal_reference", "lscv", "plugin"), _estimated),
}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep a cell to one thread: workers share the cores among themselves."""
    import numba
    from threadpoolctl import threadpool_limits

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        numba.set_num_threads(before)
