"""Segments of a text as batches: each token with the one that follows it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from fourierkernels.foundation.validation import check_choice, check_integer

Tokens = NDArray[np.unsignedinteger[Any]]
Batch = dict[str, Tensor]


class Segments(Dataset[Batch]):
    """Segments of a text, in the order in which a run reads them: epoch after epoch.

    The order is fixed by the seed alone, whatever the number of processes and wherever a run is
    resumed; consecutive segments make batches.

    Parameters
    ----------
    tokens : ndarray, shape (n,)
        Numbers of words; mapped files are read where a batch needs them.
    length : int
        Tokens of a segment.
    batch : int
        Sequences of an update.
    order : {"streams", "shuffled"}
        "streams" cuts the text into `batch` streams of equal length: batch i holds segment i of
        each, as ``LMOrderedIterator`` of the published code (``src/data_utils.py`` of
        https://github.com/IDSIA/lmtool-fwp), and the last segments may be shorter. "shuffled" draws
        a new order of the segments for each epoch. Either leaves out what does not fill the last
        batch.
    steps : int
        Updates of the run; one epoch if None.
    seed : int
        Of the order.

    Raises
    ------
    ValueError
        If the text is too short for one batch.
    """

    def __init__(
        self,
        tokens: Tokens,
        *,
        length: int,
        batch: int,
        order: str,
        steps: int | None = None,
        seed: int = 0,
    ) -> None:
        self._tokens, self._length = tokens, check_integer("length", length)
        self._batch = check_integer("batch", batch)
        streams = check_choice("order", order, ["streams", "shuffled"]) == "streams"
        self._starts, self._ends = (_streams if streams else _pieces)(len(tokens), length, batch)
        self.epoch = len(self._starts)
        if self.epoch == 0:
            raise ValueError(
                f"text must have at least one batch of {batch} segments of {length} tokens, "
                f"got {len(tokens)} tokens"
            )
        self._count = self.epoch if steps is None else check_integer("steps", steps) * batch
        self._seed = None if streams else seed
        self._drawn: tuple[int, NDArray[np.int64]] = (-1, np.arange(self.epoch))

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which the text is read once."""
        return self.epoch / self._batch

    def __len__(self) -> int:
        return self._count

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` segments, and how many such batches an update has."""
        few = min(most, self._batch)
        return self.__getitems__(range(few)), self._batch / few

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return segments ``(B, N)`` and their targets, of the length of the shortest."""
        chosen = np.array([self._segment(int(index)) for index in indices])
        starts, n = self._starts[chosen], self._length
        n = min(n, int((self._ends[chosen] - starts).min()))
        return _pair(np.stack([self._tokens[start : start + n + 1] for start in starts]))

    def _segment(self, index: int) -> int:
        """Return which segment of the text comes at a place of the run."""
        epoch, place = divmod(index, self.epoch)
        if self._seed is None:
            return place
        if self._drawn[0] != epoch:
            rng = np.random.default_rng([self._seed, epoch])
            self._drawn = epoch, rng.permutation(self.epoch)
        return int(self._drawn[1][place])


def one_batch(batch: Batch) -> Batch:
    """Return a batch that a data set has put together already, as a collator does."""
    return batch


def passes(tokens: Tokens, *, length: int, batch: int) -> Iterator[Batch]:
    """Yield all of a text once, each token but the first as a target, `batch` segments at a time.

    The last segment is shorter and comes alone.
    """
    whole = (len(tokens) - 1) // length
    for first in range(0, whole, batch):
        last = min(first + batch, whole)
        rows = np.asarray(tokens[first * length : last * length + 1], dtype=np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(rows, length + 1)[::length]
        yield _pair(windows)
    rest = np.asarray(tokens[whole * length :], dtype=np.int64)
    if len(rest) > 1:
        yield _pair(rest[None])


def windows(
    tokens: Tokens, *, length: int, batch: int, positions: int | None = None
) -> Iterator[Batch]:
    """Yield the windows of a text, `batch` at a time, each one token further than the last.

    Parameters
    ----------
    positions : int, optional
        Number of windows; all by default.
    """
    count = len(tokens) - length if positions is None else min(positions, len(tokens) - length)
    for first in range(0, count, batch):
        last = min(first + batch, count)
        rows = np.asarray(tokens[first : last + length], dtype=np.int64)
        yield _pair(np.lib.stride_tricks.sliding_window_view(rows, length + 1))


def _pair(rows: NDArray[Any]) -> Batch:
    whole = torch.from_numpy(np.array(rows, dtype=np.int64))
    return {"tokens": whole[:, :-1], "targets": whole[:, 1:]}


def _streams(n: int, length: int, batch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first token of each segment, and the last target of its stream."""
    long = n // batch
    inside = np.arange(0, max(long - 1, 0), length)
    rows = long * np.arange(batch)
    starts = (inside[:, None] + rows).ravel()
    ends = np.broadcast_to(rows + long - 1, (len(inside), batch)).ravel()
    return starts, ends


def _pieces(n: int, length: int, batch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = (n - 1) // length // batch * batch
    starts = length * np.arange(max(count, 0))
    return starts, starts + length
