"""Run the missing cells of a sweep, and summarise its blocks in one row per setting."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.progress import bar
from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.workers import spread
from fourierkernels.simulation.mise import Estimate
from fourierkernels.simulation.regression_errors import median_of_means
from fourierkernels.simulation.sweep.cells import CELLS, TASKS, Cell
from fourierkernels.simulation.sweep.grid import Sweep
from fourierkernels.simulation.sweep.results import Done, Results, read_results


def run_sweep(
    sweep: Sweep,
    path: str | Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Done:
    """Compute the cells that the results file does not hold yet; return all of them.

    Parameters
    ----------
    sweep : Sweep
    path : path
        The results file; it may hold finished cells of the same sweep.
    workers : int
        Processes on this machine, each with one thread; not used with a scheduler.
    scheduler : str, optional
        Address of a Dask scheduler, ``tcp://host:8786``, whose workers have this package.
    progress : callable, optional
        Called with (finished, all) at the start and after each cell.

    Raises
    ------
    ValueError
        For a results file of another sweep, damaged, or in use; if a cell fails.
    OSError
        If a line cannot be written, the scheduler not reached (ConnectionError), or a cell ends
        the workers that take it (ChildProcessError). Finished cells are kept in every case.

    Examples
    --------
    >>> import tempfile
    >>> sweep = Sweep(densities=("gaussian",), kernels=("fourier1",), sizes=(50,), replicates=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run_sweep(sweep, f"{folder}/results.jsonl")
    ...     again = run_sweep(sweep, f"{folder}/results.jsonl")  # nothing left to do
    >>> first == again, len(first)
    (True, 1)
    """
    count = check_integer("workers", workers)
    cells = sweep.cells()
    report = progress or (lambda finished, total: None)
    with Results(path, sweep) as results:
        todo = [cell for cell in cells if cell not in results.done]
        report(len(results.done), len(cells))
        if todo:
            with spread(CELLS, todo, workers=count, scheduler=scheduler) as finished:
                for cell, outcome in finished:
                    results.append(cell, outcome)
                    report(len(results.done), len(cells))
        return dict(results.done)


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


_HEADER = (
    "density",
    "kernel",
    "D",
    "radius",
    "n",
    "mean R",
    "error",
    "± s.e.",
    "robust",
    "runs",
    "undefined",
)
DEFAULTS: dict[str, Any] = {
    "densities": ("gaussian",),
    "kernels": ("fourier1", "fourier2", "fourier4", "gaussian"),
    "sizes": (100, 1_000, 10_000),
}


def run(
    path: Path, given: Mapping[str, object], *, workers: int, scheduler: str | None
) -> list[Row]:
    """Run or continue the sweep of a results file and show its summary on standard output.

    Parameters
    ----------
    given : mapping
        Parameters of :class:`Sweep`, None or empty where the user gave none. Without any, a file
        that is there says itself which sweep it is of.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        As :func:`run_sweep`.
    """
    chosen = {name: value for name, value in given.items() if value is not None and value != []}
    if path.exists() and path.stat().st_size and not chosen:
        sweep = read_results(path)[0]
    else:
        sweep = Sweep(**{**DEFAULTS, **chosen})
    with bar("cells") as report:
        done = run_sweep(sweep, path, workers=workers, scheduler=scheduler, progress=report)
    rows = summarise(done)
    _show(sweep, rows)
    return rows


def _show(sweep: Sweep, rows: Sequence[Row]) -> None:
    from rich import box
    from rich.table import Table

    title = f"{sweep.task}: {TASKS[sweep.task].title}"
    table = Table(*_HEADER, title=title, box=box.SIMPLE_HEAD)
    for row in rows:
        cell = row.cell
        table.add_row(
            cell.density,
            cell.kernel,
            str(cell.dim),
            cell.radius,
            str(cell.n),
            f"{row.radius:.4g}",
            f"{row.mean:.4e}",
            f"{row.standard_error:.1e}",
            f"{row.robust:.4e}",
            str(row.replicates),
            str(row.undefined),
        )
    standard_output().print(table)
