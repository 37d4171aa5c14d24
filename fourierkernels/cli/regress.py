"""``fourierkernels regress``: the regression of one column of a table on others."""

from typing import Annotated

import typer

from fourierkernels.cli.tables import (
    By,
    Data,
    Missing,
    Output,
    Plot,
    Radius,
    check_results,
    generator,
    show,
)
from fourierkernels.foundation.progress import tracked

_X = Annotated[list[str], typer.Option("-x", help="Column of the design; repeat for more.")]
_Y = Annotated[str, typer.Option("-y", help="Column of the responses.")]
_Degree = Annotated[int, typer.Option(help="0 for Nadaraya-Watson, up to 3 for local polynomials.")]
_Kernel = Annotated[str, typer.Option(help="fourier<l> or gaussian.")]
_Level = Annotated[float, typer.Option(help="Of the confidence limits.")]
_Band = Annotated[bool, typer.Option("--band", help="Limits that hold everywhere at once.")]
_Derivative = Annotated[bool, typer.Option("--derivative", help="Draw the slope too.")]
_Seed = Annotated[int, typer.Option(help="Seed of the band.")]


def regress(
    data: Data,
    x: _X,
    y: _Y,
    by: By = None,
    degree: _Degree = 0,
    kernel: _Kernel = "fourier4",
    radius: Radius = None,
    level: _Level = 0.95,
    band: _Band = False,
    derivative: _Derivative = False,
    missing: Missing = "drop",
    seed: _Seed = 0,
    plot: Plot = None,
    output: Output = None,
) -> None:
    """Print the leave-one-out error and the degrees of freedom of a regression, by group.

    The radius is chosen by generalised cross-validation. Limits are for the smoothed regression
    function: the bias of smoothing is not in them. The columns named are held in memory, nothing
    else of the table is.

    Example: fourierkernels regress patients.csv -x bmi -y progression --band --plot fit.png
    """
    from fourierkernels.estimators.tables import describe_regression, read_columns

    check_results(plot, output)
    found = describe_regression(
        read_columns(data, [*x, y, *([] if by is None else [by])]),
        x,
        y,
        by=by,
        degree=degree,
        kernel=kernel,
        radius=radius,
        level=level,
        band=band,
        rng=generator(seed),
        missing=missing,
        follow=lambda groups: tracked(groups, "regression"),
    )
    picture = None if plot is None else found.figure(derivative=derivative)
    show(found, plot, picture, output)
