"""The table of corpora: texts in one language, split into words."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fourierkernels.studies.engine.data_sets import DataSet, find_row
from fourierkernels.studies.language.recall_text import open_recall
from fourierkernels.studies.texts.plain import (
    has_texts,
    has_wikitext,
    is_wikitext,
    open_texts,
    open_wikitext,
)
from fourierkernels.studies.texts.python_text import open_python
from fourierkernels.studies.texts.source import Source
from fourierkernels.studies.texts.token_files import TokenFiles, build_token_files


@dataclass(frozen=True, kw_only=True)
class Corpus(DataSet[Source]):
    """One row of :data:`CORPORA`.

    Attributes
    ----------
    least_count : int
        Words of the training text that are rarer are ``<unk>``.
    counts : mapping of str to int
        Tokens of each split where they are known, by which a file cut off is recognised.
    splitter : str
        How a line is split into words, a key of
        :data:`~fourierkernels.foundation.words.WORD_SPLITTERS`.
    blank_lines : bool
        Whether a line without words is read, as one ``<eos>``, or left out.
    """

    least_count: int = 1
    counts: Mapping[str, int] | None = None
    splitter: str = "words"
    blank_lines: bool = True


PART = "wikitext-part"

# The first row that recognises a folder reads it. Counts: Merity, Xiong, Bradbury and Socher,
# "Pointer sentinel mixture models" (ICLR 2017), table 1.
CORPORA: dict[str, Corpus] = {
    "wikitext-103": Corpus(
        title="WikiText-103, the corpus of the paper",
        source="https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip",
        layout="wikitext-103/wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens",
        recognises=lambda folder: is_wikitext(folder, "wikitext-103"),
        open=open_wikitext,
        counts={"train": 103_227_021, "valid": 217_646, "test": 245_569},
        splitter="whitespace",
    ),
    "wikitext-2": Corpus(
        title="WikiText-2, a fiftieth of it",
        source="https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
        layout="wikitext-2/wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens",
        recognises=lambda folder: is_wikitext(folder, "wikitext-2"),
        open=open_wikitext,
        counts={"train": 2_088_628, "valid": 217_646, "test": 245_569},
        splitter="whitespace",
    ),
    PART: Corpus(
        title="a part of WikiText",
        source="your own, for instance its first articles",
        layout="wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens (or .gz), in a folder of "
        "another name",
        recognises=lambda folder: has_wikitext(folder, "tokens"),
        open=open_wikitext,
        splitter="whitespace",
    ),
    "wikitext-raw": Corpus(
        title="the raw text of WikiText-103 or WikiText-2, or a part of it",
        source="https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-raw-v1.zip",
        layout="wiki.train.raw, wiki.valid.raw, wiki.test.raw (or .gz)",
        recognises=lambda folder: has_wikitext(folder, "raw"),
        open=open_wikitext,
        least_count=3,
        splitter="whitespace",
    ),
    "text": Corpus(
        title="plain text",
        source="your own; experiments/data_manuals.py fetches the manuals of LibreOffice and "
        "Debian",
        layout="train.txt, valid.txt and test.txt, or any .txt files, split by file (or .gz)",
        recognises=has_texts,
        open=open_texts,
        least_count=3,
    ),
    "python": Corpus(
        title="the manual and the docstrings that Python ships",
        source="on every machine that has Python",
        layout="no folder",
        open=open_python,
        needs_folder=False,
        least_count=3,
        blank_lines=False,
    ),
    "recall": Corpus(
        title="names and their values, asked for in another order",
        source="drawn when it is read",
        layout="no folder",
        open=open_recall,
        needs_folder=False,
        splitter="whitespace",
    ),
}


def read_corpus(
    data: str | Path, *, most: int | None = None, folder: Path | None = None
) -> TokenFiles:
    """Return the token files of a corpus on disk, built at the first call.

    Parameters
    ----------
    data : str or Path
        A folder, or the name of a corpus that needs none.
    most : int, optional
        Largest vocabulary, ``<unk>`` for the words beyond it; all words by default.
    folder : Path, optional
        Folder of all token files;
        ``fourierkernels.studies.texts.token_files.cache_folder`` by default.

    Raises
    ------
    ValueError
        If there is no such folder, no reader knows its files, or a text is missing, truncated or
        foreign.
    """
    name, place = find_row(CORPORA, data)
    row = CORPORA[name]
    source = row.open(place)
    files = build_token_files(
        name,
        source.name,
        source.lines,
        digest=source.digest,
        least_count=row.least_count,
        most=most,
        folder=folder,
    )
    files = replace(files, corpus=name)  # another row may have built them from the same text
    return files if row.counts is None else _checked(files, row.counts, place)


def splitting(corpus: str) -> dict[str, Any]:
    """Return how the lines of a corpus become words, for the results of a run; {} if unknown.

    Examples
    --------
    >>> splitting("wikitext-103")
    {'splitter': 'whitespace', 'blank_lines': True}
    """
    row = CORPORA.get(corpus)
    return {} if row is None else {"splitter": row.splitter, "blank_lines": row.blank_lines}


def _checked(files: TokenFiles, counts: Mapping[str, int], place: Path) -> TokenFiles:
    """Return files with the counts of their row; others are a part of it if not named as it is."""
    wrong = [split for split in counts if files.counts[split] != counts[split]]
    if not wrong:
        return files
    split, name = wrong[0], files.corpus
    told = f"{split} text of {name} must have {counts[split]} tokens, got {files.counts[split]}"
    if files.source.startswith(name) or (place / name).is_dir():
        raise ValueError(
            f"{told}: the file is cut off, or it is another edition (--data takes it under another "
            "name)"
        )
    warnings.warn(f"{told}: {place} is read as a part of WikiText", stacklevel=3)
    return replace(files, corpus=PART)
