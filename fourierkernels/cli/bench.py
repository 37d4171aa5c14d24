"""``fourierkernels bench``: the time and the error of every method on this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import check_file, write_table
from fourierkernels.foundation.console import standard_output


def bench(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="density, regression, attention; all without.", metavar="[TASK]..."),
    ] = None,
    n: Annotated[
        list[int] | None, typer.Option(help="Samples, or tokens; repeat for more.")
    ] = None,
    dim: Annotated[list[int] | None, typer.Option(help="Dimension; repeat for more.")] = None,
    power: Annotated[int, typer.Option(help="l of sinc^l.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the data.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
) -> None:
    """Time every method on this machine, and measure its error against the reference.

    Example: fourierkernels bench density --n 1000 --n 100000
    """
    from fourierkernels.cli.benchmarks import bench_table, run_bench

    if output is not None:
        check_file("output", output)
    rows = list(run_bench(tasks or [], n or [1000], dim or [1, 16], power=power, seed=seed))
    standard_output().print(bench_table(rows))
    if output is not None:
        write_table(output, [asdict(row) for row in rows])
