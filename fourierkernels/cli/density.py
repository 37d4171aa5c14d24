"""``fourierkernels density``: the density of a column of a table."""

from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import (
    check_file,
    check_picture,
    progress,
    write_picture,
    write_table,
)
from fourierkernels.console import standard_output


def density(
    data: Annotated[Path, typer.Argument(help="Table: CSV, or Parquet by its name.")],
    column: Annotated[str, typer.Option(help="Column of numbers.")],
    by: Annotated[str | None, typer.Option(help="Column of groups, each on its own.")] = None,
    kernel: Annotated[
        str, typer.Option(help="fourier<l> or gaussian, which is tested for one mode.")
    ] = "fourier4",
    radius: Annotated[
        str | None, typer.Option(help="R = 1/bandwidth: a number or the name of a rule.")
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Where the density lives; inf for an open end.", metavar="LOW HIGH"),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the region.")] = 0.95,
    missing: Annotated[str, typer.Option(help="Rows without a value: drop or refuse.")] = "drop",
    replicates: Annotated[int, typer.Option(help="Of the test of one mode.")] = 199,
    seed: Annotated[int, typer.Option(help="Seed of the test.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the curves as CSV.")] = None,
) -> None:
    """Print the modes and the highest-density region of a column, by group.

    The region is the smallest set with that probability. For the Gaussian kernel, Silverman's test
    asks whether the density has more than one mode. The column is held in memory, nothing else of
    the table is.

    Example: fourierkernels density patients.csv --column bmi --by sex --kernel gaussian
    """
    import numpy as np

    from fourierkernels.analysis import describe_density, read_columns

    if plot is not None:
        check_picture(plot)
    if output is not None:
        check_file("output", output)
    frame = read_columns(data, [column, *([] if by is None else [by])])
    found = describe_density(
        frame,
        column,
        by=by,
        kernel=kernel,
        radius=radius,
        bounds=bounds,
        level=level,
        missing=missing,
        replicates=replicates,
        rng=np.random.default_rng(seed),
        follow=lambda groups: progress(groups, "density"),
    )
    picture = None if plot is None else found.figure()
    standard_output().print(found.table())
    if output is not None:
        write_table(output, found.curves())
    if plot is not None and picture is not None:
        write_picture(plot, picture)
