"""Sequences of two segments with tokens to be guessed, as arrays and as batches.

A sequence is ``[CLS] A [SEP] B [SEP]`` and padding, always of the same length: mixers that have no
mask see the padding too, and what they return would depend on how much there is. Of the n tokens
but marks and padding, the 0.15 n that are to be guessed, rounded down and at least one, are drawn
evenly; n counts the marks. Eight tenths of them are replaced by ``[MASK]``, a tenth by another
subword, and a tenth stays ([devlin2019bert]_, [leethorp2021fnet]_ section 4.1.1 and its
f_net/input_pipeline.py; its limit of 80 is not reached at 512 tokens). Replacements are drawn from
all subwords but marks; there ``<unk>`` is one of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.masked.pieces import FIRST, MARKS, MASK, PADDING, SEPARATOR
from fourierkernels.studies.masked.segments import Draw

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
