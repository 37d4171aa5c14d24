"""Batches of long sequences, in the order of a run."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.lra.examples import ArenaSplit, Tokens

_KEPT = 2  # orders: a batch may begin in one epoch and end in the next
FIRST, SECOND = "tokens", "other"  # of a batch: the sequences, and the second ones of pairs


class ArenaUpdates(Dataset[Batch]):
    """Training sequences epoch after epoch, each epoch in a new order.

    The order is fixed by the seed alone, whatever the number of processes and wherever a run is
    resumed. Epochs follow each other without a gap.

    Parameters
    ----------
    split : ArenaSplit
        The training sequences.
    length : int
        Tokens that a model reads; what is longer is cut off.
    steps, batch : int
        Updates of the run, and sequences of each.
    seed : int
        Of the orders.
    """

    def __init__(
        self, split: ArenaSplit, *, length: int, steps: int, batch: int, seed: int
    ) -> None:
        self._split, self._length = split, check_integer("length", length)
        self._batch = check_integer("batch", batch)
        self._count, self._seed = check_integer("steps", steps) * batch, seed
        self._orders: dict[int, NDArray[np.int64]] = {}

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which each sequence comes once."""
        return len(self._split) / self._batch

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return the sequences of some places of the run; see :func:`collate`."""
        members = [self._member(int(index)) for index in indices]
        return collate(self._split, members, length=self._length)

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` sequences, and how many such batches an update has."""
        few = min(most, self._batch)
        return self.__getitems__(range(few)), self._batch / few

    def _member(self, index: int) -> int:
        epoch, place = divmod(index, len(self._split))
        if epoch not in self._orders:
            for old in sorted(self._orders)[: 1 - _KEPT]:
                del self._orders[old]
            rng = np.random.default_rng([self._seed, epoch])
            self._orders[epoch] = rng.permutation(len(self._split))
        return int(self._orders[epoch][place])


def collate(split: ArenaSplit, members: Sequence[int], *, length: int) -> Batch:
    """Return sequences as one batch, cut off at a length, with 0 behind the shorter ones.

    Returns
    -------
    dict
        "tokens" ``(B, N)``, for pairs "other" ``(B, N)`` as well, and "classes" ``(B,)``; N is that
        of the longest.
    """
    examples = [tuple(own[:length] for own in split.open(place)) for place in members]
    longest = max(len(own) for example in examples for own in example)
    sides = zip((FIRST, SECOND), zip(*examples, strict=True), strict=False)
    batch = {name: _padded(rows, longest) for name, rows in sides}
    return {**batch, "classes": torch.from_numpy(split.labels[list(members)])}


def one_pass(
    split: ArenaSplit, *, length: int, batch: int, members: Sequence[int] | None = None
) -> Iterator[Batch]:
    """Yield each sequence once, in order.

    Parameters
    ----------
    members : sequence of int, optional
        Which sequences; all by default.
    """
    chosen = range(len(split)) if members is None else members
    for first in range(0, len(chosen), batch):
        yield collate(split, chosen[first : first + batch], length=length)


def _padded(rows: Sequence[Tokens], longest: int) -> Tensor:
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    for own, row in zip(tokens, rows, strict=True):
        own[: len(row)] = torch.from_numpy(row)
    return tokens
