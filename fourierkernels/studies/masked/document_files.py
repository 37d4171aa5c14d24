"""Documents as files of numbers, mapped into memory, and built a line at a time.

As in :mod:`fourierkernels.studies.texts.token_files`, a folder is named by a digest of all that
decides its content, appears complete or not at all, and may be larger than memory. For each split
there are the numbers of all lines (``.bin``), where each line ends (``.lines``), where each
document ends (``.documents``), and spans (``.spans``): runs of whole lines of one document that
together fit into a sequence, as many as there is room for. A span has two lines at least, so that
it can be divided; longer lines than half the room are cut, and a last line alone in its span is
left out.
"""

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.files import remove_unfinished, write_folder
from fourierkernels.foundation.run_folder import PIECES
from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.words import Vocabulary
from fourierkernels.studies.masked.documents import DocumentSource
from fourierkernels.studies.masked.pieces import UNKNOWN, Pieces, learn_pieces
from fourierkernels.studies.texts.token_files import (
    FACTS,
    SPLITS,
    cache_folder,
    mapped,
    number_type,
    read_facts,
)

FORMAT = 1
MARKED = 3  # places of a sequence that marks take: one before, one after each segment
SPAN = np.dtype([("first", "<i8"), ("last", "<i8"), ("document", "<i8")])
_PLACE = np.dtype("<i8")
_CHUNK = 1000  # lines that are encoded together
_FLUSH = 1 << 16
_COUNTED = ("counts", "unknown", "lines", "documents", "spans", "cut", "left_out")


@dataclass(frozen=True)
class DocumentFiles:
    """A corpus of documents as numbers of subwords.

    Attributes
    ----------
    folder : Path
        With the files of each split, ``spiece.model`` and ``tokens.json``.
    corpus, source, digest : str
        The reader's name, what was read, and a SHA-256 of the texts, of how they are read, and of
        the subwords.
    length : int
        Places of a sequence.
    counts, unknown : mapping of str to int
        Subwords of each split, and how many of them are ``<unk>``.
    lines, documents, spans : mapping of str to int
        How many there are in each split.
    cut, left_out : mapping of str to int
        Lines that were cut, and subwords in no span.
    """

    folder: Path
    corpus: str
    source: str
    digest: str
    length: int
    counts: Mapping[str, int]
    unknown: Mapping[str, int]
    lines: Mapping[str, int]
    documents: Mapping[str, int]
    spans: Mapping[str, int]
    cut: Mapping[str, int]
    left_out: Mapping[str, int]
    pieces: Pieces = field(repr=False)

    @property
    def vocabulary(self) -> Vocabulary:
        """The subwords by their numbers."""
        return self.pieces.vocabulary

    def tokens(self, split: str) -> NDArray[Any]:
        """Return the numbers of a split, ``(n,)``, line by line."""
        dtype = number_type(len(self.pieces))
        return mapped(self.folder / f"{split}.bin", dtype, self.counts[split])

    def line_ends(self, split: str) -> NDArray[np.int64]:
        """Return the place after the last number of each line."""
        return mapped(self.folder / f"{split}.lines", _PLACE, self.lines[split])

    def span_rows(self, split: str) -> NDArray[np.void]:
        """Return the first line of each span, the line after its last one, and its document."""
        return mapped(self.folder / f"{split}.spans", SPAN, self.spans[split])


def build_document_files(
    corpus: str, source: DocumentSource, *, size: int, length: int, folder: Path | None = None
) -> DocumentFiles:
    """Return the files of a corpus, built if they do not exist yet.

    Parameters
    ----------
    corpus : str
        Name of the reader.
    size : int
        Largest vocabulary of subwords.
    length : int
        Places of a sequence.
    folder : Path, optional
        Folder of all token files;
        :func:`~fourierkernels.studies.texts.token_files.cache_folder` by default.

    Raises
    ------
    ValueError
        If a split has no document of two lines, or the text cannot be read.
    """
    check_integer("length", length, least=MARKED + 2)
    caches = cache_folder() if folder is None else folder
    words = hashlib.sha256(f"pieces {FORMAT} {source.digest} {size}".encode()).hexdigest()
    key = hashlib.sha256(f"{words} {length}".encode()).hexdigest()
    home = caches / key[:32]
    if not home.is_dir():
        pieces = _learnt(caches / words[:32], source, size)
        digest = hashlib.sha256(key.encode() + pieces.model).hexdigest()
        _build(home, _Names(corpus, source.name, digest, length), source, pieces)
    return open_document_files(home)


def open_document_files(folder: Path) -> DocumentFiles:
    """Return the files that lie in a folder.

    Raises
    ------
    ValueError
        If it is no folder of such files, or was damaged since.
    """
    known = read_facts(folder, ("corpus", "source", "digest", "length", *_COUNTED))
    return DocumentFiles(folder=folder, pieces=Pieces.load(folder / PIECES), **known)


def _learnt(home: Path, source: DocumentSource, size: int) -> Pieces:
    if not home.is_dir():
        pieces = learn_pieces((line for _, line in source.lines("train")), size, whole=source.whole)
        write_folder(home, lambda folder: pieces.save(folder / PIECES))
    return Pieces.load(home / PIECES)


class _Names(NamedTuple):
    """What the facts of the files say of them besides counts."""

    corpus: str
    source: str
    digest: str
    length: int


def _build(home: Path, names: _Names, source: DocumentSource, pieces: Pieces) -> None:
    remove_unfinished(home.parent)

    def fill(folder: Path) -> None:
        found: dict[str, dict[str, int]] = {name: {} for name in _COUNTED}
        for split in SPLITS:
            writer = _Writer(folder / split, names.length - MARKED, number_type(len(pieces)))
            for document, ids in _encoded(source, split, pieces):
                writer.add(document, ids)
            writer.end()
            if not writer.found["spans"]:
                raise ValueError(
                    f"{split} text must have a document of at least two lines, got "
                    f"{writer.found['documents']} documents of {writer.found['lines']} lines in all"
                )
            for name, count in writer.found.items():
                found[name][split] = count
        pieces.save(folder / PIECES)
        text = json.dumps({**names._asdict(), **found}, indent=2) + "\n"
        (folder / FACTS).write_text(text, encoding="utf-8")

    write_folder(home, fill)


def _encoded(source: DocumentSource, split: str, pieces: Pieces) -> Iterator[tuple[int, list[int]]]:
    lines = iter(source.lines(split))
    while chunk := list(islice(lines, _CHUNK)):
        ids = pieces.encode([line for _, line in chunk])
        yield from ((document, own) for (document, _), own in zip(chunk, ids, strict=True))


class _Writer:
    """Writes the files of a split, of which little is in memory."""

    def __init__(self, path: Path, room: int, dtype: np.dtype[Any]) -> None:
        self._path, self._room, self._dtype = path, room, dtype
        self.found = dict.fromkeys(_COUNTED, 0)
        self._kept = {"bin": array("q"), "lines": array("q"), "documents": array("q")}
        self._kept["spans"] = array("q")
        self._document: int | None = None
        self._first, self._total = 0, 0  # of the span that is growing
        self._ended = 0  # lines of the documents that have ended
        for name in self._kept:
            path.with_suffix(f".{name}").touch()

    def add(self, document: int, ids: list[int]) -> None:
        """Add a line, in parts if it is long."""
        if document != self._document:
            self._end_document()
            self._document = document
        half = self._room // 2
        self.found["cut"] += len(ids) > half
        self.found["unknown"] += ids.count(UNKNOWN)
        for start in range(0, len(ids), half):
            self._add(ids[start : start + half])
        if len(self._kept["bin"]) >= _FLUSH:
            self._flush()

    def end(self) -> None:
        """Write what is left."""
        self._end_document()
        self._flush()

    def _add(self, ids: list[int]) -> None:
        if self._total + len(ids) > self._room:
            self._end_span()
        self._total += len(ids)
        self.found["counts"] += len(ids)
        self.found["lines"] += 1
        self._kept["bin"].extend(ids)
        self._kept["lines"].append(self.found["counts"])

    def _end_span(self) -> None:
        last = self.found["lines"]
        if last - self._first >= 2:
            self._kept["spans"].extend((self._first, last, self.found["documents"]))
            self.found["spans"] += 1
        else:
            self.found["left_out"] += self._total
        self._first, self._total = last, 0

    def _end_document(self) -> None:
        if self.found["lines"] == self._ended:
            return
        self._end_span()
        self._ended = self.found["lines"]
        self._kept["documents"].append(self._ended)
        self.found["documents"] += 1

    def _flush(self) -> None:
        for name, kept in self._kept.items():
            dtype = self._dtype if name == "bin" else _PLACE
            with self._path.with_suffix(f".{name}").open("ab") as out:
                out.write(np.array(kept, dtype=dtype).tobytes())
            del kept[:]
