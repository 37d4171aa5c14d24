"""``fourierkernels sweep``: simulated errors over many settings, resumable."""

from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import check_file

_Names = list[str] | None
_Numbers = list[int] | None
_Results = Annotated[Path, typer.Argument(help="Results file, one line per finished cell.")]
_Task = Annotated[str | None, typer.Option(help="density (default) or regression.")]
_Densities = Annotated[_Names, typer.Option(help="Density of the data; repeat for more.")]
_Kernels = Annotated[
    _Names, typer.Option(help="Kernel by name: fourier<l>, gaussian; repeat for more.")
]
_Sizes = Annotated[_Numbers, typer.Option(help="Sample size; repeat for more.")]
_Dims = Annotated[_Numbers, typer.Option(help="Dimension; repeat for more.")]
_Radii = Annotated[_Names, typer.Option(help="A number or a rule (optimal); repeat for more.")]
_Replicates = Annotated[int | None, typer.Option(help="Replicates per cell.")]
_Blocks = Annotated[int | None, typer.Option(help="Cells per setting.")]
_Seed = Annotated[int | None, typer.Option(help="Seed of all random numbers.")]
_Function = Annotated[str | None, typer.Option(help="Regression function.")]
_Noise = Annotated[str | None, typer.Option(help="Noise of a regression.")]
_At = Annotated[
    float | None, typer.Option(help="Point of a regression; by default the integrated error.")
]
_Workers = Annotated[int, typer.Option(help="Processes on this machine.")]
_Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to use instead.", metavar="ADDRESS")
]


def sweep(
    results: _Results,
    task: _Task = None,
    density: _Densities = None,
    kernel: _Kernels = None,
    n: _Sizes = None,
    dim: _Dims = None,
    radius: _Radii = None,
    replicates: _Replicates = None,
    blocks: _Blocks = None,
    seed: _Seed = None,
    function: _Function = None,
    noise: _Noise = None,
    at: _At = None,
    workers: _Workers = 1,
    scheduler: _Scheduler = None,
) -> None:
    """Simulate errors over densities, kernels, sizes, dimensions and radius rules.

    Finished cells are kept in RESULTS whatever happens; the same command, or RESULTS alone,
    resumes where the last run ended.

    Example: fourierkernels sweep rates.jsonl --kernel fourier1 --n 100 --n 1000 --workers 2
    """
    from fourierkernels.simulation.sweep.sweep_command import run

    given = {
        "task": task,
        "densities": density,
        "kernels": kernel,
        "sizes": n,
        "dims": dim,
        "radii": radius,
        "replicates": replicates,
        "blocks": blocks,
        "seed": seed,
        "function": function,
        "noise": noise,
        "at": at,
    }
    check_file("results", results)
    run(results, given, workers=workers, scheduler=scheduler)
