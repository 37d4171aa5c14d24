"""Segments of a text as batches: each token with the one that follows it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.studies.engine.epochs import Batch, Epochs, shuffled

Tokens = NDArray[np.unsignedinteger[Any]]


def segments(
    tokens: Tokens,
    *,
    length: int,
    batch: int,
    order: str,
    steps: int | None = None,
    seed: int = 0,
) -> Epochs:
    """Return the segments of a text in the order in which a run reads them, epoch after epoch.

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
    check_integer("length", length), check_integer("batch", batch)
    streams = check_choice("order", order, ["streams", "shuffled"]) == "streams"
    starts, ends = (_streams if streams else _pieces)(len(tokens), length, batch)
    count = len(starts)
    if count == 0:
        raise ValueError(
            f"text must have at least one batch of {batch} segments of {length} tokens, "
            f"got {len(tokens)} tokens"
        )

    def collate(members: list[int]) -> Batch:
        """Return segments ``(B, N)`` and their targets, of the length of the shortest."""
        firsts = starts[members]
        n = min(length, int((ends[members] - firsts).min()))
        return _pair(np.stack([tokens[first : first + n + 1] for first in firsts]))

    return Epochs(
        collate,
        examples=count,
        steps=count // batch if steps is None else steps,
        batch=batch,
        order=(lambda place: place % count) if streams else shuffled(count, seed),
    )


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
