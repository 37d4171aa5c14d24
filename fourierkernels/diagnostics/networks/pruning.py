"""Heads of a checkpoint that can be pruned: inputs in, importance and pruning curves out."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.inputs import read_items
from fourierkernels.checkpoints.isolating import isolated
from fourierkernels.checkpoints.load import load_tokenizer
from fourierkernels.diagnostics.networks.importance import (
    IMPORTANCES,
    head_importance,
    pruning_curve,
)
from fourierkernels.diagnostics.networks.layers import check_whole_maps
from fourierkernels.diagnostics.networks.losses import LossRule, check_trained_head, choose_loss
from fourierkernels.diagnostics.profile import HeadPruning
from fourierkernels.foundation.validation import check_integer


def head_pruning(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    *,
    method: str = "gradient",
    loss: str = "auto",
    count: int = 32,
    steps: int = 10,
    tokens: str = "auto",
    context: int | None = None,
    max_tokens: int | None = None,
    seed: int = 0,
) -> HeadPruning:
    """Measure the importance of heads on some inputs, and pruning curves on as many others.

    Parameters
    ----------
    checkpoint : Checkpoint
        With the head for its own task, if a loss needs one: see `task_head` of
        :func:`~fourierkernels.checkpoints.load.load_checkpoint`.
    inputs, context, max_tokens, tokens
        As in :func:`~fourierkernels.diagnostics.networks.profile.profile_heads`. Only the first
        2 `count` items are read; importance is that of every second one.
    method : str
        A key of :data:`~fourierkernels.diagnostics.networks.importance.IMPORTANCES`.
    loss : str
        A key of :data:`~fourierkernels.diagnostics.networks.pruning.LOSSES`, or "auto" for the one
        of the model's class.
    steps : int
        Points of the curves.
    seed : int
        Of masked tokens and of the random order.

    Raises
    ------
    ValueError
        For a checkpoint or inputs that cannot be used, or a loss without a gradient for the
        method "gradient".
    """
    checkpoint = checkpoint.with_limit(max_tokens)
    rule = _check_loss(checkpoint, choose_loss(checkpoint, loss), method)
    tokenizer = load_tokenizer(checkpoint, tokens=tokens) if checkpoint.reads_texts else None
    read = read_items(checkpoint, inputs, tokenizer=tokenizer, context=context)
    items = _first(read, 2 * check_integer("count", count))
    check_whole_maps(checkpoint, items)
    checkpoint = isolated(checkpoint, items[0])
    made, batches = rule.make(checkpoint, tokenizer, items, seed)
    model, selects = checkpoint.model, checkpoint.selects
    importance = head_importance(model, batches[::2], made, method=method, selects=selects)
    chance = np.random.default_rng(seed).random(importance.values.shape)
    curve, at_random = (
        pruning_curve(
            model,
            batches[1::2],
            made,
            order,
            steps=steps,
            selects=selects,
            about_mean=IMPORTANCES[method].about_mean,
        )
        for order in (importance.values, chance)
    )
    return HeadPruning(rule.name, rule.description, importance, curve, at_random)


def _first(items: Iterable[Any], count: int) -> list[Any]:
    taken = list(islice(items, count))
    if len(taken) < 2:
        raise ValueError(f"inputs must give at least 2 items for importance, got {len(taken)}")
    return taken


def _check_loss(checkpoint: Checkpoint, rule: LossRule, method: str) -> LossRule:
    if rule.zero_gradient and method == "gradient":
        raise ValueError(
            f"method must be masking for the loss {rule.name}, which is minimal with all heads, "
            f"got gradient for {type(checkpoint.model).__name__}"
        )
    check_trained_head(checkpoint, rule)
    return rule
