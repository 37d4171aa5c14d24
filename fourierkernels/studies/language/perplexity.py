"""Segments of a text as batches, each token with the one that follows it, and perplexities.

Perplexity of a language model: on consecutive segments, and by a sliding window.

The second is the paper's: every word but the first few is predicted from a full context. "For
evaluation, we use a batch size of 1, and process the text sequence with a sliding window of size L.
The last position is used for computing perplexity (PPL) except in the first segment, where all
positions are evaluated" ([nguyen2022fourierformer]_ section 4.1). A part of the windows is spread
evenly over the text.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.foundation.progress import bar
from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.models.language import LanguageModel
from fourierkernels.models.losses import perplexity
from fourierkernels.studies.engine.data_sets import evenly_spread
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


def windows(tokens: Tokens, starts: Sequence[int], *, length: int, batch: int) -> Iterator[Batch]:
    """Yield the windows of a text that begin at some places, `batch` at a time."""
    for first in range(0, len(starts), batch):
        rows = [tokens[start : start + length + 1] for start in starts[first : first + batch]]
        yield _pair(np.stack(rows))


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


# Tokens evaluated at a time. On a CPU the logits of few stay in its caches: half the time.
_TOKENS = {"cpu": 512}
_MANY = 8192  # elsewhere


def plain_loss(
    model: LanguageModel, tokens: Tokens, *, length: int, part: tuple[int, int] = (0, 1)
) -> tuple[float, int]:
    """Return the sum of -log p over consecutive segments, and how many words were predicted.

    Each segment starts without any context.

    Parameters
    ----------
    part : (int, int)
        Number of this process, and of all that share the text.
    """
    total, count = 0.0, 0
    batches = passes(tokens, length=length, batch=_at_a_time(model, length))
    for batch in islice(batches, part[0], None, part[1]):
        losses = _losses(model, batch)
        total, count = total + _sum(losses), count + losses.numel()
    return total, count


def sliding_loss(
    model: LanguageModel, tokens: Tokens, *, length: int, positions: int | None = None
) -> tuple[float, int]:
    """Return the sum of -log p by a sliding window, and how many words were predicted.

    Parameters
    ----------
    positions : int, optional
        Number of windows, evenly spread over the text; all by default. Of fewer than all, the last
        words alone are predicted: the others of the first window, which have less context, would
        weigh more than they do in the whole text.

    Raises
    ------
    ValueError
        If the text is shorter than a window.
    """
    check_window(tokens, length, "text")
    starts = evenly_spread(len(tokens) - length, positions)
    total, count = 0.0, 0
    if len(starts) == len(tokens) - length:  # of the first window, all but its last position
        for batch in windows(tokens, starts[:1], length=length, batch=1):
            first = _losses(model, batch)[:, :-1]
            total, count = _sum(first), first.numel()
    with bar("windows", len(starts)) as advance:
        done = 0
        for batch in windows(tokens, starts, length=length, batch=_at_a_time(model, length)):
            last = _last_losses(model, batch)
            total, done = total + _sum(last), done + last.numel()
            advance(done)
    return total, count + done


def check_window(tokens: Tokens, length: int, name: str) -> None:
    """Refuse a text, which messages call `name`, that no window fits into.

    Raises
    ------
    ValueError
        If it is not longer than a window.
    """
    if len(tokens) <= length:
        raise ValueError(
            f"{name} must be longer than a window of {length}, got {len(tokens)} words"
        )


def perplexities(
    model: LanguageModel, tokens: Tokens, *, length: int, positions: int | None = None
) -> Iterator[tuple[str, float, int]]:
    """Yield the name of each perplexity, its value, and how many words it is of."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            total, count = plain_loss(model, tokens, length=length)
            yield "plain perplexity", perplexity(total, count), count
            total, count = sliding_loss(model, tokens, length=length, positions=positions)
            yield "sliding perplexity", perplexity(total, count), count
    finally:
        model.train(training)


def _at_a_time(model: LanguageModel, length: int) -> int:
    tokens = _TOKENS.get(next(model.parameters()).device.type, _MANY)
    return max(tokens // length, 1)


def _losses(model: LanguageModel, batch: Batch) -> Tensor:
    device = next(model.parameters()).device
    losses: Tensor = model(batch["tokens"].to(device), batch["targets"].to(device))
    return losses


def _last_losses(model: LanguageModel, batch: Batch) -> Tensor:
    """Return -log p of the last targets, ``(B,)``; the softmax is computed for them alone."""
    device = next(model.parameters()).device
    states = model.states(batch["tokens"].to(device))[:, -1]
    return model.softmax.nll(states, batch["targets"][:, -1].to(device), model.embedding)


def _sum(losses: Tensor) -> float:
    return losses.double().sum().item()
