"""What the commands on tables share: options, and what they print, draw and write."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from fourierkernels.cli.output import check_file, check_picture, write_picture, write_table
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.validation import check_integer

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from rich.table import Table

Data = Annotated[Path, typer.Argument(help="Table: CSV, or Parquet by its name.")]
By = Annotated[str | None, typer.Option(help="Column of groups, each on its own.")]
Radius = Annotated[
    str | None, typer.Option(help="R = 1/bandwidth: a number or the name of a rule.")
]
Missing = Annotated[str, typer.Option(help="Rows without a value: drop or refuse.")]
Plot = Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")]
Output = Annotated[Path | None, typer.Option(help="Write the curves as CSV.")]


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
    standard_output().print(found.table())
    if output is not None:
        write_table(output, found.curves())
    if plot is not None and picture is not None:
        write_picture(plot, picture)


def generator(seed: int) -> "np.random.Generator":
    """Return the generator of a seed."""
    import numpy as np

    return np.random.default_rng(check_integer("seed", seed, least=0))
