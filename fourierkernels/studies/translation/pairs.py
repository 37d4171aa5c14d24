"""Sentences and their translations as they are read, before they are numbered."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeVar

from fourierkernels.foundation.files import file_digest
from fourierkernels.studies.texts.source import text_lines
from fourierkernels.studies.texts.token_files import SPLITS

S = TypeVar("S")
T = TypeVar("T")
LONGEST_LINE = 10_000  # characters; more is no sentence
WHOLE = "all"
_BYTE_ORDER_MARK = "\ufeff"


class Pair(NamedTuple):
    """A sentence, its translation, and the document that it is from.

    Attributes
    ----------
    source, target : str
        With single blanks.
    document : str
        Empty if it is not known: then the pair is a document of its own.
    """

    source: str
    target: str
    document: str = ""


@dataclass(frozen=True)
class PairSource:
    """The texts of a corpus of two languages.

    Attributes
    ----------
    name : str
        What is read, for messages and results.
    languages : tuple of str
        Source and target.
    digest : str
        SHA-256 of the texts and of how they are read.
    pairs : callable
        From a split and a counter, which is given what the reader itself leaves out, to the pairs.
    splits : tuple of str
        "train", "valid" and "test" as they are distributed, or "all", which is to be split.
    subwords : Path or None
        A file of subwords that the texts come with; None if they are to be learnt. The digest
        covers it.
    """

    name: str
    languages: tuple[str, str]
    digest: str
    pairs: Callable[[str, Counter[str]], Iterator[Pair]]
    splits: tuple[str, ...] = (WHOLE,)
    subwords: Path | None = None


Sides = tuple[Path, Path]


def source_of_sides(
    name: str, languages: tuple[str, str], files: Mapping[str, Sequence[Sides]], reader: str
) -> tuple[str, tuple[str, str], str]:
    """Return the name, the languages and the digest of files of two languages.

    Parameters
    ----------
    files : mapping
        From a split to its files.
    reader : str
        Name of how they are read, for the digest.
    """
    digest = hashlib.sha256(f"{reader} {' '.join(languages)}".encode())
    for split, pairs in files.items():
        digest.update(split.encode())
        for sides in pairs:
            digest.update("".join(file_digest(path) for path in sides).encode())
    return name, languages, digest.hexdigest()


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text, cut off where they are longer than any sentence."""
    for line in text_lines(path, most=4 * LONGEST_LINE + 8):  # bytes: UTF-8 has at most 4 for each
        yield " ".join(line.replace(_BYTE_ORDER_MARK, "").split())


def side_by_side(left: Iterable[S], right: Iterable[T], sides: Sides) -> Iterator[tuple[S, T]]:
    """Yield the lines of two texts together.

    Raises
    ------
    ValueError
        At the end, if one has more lines than the other.
    """
    counts = [0, 0]
    for pair in zip_longest(left, right):
        counts[0] += pair[0] is not None
        counts[1] += pair[1] is not None
        if counts[0] == counts[1]:
            yield pair
    if counts[0] != counts[1]:
        raise ValueError(
            f"{sides[1]} must have as many lines as {sides[0]}, {counts[0]}, got {counts[1]}"
        )


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Raise ValueError if files are missing from a folder, naming the first few it has."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
        raise ValueError(f"{folder} must have {', '.join(missing)}, got {there}")


def split_names(found: Iterable[str]) -> tuple[str, ...]:
    """Return the splits that are there, in their order."""
    known = set(found)
    return tuple(split for split in (*SPLITS, WHOLE) if split in known)
