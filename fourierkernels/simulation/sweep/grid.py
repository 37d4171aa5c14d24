"""Definition of a sweep: its axes, checked before anything runs, and their cells."""

import hashlib
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fourierkernels.foundation.validation import check_choice, check_integer, check_number
from fourierkernels.foundation.version import __version__
from fourierkernels.kernels import as_kernel
from fourierkernels.simulation.noise import as_noise
from fourierkernels.simulation.sweep.cells import TASKS, Cell, as_number, canonical
from fourierkernels.theory.densities import as_density, as_regression_function

_FORMAT = 1  # of the results file


@dataclass(frozen=True)
class Sweep:
    """Densities × kernels × sizes × dimensions × radius rules × blocks of replicates.

    Parameters
    ----------
    densities, kernels : tuple of str
        Names, as the registries know them.
    sizes, dims : tuple of int
    radii : tuple of str
        Numbers or rules: "optimal" is the exact (density) or large-sample (regression) optimum;
        for densities also the rules of the estimators that look at each sample.
    replicates, blocks : int
        Replicates per cell, and cells per setting.
    seed : int
    task : str
        "density": integrated squared error of estimates; "regression": mean squared error of fits.
    function, noise, at
        Of regressions; see :class:`Cell`.

    Raises
    ------
    ValueError, TypeError
        For unknown names, empty or repeated axes, numbers out of range: before anything runs.

    Examples
    --------
    >>> sweep = Sweep(densities=("gaussian",), kernels=("fourier1", "fourier4"), sizes=(100, 1000))
    >>> len(sweep.cells())
    4
    """

    densities: tuple[str, ...]
    kernels: tuple[str, ...]
    sizes: tuple[int, ...]
    dims: tuple[int, ...] = (1,)
    radii: tuple[str, ...] = ("optimal",)
    replicates: int = 100
    blocks: int = 1
    seed: int = 0
    task: str = "density"
    function: str = "sine"
    noise: str = "gaussian"
    at: float | None = None

    def __post_init__(self) -> None:
        check_choice("task", self.task, list(TASKS))
        for axis in ("densities", "kernels", "sizes", "dims", "radii"):
            values = tuple(getattr(self, axis))
            object.__setattr__(self, axis, values)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{axis} must be distinct and at least one, got {values}")
        for check, values in self._checks():
            for value in values:
                check(value)
        self._check_numbers()

    def _checks(self) -> "list[tuple[Callable[[Any], object], tuple[Any, ...]]]":
        return [
            (as_density, self.densities),
            (as_kernel, self.kernels),
            (lambda n: check_integer("sizes", n, least=2), self.sizes),
            (_check_dim, self.dims),
            (lambda rule: _check_rule(rule, self.task), self.radii),
        ]

    def _check_numbers(self) -> None:
        check_integer("replicates", self.replicates, least=2)
        check_integer("blocks", self.blocks)
        check_integer("seed", self.seed, least=0)
        as_regression_function(self.function)
        as_noise(self.noise)
        if self.at is not None:
            check_number("at", self.at)

    def cells(self) -> list[Cell]:
        """Return all cells, the most expensive first, so that workers end together."""
        axes = (self.densities, self.kernels, self.sizes, self.dims, self.radii, range(self.blocks))
        cells = [
            Cell(self.task, density, kernel, n, dim, radius, block, self.replicates, self.seed)
            for density, kernel, n, dim, radius, block in itertools.product(*axes)
        ]
        if self.task == "regression":
            target = {"function": self.function, "noise": self.noise, "at": self.at}
            cells = [replace(cell, **target) for cell in cells]  # type: ignore[arg-type]
        return sorted(cells, key=lambda cell: -cell.n * cell.dim)

    def header(self) -> dict[str, Any]:
        """Return the first line of a results file: what its numbers depend on."""
        config = json.loads(canonical(asdict(self)))
        return {
            "format": _FORMAT,
            "fourierkernels": __version__,
            "numpy": np.__version__,
            "sweep": config,
            "digest": hashlib.sha256(canonical(config).encode()).hexdigest()[:16],
        }


def _check_dim(dim: int) -> None:
    if check_integer("dims", dim) > 3:
        raise ValueError(f"dims must be at most 3, got {dim}")


def _check_rule(rule: str, task: str) -> None:
    number = as_number(rule)
    if number is None:
        check_choice("radii", rule, TASKS[task].rule_names)
    elif not (math.isfinite(number) and number > 0):
        raise ValueError(f"radii must be positive and finite, got {rule}")
