"""Long sequences that are opened one at a time, by split and place, and read only then."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.foundation.files import file_digest
from fourierkernels.studies.engine.epochs import Batch

MOST_BYTES = 2**24  # of a line, 16 MiB: what is longer is no line of these data


@dataclass(frozen=True)
class LineFile:
    """A file of lines, of which only the places are kept.

    Attributes
    ----------
    path : Path
        The file.
    starts : ndarray, shape (n,)
        Bytes before each line.
    """

    path: Path
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, place: int) -> bytes:
        """Return a line without its end."""
        with self.path.open("rb") as content:
            content.seek(int(self.starts[place]))
            return content.readline().rstrip(b"\r\n")


def index_lines(
    path: Path, check: Callable[[bytes, str], tuple[int, int]], *, header: bytes | None = None
) -> tuple[LineFile, NDArray[np.int64], NDArray[np.int64]]:
    """Read a file once and return its lines, with what each has: a label and a length.

    Parameters
    ----------
    check : callable
        From a line and a name of it for messages to its label and its length in tokens; it raises
        ValueError for a line that is broken.
    header : bytes, optional
        The first line, which is no example.

    Raises
    ------
    ValueError
        If the file is missing, a line is broken or longer than 16 MiB, or the header is another.
    """
    if not path.is_file():
        raise ValueError(f"data must have the file {path.name}, got none in {path.parent}")
    starts, labels, lengths = [], [], []
    with path.open("rb") as content:
        if header is not None and content.readline(MOST_BYTES).rstrip(b"\r\n") != header:
            raise ValueError(f"{path} must begin with the line {header.decode()!r}, got another")
        at = content.tell()
        number = int(header is not None)
        while line := content.readline(MOST_BYTES):
            number += 1
            name = f"line {number} of {path}"
            if len(line) == MOST_BYTES:
                raise ValueError(f"{name} must have fewer than {MOST_BYTES} bytes, got more")
            label, length = check(line.rstrip(b"\r\n"), name)
            starts.append(at)
            labels.append(label)
            lengths.append(length)
            at += len(line)
    found = (np.array(numbers, dtype=np.int64) for numbers in (starts, labels, lengths))
    own_starts, own_labels, own_lengths = found
    return LineFile(path, own_starts), own_labels, own_lengths


FIRST, SECOND = "tokens", "other"  # of a batch: the sequences, and the second ones of pairs
BYTE_TOKENS = 257  # bytes and padding
_USES = {"train": "train on", "valid": "validate by", "test": "test by"}
Tokens = NDArray[np.int64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class ArenaSplit:
    """Labelled sequences, or pairs of them.

    Attributes
    ----------
    labels : ndarray, shape (n,)
        Numbers of the classes.
    lengths : ndarray, shape (n,)
        Tokens of each; of the longer one of a pair.
    open : callable
        From a place to its sequence of tokens, 1 or more each, or to the two of a pair; it raises
        ValueError for what is broken.
    """

    labels: Labels
    lengths: NDArray[np.int64]
    open: Callable[[int], tuple[Tokens, ...]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class ArenaData:
    """A data set of one task.

    Attributes
    ----------
    task : str
        The task: "listops", "text", "retrieval", "image", "pathfinder", or one that is drawn.
    corpus, source : str
        The reader's name, and what was read.
    digest : str
        SHA-256 of what decides the sequences, their classes and their splits.
    vocabulary : tuple of str
        Names of the classes, in the order of their numbers.
    tokens : int
        Numbers of tokens, 0 for padding among them.
    splits : mapping of str to ArenaSplit
        By "train", "valid" and "test".
    pairs : bool
        Whether an example is two sequences.
    side : int or None
        Of square images; None for sequences of any length.
    left_out : int
        Examples that were left out because their files are empty, as the published code does.
    """

    task: str
    corpus: str
    source: str
    digest: str
    vocabulary: tuple[str, ...]
    tokens: int
    splits: Mapping[str, ArenaSplit] = field(repr=False)
    pairs: bool = False
    side: int | None = None
    left_out: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Examples of each split."""
        return {name: len(split) for name, split in self.splits.items()}

    def longer(self, length: int) -> dict[str, int]:
        """Return how many examples of each split have more tokens than a model reads."""
        return {name: int((split.lengths > length).sum()) for name, split in self.splits.items()}


def byte_tokens(text: bytes) -> Tokens:
    """Return the tokens of bytes: one more than each, for 0 is padding.

    Examples
    --------
    >>> byte_tokens(b"AB").tolist()
    [66, 67]
    """
    return np.frombuffer(text, np.uint8).astype(np.int64) + 1


def packed(sequences: Sequence[Tokens], labels: Iterable[int]) -> ArenaSplit:
    """Return a split that is held in memory, a byte or two for each token."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ends = np.cumsum(lengths)
    values = np.concatenate(sequences).astype(np.uint16)

    def opened(place: int) -> tuple[Tokens, ...]:
        return (values[ends[place] - lengths[place] : ends[place]].astype(np.int64),)

    return ArenaSplit(np.fromiter(labels, np.int64), lengths, opened)


def digest_of(rule: str, files: Iterable[Path]) -> str:
    """Return the SHA-256 of files and of how they are read."""
    digest = hashlib.sha256(rule.encode())
    for file in files:
        digest.update(f"{file.name} {file_digest(file)}".encode())
    return digest.hexdigest()


def check_splits(source: Path | str, splits: Mapping[str, ArenaSplit]) -> None:
    """Refuse data without a single example in some split."""
    for name, split in splits.items():
        if not len(split):
            raise ValueError(f"data must have an example to {_USES[name]}, got none in {source}")


def collate(split: ArenaSplit, members: Sequence[int], *, length: int) -> Batch:
    """Return sequences as one batch, cut off at a length, with 0 behind the shorter ones.

    Returns
    -------
    dict
        "tokens" ``(B, N)``, for pairs "other" ``(B, N)`` as well, and "classes" ``(B,)``; N is that
        of the longest.
    """
    examples = [tuple(side[:length] for side in split.open(place)) for place in members]
    longest = max(len(side) for example in examples for side in example)
    sides = zip((FIRST, SECOND), zip(*examples, strict=True), strict=False)
    batch = {name: _padded(rows, longest) for name, rows in sides}
    return {**batch, "classes": torch.from_numpy(split.labels[list(members)])}


def _padded(rows: Sequence[Tokens], longest: int) -> Tensor:
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    for padded, row in zip(tokens, rows, strict=True):
        padded[: len(row)] = torch.from_numpy(row)
    return tokens
