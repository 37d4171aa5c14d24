"""The masked sequences of a run in their order, those of a measurement, and what is guessed right.

Each sequence follows from a seed and its place alone: a run that is resumed, or shared by several
processes, reads what it would have read.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fourierkernels.models.encoder import PretrainingEncoder, PretrainingLogits
from fourierkernels.models.losses import are_right
from fourierkernels.studies.engine.epochs import Batch, Epochs, FeistelOrder
from fourierkernels.studies.masked.document_files import DocumentFiles
from fourierkernels.studies.masked.masking import NOTHING, Example, collate, example, guesses
from fourierkernels.studies.masked.pieces import PADDING
from fourierkernels.studies.masked.segments import Draw, SegmentPairs

_TRAINED, _MEASURED = 0, 1  # else a run and a measurement could draw the same numbers
MEASURED_SEED = 2021  # of the maskings of a measurement: the same for all models
_TOKENS = 4096  # measured at a time; no number depends on it


class MaskedUpdates(Epochs):
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
        See :mod:`~fourierkernels.studies.masked.segments`.
    """

    def __init__(
        self, files: DocumentFiles, *, steps: int, batch: int, seed: int, wrong: str
    ) -> None:
        self._files, self._pairs = files, SegmentPairs(files, "train", wrong=wrong)
        spans = len(self._pairs)
        super().__init__(self._collated, examples=spans, steps=steps, batch=batch)
        self._seed, self._text = seed, files.tokens("train")
        self._span = FeistelOrder(spans, seed)

    def _collated(self, places: list[int]) -> Batch:
        """Return the sequences of some places of one update; see ``collate``.

        "guessed", shape ``(1,)``, is how many words their share of the update would have to guess
        if all sequences had equally many: a sum of losses over it has the mean over processes and
        accumulated gradients that is the mean over all words of the update.

        Raises
        ------
        ValueError
            If they are of several updates.
        """
        drawn = {place: self._draw(place) for place in places}
        updates = {place // self.batch for place in drawn}
        if len(updates) != 1:
            raise ValueError(f"indices must be of one update, got those of {len(updates)}")
        first = updates.pop() * self.batch
        whole = (
            drawn.get(place) or self._draw(place) for place in range(first, first + self.batch)
        )
        every = sum(guesses(draw.size) for draw, _ in whole)
        size = len(self._files.pieces)
        examples = [example(self._text, draw, size, rng) for draw, rng in drawn.values()]
        share = torch.tensor([every * len(examples) / self.batch])
        return collate(examples, self._files.length) | {"guessed": share}

    def _draw(self, place: int) -> tuple[Draw, np.random.Generator]:
        """Return the segments that come at a place of the run, and what draws their masks."""
        rng = np.random.default_rng([self._seed, _TRAINED, place])
        return self._pairs.draw(self._span(place), rng), rng


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


@dataclass(frozen=True)
class MaskedSums:
    """Sums over sequences.

    Attributes
    ----------
    words, pairs : float
        Masked words, and pairs of segments.
    word_loss, pair_loss : float
        Of -log p of what was masked, and of whether B comes next.
    words_right, pairs_right : float
        How often that was the most probable.
    """

    words: float = 0.0
    word_loss: float = 0.0
    words_right: float = 0.0
    pairs: float = 0.0
    pair_loss: float = 0.0
    pairs_right: float = 0.0

    def __add__(self, other: "MaskedSums") -> "MaskedSums":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return MaskedSums(*(own + more for own, more in pairs))


def unigram(files: DocumentFiles) -> dict[str, float]:
    """Return loss and accuracy of guesses by the frequencies of the training text alone."""
    counts = np.bincount(files.tokens("train"), minlength=len(files.pieces)) + 1.0
    shares = counts / counts.sum()
    tested = np.bincount(files.tokens("test"), minlength=len(files.pieces))
    frequencies = tested / tested.sum()
    return {
        "loss": float(-frequencies @ np.log(shares)),
        "accuracy": float(100 * frequencies[counts.argmax()]),
    }


def predictions(model: PretrainingEncoder, batch: Batch) -> PretrainingLogits:
    """Return what a model predicts for a batch; padding is masked where the mixer can."""
    tokens = batch["tokens"]
    logits: PretrainingLogits = model(
        tokens, segments=batch["segments"], padding=tokens == PADDING, places=batch["places"]
    )
    return logits


@torch.no_grad()
def masked_sums(
    model: PretrainingEncoder, measurement: Measurement, *, part: tuple[int, int] = (0, 1)
) -> MaskedSums:
    """Return the sums over the sequences of a measurement, or over the share of a process."""
    device, sums = next(model.parameters()).device, MaskedSums()
    for batch in measurement.batches(max(_TOKENS // measurement.length, 1), part):
        there = {name: tensor.to(device) for name, tensor in batch.items()}
        logits = predictions(model, there)
        sums += MaskedSums(
            *_sums(logits.words.flatten(0, 1), there["words"].flatten()),
            *_sums(logits.next_sentence, there["wrong"]),
        )
    return sums


def _sums(logits: Tensor, targets: Tensor) -> tuple[float, float, float]:
    """Return how many targets there are, the sum of their -log p, and how many are guessed."""
    known = targets != NOTHING
    loss = functional.cross_entropy(logits.double(), targets, ignore_index=NOTHING, reduction="sum")
    right = are_right(logits, targets) & known
    return float(known.sum()), float(loss), float(right.sum())
