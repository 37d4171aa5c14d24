"""Batches of pairs of one length class, of as many pairs as fit a budget.

A data set whose item is a whole batch: a recipe of `batch` 1 makes an update of one batch, one of
`batch` 4 an update of four, on four processes as in the report or accumulated. The engine asks for
items in their order, so that a step alone says which pairs it has.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.engine.epochs import Batch, DrawnOrder, Epochs
from fourierkernels.studies.translation.bpe import PADDING, START, STOP
from fourierkernels.studies.translation.classes import ENDS, BatchRule, length_class, padded_length
from fourierkernels.studies.translation.pair_files import PairFiles

_NO_RULE = BatchRule()
_EPOCHS, _PASSES = 0, 1  # else an epoch and a pass could draw the same numbers


class PairUpdates(Epochs):
    """The training batches of a run, in their order: item i is a batch ``(B, N)``, ``(B, M + 1)``.

    Each class is read pass after pass, in a new order each time, and cut into batches of exactly B
    pairs: what remains of a pass is the beginning of the next batch, so that every batch is full,
    and every pair comes once in a pass. An epoch has the batches that fill up during one pass of
    all classes, in an order drawn anew.

    An update has `batch` batches of one length class and of equally many pairs, but not of equally
    many target tokens. "tokens" of a batch, shape ``(1,)``, are the target tokens of its share if
    all had equally many: a sum of losses over it has the mean over processes and accumulated
    gradients that is the mean over all target tokens of the update.

    Parameters
    ----------
    files : PairFiles
        The corpus, of which "train" is read.
    steps : int
        Updates of the run.
    batch : int
        Batches of an update, `recipe.batch`. They are of one class, as in [chen_attention]_ section
        4.2, where each of four processes has a quarter of each class: all then have as much to do.
        A process that has several of them at a time reads them as one.
    rule : BatchRule
        How many pairs there are in a batch of a class.
    seed : int
        Of the order.

    Raises
    ------
    ValueError
        If the budget is less than one pair of the longest class.
    """

    def __init__(
        self,
        files: PairFiles,
        *,
        steps: int,
        batch: int = 1,
        rule: BatchRule = _NO_RULE,
        seed: int = 0,
    ) -> None:
        self._files, self._rule = files, rule
        self._seed = check_integer("seed", seed, least=0)
        self._pairs = files.classes["train"]
        super().__init__(self._collated, examples=sum(self._pairs), steps=steps, batch=batch)
        self._firsts = [0, *accumulate(self._pairs)]
        self._places = [place for place, pairs in enumerate(self._pairs) if pairs]
        self.sizes = {place: rule.size(place) for place in self._places}
        self._orders = {place: self._order(place) for place in self._places}
        self._epoch: tuple[int, list[tuple[int, int]]] = (-1, [])

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which each pair comes once, on average over the epochs."""
        return sum(self._pairs[place] / self._full(place) for place in self._places)

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return pairs of the middle class, and how many such batches cost what an update does."""
        classes = np.cumsum(self._pairs)
        place = int(np.searchsorted(classes, classes[-1] / 2))
        first = int(classes[place - 1]) if place else 0
        last = min(first + most, int(classes[place]))
        pairs = collate(self._files, "train", np.arange(first, last))
        tokens = pairs["target"][:, 1:].count_nonzero()[None].float()
        return pairs | {"tokens": tokens}, self.batch * self._rule.size(place) / (last - first)

    def _collated(self, places: list[int]) -> Batch:
        """Return batches of one update as one.

        Raises
        ------
        ValueError
            If they are of several updates, which may be of different classes.
        """
        updates = {place // self.batch for place in places}
        if len(updates) != 1:
            raise ValueError(f"indices must be of one update, got those of {len(updates)}")
        members = np.concatenate([self.members(place) for place in places])
        tokens = self._target_tokens(updates.pop()) * len(places) / self.batch
        return collate(self._files, "train", members) | {"tokens": torch.tensor([tokens])}

    def _target_tokens(self, update: int) -> float:
        """Return the target tokens of an update, the marks of end counted."""
        places = range(update * self.batch, (update + 1) * self.batch)
        members = np.concatenate([self.members(place) for place in places])
        targets = self._files.index("train")[members]["target"]
        return float(targets.sum(dtype=np.int64) + len(targets))

    def members(self, index: int) -> NDArray[np.int64]:
        """Return the places of the pairs of a batch in the training files, ``(B,)``."""
        if not 0 <= index < len(self):
            raise IndexError(f"index must be in [0, {len(self)}), got {index}")
        update, part = divmod(index, self.batch)
        place, number = self._update(update)
        first = (number * self.batch + part) * self.sizes[place]
        drawn = [self._orders[place](i) for i in range(first, first + self.sizes[place])]
        return self._firsts[place] + np.array(drawn)

    def _full(self, place: int) -> int:
        """Return how many pairs of a class an update has."""
        return self.sizes[place] * self.batch

    def _before(self, epoch: int, place: int) -> int:
        """Return how many updates a class has had before an epoch."""
        return epoch * self._pairs[place] // self._full(place)

    def _update(self, update: int) -> tuple[int, int]:
        """Return the class of an update, and how many updates the class had before."""

        def before(epoch: int) -> int:
            return sum(self._before(epoch, place) for place in self._places)

        last = 1
        while before(last) <= update:
            last *= 2
        epoch = bisect_right(range(last), update, key=before) - 1
        if self._epoch[0] != epoch:
            self._epoch = epoch, self._shuffled(epoch)
        return self._epoch[1][update - before(epoch)]

    def _shuffled(self, epoch: int) -> list[tuple[int, int]]:
        """Return the updates of an epoch, each as its class and its number there."""
        updates = [
            (place, number)
            for place in self._places
            for number in range(self._before(epoch, place), self._before(epoch + 1, place))
        ]
        order = np.random.default_rng([self._seed, _EPOCHS, epoch]).permutation(len(updates))
        return [updates[i] for i in order]

    def _order(self, place: int) -> DrawnOrder:
        """Return the order of the pairs of a class, pass after pass."""

        def draw(turn: int) -> NDArray[np.int64]:
            rng = np.random.default_rng([self._seed, _PASSES, place, turn])
            return rng.permutation(self._pairs[place])

        return DrawnOrder(draw, self._pairs[place])


def one_pass(
    files: PairFiles,
    split: str,
    *,
    rule: BatchRule = _NO_RULE,
    part: tuple[int, int] = (0, 1),
    longest: int | None = None,
) -> Iterator[Batch]:
    """Yield each pair of a split once, class by class; the last batch of a class may be smaller.

    Parameters
    ----------
    longest : int, optional
        As for :func:`collate`.
    part : tuple of int
        Number of this process and of all processes: each has every so many batches.
    """
    number, first = 0, 0
    for place, pairs in enumerate(files.classes[split]):
        read = place if longest is None else min(place, length_class(longest))
        size = rule.size(read) if pairs else 1
        for start in range(0, pairs, size):
            if number % part[1] == part[0]:
                members = np.arange(first + start, first + min(start + size, pairs))
                yield collate(files, split, members, longest=longest)
            number += 1
        first += pairs


def collate(
    files: PairFiles, split: str, places: NDArray[np.int64], *, longest: int | None = None
) -> Batch:
    """Return pairs of one class as a batch of int64.

    Parameters
    ----------
    longest : int, optional
        Tokens of a sentence that the model reads. Of a longer source only these are read, as in a
        translation; of a longer target these and the next one are predicted, and no end.

    Returns
    -------
    dict of Tensor
        "source" ``(B, N)``, start, sentence, end, padding, with N the
        :func:`~fourierkernels.studies.translation.classes.padded_length` of each; "target"
        ``(B, M + 1)``, the same with the longest target of the batch.

    Raises
    ------
    ValueError
        If the sources are to be padded to different lengths.
    """
    tokens, index = files.tokens(split), files.index(split)[places]
    sources, targets = [], []
    for start, n, m in index.tolist():
        sources.append(tokens[start : start + n][:longest])
        targets.append(tokens[start + n : start + n + m])
    lengths = {padded_length(len(source)) for source in sources}
    if longest is not None:
        lengths = {min(length, longest + ENDS) for length in lengths}
        targets = [target[: longest + 1] for target in targets]
    if len(lengths) != 1:
        raise ValueError(f"pairs must be of one length class, got sources padded to {lengths}")
    return {
        "source": _padded(sources, lengths.pop()),
        "target": _padded(targets, min(max(map(len, targets)), longest or sys.maxsize) + ENDS),
    }


def _padded(rows: Sequence[NDArray[Any]], length: int) -> Tensor:
    """Return rows between their marks, filled up to a length."""
    filled = np.full((len(rows), length), PADDING, dtype=np.int64)
    filled[:, 0] = START
    for row, own in zip(filled, rows, strict=True):
        row[1 : len(own) + 1] = own
        row[len(own) + 1 : len(own) + ENDS] = STOP
    return torch.from_numpy(filled)
