"""``fourierkernels translate``: lines of text through a trained translation model."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.cli.output import check_file
from fourierkernels.foundation.files import complete_file
from fourierkernels.foundation.progress import paused, tracked

_Checkpoint = Annotated[
    Path, typer.Argument(help="Folder of a run or of one of its checkpoints, or a file of weights.")
]
_File = Annotated[
    Path | None,
    typer.Argument(help="Text, one sentence per line, plain or .gz; standard input without."),
]
_Output = Annotated[Path | None, typer.Option(help="Write there; standard output without.")]
_Corpus = Annotated[
    str | None,
    typer.Option(
        help="Folder of a corpus, instead of a file: write it to the new folder OUTPUT, named as "
        "in distilled-en-it, with translations as the targets of training."
    ),
]
_OWN = "as the run was measured"
_Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Hypotheses of the search; 1 is greedy.", show_default=_OWN),
]
_Penalty = Annotated[
    float | None,
    typer.Option(help="Exponent of the length penalty; 0 is none.", show_default=_OWN),
]


def translate(
    checkpoint: _Checkpoint,
    file: _File = None,
    output: _Output = None,
    beam: _Beam = None,
    length_penalty: _Penalty = None,
    corpus: _Corpus = None,
) -> None:
    """Translate a text line by line; an empty line stays empty.

    With --corpus, a corpus for distillation, sentence by sentence: another model that is trained
    on it learns from the translations of this one, in the same subwords.

    Example: fourierkernels translate translation-tiny-dft_encoder text.en --output text.it
    """
    from fourierkernels.studies import translate_command, write_distilled  # loads torch

    if corpus is not None:
        if file is not None or output is None:
            raise ValueError(f"corpus must come with --output and no file, got {output} and {file}")
        write_distilled(checkpoint, output, data=corpus, beam=beam, length_penalty=length_penalty)
        return
    if output is not None:
        check_file("output", output)
    found = translate_command.translate_text(
        checkpoint, file, beam=beam, length_penalty=length_penalty, warn=_Warning()
    )
    lines = _counted(found, shown=output is None and sys.stdout.isatty())
    if output is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    with complete_file(output) as part, part.open("w", encoding="utf-8") as text:
        text.writelines(f"{line}\n" for line in lines)


class _Warning:
    """Tells of the first line that is cut off, and that there may be others."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, number: int, subwords: int, most: int) -> None:
        """Write one line on standard error, once."""
        if not self._told:
            sys.stderr.write(
                f"warning: line {number} has {subwords:,} subwords; of this and other lines the "
                f"model reads the first {most:,}\n"
            )
        self._told = True


def _counted(lines: Iterable[str], *, shown: bool) -> Iterator[str]:
    """Yield the same lines, counted on a terminal where they are not shown themselves."""
    if shown:
        with paused():
            yield from lines
    else:
        yield from tracked(lines, "lines")
