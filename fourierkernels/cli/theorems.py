"""``fourierkernels theorems``: the theorems of the papers, tested."""

from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.names import Names
from fourierkernels.cli.output import check_file, write_table


def theorem_names() -> Names:
    """Return the names in the help."""
    from fourierkernels.kernels import KERNELS
    from fourierkernels.theorems import THEOREMS
    from fourierkernels.theory.densities import DENSITIES, REGRESSION_FUNCTIONS

    return {
        "theorems": [f"'{name}'" if " " in name else name for name in THEOREMS],
        "densities": DENSITIES,
        "functions": REGRESSION_FUNCTIONS,
        "kernels": KERNELS,
    }


def theorems(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Of {theorems}; by default all.", metavar="[NAME]..."),
    ] = None,
    density: Annotated[
        str | None,
        typer.Option(help="Density of a single setting, which needs a kernel: {densities}."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Kernel by name: {kernels}, or fourier<l>.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="For theorems on regression: {functions}.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimension D: the product of D copies.")] = 1,
    beyond: Annotated[bool, typer.Option(help="Measure even where an assumption fails.")] = False,
    simulate: Annotated[
        bool, typer.Option(help="Simulate where the computed error is not exact.")
    ] = True,
    output: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
) -> None:
    """Test the theorems of the papers: stated and sharp rate, slope, verdict.

    By default every theorem is tested in the settings of the book's table.

    Example: fourierkernels theorems '3a ordinary smooth' --density laplace --kernel fourier1
    """
    from fourierkernels.theorems import Case
    from fourierkernels.theorems.theorem_table import run

    given = (density, kernel, function, dim != 1, beyond)
    if any(given) and (density is None or kernel is None):
        raise ValueError(f"density and kernel must both be given, got {density} and {kernel}")
    if output is not None:
        check_file("output", output)
    case = Case(density, kernel, function, dim, beyond) if density and kernel else None
    rows = [found.row() for found in run(names or [], case, simulate=simulate)]
    if output is not None:
        write_table(output, rows)
