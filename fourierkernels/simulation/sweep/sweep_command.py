"""The work behind ``fourierkernels sweep``: :func:`run_sweep` with progress and a summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.progress import bar
from fourierkernels.simulation.sweep.compute import TASKS
from fourierkernels.simulation.sweep.driver import run_sweep
from fourierkernels.simulation.sweep.grid import Sweep
from fourierkernels.simulation.sweep.results import read_results
from fourierkernels.simulation.sweep.summary import Row, summarise

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
