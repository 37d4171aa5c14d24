"""Three texts that can be read line by line, again and again."""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from fourierkernels.foundation.files import file_digest

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Source:
    """The texts of a corpus before their words are numbered.

    Attributes
    ----------
    name : str
        What is read, for messages and results.
    digest : str
        SHA-256 of the texts and of how they are split into words.
    lines : callable
        From a split, "train", "valid" or "test", to the words of each of its lines.
    """

    name: str
    digest: str
    lines: Callable[[str], Iterable[Sequence[str]]]


def source_of_files(
    name: str, files: Mapping[str, Sequence[Path]], split: Callable[[str], list[str]], rule: str
) -> Source:
    """Return the source of text files, read line by line.

    Parameters
    ----------
    files : mapping
        From a split to its files, in order.
    split : callable
        From a line to its words.
    rule : str
        Name of `split`, for the digest.
    """
    digest = hashlib.sha256(rule.encode())
    for part, paths in files.items():
        digest.update(part.encode())
        for path in paths:
            digest.update(file_digest(path).encode())

    def lines(part: str) -> Iterator[list[str]]:
        for path in files[part]:
            yield from (split(line) for line in text_lines(path))

    return Source(name, digest.hexdigest(), lines)


def text_lines(path: Path, *, most: int | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, unpacked if its name ends in .gz.

    A byte order mark at its beginning is left out.

    Parameters
    ----------
    most : int, optional
        Bytes of a line after which the rest of it is skipped, so that no line fills the memory.

    Raises
    ------
    ValueError
        At a line that is not UTF-8 or has a zero byte, as binary files do, and if a .gz file is
        cut off or no such file.
    """
    with open_bytes(path) as content:
        try:
            yield from lines_of_bytes(content, path, most=most)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{path} must be a whole gzip file, got {error}") from error


def lines_of_bytes(content: IO[bytes], name: object, *, most: int | None = None) -> Iterator[str]:
    """Yield the lines of an open UTF-8 file, which messages call `name`; see :func:`text_lines`."""
    for number, line in enumerate(_bounded(content, most), start=1):
        yield _decoded(line, name, number, cut=most is not None and len(line) == most)


def single_blanks(line: str) -> str:
    """Return a line with single blanks between its words and without byte order marks.

    Examples
    --------
    >>> single_blanks(" one  two")
    'one two'
    """
    return " ".join(line.replace(_BYTE_ORDER_MARK, "").split())


def open_bytes(path: Path) -> IO[bytes]:
    """Return an open file, unpacked while it is read if its name ends in .gz."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _bounded(content: IO[bytes], most: int | None) -> Iterator[bytes]:
    if most is None:
        yield from content
        return
    while line := content.readline(most):
        yield line
        while line and not line.endswith(b"\n"):
            line = content.readline(most)


def _decoded(line: bytes, path: object, number: int, *, cut: bool) -> str:
    try:
        text = line.decode("utf-8", errors="ignore" if cut else "strict")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, got line {number}: {error}") from None
    if "\0" in text:
        raise ValueError(f"{path} must be text, got a zero byte in line {number}")
    return text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text
