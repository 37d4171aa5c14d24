"""Run what is missing of a sweep, and keep every cell as soon as it is finished."""

from collections.abc import Callable
from pathlib import Path

from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.workers.spread import spread
from fourierkernels.simulation.sweep.compute import CELLS, Outcome
from fourierkernels.simulation.sweep.grid import Sweep
from fourierkernels.simulation.sweep.results import Done, Results

__all__ = ["Outcome", "run_sweep"]


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
