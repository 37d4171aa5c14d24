"""Windows of episodes as batches, in the order of a run."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.control.control_data import ControlData
from fourierkernels.studies.engine.segments import Batch

_BLOCK, _KEPT = 65_536, 2  # draws made at once; blocks of them that are kept

Windows = NDArray[np.int64]  # (B, 3): first step, number of steps, steps of the episode before it


class ControlUpdates(Dataset[Batch]):
    """Windows of training episodes, drawn with replacement.

    An episode is drawn in proportion to its length and a step of it evenly, as gym/experiment.py of
    github.com/kzl/decision-transformer does it: so each step of the training episodes is as
    likely to begin a window. The draws are fixed by the seed alone, whatever the number of
    processes and wherever a run is resumed.

    Parameters
    ----------
    data : ControlData
        The episodes.
    context : int
        K, steps of a window; fewer where an episode ends.
    steps, batch : int
        Updates of the run, and windows of each.
    seed : int
        Of the draws.
    """

    def __init__(
        self, data: ControlData, *, context: int, steps: int, batch: int, seed: int
    ) -> None:
        self._data, self._context = data, check_integer("context", context)
        self._batch, self._seed = check_integer("batch", batch), seed
        self._count = check_integer("steps", steps) * batch
        self._ends = np.cumsum(data.splits["train"].lengths)
        self._blocks: dict[int, NDArray[np.int64]] = {}

    @property
    def updates_per_epoch(self) -> float:
        """Updates after which as many windows have been drawn as there are steps."""
        return self._data.splits["train"].steps / self._batch

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return the windows of some places of the run; see :func:`collate`."""
        drawn = np.array([self._draw(int(index)) for index in indices])
        split = self._data.splits["train"]
        episode = np.searchsorted(self._ends, drawn, side="right")
        before = drawn - (self._ends[episode] - split.lengths[episode])
        lengths = np.minimum(self._context, split.lengths[episode] - before)
        windows = np.stack([split.starts[episode] + before, lengths, before], axis=1)
        return collate(self._data, windows, context=self._context)

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` windows, and how many such batches an update has."""
        few = min(most, self._batch)
        return self.__getitems__(range(few)), self._batch / few

    def _draw(self, index: int) -> int:
        block, place = divmod(index, _BLOCK)
        if block not in self._blocks:
            for old in sorted(self._blocks)[: 1 - _KEPT]:
                del self._blocks[old]
            rng = np.random.default_rng([self._seed, block])
            self._blocks[block] = rng.integers(int(self._ends[-1]), size=_BLOCK)
        return int(self._blocks[block][place])


def collate(data: ControlData, windows: Windows, *, context: int) -> Batch:
    """Return windows as one batch, with zeros to the left of those that are shorter than K.

    Returns
    -------
    dict
        "returns" ``(B, K, 1)``, divided by their scale, "states" ``(B, K, states)``, normalised,
        "actions" ``(B, K, actions)``, "steps" ``(B, K)`` and "padding" ``(B, K)``, True before the
        window begins.
    """
    episodes = data.episodes
    sizes = {"returns": 1, "states": len(data.mean), "actions": episodes.actions.shape[1]}
    found = {
        name: np.zeros((len(windows), context, size), np.float32) for name, size in sizes.items()
    }
    steps = np.zeros((len(windows), context), np.int64)
    for row, (first, length, before) in enumerate(windows):
        own, place = slice(first, first + length), slice(context - length, context)
        found["returns"][row, place, 0] = data.to_go[own] / data.scale
        found["states"][row, place] = data.normalised(episodes.observations[own])
        found["actions"][row, place] = episodes.actions[own]
        steps[row, place] = np.minimum(before + np.arange(length), data.limit - 1)
    lengths = torch.from_numpy(np.ascontiguousarray(windows[:, 1]))
    batch = {name: torch.from_numpy(values) for name, values in found.items()}
    batch["steps"] = torch.from_numpy(steps)
    batch["padding"] = torch.arange(context) < context - lengths[:, None]
    return batch


def one_pass(
    data: ControlData, split: str, *, context: int, batch: int, part: tuple[int, int] = (0, 1)
) -> Iterator[Batch]:
    """Yield each step of a split once, in windows of K steps end to end.

    Parameters
    ----------
    part : tuple of int
        Number of this process and of all processes, each of which has its share of the windows.
    """
    own = data.splits[split]
    windows = np.array(
        [
            (start + before, min(context, length - before), before)
            for start, length in zip(own.starts, own.lengths, strict=True)
            for before in range(0, length, context)
        ]
    )[part[0] :: part[1]]
    for first in range(0, len(windows), batch):
        yield collate(data, windows[first : first + batch], context=context)
