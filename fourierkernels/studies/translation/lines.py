"""Line-aligned texts and test sets of <seg> elements: line n translates line n.

The <seg> elements of the .sgm and .xml files in which test sets are distributed.

Read line by line, as the published preparations do: the .sgm files are no XML.
"""

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from fourierkernels.foundation.files import file_digest
from fourierkernels.foundation.run_folder import SUBWORDS
from fourierkernels.studies.texts.source import text_lines
from fourierkernels.studies.texts.token_files import SPLITS
from fourierkernels.studies.translation.pairs import (
    LONGEST_LINE,
    WHOLE,
    Pair,
    PairSource,
    Sides,
    check_files,
    lines_of,
    side_by_side,
    source_of_sides,
    split_names,
)

_DOCUMENT = re.compile(r"<doc\b[^>]*\bdocid=\"([^\"]*)\"", re.IGNORECASE)
_SEGMENT = re.compile(r"<seg\b[^>]*\bid=\"?(\w+)\"?[^>]*>(.*?)</seg>", re.IGNORECASE)
_OPENED = re.compile(r"<seg\b", re.IGNORECASE)


class Segment(NamedTuple):
    """A sentence and its place."""

    document: str
    number: str
    text: str


def segments_of(path: Path) -> Iterator[Segment]:
    """Yield the segments of a file, with their character references resolved.

    Raises
    ------
    ValueError
        If a segment does not end in its line.
    """
    document = ""
    for number, line in enumerate(text_lines(path, most=8 * LONGEST_LINE), start=1):
        if opened := _DOCUMENT.search(line):
            document = opened[1]
        found = _SEGMENT.findall(line)
        if len(found) != len(_OPENED.findall(line)):
            raise ValueError(f"{path} must have whole <seg> elements, got line {number}")
        for place, text in found:
            yield Segment(document, place, " ".join(html.unescape(text).split()))


def pairs_of_segments(sides: Sides) -> Iterator[Pair]:
    """Yield the pairs of two files of segments.

    Raises
    ------
    ValueError
        If a file has no segments, or they are not those of the same documents.
    """
    count = 0
    for ours, theirs in zip_longest(segments_of(sides[0]), segments_of(sides[1])):
        if ours is None or theirs is None or ours[:2] != theirs[:2]:
            places = [
                f"{each.document} {each.number}" if each else "none" for each in (ours, theirs)
            ]
            raise ValueError(
                f"{sides[1]} must have the segments of {sides[0]}, {places[0]}, got {places[1]}"
            )
        count += 1
        yield Pair(ours.text, theirs.text, ours.document)
    if count == 0:
        raise ValueError(f"{sides[0]} must have <seg> elements, got none")


DOCUMENTS = "documents"
_NAME = re.compile(r"(?P<stem>.+?)\.(?P<language>[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?)(?:\.gz)?")
_FOLDER = re.compile(r"(?:.*[-_.])?(?P<source>[a-z]{2,3})-(?P<target>[a-z]{2,3})")
_NO_LANGUAGES = frozenset(
    {"bin", "bpe", "csv", "doc", "gz", "log", "md", "py", "sgm", "tmx", "txt", "xml"}
)


def has_lines(folder: Path) -> bool:
    """Return whether a folder has texts of two languages."""
    return len(_languages(folder)) >= 2


def open_lines(folder: Path, pair: tuple[str, str] | None) -> PairSource:
    """Return the texts of files such as ``train.en`` and ``train.it``, plain or ``.gz``.

    Those named train, valid and test are these splits; others are read together and split here.
    A file ``STEM.documents`` has the document of each line; without it each pair stands alone. With
    a file ``bpe.json``, as a run leaves it, the texts are read as these subwords; else theirs are
    learnt.

    Parameters
    ----------
    pair : tuple of str or None
        Source and target; by default those that the name of the folder ends in, as
        ``bitext-en-it``, or else, if there are only two, in the order of the alphabet.

    Raises
    ------
    ValueError
        If a file is missing, or there are more languages and none is named.
    """
    languages = pair or _direction(folder)
    stems = _stems(folder, languages)
    named = [split for split in SPLITS if split in stems]
    if named and len(named) < len(SPLITS):
        missing = [f"{split}.{languages[0]}" for split in SPLITS if split not in named]
        raise ValueError(
            f"{folder} must have {', '.join(missing)} beside {named[0]}.{languages[0]}, got none"
        )
    wanted = {split: [split] for split in SPLITS} if named else {WHOLE: stems}
    files = {
        split: [
            (find(folder, stem, languages[0]), find(folder, stem, languages[1])) for stem in own
        ]
        for split, own in wanted.items()
    }
    source = source_of_lines(folder.resolve().name, languages, files)
    subwords = folder / SUBWORDS
    if not subwords.is_file():
        return source
    digest = hashlib.sha256(f"{source.digest} {file_digest(subwords)}".encode()).hexdigest()
    return replace(source, digest=digest, subwords=subwords)


def source_of_lines(
    name: str, languages: tuple[str, str], files: Mapping[str, Sequence[Sides]]
) -> PairSource:
    """Return the source of line-aligned files."""
    facts = source_of_sides(name, languages, with_documents(files), "lines")

    def pairs(split: str, dropped: Counter[str]) -> Iterator[Pair]:
        for sides in files[split]:
            yield from aligned(sides)

    return PairSource(*facts, pairs, split_names(files))


def aligned(sides: Sides) -> Iterator[Pair]:
    """Yield the pairs of two files.

    Raises
    ------
    ValueError
        If they, or the file of their documents, have different numbers of lines.
    """
    texts = side_by_side(lines_of(sides[0]), lines_of(sides[1]), sides)
    place = documents_of(sides[0])
    if place is None:
        yield from (Pair(source, target) for source, target in texts)
        return
    for (source, target), document in side_by_side(texts, lines_of(place), (sides[0], place)):
        yield Pair(source, target, document)


def documents_of(path: Path) -> Path | None:
    """Return the file of the documents of a text; None if there is none."""
    found = path.with_name(f"{_stem(path)}.{DOCUMENTS}")
    return found if found.is_file() else None


def find(folder: Path, stem: str, language: str) -> Path:
    """Return the text of a language, plain or packed; ValueError if there is none."""
    packed = folder / f"{stem}.{language}.gz"
    if packed.is_file():
        return packed
    check_files(folder, [f"{stem}.{language}"])
    return folder / f"{stem}.{language}"


def with_documents(files: Mapping[str, Sequence[Sides]]) -> dict[str, list[Sides]]:
    """Return the files, and those of their documents, of which there is one for both sides."""
    found = {split: list(sides) for split, sides in files.items()}
    for split, sides in files.items():
        places = [documents_of(source) for source, _ in sides]
        found[split] += [(place, place) for place in places if place is not None]
    return found


def _stem(path: Path) -> str:
    name = _NAME.fullmatch(path.name)
    return path.stem if name is None else name["stem"]


def _languages(folder: Path) -> list[str]:
    names = [_NAME.fullmatch(path.name) for path in folder.iterdir() if path.is_file()]
    found = {name["language"] for name in names if name}
    return sorted(found - _NO_LANGUAGES)


def _direction(folder: Path) -> tuple[str, str]:
    """Return the languages that the name of a folder ends in, or the only two in their order."""
    found = _languages(folder)
    name = _FOLDER.fullmatch(folder.resolve().name)
    if name and {name["source"], name["target"]} <= set(found):
        return name["source"], name["target"]
    if len(found) != 2:
        raise ValueError(
            f"pair must be named for {folder}, for instance --pair {found[0]}-{found[1]}: "
            f"it has {', '.join(found)}"
        )
    return found[0], found[1]


def _stems(folder: Path, languages: tuple[str, str]) -> list[str]:
    names = [_NAME.fullmatch(path.name) for path in sorted(folder.iterdir()) if path.is_file()]
    stems = {name["stem"] for name in names if name and name["language"] in languages}
    if not stems:
        check_files(folder, [f"train.{language}" for language in languages])
    return sorted(stems)
