"""``fourierkernels regress``: the regression of one column of a table on others."""

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


def regress(
    data: Annotated[Path, typer.Argument(help="Table: CSV, or Parquet by its name.")],
    x: Annotated[list[str], typer.Option("-x", help="Column of the design; repeat for more.")],
    y: Annotated[str, typer.Option("-y", help="Column of the responses.")],
    by: Annotated[str | None, typer.Option(help="Column of groups, each on its own.")] = None,
    degree: Annotated[int, typer.Option(help="0 for Nadaraya-Watson; local polynomials to 3.")] = 0,
    kernel: Annotated[str, typer.Option(help="fourier<l> or gaussian.")] = "fourier4",
    radius: Annotated[
        str, typer.Option(help="R = 1/bandwidth: a number or the name of a rule.")
    ] = "gcv",
    level: Annotated[float, typer.Option(help="Of the confidence limits.")] = 0.95,
    band: Annotated[bool, typer.Option("--band", help="Limits that hold everywhere at once.")] = (
        False
    ),
    derivative: Annotated[bool, typer.Option("--derivative", help="Draw the slope too.")] = False,
    missing: Annotated[str, typer.Option(help="Rows without a value: drop or refuse.")] = "drop",
    seed: Annotated[int, typer.Option(help="Seed of the band.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write fit and limits as CSV.")] = None,
) -> None:
    """Print the leave-one-out error and the degrees of freedom of a regression, by group.

    Limits are for the smoothed regression function: the bias of smoothing is not in them. The
    columns named are held in memory, nothing else of the table is.

    Example: fourierkernels regress patients.csv -x bmi -y progression --band --plot fit.png
    """
    import numpy as np

    from fourierkernels.analysis import describe_regression, read_columns

    if plot is not None:
        check_picture(plot)
    if output is not None:
        check_file("output", output)
    frame = read_columns(data, [*x, y, *([] if by is None else [by])])
    found = describe_regression(
        frame,
        x,
        y,
        by=by,
        degree=degree,
        kernel=kernel,
        radius=radius,
        level=level,
        band=band,
        rng=np.random.default_rng(seed),
        missing=missing,
        follow=lambda groups: progress(groups, "regression"),
    )
    picture = None if plot is None else found.figure(derivative=derivative)
    standard_output().print(found.table())
    if output is not None:
        write_table(output, found.curves())
    if plot is not None and picture is not None:
        write_picture(plot, picture)
