"""The masked sequences of a run in their order, and those of a measurement.

Each follows from a seed and its place alone: a run that is resumed, or shared by several processes,
reads what it would have read.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.masked.document_files import DocumentFiles
from fourierkernels.studies.masked.masking import Example, collate, example, guesses
from fourierkernels.studies.masked.pairs import Draw, SegmentPairs
from fourierkernels.studies.masked.shuffling import order_key, shuffled

_TRAINED, _MEASURED = 0, 1  # else a run and a measurement could draw the same numbers
MEASURED_SEED = 2021  # of the maskings of a measurement: the same for all models


class MaskedUpdates(Dataset[Batch]):
    """The training sequences: in each epoch, each span comes once, divided and masked anew.

    Parameters
    ----------
    files : DocumentFiles
        The corpus, of which "train" is read.
    steps, batch : int
        Updates of the run, and sequences of each.
    seed : int
        Of the order, the pairs and the masks.
    wrong : str
        See :mod:`~fourierkernels.studies.masked.pairs`.
    """

    def __init__(
        self, files: DocumentFiles, *, steps: int, batch: int, seed: int, wrong: str
    ) -> None:
        self._files, self._batch = files, check_integer("batch", batch)
        self._pairs = SegmentPairs(files, "train", wrong=wrong)
        self._count, self._seed = check_integer("steps", steps) * batch, seed
        self._text = files.tokens("train")
        self._key = (-1, 0)

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which each span comes once."""
        return len(self._pairs) / self._batch

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return the sequences of some places of one update; see ``collate``.

        "guessed", shape ``(1,)``, is how many words their share of the update would have to guess
        if all sequences had equally many: a sum of losses over it has the mean over processes and
        accumulated gradients that is the mean over all words of the update.

        Raises
        ------
        ValueError
            If they are of several updates.
        """
        drawn = {int(index): self._draw(int(index)) for index in indices}
        updates = {place // self._batch for place in drawn}
        if len(updates) != 1:
            raise ValueError(f"indices must be of one update, got those of {len(updates)}")
        first = updates.pop() * self._batch
        whole = (
            drawn.get(place) or self._draw(place) for place in range(first, first + self._batch)
        )
        every = sum(guesses(draw.size) for draw, _ in whole)
        size = len(self._files.pieces)
        found = [example(self._text, draw, size, rng) for draw, rng in drawn.values()]
        share = torch.tensor([every * len(found) / self._batch])
        return collate(found, self._files.length) | {"guessed": share}

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` sequences, and how many such batches an update has."""
        few = min(most, self._batch)
        return self.__getitems__(range(few)), self._batch / few

    def _draw(self, place: int) -> tuple[Draw, np.random.Generator]:
        """Return the segments that come at a place of the run, and what draws their masks."""
        epoch, inside = divmod(place, len(self._pairs))
        if self._key[0] != epoch:
            self._key = epoch, order_key(self._seed, epoch)
        rng = np.random.default_rng([self._seed, _TRAINED, place])
        return self._pairs.draw(shuffled(inside, len(self._pairs), self._key[1]), rng), rng


class Measurement:
    """The sequences that a split is measured on: always the same, whatever the run.

    Parameters
    ----------
    files : DocumentFiles
        The corpus.
    split : str
        What is measured on.
    wrong : str
        As for the training.
    most : int, optional
        Spans, evenly spread over the split; all by default.
    """

    def __init__(
        self, files: DocumentFiles, split: str, *, wrong: str, most: int | None = None
    ) -> None:
        self._files, self._pairs = files, SegmentPairs(files, split, wrong=wrong)
        self._text = files.tokens(split)
        count = len(self._pairs) if most is None else min(most, len(self._pairs))
        self._spans = np.linspace(0, len(self._pairs) - 1, count).round().astype(int).tolist()

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def guessed(self) -> int:
        """Words to be guessed in all."""
        return sum(guesses(draw.size) for draw in self.draws())

    def draws(self) -> Iterator[Draw]:
        """Yield the segments of each sequence."""
        yield from (self._draw(span)[0] for span in self._spans)

    def batches(self, batch: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield the sequences, `batch` at a time, of which a process has its share."""
        own = self._spans[part[0] :: part[1]]
        for first in range(0, len(own), batch):
            yield collate([self._example(span) for span in own[first : first + batch]], self.length)

    @property
    def length(self) -> int:
        """Places of a sequence."""
        return self._files.length

    def _draw(self, span: int) -> tuple[Draw, np.random.Generator]:
        """Return the segments of a span, and what draws their masks."""
        rng = np.random.default_rng([MEASURED_SEED, _MEASURED, span])
        return self._pairs.draw(span, rng), rng

    def _example(self, span: int) -> Example:
        draw, rng = self._draw(span)
        return example(self._text, draw, len(self._files.pieces), rng)
