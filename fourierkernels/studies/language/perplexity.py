"""Perplexity of a language model: on consecutive segments, and by a sliding window.

The second is the paper's: every word but the first few is predicted from a full context. "For
evaluation, we use a batch size of 1, and process the text sequence with a sliding window of size L.
The last position is used for computing perplexity (PPL) except in the first segment, where all
positions are evaluated" ([nguyen2022fourierformer]_ section 4.1).
"""

import math
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from fourierkernels.foundation.progress import bar
from fourierkernels.models.language import LanguageModel
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.language.segments import Tokens, passes, windows

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
        Number of windows; all by default.

    Raises
    ------
    ValueError
        If the text is shorter than a window.
    """
    if len(tokens) <= length:
        raise ValueError(f"text must be longer than a window of {length}, got {len(tokens)} words")
    total, count = 0.0, 0
    at_a_time = _at_a_time(model, length)
    batches = windows(tokens, length=length, batch=at_a_time, positions=positions)
    with bar("windows", min(positions or len(tokens), len(tokens) - length)) as advance:
        for number, batch in enumerate(batches):
            if number == 0:  # of the first window, all but its last position
                first = _losses(model, {name: rows[:1] for name, rows in batch.items()})[:, :-1]
                total, count = _sum(first), first.numel()
            last = _last_losses(model, batch)
            total, count = total + _sum(last), count + last.numel()
            advance(count - length + 1)
    return total, count


def perplexities(
    model: LanguageModel, tokens: Tokens, *, length: int, positions: int | None = None
) -> Iterator[tuple[str, float, int]]:
    """Yield the name of each perplexity, its value, and how many words it is of."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            total, count = plain_loss(model, tokens, length=length)
            yield "plain perplexity", math.exp(total / count), count
            total, count = sliding_loss(model, tokens, length=length, positions=positions)
            yield "sliding perplexity", math.exp(total / count), count
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
