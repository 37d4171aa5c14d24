"""Three texts that can be read line by line, again and again."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.train.files import file_digest


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


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file.

    Raises
    ------
    ValueError
        At a line that is not UTF-8 or has a zero byte, as binary files do.
    """
    with path.open("rb") as content:
        for number, line in enumerate(content, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} must be UTF-8 text, got line {number}: {error}") from None
            if "\0" in text:
                raise ValueError(f"{path} must be text, got a zero byte in line {number}")
            yield text
