"""Batches of series of unequal length, in the order of a run."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.series.series_data import SeriesSplit

_KEPT = 2  # orders: a batch may begin in one epoch and end in the next


class SeriesUpdates(Dataset[Batch]):
    """Training series epoch after epoch, each epoch in a new order.

    The order is fixed by the seed alone, whatever the number of processes and wherever a run is
    resumed. Epochs follow each other without a gap: a batch that one does not fill is filled by the
    next.

    Parameters
    ----------
    split : SeriesSplit
        The training series.
    steps, batch : int
        Updates of the run, and series of each.
    seed : int
        Of the orders.
    """

    def __init__(self, split: SeriesSplit, *, steps: int, batch: int, seed: int) -> None:
        self._split, self._batch = split, check_integer("batch", batch)
        self._count, self._seed = check_integer("steps", steps) * batch, seed
        self._orders: dict[int, NDArray[np.int64]] = {}

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which each series comes once."""
        return len(self._split) / self._batch

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return the series of some places of the run; see :func:`collate`."""
        return collate(self._split, [self._member(int(index)) for index in indices])

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` series, and how many such batches an update has."""
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


def collate(split: SeriesSplit, members: Sequence[int]) -> Batch:
    """Return series as one batch, with zeros behind those that are shorter than the longest.

    Returns
    -------
    dict
        "series" ``(B, N, channels)``, "padding" ``(B, N)``, True behind the end, and "classes"
        ``(B,)``.
    """
    chosen = [split.series(place) for place in members]
    lengths = np.array([len(own) for own in chosen])
    series = np.zeros((len(chosen), lengths.max(), split.values.shape[1]), dtype=np.float32)
    for row, own in zip(series, chosen, strict=True):
        row[: len(own)] = own
    padding: Tensor = torch.arange(series.shape[1]) >= torch.from_numpy(lengths)[:, None]
    labels = torch.from_numpy(split.labels[list(members)])
    return {"series": torch.from_numpy(series), "padding": padding, "classes": labels}


def one_pass(
    split: SeriesSplit, *, batch: int, members: Sequence[int] | None = None
) -> Iterator[Batch]:
    """Yield each series once, in the order of the file.

    Parameters
    ----------
    members : sequence of int, optional
        Which series; all by default.
    """
    chosen = range(len(split)) if members is None else members
    for first in range(0, len(chosen), batch):
        yield collate(split, chosen[first : first + batch])
