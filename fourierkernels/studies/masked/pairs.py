"""Two segments in a sequence: which lines of a text they have, and whether B really comes next.

A span (:mod:`fourierkernels.studies.masked.document_files`) is divided after one of its lines,
each alike likely. Then, in half of the cases, B is what comes next. In the other half it is, by
what is asked for,

other_document
    tokens of another document, drawn evenly from all others, from one of its lines on:
    next-sentence prediction as [devlin2019bert]_ describe it, to whom [leethorp2021fnet]_ section
    4.1.1 refers. They are as many as those that come next, so that the length of a sequence tells
    nothing; where the document ends before, they begin earlier;
swapped
    what came before: the segments change places. So does the code of [leethorp2021fnet]_
    (f_net/input_pipeline.py of github.com/google-research/google-research), whatever the paper
    says, and with the same label.
"""

from dataclasses import dataclass

import numpy as np

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.masked.document_files import MARKED, DocumentFiles

WRONG = ("other_document", "swapped")
_HALF = 0.5

Slice = tuple[int, int]


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
        If there is no other document to draw from.
    """

    def __init__(self, files: DocumentFiles, split: str, *, wrong: str) -> None:
        self._swaps = check_choice("wrong", wrong, list(WRONG)) == "swapped"
        self._spans, self._lines = files.span_rows(split), files.line_ends(split)
        self._documents = files.document_ends(split)
        if len(self._documents) < 2 and not self._swaps:
            raise ValueError(
                f"{split} text must have at least two documents, from one of which a wrong next "
                f"segment is drawn, got {len(self._documents)}: in {split}.txt, blank lines divide "
                "documents"
            )

    def __len__(self) -> int:
        return len(self._spans)

    def draw(self, span: int, rng: np.random.Generator) -> Draw:
        """Return a division of a span, B being what comes next in half of all cases."""
        first, last, document = self._spans[span].item()
        pivot = int(rng.integers(first + 1, last))
        before, after = self._tokens(first, pivot), self._tokens(pivot, last)
        if rng.random() < _HALF:
            return Draw(before, after, wrong=False)
        if self._swaps:
            return Draw(after, before, wrong=True)
        return Draw(before, self._elsewhere(document, after[1] - after[0], rng), wrong=True)

    def _elsewhere(self, document: int, size: int, rng: np.random.Generator) -> Slice:
        """Return so many tokens of another document, or all of it if it is shorter."""
        other = int(rng.integers(len(self._documents) - 1))
        other += other >= document
        lines = int(self._documents[other - 1]) if other else 0, int(self._documents[other])
        first, stop = self._tokens(*lines)
        start = max(min(self._tokens(int(rng.integers(*lines)), lines[1])[0], stop - size), first)
        return start, min(stop, start + size)

    def _tokens(self, first: int, last: int) -> Slice:
        """Return the places of the tokens of lines first, ..., last - 1."""
        return (int(self._lines[first - 1]) if first else 0), int(self._lines[last - 1])
