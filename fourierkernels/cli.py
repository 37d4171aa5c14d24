"""The command line: ``fourierkernels rates`` and ``fourierkernels heads``.

Commands stay thin: they parse, call the package, print and write. A ValueError, TypeError, OSError
or a missing extra becomes one line on standard error and exit status 2.
"""

import sys

import typer

app = typer.Typer(
    help="Kernel regression with Fourier-integral kernels: rates, attention heads.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; errors of the package are one line and exit status 2."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
