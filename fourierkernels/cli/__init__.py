"""The command line: ``fourierkernels density``, ``rates``, ``train``, ``heads`` and others.

Commands stay thin: they parse, call the package, print and write. A
ValueError, TypeError, OSError or a missing extra becomes one line on standard error and exit
status 2. So does any other exception, by its name; with FK_TRACEBACK=1 its traceback is shown.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn, TextIO, cast

import typer

from fourierkernels.cli.cuda import bench, cuda
from fourierkernels.cli.estimates import density, estimate_names, regress
from fourierkernels.cli.evaluate import evaluate
from fourierkernels.cli.grid import grid
from fourierkernels.cli.heads import head_names, heads
from fourierkernels.cli.output import command_with
from fourierkernels.cli.reproduce import reproduce
from fourierkernels.cli.sweep import sweep, sweep_names
from fourierkernels.cli.theorems import rate_names, rates, theorem_names, theorems
from fourierkernels.cli.train import StudiesAtHelp, train
from fourierkernels.cli.translate import translate
from fourierkernels.foundation.console import discard_output, prepare_streams, visible
from fourierkernels.foundation.device import share_cores
from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.progress import working
from fourierkernels.foundation.version import __version__

__all__ = ["app", "main"]

_EXTRAS = {"heads": "heads"} | dict.fromkeys(
    ("train", "reproduce", "evaluate", "translate"), "train"
)
_INTERRUPTED = 130
_UNREAD = 141  # as a shell tells of a program that wrote to a closed pipe
_TRACEBACK = "FK_TRACEBACK"  # set to 1, the traceback of an error comes before its line
# The base of all command-line errors: click's, or that of the copy inside newer typers.
_CommandLineError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[2])

app = typer.Typer(
    help="Kernel regression with Fourier-integral kernels: tables, rates, training, heads."
    " Each command has its own help.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fourierkernels {__version__}")
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]


@app.callback(invoke_without_command=True)
def group(ctx: typer.Context, version: _Version = False) -> None:
    """Kernel regression with Fourier-integral kernels: tables, rates, training, heads."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


for command in (density, regress, grid):
    app.command(cls=command_with(estimate_names))(command)
app.command(cls=command_with(rate_names))(rates)
app.command(cls=command_with(theorem_names))(theorems)
app.command(cls=command_with(sweep_names))(sweep)
app.command(cls=StudiesAtHelp)(train)
app.command()(reproduce)
app.command()(evaluate)
app.command()(translate)
app.command(cls=command_with(head_names))(heads)
app.command()(bench)
app.add_typer(cuda, name="cuda")


def main() -> None:
    """Run the command line; any error is one line on standard error, with exit status 2."""
    command = next(iter(sys.argv[1:]), "")
    _prepare(command)
    needed = needed_for(f"fourierkernels {command}", extra=_EXTRAS.get(command, ""))
    try:
        with working(command), _ended_by_its_reader(), needed:
            status = app(standalone_mode=False)
    except _CommandLineError as error:
        _fail(error.format_message())
    except (ValueError, TypeError, OSError, ImportError) as error:
        _traceback_if_wanted()
        _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", status=_INTERRUPTED)
    except SystemExit:
        raise
    except BaseException as error:  # a panic of tokenizers is no Exception
        _traceback_if_wanted()
        _fail(_unforeseen(error))
    else:
        if status == _INTERRUPTED:
            _fail("interrupted", status=_INTERRUPTED)
        raise SystemExit(status or 0)


def _prepare(command: str) -> None:
    prepare_streams()
    warnings.showwarning = _in_a_line
    if command in _EXTRAS:  # which load PyTorch
        share_cores()


@contextmanager
def _ended_by_its_reader() -> Iterator[None]:
    """End without a word when nobody reads standard output any more."""
    try:
        yield
    except BrokenPipeError:
        discard_output()
        raise SystemExit(_UNREAD) from None


def _in_a_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning of the package without its place in the code."""
    text = f"{filename}:{lineno}: {category.__name__}: {message}"
    if category.__module__.startswith("fourierkernels"):
        text = f"warning: {message}"
    (file or sys.stderr).write(f"{visible(text)}\n")


def _unforeseen(error: BaseException) -> str:
    """Return a line on an exception that no rule speaks of."""
    reason = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, MemoryError) or "allocate memory" in reason or "of memory" in reason:
        return f"memory must suffice, got none left: {reason}"
    return f"{type(error).__name__}: {reason} ({_TRACEBACK}=1 shows where)"


def _traceback_if_wanted() -> None:
    if os.environ.get(_TRACEBACK) == "1":
        traceback.print_exc()


def _fail(message: str, *, status: int = 2) -> NoReturn:
    line = visible(" ".join(message.split()))
    sys.stderr.write(f"error: {line}\n")
    raise SystemExit(status)
