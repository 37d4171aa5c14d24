"""Drawn documents, in which a masked word follows from one other word, wherever that stands.

A line has eight names with a value each, "a0" to "h7", in an order of its document, and then the
values alone, in the order of the alphabet: ``c5 a0 b7 ... 0 7 5 ...``. The place of a masked value
says which name it is of, and the one word that has the name says the value; where that word stands
only the word itself tells. Each line draws its values anew: they can be copied from no other line.
A wrong next segment has its names in another order.
"""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.masked.documents import DocumentSource, Numbered

DOCUMENTS = {"train": 40_000, "valid": 1_000, "test": 1_000}
NAMES, VALUES, LINES = "abcdefgh", 8, 2
_SEED = 2026


def open_drawn(folder: Path) -> DocumentSource:
    """Return the documents, the same each time.

    Parameters
    ----------
    folder : Path
        Not used: the documents are drawn when they are read.
    """
    rule = f"drawn 1 {DOCUMENTS} {NAMES} {VALUES} {LINES} {_SEED}"
    digest = hashlib.sha256(rule.encode()).hexdigest()
    return DocumentSource("drawn documents", digest, drawn_lines, whole=True)


def drawn_lines(split: str) -> Numbered:
    """Yield the lines of a split, each with the number of its document.

    Examples
    --------
    >>> next(drawn_lines("valid"))
    (0, 'e3 c6 a5 b2 d7 h6 g2 f7 5 2 6 7 3 7 2 6')
    """
    rng = np.random.default_rng([_SEED, list(DOCUMENTS).index(split)])
    for number in range(DOCUMENTS[split]):
        order = rng.permutation(len(NAMES))
        for _ in range(LINES):
            values = rng.integers(VALUES, size=len(NAMES))
            yield number, line_of(order, values, values)


def line_of(order: NDArray[np.int64], named: NDArray[np.int64], last: NDArray[np.int64]) -> str:
    """Return the names in an order with their values, and then values as they are.

    >>> line_of(np.argsort([1, 0]), np.array([5, 3]), np.array([5, 3]))
    'b3 a5 5 3'
    """
    return " ".join([*(f"{NAMES[name]}{named[name]}" for name in order), *map(str, last)])
