"""Lines of a file that are found again by their places, however large the file is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
    found = (np.array(own, dtype=np.int64) for own in (starts, labels, lengths))
    own_starts, own_labels, own_lengths = found
    return LineFile(path, own_starts), own_labels, own_lengths
