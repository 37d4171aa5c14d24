"""The training batches of a translation run, with what the mean over an update needs."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.translation.batches import PairBatches, collate
from fourierkernels.studies.translation.classes import BatchRule
from fourierkernels.studies.translation.pair_files import PairFiles


class PairUpdates(Dataset[Batch]):
    """The batches of :class:`~fourierkernels.studies.translation.batches.PairBatches` with weights.

    An update has `batch` batches of one length class and of equally many pairs, but not of equally
    many target tokens. "tokens" of a batch, shape ``(1,)``, are the target tokens of its share if
    all had equally many: a sum of losses over it has the mean over processes and accumulated
    gradients that is the mean over all target tokens of the update.

    Parameters
    ----------
    files : PairFiles
        The corpus, of which "train" is read.
    steps, batch, rule, seed
        As there; a process that has several batches of an update at a time reads them as one.
    """

    def __init__(
        self, files: PairFiles, *, steps: int, batch: int, rule: BatchRule, seed: int
    ) -> None:
        self._files, self._batch, self._rule = files, batch, rule
        self._batches = PairBatches(files, steps=steps, batch=batch, rule=rule, seed=seed)

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which each pair comes once."""
        return self._batches.updates_per_epoch

    def __len__(self) -> int:
        return len(self._batches)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return batches of one update as one.

        Raises
        ------
        ValueError
            If they are of several updates, which may be of different classes.
        """
        places = [int(index) for index in indices]
        updates = {place // self._batch for place in places}
        if len(updates) != 1:
            raise ValueError(f"indices must be of one update, got those of {len(updates)}")
        members = np.concatenate([self._batches.members(place) for place in places])
        tokens = self._target_tokens(updates.pop()) * len(places) / self._batch
        return collate(self._files, "train", members) | {"tokens": torch.tensor([tokens])}

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return pairs of the middle class, and how many such batches cost what an update does."""
        classes = np.cumsum(self._files.classes["train"])
        place = int(np.searchsorted(classes, classes[-1] / 2))
        first = int(classes[place - 1]) if place else 0
        last = min(first + most, int(classes[place]))
        found = collate(self._files, "train", np.arange(first, last))
        tokens = found["target"][:, 1:].count_nonzero()[None].float()
        return found | {"tokens": tokens}, self._batch * self._rule.size(place) / (last - first)

    def _target_tokens(self, update: int) -> float:
        """Return the target tokens of an update, the marks of end counted."""
        places = range(update * self._batch, (update + 1) * self._batch)
        members = np.concatenate([self._batches.members(place) for place in places])
        targets = self._files.index("train")[members]["target"]
        return float(targets.sum(dtype=np.int64) + len(targets))
