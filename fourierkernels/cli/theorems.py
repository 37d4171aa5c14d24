"""``fourierkernels rates`` and ``theorems``: the best exact errors, and the theorems, tested."""

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fourierkernels.cli.output import Names, check_file, check_picture, write_picture
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.files import write_table
from fourierkernels.foundation.progress import tracked
from fourierkernels.foundation.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fourierkernels.theory import RateRow

_LARGEST_EXPONENT = 15  # beyond, bias and variance are closer than rounding lets them be told
_EXPONENTS = (2, 8)  # sample sizes of the rate table: powers of ten
_LARGEST_POWER = 1000  # of sinc: beyond it the kernel is Gaussian to four digits
_OWN = "or file.py:name, an object of a Python file of your own, which is run"
_TEXTS = "a name with parameters: 'beta(2, 5)', a mixture: '0.3 normal(-2, .5) + 0.7 laplace', "
_TEXTS += "a product: 'normal × uniform(0, 2)'"
_RateDensity = Annotated[
    str | None,
    typer.Option(help=f"One of {{densities}}, {_TEXTS}, {_OWN}; by default gaussian."),
]
_Characteristic = Annotated[
    str | None,
    typer.Option(
        help="In place of a density its characteristic function of t, as 'exp(-abs(t)**1.5)'; "
        "needs --smoothness."
    ),
]
_Smoothness = Annotated[
    str | None, typer.Option(help="Of --characteristic: 'supersmooth 1.5' or 'ordinary 2'.")
]
_From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="In place of a density a table of samples, CSV or Parquet, with --column: estimates "
        "how fast their characteristic function decays, which proves nothing.",
    ),
]
_Column = Annotated[str | None, typer.Option(help="Column of --from.")]
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
    typer.Option(
        help=f"Density of a single setting, which needs a kernel: {{densities}}, {_TEXTS}, {_OWN}."
    ),
]
_TestedKernel = Annotated[
    str | None,
    typer.Option(help=f"Kernel: {{kernels}}, fourier<l>, order<r>, φ as '3z^8 - 2z^6', {_OWN}."),
]


def rate_names() -> Names:
    """Return the names in the help."""
    from fourierkernels.kernels import KERNELS
    from fourierkernels.theory.densities import families
    from fourierkernels.theory.densities.circular import CIRCULAR

    return {"densities": [*families(), *CIRCULAR], "kernels": KERNELS}


def rates(
    density: _RateDensity = None,
    power: _Power = None,
    kernel: _RateKernel = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True, metavar="L")] = None,
    characteristic: _Characteristic = None,
    smoothness: _Smoothness = None,
    table: _From = None,
    column: _Column = None,
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
    radius grows, in truth and after the paper. For a density on a circle, as
    wrapped_cauchy(0.3) or von_mises(2), the table has the number of frequencies too, and the error
    of the same density on the line.

    Example: fourierkernels rates --density laplace --power 1 2 4 --plot laplace.png

    Example: fourierkernels rates --density '0.3 normal(-2, .5) + 0.7 laplace' --kernel order4
    """
    _check_one(density=density, characteristic=characteristic, table=table)
    kernels = _kernels([*(power or []), *(more or [])], kernel or [], control=control)
    sizes = _sizes(smallest, largest)
    if plot is not None:
        check_picture(plot)
    if output is not None:
        check_file("output", output)
    shapes = [_own("kernel", name) for name in kernels]
    if table is not None or column is not None:
        unused: dict[str, object] = {"plot": plot, "output": output, "smoothness": smoothness}
        ends = zip(("smallest", "largest"), (smallest, largest), _EXPONENTS, strict=True)
        unused |= {name: str(value) for name, value, usual in ends if value != usual}
        _print_decay(table, column, shapes, dim, unused=unused)
        return
    target = _target(density or "gaussian", characteristic, smoothness)
    _show_rates(target, shapes, sizes, dim, output, plot)


def _show_rates(
    density: Any,
    kernels: Sequence[Any],
    sizes: Sequence[int],
    dim: int,
    output: Path | None,
    plot: Path | None,
) -> None:
    from fourierkernels.theorems.rate_tables import radius_lines
    from fourierkernels.theory.densities.circular import is_circular

    measure, as_table, as_records = _rates_on_circle() if is_circular(density) else _rates_on_line()
    rows = [
        row
        for kernel in tracked(kernels, "rates")
        for row in measure(density, [kernel], sizes=sizes, dim=dim)
    ]
    console = standard_output()
    console.print(as_table(rows))
    for line in radius_lines(rows):
        console.print(line, markup=False, highlight=False)
    if output is not None:
        write_table(output, as_records(rows))
    if plot is not None:
        _plot_rates(plot, rows)


def _rates_on_line() -> tuple[Callable[..., Any], ...]:
    """Return what measures rates, draws their table and makes records of it."""
    from fourierkernels.theorems import rate_table
    from fourierkernels.theorems.rate_tables import rate_records, rates_table

    return rate_table, rates_table, rate_records


def _rates_on_circle() -> tuple[Callable[..., Any], ...]:
    from fourierkernels.theorems.circle_rates import circle_rate_table, circle_records, circle_table

    return circle_rate_table, circle_table, circle_records


def _check_one(**given: object) -> None:
    """Refuse two descriptions of a density."""
    names = [name.replace("table", "from") for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"density must be given once, got {' and '.join(names)}")


def _target(density: str, characteristic: str | None, smoothness: str | None) -> Any:
    """Return the density of the options: text, an object of a file, or a formula."""
    if characteristic is None and smoothness is None:
        return _own("density", density)
    if characteristic is None or smoothness is None:
        given = f"{characteristic} and {smoothness}"
        raise ValueError(f"characteristic and smoothness must both be given, got {given}")
    from fourierkernels.theory.densities import read_characteristic

    return read_characteristic(characteristic, smoothness)


def _print_decay(
    table: Path | None,
    column: str | None,
    kernels: Sequence[Any],
    dim: int,
    *,
    unused: dict[str, object],
) -> None:
    """Print what a sample shows of the decay of its characteristic function."""
    from fourierkernels.estimators.smoothness import decay_table, estimate_decay
    from fourierkernels.estimators.tables import read_columns
    from fourierkernels.estimators.tables.columns import groups_of

    for name, value in unused.items():
        if value is not None:
            raise ValueError(f"{name} must not be given with a table of samples, got {value}")
    if table is None or column is None:
        raise ValueError(f"from and column must both be given, got {table} and {column}")
    (group,) = groups_of(read_columns(table, [column]), [column], None, missing="drop")
    found = estimate_decay(group.values[:, 0])
    console = standard_output()
    console.print(decay_table(column, found, kernels, dim=dim))
    for line in found.lines:
        console.print(line, markup=False, highlight=False)


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
    from fourierkernels.theory.densities import REGRESSION_FUNCTIONS, families

    return {
        "theorems": [f"'{name}'" if " " in name else name for name in THEOREMS],
        "densities": families(),
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
    characteristic: _Characteristic = None,
    smoothness: _Smoothness = None,
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

    _check_one(density=density, characteristic=characteristic)
    target = density or characteristic
    given = (target, smoothness, kernel, function, dim != 1, beyond)
    if any(given) and (target is None or kernel is None):
        raise ValueError(f"density and kernel must both be given, got {target} and {kernel}")
    if output is not None:
        check_file("output", output)
    case = None
    if target and kernel:
        own = _target(target, characteristic, smoothness), _own("kernel", kernel)
        case = Case(*own, function, dim, beyond)
    rows = [found.row() for found in run(names or [], case, simulate=simulate)]
    if output is not None:
        write_table(output, rows)
