"""``fourierkernels translate``: a trained translation model and the text that it reads."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.run_folder import SUBWORDS, weights_file
from fourierkernels.models import TranslationModel
from fourierkernels.models.saved import load_model
from fourierkernels.studies.engine.run_setup import run_folder
from fourierkernels.studies.texts.source import lines_of_bytes, text_lines
from fourierkernels.studies.translation.text_translation import Warn, translate_lines

if TYPE_CHECKING:
    from fourierkernels.studies.translation.bpe import Bpe

LONGEST_LINE = 40_000  # bytes that are read of a line


def load_translator(checkpoint: Path) -> "tuple[TranslationModel, Bpe]":
    """Return the model of a run and its subwords.

    Weights may be stored in half precision; a CPU computes in single precision.

    Parameters
    ----------
    checkpoint : Path
        The folder of a run (for its best model), of one of its checkpoints, or a file of weights.

    Raises
    ------
    ValueError
        If it is no such thing, or damaged, or of another study.
    """
    from fourierkernels.studies.translation.bpe import Bpe

    home = run_folder(checkpoint)
    model = load_model(weights_file(checkpoint))
    if not isinstance(model, TranslationModel):
        raise ValueError(
            f"checkpoint must be of a translation model, got a {type(model).__name__} in {home}"
        )
    bpe = Bpe.load(home / SUBWORDS)
    if len(bpe) != model.config.vocabulary:
        raise ValueError(
            f"{home / SUBWORDS} must have the {model.config.vocabulary} subwords of the model, "
            f"got {len(bpe)}"
        )
    device = default_device()
    return (model.float() if device.type == "cpu" else model.to(device)), bpe


def translate_text(
    checkpoint: Path, file: Path | None, *, beam: int, length_penalty: float, warn: Warn
) -> Iterator[str]:
    """Return the translations of the lines of a file, plain or ``.gz``, or of standard input.

    Of a line of more than 40,000 bytes the rest is skipped.

    Parameters
    ----------
    warn : callable
        Given the number of a line that is too long for the model, its subwords and the most that
        are read.

    Raises
    ------
    ValueError, OSError
        If the checkpoint is none, or, where it is read, the text is no UTF-8.
    """
    if file is not None and not file.exists():
        raise ValueError(f"file must exist, got {file}")
    model, bpe = load_translator(checkpoint)
    lines = (
        lines_of_bytes(sys.stdin.buffer, "standard input", most=LONGEST_LINE)
        if file is None
        else text_lines(file, most=LONGEST_LINE)
    )
    return translate_lines(model, bpe, lines, beam=beam, length_penalty=length_penalty, warn=warn)
