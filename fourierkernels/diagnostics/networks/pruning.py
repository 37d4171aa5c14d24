"""Which heads does a checkpoint need? Inputs in; importance of each head and pruning curves out."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.inputs import read_items
from fourierkernels.checkpoints.load import (
    Checkpoint,
    load_checkpoint,
    load_tokenizer,
)
from fourierkernels.diagnostics.networks.importance import (
    HeadImportance,
    PruningCurve,
    head_importance,
    pruning_curve,
)
from fourierkernels.diagnostics.networks.losses import LossRule, choose_loss
from fourierkernels.validation import check_integer


@dataclass(frozen=True, eq=False)
class HeadNeed:
    """What each head is worth to a loss, and what is lost as heads go.

    Attributes
    ----------
    loss, description : str
        Which loss, and what it is.
    pruned : PruningCurve
        The least important heads first, on inputs that the importance was not measured on.
    at_random : PruningCurve
        The same heads in random order.
    """

    loss: str
    description: str
    importance: HeadImportance
    pruned: PruningCurve
    at_random: PruningCurve


def head_need(
    checkpoint: str | Path | Checkpoint,
    inputs: Iterable[Any],
    *,
    method: str = "gradient",
    loss: str = "auto",
    count: int = 32,
    steps: int = 10,
    tokens: str = "auto",
    context: int | None = None,
    seed: int = 0,
    **loading: Any,
) -> HeadNeed:
    """Measure the importance of heads on some inputs, and pruning curves on as many others.

    Parameters
    ----------
    checkpoint : str, Path or Checkpoint
        A folder is loaded with the head for its own task that its config.json names.
    inputs, context, tokens
        As in :func:`~fourierkernels.diagnostics.networks.heads.profile_heads`. Only the first
        2 `count` items are read; importance is that of every second one.
    method : str
        A key of :data:`~fourierkernels.diagnostics.networks.importance.IMPORTANCES`.
    loss : str
        A key of :data:`~fourierkernels.diagnostics.networks.losses.LOSSES`, or "auto" for the one
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
    if not isinstance(checkpoint, Checkpoint):
        own = loading.pop("model_class", None) or find_checkpoint(checkpoint).task_class
        checkpoint = load_checkpoint(checkpoint, model_class=own, **loading)
    rule = _check_loss(checkpoint, choose_loss(checkpoint, loss), method)
    tokenizer = load_tokenizer(checkpoint, tokens=tokens) if checkpoint.reads_texts else None
    read = read_items(checkpoint, inputs, tokenizer=tokenizer, context=context)
    items = list(islice(read, 2 * check_integer("count", count)))
    if len(items) < 2:
        raise ValueError(f"inputs must give at least 2 items for importance, got {len(items)}")
    made, batches = rule.make(checkpoint, tokenizer, items, seed)
    model, selects = checkpoint.model, checkpoint.selects
    importance = head_importance(
        model, batches[::2], made, method=method, selects=selects, seed=seed
    )
    chance = np.random.default_rng(seed).random(importance.values.shape)
    pruned, at_random = (
        pruning_curve(model, batches[1::2], made, order, steps=steps, selects=selects)
        for order in (importance.values, chance)
    )
    return HeadNeed(rule.name, rule.description, importance, pruned, at_random)


def _check_loss(checkpoint: Checkpoint, rule: LossRule, method: str) -> LossRule:
    if rule.curved and method == "gradient":
        raise ValueError(
            f"method must be masking for the loss {rule.name}, which is least with all heads, "
            f"got gradient for {type(checkpoint.model).__name__}"
        )
    if checkpoint.untrained and not rule.curved:
        raise ValueError(
            f"loss must be states for weights without the head for {rule.name}, got "
            f"{len(checkpoint.untrained)} parameters missing, first {checkpoint.untrained[0]}"
        )
    return rule
