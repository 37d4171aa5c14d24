"""The blocks of a sweep, combined into one row per setting."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fourierkernels.simulation.mise import Estimate
from fourierkernels.simulation.regression_errors import median_of_means
from fourierkernels.simulation.sweep.cell import Cell
from fourierkernels.simulation.sweep.results import Done


@dataclass(frozen=True)
class Row:
    """One setting: error over all its finished replicates.

    Attributes
    ----------
    cell : Cell
        The setting, with block 0.
    replicates : int
        Finished replicates that are defined; `undefined` more are not.
    mean, standard_error : float
    robust : float
        Median of the means of 16 groups.
    median : float
        Of the errors.
    radius : float
    seconds : float
        Computing time of all blocks.
    """

    cell: Cell
    replicates: int
    undefined: int
    mean: float
    standard_error: float
    robust: float
    median: float
    radius: float
    seconds: float


def summarise(done: Done) -> list[Row]:
    """Return one row per setting, in the order density, dimension, kernel, n.

    Settings with fewer than two defined replicates are left out.
    """
    groups: dict[Cell, list[Cell]] = defaultdict(list)
    for cell in done:
        groups[replace(cell, block=0)].append(cell)
    rows = [
        _row(setting, sorted(cells, key=lambda cell: cell.block), done)
        for setting, cells in groups.items()
    ]
    return sorted((row for row in rows if row is not None), key=_order)


def _row(setting: Cell, cells: Iterable[Cell], done: Done) -> Row | None:
    outcomes = [done[cell] for cell in cells]
    values = np.concatenate([outcome.values for outcome in outcomes])
    if len(values) < 2:
        return None
    estimate = Estimate(values)
    return Row(
        setting,
        len(values),
        sum(outcome.undefined for outcome in outcomes),
        estimate.mean,
        estimate.standard_error,
        median_of_means(values),
        float(np.median(values)),
        float(np.mean([outcome.radius for outcome in outcomes])),
        sum(outcome.seconds for outcome in outcomes),
    )


def _order(row: Row) -> tuple[str, int, str, str, int]:
    cell = row.cell
    return cell.density, cell.dim, cell.kernel, cell.radius, cell.n
