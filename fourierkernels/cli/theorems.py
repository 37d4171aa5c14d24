"""``fourierkernels rates`` and ``theorems``: the best exact errors, and the theorems, tested."""

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fourierkernels.cli.output import (
    Names,
    check_file,
    check_picture,
    complete_file,
    write_picture,
    write_table,
)
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.progress import tracked
from fourierkernels.foundation.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fourierkernels.theory import RateRow

_LARGEST_EXPONENT = 15  # beyond, bias and variance are closer than rounding lets them be told
_EXPONENTS = (2, 8)  # sample sizes of the rate table: powers of ten
_LARGEST_POWER = 1000  # of sinc: beyond it the kernel is Gaussian to four digits
_OWN = "or file.py:name, an object of a Python file of your own, which is run"
_RateDensity = Annotated[
    str,
    typer.Option(help=f"One of {{densities}}, a name with parameters: 'beta(2, 5)', {_OWN}."),
]
_Power = Annotated[
    list[str] | None,
    typer.Option(help="Powers l of sinc^l, one or more, at most 1000.", metavar="L ..."),
]
_RateKernel = Annotated[
    list[str] | None,
    typer.Option(
        help="Kernel by name, beside those of --power: {kernels}, fourier<l>, order<r> for an even "
        f"order r, φ as a polynomial: '3z^8 - 2z^6', {_OWN}; repeat for more."
    ),
]
_TestedDensity = Annotated[
    str | None,
    typer.Option(help=f"Density of a single setting, which needs a kernel: {{densities}}, {_OWN}."),
]
_TestedKernel = Annotated[
    str | None,
    typer.Option(help=f"Kernel: {{kernels}}, fourier<l>, order<r>, φ as '3z^8 - 2z^6', {_OWN}."),
]


def rate_names() -> Names:
    """Return the names in the help."""
    from fourierkernels.kernels import KERNELS
    from fourierkernels.theory.densities import DENSITIES

    return {"densities": DENSITIES, "kernels": KERNELS}


def rates(
    density: _RateDensity = "gaussian",
    power: _Power = None,
    kernel: _RateKernel = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True, metavar="L")] = None,
    dim: Annotated[int, typer.Option(help="Dimension D: the product of D copies.")] = 1,
    smallest: Annotated[int, typer.Option(help="Smallest n, as a power of ten.")] = _EXPONENTS[0],
    largest: Annotated[int, typer.Option(help="Largest n, as a power of ten.")] = _EXPONENTS[1],
    control: Annotated[bool, typer.Option(help="Show the Gaussian kernel too.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the table: .png, .svg or .pdf.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
) -> None:
    """Print the exact best error of kernel density estimation against n, beside the rates.

    For every kernel, by default fourier1, fourier2 and fourier4: n, the best radius, the exact
    MISE there, its local slope, the rate proved in the paper and the sharp one; below, how the best
    radius grows, in truth and after the paper.

    Example: fourierkernels rates --density laplace --power 1 2 4 --plot laplace.png
    """
    from fourierkernels.theorems import rate_table
    from fourierkernels.theorems.rate_tables import radius_lines, rates_table, write_rates

    kernels = _kernels([*(power or []), *(more or [])], kernel or [], control=control)
    sizes = _sizes(smallest, largest)
    if plot is not None:
        check_picture(plot)
    if output is not None:
        check_file("output", output)
    target = _own("density", density)
    rows = [
        row
        for shape in tracked([_own("kernel", name) for name in kernels], "rates")
        for row in rate_table(target, [shape], sizes=sizes, dim=dim)
    ]
    console = standard_output()
    console.print(rates_table(rows))
    for line in radius_lines(rows):
        console.print(line, markup=False, highlight=False)
    if output is not None:
        with complete_file(output) as part:
            write_rates(part, rows)
    if plot is not None:
        _plot_rates(plot, rows)


def _kernels(powers: Sequence[str], names: Sequence[str], *, control: bool) -> list[str]:
    """Return names of kernels, each once. click gives an option one value: more are arguments."""
    if not (powers or names):
        powers = ["1", "2", "4"]
    kernels = [*(f"fourier{_as_power(text)}" for text in powers), *names]
    return list(dict.fromkeys([*kernels, *["gaussian"] * control]))


def _own(kind: str, text: str) -> Any:
    """Return the object named by file.py:name, running the file; any other text as it is."""
    path, found, name = text.rpartition(".py:")
    if not found:
        return text
    file = Path(f"{path}.py")
    if not file.is_file():
        raise ValueError(f"{kind} must be in an existing file, got {file}")
    try:
        members = runpy.run_path(str(file))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"{kind} must be in a file that runs, got {file}: {problem}") from error
    if name not in members:
        raise ValueError(f"{kind} must be a name of {file}, got {name!r}")
    return members[name]


def _sizes(smallest: int, largest: int) -> list[int]:
    if not 0 <= smallest <= largest <= _LARGEST_EXPONENT:
        rule = f"0 <= smallest <= largest <= {_LARGEST_EXPONENT}"
        raise ValueError(f"smallest and largest must keep {rule}, got {smallest} and {largest}")
    return [10**exponent for exponent in range(smallest, largest + 1)]


def _as_power(text: str) -> int:
    if not text.lstrip("+-").isdecimal():
        raise TypeError(f"power must be an integer, got {text!r}")
    if check_integer("power", int(text)) > _LARGEST_POWER:
        raise ValueError(f"power must be at most {_LARGEST_POWER}, got {text}")
    return int(text)


def _plot_rates(path: Path, rows: "Sequence[RateRow]") -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from fourierkernels import plotting

    write_picture(path, cast("Figure", plotting.plot_rates(rows).figure))


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
    density: _TestedDensity = None,
    kernel: _TestedKernel = None,
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
    """Test the theorems of the papers: stated and sharp rate, slope, a verdict for each form.

    The forms are the theorem as printed, as proved (with what its proof uses and the paper does not
    print) and as sharp (under the weakest condition). By default every theorem is tested in the
    settings of the book's table.

    Example: fourierkernels theorems '3a ordinary smooth' --density laplace --kernel fourier1
    """
    from fourierkernels.theorems import Case
    from fourierkernels.theorems.theorem_table import run

    given = (density, kernel, function, dim != 1, beyond)
    if any(given) and (density is None or kernel is None):
        raise ValueError(f"density and kernel must both be given, got {density} and {kernel}")
    if output is not None:
        check_file("output", output)
    case = None
    if density and kernel:
        own = _own("density", density), _own("kernel", kernel)
        case = Case(*own, function, dim, beyond)
    rows = [found.row() for found in run(names or [], case, simulate=simulate)]
    if output is not None:
        write_table(output, rows)
