"""``fourierkernels evaluate``: the paper's numbers of a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import check_file
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.files import write_table

_Checkpoint = Annotated[
    Path,
    typer.Argument(
        help="Folder of a run or of one of its checkpoints, or a file of weights; in a clone of "
        "the repository also language_softmax or language_fourier."
    ),
]
_Data = Annotated[str | None, typer.Option(help="Where the text is now, if it has moved.")]
_Splits = Annotated[list[str] | None, typer.Option("--split", help="valid or test; both without.")]
_Positions = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Windows, sentences or other items of a split that are measured. Without, all; in "
        "masked spans, and in control episodes that are played, as many as the preset has.",
    ),
]
_Output = Annotated[Path | None, typer.Option(help="Write the numbers as CSV.")]


def evaluate(
    checkpoint: _Checkpoint,
    data: _Data = None,
    splits: _Splits = None,
    positions: _Positions = None,
    output: _Output = None,
) -> None:
    """Measure a model that ``fourierkernels train`` has trained.

    Example: fourierkernels evaluate language-tiny-fourier --split test
    """
    from dataclasses import asdict

    from fourierkernels.checkpoints.find import find_published
    from fourierkernels.studies import train_command  # loads torch

    if output is not None:
        check_file("output", output)
    place = checkpoint if checkpoint.exists() else find_published(str(checkpoint)) or checkpoint
    measured = train_command.evaluate(
        place, data=data, splits=train_command.choose_splits(splits), positions=positions
    )
    standard_output().print(train_command.results_table(measured))
    if output is not None:
        write_table(output, [asdict(row) for row in measured])
