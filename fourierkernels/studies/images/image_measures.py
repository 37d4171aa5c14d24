"""Top-1 and top-5 accuracy, and the loss, over the images of a split."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.studies.images.labelled import LabelledImages
from fourierkernels.studies.images.updates import read_batch

_BATCH = 64  # images that are read at a time; no number depends on it
TOPS = (1, 5)


def hits(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Return the probability that the label is among the k largest logits, ``(B,)``.

    It is 0 or 1, unless logits equal to the label's decide; those are put in random order. A logit
    that is not a number is larger than all others.

    Parameters
    ----------
    logits : Tensor
        ``(B, K)``.
    labels : Tensor
        ``(B,)``.

    Examples
    --------
    >>> hits(torch.tensor([[2.0, 1.0, 1.0], [0.0, 1.0, 0.0]]), torch.tensor([1, 1]), 2)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    own = logits.gather(1, labels[:, None])
    above = (~(logits <= own)).sum(dim=1).double()
    equal = (logits == own).sum(dim=1).clamp(min=1).double()
    return ((k - above) / equal).clamp(0, 1)


@torch.no_grad()
def accuracy_sums(
    model: nn.Module,
    data: LabelledImages,
    split: str,
    *,
    side: int,
    most: int | None = None,
    part: tuple[int, int] = (0, 1),
) -> tuple[float, ...]:
    """Return sums over images: of -log p of the label, of ones, and of hits among 1 and 5.

    Parameters
    ----------
    side : int
        Height and width that the model reads.
    most : int, optional
        Images that are measured, evenly spread over the split; all by default.
    part : (int, int)
        Number of this process, and of all: each has its share of the images.
    """
    sums, like = np.zeros(2 + len(TOPS)), next(model.parameters())
    model.eval()
    for places in _batches(len(data.labels[split]), most, part):
        batch = read_batch(data, split, places, side)
        labels = batch["labels"].to(like.device)
        logits = model(batch["images"].to(like)).double()
        losses = functional.cross_entropy(logits, labels, reduction="sum")
        found = [float(hits(logits, labels, k).sum()) for k in TOPS]
        sums += (float(losses), len(places), *found)
    return tuple(sums.tolist())


def _batches(count: int, most: int | None, part: tuple[int, int]) -> Iterator[Sequence[int]]:
    """Yield places of a split, a batch at a time."""
    size = count if most is None else min(most, count)
    places = (np.arange(size) * count // size)[part[0] :: part[1]]
    for first in range(0, len(places), _BATCH):
        yield places[first : first + _BATCH].tolist()
