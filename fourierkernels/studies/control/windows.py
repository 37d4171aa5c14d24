"""Windows of episodes as batches, in the order of a run."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.control.control_data import ControlData
from fourierkernels.studies.engine.epochs import Batch, Collate, DrawnOrder, Epochs, Order

_BLOCK = 65_536  # draws made at once

Windows = NDArray[np.int64]  # (B, 3): first step, number of steps, steps of the episode before it


def control_updates(
    data: ControlData, *, context: int, steps: int, batch: int, seed: int
) -> Epochs:
    """Return windows of training episodes, drawn with replacement.

    An episode is drawn in proportion to its length and a step of it evenly, as gym/experiment.py of
    github.com/kzl/decision-transformer does it: so each step of the training episodes is as
    likely to begin a window.

    Windows at the end of an episode have fewer steps. "counted" of a batch, shape ``(1,)``, is how
    many steps its share of the update would have if all windows had equally many: a sum of errors
    over it has the mean over processes and accumulated gradients that is the mean over all steps of
    the update.

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
    check_integer("context", context)
    split = data.splits["train"]
    ends = np.cumsum(split.lengths)

    def draw(block: int) -> NDArray[np.int64]:
        return np.random.default_rng([seed, block]).integers(int(ends[-1]), size=_BLOCK)

    def begun_at(drawn: list[int]) -> Windows:
        """Return the windows that begin at some of the training steps."""
        firsts = np.array(drawn)
        episode = np.searchsorted(ends, firsts, side="right")
        before = firsts - (ends[episode] - split.lengths[episode])
        lengths = np.minimum(context, split.lengths[episode] - before)
        return np.stack([split.starts[episode] + before, lengths, before], axis=1)

    return _ControlUpdates(
        lambda drawn: collate(data, begun_at(drawn), context=context),
        examples=split.steps,
        steps=steps,
        batch=batch,
        order=DrawnOrder(draw, _BLOCK),
        count=lambda drawn: int(begun_at(drawn)[:, 1].sum()),
    )


class _ControlUpdates(Epochs):
    """Batches that have "counted", their share of the steps of an update."""

    def __init__(
        self,
        collate: Collate,
        *,
        count: Callable[[list[int]], int],
        examples: int,
        steps: int,
        batch: int,
        order: Order,
    ) -> None:
        super().__init__(collate, examples=examples, steps=steps, batch=batch, order=order)
        self._count_steps, self._at = count, order

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return the windows of some places of one update."""
        updates = {int(index) // self.batch for index in indices}
        if len(updates) != 1:
            raise ValueError(f"indices must be of one update, got those of {len(updates)}")
        first = updates.pop() * self.batch
        every = self._count_steps([self._at(i) for i in range(first, first + self.batch)])
        share = torch.tensor([every * len(indices) / self.batch])
        return super().__getitems__(indices) | {"counted": share}


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
