"""Sequences of two segments with tokens to be guessed.

Two segments in a sequence: which lines of a text they have, and whether B really comes next.

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

Sequences of two segments with tokens to be guessed, as arrays and as batches.

A sequence is ``[CLS] A [SEP] B [SEP]`` and padding, always of the same length: mixers that have no
mask see the padding too, and what they return would depend on how much there is. Of the n tokens
but marks and padding, the 0.15 n that are to be guessed, rounded down and at least one, are drawn
evenly; n counts the marks. Eight tenths of them are replaced by ``[MASK]``, a tenth by another
subword, and a tenth stays ([devlin2019bert]_, [leethorp2021fnet]_ section 4.1.1 and its
f_net/input_pipeline.py; its limit of 80 is not reached at 512 tokens). Replacements are drawn from
all subwords but marks; there ``<unk>`` is one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.masked.document_files import MARKED, DocumentFiles
from fourierkernels.studies.masked.pieces import FIRST, MARKS, MASK, PADDING, SEPARATOR

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


RATE, MASKED, REPLACED = 0.15, 0.8, 0.1
NOTHING = -100  # a word that is not to be guessed, for torch's cross-entropy

Numbers = NDArray[np.int64]


class Example(NamedTuple):
    """One sequence.

    Attributes
    ----------
    tokens, segments : ndarray, shape (n,)
        Numbers as the model reads them, and 1 for those of B.
    places, words : ndarray, shape (p,)
        Where something is to be guessed, and what.
    wrong : bool
        Whether B is not what comes next.
    """

    tokens: Numbers
    segments: Numbers
    places: Numbers
    words: Numbers
    wrong: bool


def guesses(size: int) -> int:
    """Return how many tokens of a sequence are to be guessed.

    Examples
    --------
    >>> guesses(512), guesses(5)
    (76, 1)
    """
    return max(1, int(RATE * size))


def sequence(text: NDArray[Any], draw: Draw) -> tuple[Numbers, Numbers]:
    """Return the numbers of a pair of segments between marks, and which segment each is of."""
    first, second = (
        np.asarray(text[slice(*side)], dtype=np.int64) for side in (draw.first, draw.second)
    )
    tokens = np.concatenate([[FIRST], first, [SEPARATOR], second, [SEPARATOR]])
    segments = np.repeat([0, 1], [len(first) + 2, len(second) + 1])
    return tokens, segments


def example(text: NDArray[Any], draw: Draw, vocabulary: int, rng: np.random.Generator) -> Example:
    """Return a sequence with masks.

    Parameters
    ----------
    text : ndarray
        The numbers of the split.
    vocabulary : int
        Subwords, marks included.
    """
    tokens, segments = sequence(text, draw)
    inside = np.flatnonzero((tokens != FIRST) & (tokens != SEPARATOR))
    places = np.sort(rng.choice(inside, min(guesses(len(tokens)), len(inside)), replace=False))
    words, chance = tokens[places], rng.random(len(places))
    others = rng.integers(len(MARKS), vocabulary, len(places))
    read = np.where(chance < MASKED, MASK, np.where(chance < MASKED + REPLACED, others, words))
    tokens[places] = read
    return Example(tokens, segments, places, words, draw.wrong)


def collate(examples: Sequence[Example], length: int) -> Batch:
    """Return sequences as one batch.

    Returns
    -------
    dict
        "tokens", "segments" ``(B, length)`` with padding behind them; "places", "words" ``(B, P)``,
        P the most that a sequence can have, with :data:`NOTHING` for words where a sequence has
        fewer; "wrong" ``(B,)``, 1 where B is not what comes next.
    """
    shape, most = (len(examples), length), guesses(length)
    tokens, segments = np.full(shape, PADDING), np.zeros(shape, dtype=np.int64)
    places = np.zeros((len(examples), most), dtype=np.int64)
    words = np.full((len(examples), most), NOTHING)
    for row, own in enumerate(examples):
        tokens[row, : len(own.tokens)], segments[row, : len(own.segments)] = (
            own.tokens,
            own.segments,
        )
        places[row, : len(own.places)], words[row, : len(own.words)] = own.places, own.words
    arrays = {"tokens": tokens, "segments": segments, "places": places, "words": words}
    batch = {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}
    return batch | {"wrong": torch.tensor([int(own.wrong) for own in examples])}
