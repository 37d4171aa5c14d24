"""Two segments in a sequence: which lines of a text they have, and whether B really comes next.

A span (:mod:`fourierkernels.studies.masked.document_files`) is divided after one of its lines,
each alike likely. Then, in half of the cases, B is what comes next. In the other half it is, by
what is asked for,

other_document
    what comes next in a span of another document: next-sentence prediction as [devlin2019bert]_
    describe it, to whom [leethorp2021fnet]_ section 4.1.1 refers;
swapped
    what came before: the segments change places. So does the code of [leethorp2021fnet]_
    (f_net/input_pipeline.py of github.com/google-research/google-research), whatever the paper
    says, and with the same label.

A continuation from another document must tell by nothing but its words that it is wrong. All
continuations of a text, one for each line at which a span can be divided, are therefore sorted into
pools of one length, and the wrong ones are drawn from the pool of the right one by a rotation of
the pool: each continuation then is wrong exactly as often as it is right, beside an A of the same
length, and any rule on the lengths, the ends or the words of B alone is right in half of the cases.
A rotation always leads to another document if no document has more than half of a pool. Where one
has, the pool takes in the next shorter continuations, and all of a pool are cut to its shortest,
whether they are right or wrong.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.masked.document_files import MARKED, DocumentFiles

WRONG = ("other_document", "swapped")
ONE_TABLE = 1 << 18  # spans up to which all continuations of a split are kept in one table
SMALL_TABLE = 256  # spans of a table, evenly spread over the split, of larger texts
_TABLES = 64  # of larger texts that are kept
_MASS = 1 << 20  # of a span, shared by its continuations; in whole numbers a rotation is exact
_HALF = 0.5

Slice = tuple[int, int]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """The tokens of a sequence, as places in the file of a split.

    Attributes
    ----------
    first, second : tuple of int
        Segments A and B.
    wrong : bool
        Whether B is not what comes next.
    """

    first: Slice
    second: Slice
    wrong: bool

    @property
    def size(self) -> int:
        """Tokens of the sequence, marks included."""
        return sum(stop - start for start, stop in (self.first, self.second)) + MARKED


class SegmentPairs:
    """Draws pairs of segments from a split.

    Parameters
    ----------
    files : DocumentFiles
        The corpus.
    split : str
        "train", "valid" or "test".
    wrong : {"other_document", "swapped"}
        What B is where it is not what comes next.

    Raises
    ------
    ValueError
        If there is no other document to draw from, or one document has more than half of the text.
    """

    def __init__(self, files: DocumentFiles, split: str, *, wrong: str) -> None:
        self._swaps = check_choice("wrong", wrong, list(WRONG)) == "swapped"
        self._spans, self._lines = files.span_rows(split), files.line_ends(split)
        self._split, self._tables = split, dict[int, _Continuations]()
        documents = files.documents[split]
        if documents < 2 and not self._swaps:
            raise ValueError(
                f"{split} text must have at least two documents, from one of which a wrong next "
                f"segment is drawn, got {documents}: in {split}.txt, blank lines divide documents"
            )
        whole = len(self._spans) <= ONE_TABLE
        self._every = 1 if whole else -(-len(self._spans) // SMALL_TABLE)
        if not self._swaps:
            self._table(0)

    def __len__(self) -> int:
        return len(self._spans)

    def draw(self, span: int, rng: np.random.Generator) -> Draw:
        """Return a division of a span, B being what comes next in half of all cases."""
        first, last, _ = self._spans[span].item()
        pivot = int(rng.integers(first + 1, last))
        before, wrong = self._tokens(first, pivot), bool(rng.random() >= _HALF)
        if self._swaps:
            after = self._tokens(pivot, last)
            return Draw(after, before, wrong) if wrong else Draw(before, after, wrong)
        table = self._table(span % self._every)
        own = table.place(span // self._every, pivot - first - 1)
        return Draw(before, table.slice(table.other(own, rng) if wrong else own), wrong)

    def _table(self, number: int) -> "_Continuations":
        """Return the continuations of every so many spans, from one on."""
        if number not in self._tables:
            if len(self._tables) == _TABLES:
                self._tables.clear()
            spans = self._spans[number :: self._every]
            self._tables[number] = _continuations(spans, self._lines, self._split)
        return self._tables[number]

    def _tokens(self, first: int, last: int) -> Slice:
        """Return the places of the tokens of lines first, ..., last - 1."""
        return (int(self._lines[first - 1]) if first else 0), int(self._lines[last - 1])


class _Pools(NamedTuple):
    """Continuations of like length, one pool after another; within each, by documents.

    Attributes
    ----------
    order : ndarray, shape (n,)
        Which continuation stands at a place.
    pool : ndarray, shape (n,)
        The number of the pool, by continuation.
    first, total, largest : ndarray, shape (pools,)
        The masses before a pool, of it, and of the document that has most of it.
    size : ndarray, shape (pools,)
        Tokens of each of its continuations.
    """

    order: Places
    pool: Places
    first: Places
    total: Places
    largest: Places
    size: Places


class _Continuations:
    """What comes next at each line at which some spans can be divided.

    Parameters
    ----------
    firsts : ndarray
        The number of the first continuation of each span.
    starts, masses : ndarray, shape (n,)
        Where each begins, and its share of all draws.
    pools : _Pools
        Those of like length.
    """

    def __init__(self, firsts: Places, starts: Places, masses: Places, pools: _Pools) -> None:
        self._firsts, self._starts, self._pools = firsts, starts, pools
        self._after = np.cumsum(masses[pools.order])  # masses up to each place of the order
        self._before = np.empty_like(masses)  # before each continuation
        self._before[pools.order] = self._after - masses[pools.order]
        self._masses = masses

    def place(self, span: int, line: int) -> int:
        """Return the number of the continuation after a line of a span."""
        return int(self._firsts[span]) + line

    def slice(self, own: int) -> Slice:
        """Return the places of the tokens of a continuation."""
        start = int(self._starts[own])
        return start, start + int(self._pools.size[self._pools.pool[own]])

    def other(self, own: int, rng: np.random.Generator) -> int:
        """Return a continuation of another document that is as long."""
        pool = self._pools.pool[own]
        first, total, largest = (
            int(each[pool]) for each in (self._pools.first, self._pools.total, self._pools.largest)
        )
        inside = int(self._before[own]) - first + int(rng.integers(self._masses[own]))
        turned = (inside + int(rng.integers(largest, total - largest + 1))) % total
        return int(self._pools.order[np.searchsorted(self._after, first + turned, side="right")])


def _continuations(spans: NDArray[np.void], lines: Places, split: str) -> _Continuations:
    """Return the continuations of spans.

    Parameters
    ----------
    spans : ndarray
        Rows of type :data:`~fourierkernels.studies.masked.document_files.SPAN`.
    lines : ndarray
        Where each line of the split ends.
    """
    counts = spans["last"] - spans["first"] - 1
    firsts = np.cumsum(counts) - counts
    before = np.arange(counts.sum()) + np.repeat(spans["first"] - firsts, counts)
    starts = lines[before]
    lengths = np.repeat(lines[spans["last"] - 1], counts) - starts
    documents, masses = np.repeat(spans["document"], counts), np.repeat(_MASS // counts, counts)
    pools = _pooled(lengths, documents, masses)
    if (pools.largest * 2 > pools.total).any():
        raise ValueError(
            f"{split} text must have documents none of which has more than half of it, from which "
            f"wrong next segments are drawn, got {len(np.unique(documents))} documents, one of "
            f"them with {pools.largest.max() / pools.total.max():.0%}"
        )
    return _Continuations(firsts, starts, masses, pools)


def _pooled(lengths: Places, documents: Places, masses: Places) -> _Pools:
    """Return pools in which no document has more than half, if there can be any; else one pool."""
    falling = np.argsort(-lengths, kind="stable")
    ends = _ends(lengths[falling], documents[falling], masses[falling])
    pool = np.empty(len(lengths), dtype=np.int64)
    pool[falling] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    order = np.lexsort((documents, pool))
    total = np.bincount(pool, weights=masses).astype(np.int64)
    runs = np.flatnonzero(np.diff(pool[order], prepend=-1) | np.diff(documents[order], prepend=-1))
    largest = np.zeros_like(total)
    np.maximum.at(largest, pool[order[runs]], np.add.reduceat(masses[order], runs))
    size = lengths[falling[np.array(ends) - 1]]
    return _Pools(order, pool, np.cumsum(total) - total, total, largest, size)


def _ends(lengths: Places, documents: Places, masses: Places) -> list[int]:
    """Return where each pool ends, of continuations in the order of falling lengths."""
    ends, held = [0], Counter[int]()
    total = largest = 0
    rows = zip(lengths.tolist(), documents.tolist(), masses.tolist(), strict=True)
    previous = -1
    for place, (length, document, mass) in enumerate(rows):
        if length != previous and 0 < 2 * largest <= total:
            ends.append(place)
            held.clear()
            total = largest = 0
        held[document] += mass
        total, largest, previous = total + mass, max(largest, held[document]), length
    while 2 * largest > total and len(ends) > 1:  # the shortest ones go to the pool before
        stop, start = ends.pop(), ends[-1]
        for document, mass in zip(
            documents[start:stop].tolist(), masses[start:stop].tolist(), strict=True
        ):
            held[document] += mass
        total, largest = held.total(), max(held.values())
    return [*ends[1:], len(lengths)]
