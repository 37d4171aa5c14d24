"""``fourierkernels sweep``: simulated errors over many settings, resumable."""

from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import Names, check_file

_Names = list[str] | None
_Numbers = list[int] | None
_Results = Annotated[Path, typer.Argument(help="Results file, one line per finished cell.")]
_Task = Annotated[str | None, typer.Option(help="{tasks}; by default {default task}.")]
_Densities = Annotated[
    _Names,
    typer.Option(help="Density, {densities}; repeat for more; by default {default densities}."),
]
_Kernels = Annotated[
    _Names,
    typer.Option(
        help="Kernel, {kernels} or fourier<l>; repeat for more; by default {default kernels}."
    ),
]
_Sizes = Annotated[
    _Numbers, typer.Option(help="Sample size, by default {default sizes}; repeat for more.")
]
_Dims = Annotated[
    _Numbers, typer.Option(help="Dimension, by default {default dims}; repeat for more.")
]
_Radii = Annotated[
    _Names,
    typer.Option(help="A number, or a rule: {rules}; by default {default radii}; repeat for more."),
]
_Replicates = Annotated[
    int | None, typer.Option(help="Replicates per cell, by default {default replicates}.")
]
_Blocks = Annotated[
    int | None, typer.Option(help="Cells per setting, by default {default blocks}.")
]
_Seed = Annotated[
    int | None, typer.Option(help="Seed of all random numbers, by default {default seed}.")
]
_Function = Annotated[
    str | None,
    typer.Option(help="Regression function, {functions}; by default {default function}."),
]
_Noise = Annotated[
    str | None, typer.Option(help="Noise of a regression, {noises}; by default {default noise}.")
]
_At = Annotated[
    float | None, typer.Option(help="Point of a regression; by default the integrated error.")
]
_Workers = Annotated[int, typer.Option(help="Processes on this machine.")]
_Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to use instead.", metavar="ADDRESS")
]


def sweep_names() -> Names:
    """Return the names in the help, and the defaults."""
    from dataclasses import fields

    from fourierkernels.kernels import KERNELS
    from fourierkernels.simulation.noise import NOISES
    from fourierkernels.simulation.sweep.cells import TASKS
    from fourierkernels.simulation.sweep.grid import Sweep
    from fourierkernels.simulation.sweep.summary import DEFAULTS
    from fourierkernels.theory.densities import DENSITIES, REGRESSION_FUNCTIONS

    rules = dict.fromkeys(rule for task in TASKS.values() for rule in task.rule_names)
    own = {field.name: field.default for field in fields(Sweep)}
    defaults = {name: value for name, value in (own | DEFAULTS).items() if value is not None}
    return {
        "densities": DENSITIES,
        "functions": REGRESSION_FUNCTIONS,
        "kernels": KERNELS,
        "noises": NOISES,
        "tasks": TASKS,
        "rules": rules,
        **{f"default {name}": _shown(value) for name, value in defaults.items()},
    }


def _shown(value: object) -> list[str]:
    return [str(part) for part in (value if isinstance(value, tuple) else (value,))]


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
    from fourierkernels.simulation.sweep.summary import run

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
