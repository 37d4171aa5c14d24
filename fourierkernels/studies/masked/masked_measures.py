"""How well masked words are guessed, and whether the second segment is what comes next."""

from dataclasses import astuple, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.models.encoder import PretrainingEncoder, PretrainingLogits
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.masked.masking import NOTHING
from fourierkernels.studies.masked.pieces import PADDING
from fourierkernels.studies.masked.updates import Measurement

_TOKENS = 4096  # measured at a time; no number depends on it


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


def predictions(model: nn.Module, batch: Batch) -> PretrainingLogits:
    """Return what a model predicts for a batch; padding is masked where the mixer can."""
    assert isinstance(model, PretrainingEncoder)
    tokens = batch["tokens"]
    found: PretrainingLogits = model(
        tokens, segments=batch["segments"], padding=tokens == PADDING, places=batch["places"]
    )
    return found


@torch.no_grad()
def masked_sums(
    model: nn.Module, measurement: Measurement, *, part: tuple[int, int] = (0, 1)
) -> MaskedSums:
    """Return the sums over the sequences of a measurement, or over the share of a process."""
    device, sums = next(model.parameters()).device, MaskedSums()
    for batch in measurement.batches(max(_TOKENS // measurement.length, 1), part):
        own = {name: tensor.to(device) for name, tensor in batch.items()}
        found = predictions(model, own)
        sums += MaskedSums(
            *_sums(found.words.flatten(0, 1), own["words"].flatten()),
            *_sums(found.next_sentence, own["wrong"]),
        )
    return sums


def _sums(logits: Tensor, targets: Tensor) -> tuple[float, float, float]:
    """Return how many targets there are, the sum of their -log p, and how many are guessed."""
    known = targets != NOTHING
    loss = functional.cross_entropy(logits.double(), targets, ignore_index=NOTHING, reduction="sum")
    right = (logits.argmax(dim=-1) == targets) & known
    return float(known.sum()), float(loss), float(right.sum())
