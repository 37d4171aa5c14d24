"""Texts as documents of lines, read one line at a time."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.foundation.files import file_digest
from fourierkernels.studies.texts.plain import named_files, text_files, wikitext_files
from fourierkernels.studies.texts.python_text import python_documents, python_version
from fourierkernels.studies.texts.source import single_blanks, text_lines

LONGEST_LINE = 1_000_000  # characters; a document on one line is no text of sentences
_TITLE = re.compile(r"= [^=].* =")

Numbered = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class DocumentSource:
    """The documents of a corpus before they are encoded.

    Attributes
    ----------
    name : str
        What is read, for messages and results.
    digest : str
        SHA-256 of the texts and of how they are read.
    lines : callable
        From a split, "train", "valid" or "test", to its lines with single blanks, each with the
        number of its document. Lines without words are left out.
    whole : bool
        Whether its words are kept whole instead of being divided into subwords.
    """

    name: str
    digest: str
    lines: Callable[[str], Numbered]
    whole: bool = False


def open_texts(folder: Path) -> DocumentSource:
    """Return the documents of train.txt, valid.txt and test.txt, or of any .txt files.

    Blank lines divide the documents of the three files. Without these three, each file is one
    document; they are split as :func:`fourierkernels.studies.texts.plain.open_texts` does.

    Raises
    ------
    ValueError
        If one of the three files is missing while another is there, or a split has no file.
    """
    files = text_files(folder)
    divided = bool(named_files(folder))

    def lines(split: str) -> Numbered:
        return _numbered(files[split], lambda line, inside: inside and (bool(line) or not divided))

    return _source(folder.resolve().name, files, f"documents, divided {divided}", lines)


def open_wikitext(folder: Path) -> DocumentSource:
    """Return the articles of WikiText, each of which begins with its title.

    Raises
    ------
    ValueError
        If one of the three files is missing or empty.
    """
    home, files = wikitext_files(folder)

    def lines(split: str) -> Numbered:
        return _numbered(files[split], lambda line, inside: inside and not _TITLE.fullmatch(line))

    return _source(home.name, files, "articles", lines)


def open_python(folder: Path) -> DocumentSource:
    """Return the topics of Python's manual and the docstrings of its modules, one document each.

    Parameters
    ----------
    folder : Path
        Not used: the texts are where Python is installed.
    """
    version, build = python_version()

    def lines(split: str) -> Numbered:
        for number, text in enumerate(python_documents(split)):
            yield from (
                (number, found) for line in text.splitlines() if (found := single_blanks(line))
            )

    return DocumentSource(
        f"Python {version}", hashlib.sha256(f"documents {build}".encode()).hexdigest(), lines
    )


def has_c4(folder: Path) -> bool:
    """Return whether a folder has files of C4."""
    return any(folder.glob("c4-train.*.json.gz"))


def open_c4(folder: Path) -> DocumentSource:
    """Return the pages of C4, the "text" of each line of its files.

    C4 has no test text: of its validation pages every other one is for the test.

    Raises
    ------
    ValueError
        If there are no files of validation pages; when it is read, at a line that is no such page.
    """
    parts = {name: sorted(folder.glob(f"c4-{name}.*.json.gz")) for name in ("train", "validation")}
    if not parts["validation"]:
        raise ValueError(f"{folder} must have c4-validation.*.json.gz beside the training text")

    def lines(split: str) -> Numbered:
        if split == "train":
            return _pages(parts["train"], 0, 1)
        return _pages(parts["validation"], ("valid", "test").index(split), 2)

    return _source("C4", parts, "pages", lines)


def _pages(paths: Sequence[Path], first: int, step: int) -> Numbered:
    pages = (page for path in paths for page in _pages_of(path))
    for number, text in enumerate(pages):
        if number % step == first:
            yield from (
                (number, found) for line in text.splitlines() if (found := single_blanks(line))
            )


def _pages_of(path: Path) -> Iterator[str]:
    for number, line in enumerate(text_lines(path), start=1):
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise ValueError(f"{path} must have a page on each line, as JSON, got line {number}")
        yield text


def _numbered(paths: Iterable[Path], goes_on: Callable[[str, bool], bool]) -> Numbered:
    """Yield the lines of files; a document ends where a line does not go on with it."""
    number = -1
    for path in paths:
        inside = False
        for line in map(single_blanks, _bounded_lines(path)):
            inside = goes_on(line, inside)
            if line:
                number, inside = number + (not inside), True
                yield number, line


def _bounded_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(text_lines(path, most=4 * LONGEST_LINE + 8), start=1):
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"{path} must have lines of at most {LONGEST_LINE:,} characters, a sentence or a "
                f"paragraph each, got a longer one: line {number}"
            )
        yield line


def _source(
    name: str,
    files: Mapping[str, Sequence[Path]],
    rule: str,
    lines: Callable[[str], Numbered],
) -> DocumentSource:
    digest = hashlib.sha256(rule.encode())
    for split, paths in files.items():
        digest.update("".join((split, *map(file_digest, paths))).encode())
    return DocumentSource(name, digest.hexdigest(), lines)
