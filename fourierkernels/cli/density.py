"""``fourierkernels density``: the density of a column of a table."""

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

_Column = Annotated[str, typer.Option(help="Column of numbers.")]
_Kernel = Annotated[str, typer.Option(help="fourier<l>, or gaussian, with a test of one mode.")]
_Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Where the density lives; inf for an open end.", metavar="LOW HIGH"),
]
_Level = Annotated[float, typer.Option(help="Probability of the region.")]
_Replicates = Annotated[int, typer.Option(help="Of the test of one mode.")]
_Seed = Annotated[int, typer.Option(help="Seed of the test.")]


def density(
    data: Data,
    column: _Column,
    by: By = None,
    kernel: _Kernel = "fourier4",
    radius: Radius = None,
    bounds: _Bounds = None,
    level: _Level = 0.95,
    missing: Missing = "drop",
    replicates: _Replicates = 199,
    seed: _Seed = 0,
    plot: Plot = None,
    output: Output = None,
) -> None:
    """Print the modes and the highest-density region of a column, by group.

    The region is the smallest set with that probability. For the Gaussian kernel, Silverman's test
    asks whether the density has more than one mode. The column is held in memory, nothing else of
    the table is.

    Example: fourierkernels density patients.csv --column bmi --by sex --kernel gaussian
    """
    from fourierkernels.estimators.tables import describe_density, read_columns

    check_results(plot, output)
    found = describe_density(
        read_columns(data, [column, *([] if by is None else [by])]),
        column,
        by=by,
        kernel=kernel,
        radius=radius,
        bounds=bounds,
        level=level,
        missing=missing,
        replicates=replicates,
        rng=generator(seed),
        follow=lambda groups: tracked(groups, "density"),
    )
    show(found, plot, None if plot is None else found.figure(), output)
