"""Language models of words: their list of words, and how lines became words of it.

Such a model read one stream of text, in which ``<eos>`` ends every line. So texts are joined, and
windows have the length of the model unless a context is given.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.tokens import SPLITTERS, Tokenizer, ids_tokenizer
from fourierkernels.foundation.run_folder import PIECES, RESULTS, SUBWORDS, VOCABULARY
from fourierkernels.foundation.words import END, WORD_SPLITTERS, Vocabulary

# Runs of version 0.3.0 name their corpus alone.
_BY_CORPUS = {
    "wikitext-103": ("whitespace", True),
    "wikitext-2": ("whitespace", True),
    "wikitext-part": ("whitespace", True),
    "wikitext-raw": ("whitespace", True),
    "text": ("words", True),
    "python": ("words", False),
}


@dataclass(frozen=True)
class WordList:
    """Where the words of a model lie, and how its texts were split.

    Attributes
    ----------
    file : Path
        One word per line; the number of a line, from 0, is that of its word.
    splitter : str or None
        A key of :data:`~fourierkernels.checkpoints.tokens.SPLITTERS`; None if unknown.
    blank_lines : bool
        Whether a line without words was read, as one ``<eos>``, or left out.
    """

    file: Path
    splitter: str | None = None
    blank_lines: bool = False


def find_words(
    files: CheckpointFiles, *, vocabulary: str | Path | None = None, published: bool = False
) -> WordList | None:
    """Return the words of a checkpoint: a file that is named, else ``vocabulary.txt``.

    That lies in the folder of a training run, or beside a published model, whose code splits at
    white space and reads every line.

    Parameters
    ----------
    vocabulary : str or Path, optional
        The file.
    published : bool
        Whether the model is one of the FourierFormer authors' code.

    Returns
    -------
    WordList or None
        None for a checkpoint with another tokenizer. The file need not exist unless it is named:
        token ids can do without.

    Raises
    ------
    ValueError
        If a file is named that does not exist.
    """
    if vocabulary is None and not published and (files.run is None or has_subwords(files)):
        return None
    if vocabulary is not None and not Path(vocabulary).is_file():
        raise ValueError(f"vocabulary must be a file with one word per line, got {vocabulary}")
    beside = (files.run or files.path.parent) / VOCABULARY
    file = beside if vocabulary is None else Path(vocabulary)
    if files.run is not None:
        return WordList(file, *_splitting(files.run))
    return WordList(file, "whitespace", True) if published else WordList(file)


def has_subwords(files: CheckpointFiles) -> bool:
    """Return whether a checkpoint is of a training run whose texts are split into subwords."""
    run = files.run
    return run is not None and any((run / name).is_file() for name in (SUBWORDS, PIECES))


def _splitting(run: Path) -> tuple[str | None, bool]:
    """Return how the texts of a run were split, if its results say so."""
    try:
        text = (run / f"{RESULTS}.json").read_text(encoding="utf-8")
        config = json.loads(text)["config"]
        splitter, blank_lines = _BY_CORPUS.get(config["corpus"], (None, True))
        return config.get("splitter", splitter), bool(config.get("blank_lines", blank_lines))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, True


def word_tokenizer(words: WordList, tokens: str, *, size: int) -> Tokenizer:
    """Return the tokenizer of a list of words, which ends every text with ``<eos>``.

    Parameters
    ----------
    tokens : str
        "auto" for the splitter of the list, or a key of
        :data:`~fourierkernels.checkpoints.tokens.SPLITTERS`.
    size : int
        Number of words that the network knows.

    Raises
    ------
    ValueError
        If the list is missing, damaged, of another size or without ``<eos>``, or its splitter is
        not known.
    """
    splitter = words.splitter if tokens == "auto" else tokens
    if splitter is None:
        raise ValueError(
            f"tokens must say how texts were split into the words of {words.file} (--tokens "
            f"{' or '.join(WORD_SPLITTERS)}), got auto"
        )
    if splitter not in SPLITTERS:
        raise ValueError(f"splitter must be one of {', '.join(SPLITTERS)}, got {splitter!r}")
    vocabulary, pattern = load_words(words, size=size), re.compile(SPLITTERS[splitter])
    end = vocabulary.numbers[END]
    return replace(
        _named(vocabulary),
        encode=lambda text: [*vocabulary.encode(pattern.findall(text)), end],
        unknown=vocabulary.unknown,
        stream=True,
    )


def word_ids_tokenizer(words: WordList, *, size: int) -> Tokenizer:
    """Return the tokenizer of texts that already are ids, which are displayed as their words.

    Raises
    ------
    ValueError
        If there is a list that is damaged, of another size or without ``<eos>``.
    """
    return _named(load_words(words, size=size)) if words.file.is_file() else ids_tokenizer()


def load_words(words: WordList, *, size: int) -> Vocabulary:
    """Return the words of a list.

    Raises
    ------
    ValueError
        If the file is missing, damaged, of another size or without ``<eos>``.
    """
    if not words.file.is_file():
        raise ValueError(
            f"vocabulary must be a file with one word per line, got no {words.file}; name one "
            "(--vocabulary FILE) or give ids (--ids FILE)"
        )
    vocabulary = Vocabulary.load(words.file)
    if len(vocabulary) != size:
        raise ValueError(
            f"vocabulary must have as many words as the embedding of the checkpoint, {size}, "
            f"got {len(vocabulary)} in {words.file}"
        )
    if END not in vocabulary.numbers:
        raise ValueError(f"vocabulary must have {END}, which ends a line, got none in {words.file}")
    return vocabulary


def _named(vocabulary: Vocabulary) -> Tokenizer:
    def names(ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(vocabulary.words[i] for i in ids)

    special = frozenset({vocabulary.numbers[END]})
    return replace(ids_tokenizer(), names=names, special=special)
