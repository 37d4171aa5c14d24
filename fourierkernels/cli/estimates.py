"""``fourierkernels density`` and ``regress``: estimates from the columns of a table."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from fourierkernels.cli.output import Names, check_file, check_picture, write_picture
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.files import write_table
from fourierkernels.foundation.progress import tracked
from fourierkernels.foundation.validation import check_choice, check_integer

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

Data = Annotated[Path, typer.Argument(help="Table: CSV, or Parquet by its name.")]
By = Annotated[
    str | None, typer.Option(help="Column whose values split the table; a result for each.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        "--category",
        help="Column of categories in the fit, smoothed across: SEX, or ordered with its levels, "
        "GRADE=low,middle,high; repeat for more.",
    ),
]
_DensityRadius = Annotated[
    str | None,
    typer.Option(help="R = 1/bandwidth, or a rule: {rules}; by default normal_reference."),
]
_RegressionRadius = Annotated[
    str | None,
    typer.Option(help="R = 1/bandwidth, or a rule: {regression rules}; by default gcv."),
]
_Adaptive = Annotated[
    str | None,
    typer.Option(help="A radius of each sample instead of one for all, by a rule: {adaptive}."),
]
Period = Annotated[
    list[str] | None,
    typer.Option(
        "--period",
        help="Column that goes around a circle, and its period: hour=24; other values are wrapped, "
        "25 is 1. Repeat for more.",
    ),
]
Missing = Annotated[str, typer.Option(help="Rows without a value: drop or refuse.")]
Weights = Annotated[str | None, typer.Option(help="Column of sample weights.")]
_DensityWeights = Annotated[
    str, typer.Option(help="What weights mean: frequency (copies of a row) or importance.")
]
_RegressionWeights = Annotated[
    str,
    typer.Option(
        help="What weights mean: frequency (copies of a row), precision (1/variance of the "
        "response, up to a factor) or importance."
    ),
]
Decimal = Annotated[str, typer.Option(help="Mark before decimals in CSV: . or ,")]
Thousands = Annotated[str, typer.Option(help="Mark between thousands in CSV: , . ' _ or a space.")]
Plot = Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")]
Output = Annotated[Path | None, typer.Option(help="Write the curves as CSV.")]
_Column = Annotated[str, typer.Option(help="Column of numbers.")]
_Kernel = Annotated[str, typer.Option(help="One of {kernels}, or fourier<l>.")]
_Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Where the density lives; inf for an open end.", metavar="LOW HIGH"),
]
_Level = Annotated[float, typer.Option(help="Probability of the region.")]
_Replicates = Annotated[
    int | None,
    typer.Option(help="Of the test of one mode; 199, and none above 100,000 rows, by default."),
]
_Seed = Annotated[int, typer.Option(help="Seed of the test.")]
_X = Annotated[list[str], typer.Option("-x", help="Column of the design; repeat for more.")]
_Y = Annotated[str, typer.Option("-y", help="Column of the responses.")]
_Degree = Annotated[int, typer.Option(help="0 for Nadaraya-Watson, up to 3 for local polynomials.")]
_LimitLevel = Annotated[float, typer.Option(help="Of the confidence limits.")]
_Band = Annotated[bool, typer.Option("--band", help="Limits that hold everywhere at once.")]
_Derivative = Annotated[bool, typer.Option("--derivative", help="Draw the slope too.")]
_BandSeed = Annotated[int, typer.Option(help="Seed of the band.")]


def estimate_names() -> Names:
    """Return the names in the help."""
    from fourierkernels.estimators.adaptive.rules import ADAPTIVE_RULES
    from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, REGRESSION_RULES
    from fourierkernels.kernels import KERNELS

    return {
        "kernels": KERNELS,
        "rules": [*RADIUS_RULES, *GAUSSIAN_RULES],
        "regression rules": REGRESSION_RULES,
        "adaptive": ADAPTIVE_RULES,
    }


class Description(Protocol):
    """What a description of a table offers."""

    def table(self) -> "Table":
        """Return it as a table for a terminal."""

    def curves(self) -> list[dict[str, Any]]:
        """Return its curves as rows."""


def check_results(plot: Path | None, output: Path | None) -> None:
    """Refuse files that could not be written, before there is anything to write."""
    if plot is not None:
        check_picture(plot)
    if output is not None:
        check_file("output", output)


def show(
    found: Description, plot: Path | None, picture: "Figure | None", output: Path | None
) -> None:
    """Print the table; write the curves and the picture, which is drawn already."""
    curves = [] if output is None else found.curves()
    standard_output().print(found.table())
    if output is not None:
        write_table(output, curves)
    if plot is not None and picture is not None:
        write_picture(plot, picture)


def generator(seed: int) -> "np.random.Generator":
    """Return the generator of a seed."""
    import numpy as np

    return np.random.default_rng(check_integer("seed", seed, least=0))


def _read(*columns: str | None) -> list[str]:
    return [column for column in columns if column is not None]


def levels_of(categories: list[str] | None) -> dict[str, list[str] | None]:
    """Return the levels of each column of categories, None for one without order."""
    pairs = [each.partition("=") for each in categories or ()]
    return {name: levels.split(",") if mark else None for name, mark, levels in pairs}


def periods_in(texts: list[str] | None) -> dict[str, float]:
    """Return the period of each column that is named as COLUMN=NUMBER."""
    periods: dict[str, float] = {}
    for text in texts or ():
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not name or not (math.isfinite(value) and value > 0):
            rule = "COLUMN=NUMBER, the number positive and finite"
            raise ValueError(f"--period must be {rule}, got {text!r}")
        if name in periods:
            raise ValueError(f"--period must be given once for a column, got {name!r} twice")
        periods[name] = value
    return periods


def _describing(kind: str) -> "Callable[..., Any]":
    """Return what describes densities or regressions, with progress; its room is loaded now."""
    from fourierkernels.estimators import tables

    known: dict[str, Callable[..., Any]] = {
        "density": tables.describe_density,
        "regression": tables.describe_regression,
    }
    return partial(known[kind], follow=lambda groups: tracked(groups, kind))


def _opened(
    data: Path,
    numbers: list[str],
    by: str | None,
    categories: list[str] | None,
    marks: tuple[str, str],
    results: tuple[Path | None, Path | None],
) -> "pd.DataFrame":
    """Check where results go, and return columns of a table; categories as they are written."""
    from fourierkernels.estimators.tables import Marks, read_columns

    check_results(*results)
    texts = list(levels_of(categories))
    return read_columns(data, numbers, by=by, texts=texts, marks=Marks(*marks))


def _band(band: bool, seed: int) -> dict[str, Any]:
    """Return whether limits are a band, and the generator that it is drawn with."""
    return {"band": band, "rng": generator(seed)}


def _weighted(weights: str | None, weights_are: str, *, regression: bool) -> dict[str, str | None]:
    """Return the column of weights and what they mean, as options of a description."""
    from fourierkernels.estimators.weights import REGRESSION_WEIGHTINGS, WEIGHTINGS

    known = REGRESSION_WEIGHTINGS if regression else WEIGHTINGS
    return {"weights": weights, "weighting": check_choice("--weights-are", weights_are, known)}


def density(
    data: Data,
    column: _Column,
    by: By = None,
    category: Categories = None,
    kernel: _Kernel = "fourier4",
    radius: _DensityRadius = None,
    adaptive: _Adaptive = None,
    bounds: _Bounds = None,
    period: Period = None,
    level: _Level = 0.95,
    missing: Missing = "drop",
    weights: Weights = None,
    weights_are: _DensityWeights = "frequency",
    decimal: Decimal = ".",
    thousands: Thousands = "",
    replicates: _Replicates = None,
    seed: _Seed = 0,
    plot: Plot = None,
    output: Output = None,
) -> None:
    """Print the modes and the highest-density region of a column, by group.

    The region is the smallest set with the probability --level. With the kernel gaussian,
    Silverman's test asks whether the density has more than one mode. The column is held in memory,
    nothing else of the table is. Groups of CSV are texts, as they are written; with --category
    all rows are in one fit, smoothed across levels by as much as cross-validation says. With
    --period a column is a circle, and modes and regions may lie over its end.

    Example: fourierkernels density patients.csv --column bmi --by sex --kernel gaussian
    """
    found = _describing("density")(
        _opened(data, _read(column, weights), by, category, (decimal, thousands), (plot, output)),
        column,
        by=by,
        categories=levels_of(category),
        kernel=kernel,
        radius=radius,
        adaptive=adaptive,
        bounds=bounds,
        period=periods_in(period),
        level=level,
        missing=missing,
        **_weighted(weights, weights_are, regression=False),
        replicates=replicates,
        rng=generator(seed),
    )
    show(found, plot, None if plot is None else found.figure(), output)


def regress(
    data: Data,
    x: _X,
    y: _Y,
    by: By = None,
    category: Categories = None,
    degree: _Degree = 0,
    kernel: _Kernel = "fourier4",
    radius: _RegressionRadius = None,
    adaptive: _Adaptive = None,
    period: Period = None,
    level: _LimitLevel = 0.95,
    band: _Band = False,
    derivative: _Derivative = False,
    missing: Missing = "drop",
    weights: Weights = None,
    weights_are: _RegressionWeights = "frequency",
    decimal: Decimal = ".",
    thousands: Thousands = "",
    seed: _BandSeed = 0,
    plot: Plot = None,
    output: Output = None,
) -> None:
    """Print the leave-one-out error and the degrees of freedom of a regression, by group.

    The radius is chosen by generalised cross-validation. Limits are for the smoothed regression
    function: the bias of smoothing is not in them. The columns named are held in memory, nothing
    else of the table is. With --category a column of categories is part of the design, smoothed
    across levels by as much as cross-validation says.

    Example: fourierkernels regress patients.csv -x bmi -y target --band --plot fit.png
    """
    found = _describing("regression")(
        _opened(data, _read(*x, y, weights), by, category, (decimal, thousands), (plot, output)),
        x,
        y,
        by=by,
        categories=levels_of(category),
        degree=degree,
        kernel=kernel,
        radius=radius,
        adaptive=adaptive,
        period=periods_in(period),
        level=level,
        **_band(band, seed),
        missing=missing,
        **_weighted(weights, weights_are, regression=True),
    )
    show(found, plot, None if plot is None else found.figure(derivative=derivative), output)
