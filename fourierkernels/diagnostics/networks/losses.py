"""Losses of a checkpoint that need no labels, to measure how its loss rises without a head.

To add one, write a function from a checkpoint, its tokenizer, items and a seed to a loss with its
batches and add a row to :data:`LOSSES`. The command line finds it there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.foundation.validation import check_choice

Loss = Callable[[Any, Any], Tensor]  # from the model and a batch
Task = tuple[Loss, list[Any]]  # a loss and its batches, one item in each
MASKED = 0.15  # share of the tokens, as in the training of BERT


@dataclass(frozen=True)
class LossRule:
    """A loss, and the model classes that it is meant for.

    Attributes
    ----------
    endings : tuple of str
        Endings of the names of those classes; "" for any.
    make : callable
        From a checkpoint, its tokenizer, items and a seed to a loss and its batches.
    zero_gradient : bool
        Whether it is minimal with all heads in place, so that its gradient is zero there and only
        removing heads is informative.
    """

    name: str
    endings: tuple[str, ...]
    make: Callable[[Checkpoint, Tokenizer | None, Sequence[Any], int], Task]
    description: str
    zero_gradient: bool = False


def _next_token(
    checkpoint: Checkpoint, tokenizer: Tokenizer | None, items: Sequence[Any], seed: int
) -> Task:
    def loss(model: Any, item: Any) -> Tensor:
        scores = token_scores(checkpoint.run([item]))[0]
        targets = torch.tensor(item[1] if isinstance(item, tuple) else item)
        return cross_entropy(scores[: len(targets) - 1], targets[1:])

    for item in items:
        length = checkpoint.spans(item)
        if length is not None and length[0] < 2:
            raise ValueError(f"texts must have 2 tokens to predict the next, got {length[0]}")
    return loss, list(items)


def _masked_token(
    checkpoint: Checkpoint, tokenizer: Tokenizer | None, items: Sequence[Any], seed: int
) -> Task:
    if tokenizer is None or tokenizer.mask is None:
        raise ValueError("loss must be states without a mask token, got masked_token")
    mask, special = tokenizer.mask, tokenizer.special

    def hide(ids: Any) -> tuple[list[int], list[int], list[int]]:
        places = _masked_places(ids, special, seed)
        hidden = [mask if place in places else token for place, token in enumerate(ids)]
        return hidden, places, [ids[place] for place in places]

    def loss(model: Any, batch: Any) -> Tensor:
        hidden, places, targets = batch
        return cross_entropy(
            token_scores(checkpoint.run([hidden]))[0, places], torch.tensor(targets)
        )

    return loss, [hide(ids) for ids in items]


def _masked_places(ids: Any, special: frozenset[int], seed: int) -> list[int]:
    """Return places to mask, the same ones whenever the same text comes."""
    places = [place for place, token in enumerate(ids) if token not in special]
    if not places:
        raise ValueError("texts must have a token that is not special to mask it, got none")
    count = max(1, round(MASKED * len(places)))
    chosen = np.random.default_rng([seed, *ids]).choice(places, size=count, replace=False)
    return [int(place) for place in sorted(chosen)]


def _states(
    checkpoint: Checkpoint, tokenizer: Tokenizer | None, items: Sequence[Any], seed: int
) -> Task:
    def loss(model: Any, batch: Any) -> Tensor:
        item, whole = batch
        change = _last_states(checkpoint.run([item])) - whole
        relative: Tensor = change.square().sum() / whole.square().sum()
        return relative

    with torch.no_grad():
        return loss, [(item, _last_states(checkpoint.run([item]))) for item in items]


def token_scores(output: Any) -> Tensor:
    """Return the scores of tokens in what a network puts out, ``(B, n, V)``, in float32 or more."""
    scores = getattr(output, "logits", output)
    if not isinstance(scores, Tensor):
        raise ValueError(f"network must give scores of tokens, got {type(output).__name__}")
    return _wide(scores)


def _wide(values: Tensor) -> Tensor:
    """Return half precision as float32: a loss in it would move in steps of a hundredth."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _last_states(output: Any) -> Tensor:
    for name in ("last_hidden_state", "logits"):
        if isinstance(scores := getattr(output, name, None), Tensor):
            return _wide(scores)
    if not isinstance(output, Tensor):
        raise ValueError(f"network must give one tensor of states, got {type(output).__name__}")
    return _wide(output)


LOSSES = {
    row.name: row
    for row in (
        LossRule(
            name="next_token",
            endings=(
                "LMHeadModel",
                "ForCausalLM",
                "ForConditionalGeneration",
                "MTModel",
                "LanguageModel",
                "TranslationModel",
            ),
            make=_next_token,
            description="-log p of the next token, in nats",
        ),
        LossRule(
            name="masked_token",
            endings=("ForMaskedLM",),
            make=_masked_token,
            description=f"-log p of masked tokens ({MASKED:.0%} of each text), in nats",
        ),
        LossRule(
            name="states",
            endings=("",),
            make=_states,
            description="squared change of the last states, relative to their squared norm",
            zero_gradient=True,
        ),
    )
}


def choose_loss(checkpoint: Checkpoint, name: str = "auto") -> LossRule:
    """Return the loss of a name; for "auto", that of the longest ending of the model's class."""
    if name != "auto":
        return LOSSES[check_choice("loss", name, ["auto", *LOSSES])]
    kind = type(checkpoint.model).__name__

    def fit(row: LossRule) -> int:
        return max((len(ending) for ending in row.endings if kind.endswith(ending)), default=-1)

    return max(LOSSES.values(), key=fit)


def check_trained_head(checkpoint: Checkpoint, rule: LossRule) -> None:
    """Refuse the loss of a head that the file of weights does not have."""
    if checkpoint.untrained and not rule.zero_gradient:
        raise ValueError(
            f"loss must be states for weights without the head for {rule.name}, got "
            f"{len(checkpoint.untrained)} parameters missing, first {checkpoint.untrained[0]}"
        )
