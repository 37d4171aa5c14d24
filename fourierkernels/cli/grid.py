"""``fourierkernels grid``: a density or a regression of a table's columns on a grid."""

from typing import Annotated

import typer

from fourierkernels.cli.estimates import (
    Data,
    Decimal,
    Missing,
    Output,
    Period,
    Plot,
    Thousands,
    check_results,
    periods_in,
    show,
)

_X = Annotated[list[str], typer.Option("-x", help="Column of numbers; repeat for up to three.")]
_Y = Annotated[str | None, typer.Option("-y", help="Column of responses, for a regression.")]
_Points = Annotated[
    list[int] | None,
    typer.Option(help="Length of all axes, or repeat for each; 512, and 64 for three columns."),
]
_Kernel = Annotated[str, typer.Option(help="One of {kernels}, or fourier<l>.")]
_Radius = Annotated[
    str | None,
    typer.Option(
        help="R = 1/bandwidth, or a rule; by default normal_reference, for a regression gcv."
    ),
]
_Tol = Annotated[float, typer.Option(help="Accuracy relative to the largest sum.")]


def grid(
    data: Data,
    x: _X,
    y: _Y = None,
    points: _Points = None,
    kernel: _Kernel = "fourier4",
    radius: _Radius = None,
    period: Period = None,
    tol: _Tol = 1e-12,
    missing: Missing = "drop",
    decimal: Decimal = ".",
    thousands: Thousands = "",
    plot: Plot = None,
    output: Output = None,
) -> None:
    """Evaluate the density of columns, or a regression on them, on a grid.

    --plot draws a curve, or a map with contours; --output writes a row for each place.

    Example: fourierkernels grid patients.csv -x bmi -x s5 --plot map.png
    """
    from fourierkernels.estimators.tables import Marks, describe_grid, read_columns

    check_results(plot, output)
    columns = [*x, *([] if y is None else [y])]
    lengths = points[0] if points and len(points) == 1 else points or None
    found = describe_grid(
        read_columns(data, columns, marks=Marks(decimal, thousands)),
        x,
        y,
        points=lengths,
        kernel=kernel,
        radius=radius,
        period=periods_in(period),
        tol=tol,
        missing=missing,
    )
    show(found, plot, None if plot is None else found.figure(), output)
