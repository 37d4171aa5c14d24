"""``fourierkernels translate``: a trained model, the text that it reads, a corpus that it makes.

A corpus whose training text is a teacher's: sequence-level distillation.

[kim2016sequence]_ section 3.2: the student is trained on the sentences that the teacher's beam
search finds best. Written is a folder of line-aligned texts as
:mod:`fourierkernels.studies.translation.lines` reads it, with the split of the corpus and the
teacher's subwords.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.files import write_folder
from fourierkernels.foundation.run_folder import SUBWORDS, weights_file
from fourierkernels.models import TranslationModel
from fourierkernels.models.saved import load_model
from fourierkernels.studies.engine.run_setup import load_setup, read_data, run_folder
from fourierkernels.studies.texts.source import lines_of_bytes, text_lines
from fourierkernels.studies.texts.token_files import SPLITS
from fourierkernels.studies.translation.bpe import Bpe
from fourierkernels.studies.translation.building import split_texts
from fourierkernels.studies.translation.corpora import open_bitext
from fourierkernels.studies.translation.lines import DOCUMENTS
from fourierkernels.studies.translation.pairs import WHOLE, LengthRule, Pair, PairSource
from fourierkernels.studies.translation.text_translation import Search, Warn, room, translate_lines

if TYPE_CHECKING:
    pass

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
    if len(bpe) != model.config.source_words:
        raise ValueError(
            f"{home / SUBWORDS} must have the {model.config.source_words} subwords of the model, "
            f"got {len(bpe)}"
        )
    device = default_device()
    return (model.float() if device.type == "cpu" else model.to(device)), bpe


def translate_text(
    checkpoint: Path,
    file: Path | None,
    *,
    beam: int | None,
    length_penalty: float | None,
    warn: Warn,
) -> Iterator[str]:
    """Return the translations of the lines of a file, plain or ``.gz``, or of standard input.

    Of a line of more than 40,000 bytes the rest is skipped.

    Parameters
    ----------
    beam, length_penalty
        As for :func:`~fourierkernels.models.beam_search`; those with which the run was measured by
        default.
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
    search = _search_of(checkpoint).changed(beam, length_penalty)
    return translate_lines(model, bpe, lines, search=search, warn=warn)


def _search_of(checkpoint: Path) -> Search:
    """Return how the translations of a run were searched for where it was measured."""
    search: Search = load_setup(run_folder(checkpoint))[0].chosen_preset.search
    return search


def write_distilled(
    teacher: Path,
    output: Path,
    *,
    data: str | Path | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    cache: Path | None = None,
) -> None:
    """Write a corpus with the teacher's translations in place of the targets of training.

    Pairs whose source is longer than what the teacher reads are left out of the training text. The
    other splits are as they were: pairs that were too long for them are left out.

    Parameters
    ----------
    teacher : Path
        The folder of a translation run (for its best model), of one of its checkpoints, or a file
        of weights.
    output : Path
        A new folder whose name ends in the languages, as ``distilled-en-it``.
    data : str or Path, optional
        The corpus; by default the one that the teacher was trained on.
    beam, length_penalty
        As for :func:`~fourierkernels.models.beam_search`; those with which the teacher was measured
        by default.
    cache : Path, optional
        Folder of token files.

    Raises
    ------
    ValueError
        If the teacher is none, does not read the corpus, or the folder exists or is named
        otherwise.
    OSError
        If it cannot be written; nothing is left of it.
    """
    model, bpe = load_translator(teacher)
    source = _texts(teacher, data, cache)
    fits = _fitting(teacher, source, bpe)
    _check_output(output, source.languages)

    search = _search_of(teacher).changed(beam, length_penalty)

    def translated(lines: Iterable[str]) -> Iterator[str]:
        return translate_lines(model, bpe, lines, search=search)

    def fill(folder: Path) -> None:
        bpe.save(folder / SUBWORDS)
        for split in SPLITS:
            pairs = (pair for own, pair in split_texts(source) if own == split)
            if split == "train":
                read, kept = tee(_readable(pairs, model, bpe))
                targets = translated(pair.source for pair in read)
                pairs = (p._replace(target=t) for p, t in zip(kept, targets, strict=True))
            else:
                pairs = (pair for pair in pairs if fits(pair))
            _write(folder, split, source.languages, pairs)

    write_folder(output, fill)


def _texts(teacher: Path, data: str | Path | None, cache: Path | None) -> PairSource:
    """Return a corpus that the teacher can read."""
    home = run_folder(teacher)
    run, digest = load_setup(home)
    study = run.study
    named = study.named(run.chosen_preset, run.data if data is None else data)
    files = read_data(run, data=data, cache=cache)
    if files.digest != digest:
        study.check(home, files)
    return open_bitext(named, pair=run.pair)[1]


def _fitting(teacher: Path, source: PairSource, bpe: Bpe) -> Callable[[Pair], bool]:
    """Return which pairs of a held-out split the teacher's corpus has: all if it is given."""
    preset = load_setup(run_folder(teacher))[0].chosen_preset
    rule = LengthRule(preset.longest, preset.difference)

    def fits(pair: Pair) -> bool:
        one, other = bpe.encode(pair[:2])
        return rule.reason(len(one), len(other)) is None

    return fits if source.splits == (WHOLE,) else lambda pair: True


def _check_output(output: Path, languages: tuple[str, str]) -> None:
    ending = "-".join(languages)
    if not output.resolve().name.endswith(f"-{ending}"):
        raise ValueError(f"output must end in -{ending}, the languages it is read by, got {output}")
    if output.exists():
        raise ValueError(f"output must be a new folder, got {output}")


def _readable(pairs: Iterable[Pair], model: TranslationModel, bpe: Bpe) -> Iterator[Pair]:
    most = room(model)
    return (pair for pair in pairs if len(bpe.encode([pair.source])[0]) <= most)


def _write(folder: Path, split: str, languages: tuple[str, str], pairs: Iterable[Pair]) -> None:
    """Write pairs as three texts; a document is one line, too."""
    with ExitStack() as stack:
        paths = (folder / f"{split}.{ending}" for ending in (*languages, DOCUMENTS))
        files = [stack.enter_context(p.open("w", encoding="utf-8", newline="\n")) for p in paths]
        for pair in pairs:
            for file, text in zip(files, pair, strict=True):
                file.write(f"{' '.join(text.split())}\n")
