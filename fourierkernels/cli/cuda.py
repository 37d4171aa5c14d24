"""``fourierkernels bench`` and ``cuda``: what is measured on this machine.

The time and the error of every method; on a card, the libraries of Fourier attention built, its
results checked and its speed measured.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import check_file, write_json
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.files import write_table

cuda = typer.Typer(help="Fourier attention on a card: build its libraries, check them, time them.")

_CHECK = (sys.executable, "-m", __package__, "cuda", "check")
_Device = Annotated[
    str | None, typer.Option(help="cuda (default), cuda:<index>, or cpu, to try the command.")
]
_Jobs = Annotated[int, typer.Option(help="Libraries built at a time; each takes about 1 GB.")]
_Quick = Annotated[bool, typer.Option("--quick", help="The short run, on small problems.")]


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


@cuda.callback(invoke_without_command=True)
def cuda_group(ctx: typer.Context) -> None:
    """Fourier attention on a card: build its libraries, check them, time them."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@cuda.command()
def build(
    arch: Annotated[
        list[str] | None,
        typer.Option(help="Such as sm_90; repeat for more. By default that of the card."),
    ] = None,
    real: Annotated[
        list[str] | None, typer.Option(help="float or double; by default both.")
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(help="Features: 16, 32, 64, 128 or 256; repeat for more. By default all."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder; by default $FOURIERKERNELS_CACHE or the cache.")
    ] = None,
    jobs: _Jobs = 2,
) -> None:
    """Build the libraries now, for this machine or for others.

    A library's name has its precision, size, architecture, release of the toolkit, and a digest of
    the sources: copied into the cache folder of a machine without nvcc, it is found there.

    Example: fourierkernels cuda build --arch sm_80 --arch sm_90 --output libraries
    """
    from fourierkernels.cli.card.libraries import build_command

    with _explained():
        build_command(arch or [], real or [], size or [], output, jobs=jobs)


@cuda.command()
def check(
    device: _Device = None,
    quick: _Quick = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Part of the name of a group or case; repeat for more."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every number as CSV.")] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write every number and where they come from as JSON.")
    ] = None,
    sanitizer: Annotated[
        bool,
        typer.Option("--sanitizer", help="The short run under each tool of compute-sanitizer."),
    ] = False,
    jobs: _Jobs = 2,
) -> None:
    """Compare the operator with float64 on the CPU: every library, mask, option and way to call.

    The exit status is 1 if an error is beyond its bound or a case fails.

    Example: fourierkernels cuda check --csv check.csv --json check.json
    """
    from fourierkernels.cli.card.check import check_command, sanitizer_command

    for name, path in (("csv", csv), ("json", json)):
        if path is not None:
            check_file(name, path)
    with _explained():
        if sanitizer:
            raise typer.Exit(sanitizer_command(_CHECK, device, only or [], jobs=jobs))
        rows, record = check_command(device, only or [], quick=quick, jobs=jobs)
    lines = [asdict(row) for row in rows]
    if csv is not None:
        write_table(csv, lines)
    if json is not None:
        write_json(json, record | {"rows": lines})
    raise typer.Exit(int(any(row.bad for row in rows)))


@cuda.command("bench")
def bench_on_card(
    device: _Device = None,
    quick: _Quick = False,
    shape: Annotated[
        list[str] | None, typer.Option(help="Part of the name of a shape; repeat for more.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Part of the name of a method; repeat for more.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Begin nothing that would end later than this.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Of one measurement, about.")] = 0.5,
    output: Annotated[
        Path | None,
        typer.Option(help="CSV that grows line by line, with JSON beside it; if there, continued."),
    ] = None,
    jobs: _Jobs = 2,
) -> None:
    """Time forward and backward beside the issue floor and what else computes attention.

    Example: fourierkernels cuda bench --minutes 8 --output bench.csv
    """
    from fourierkernels.cli.card.bench import bench_command

    if output is not None:
        check_file("output", output)
    asked = {"shapes": shape or [], "methods": method or []}
    limits = {"minutes": minutes, "seconds": seconds}
    with _explained():
        bench_command(device, asked, limits, output, quick=quick, jobs=jobs)


@contextmanager
def _explained() -> Iterator[None]:
    """Show why libraries could not be built as it is written, on lines of their own."""
    from fourierkernels.ops.cuda.errors import BuildError

    try:
        yield
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(2) from error
