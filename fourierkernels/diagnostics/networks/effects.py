"""What a loss is without heads, with their mean, or with what they put out on another text.

Whether a network needs a head is asked of the loss on each text, head by head or of several heads
together. Heads are gated as for their importance; a head that is patched puts out what it does in
another run, from which the loss of the texts is measured again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fourierkernels.checkpoints import recording
from fourierkernels.checkpoints.checkpoint import layer_calls
from fourierkernels.checkpoints.recorders.gates import edited_heads
from fourierkernels.diagnostics.moments import mean_interval
from fourierkernels.diagnostics.networks.importance import (
    Loss,
    Probe,
    Selects,
    every_call,
    make_probe,
)
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_integer

Place = tuple[int, int]  # layer and head, from 0
HOW = ("zero", "mean", "patch")


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """The loss on each text with heads changed, beside the loss with all as they are.

    Attributes
    ----------
    how : str
        "zero", "mean" or "patch".
    loss : str
        Its name.
    heads : tuple
        Layers and heads, from 0, that were changed in each column; several where they were changed
        together.
    whole : ndarray, shape (T,)
        The loss of each text.
    changed : ndarray, shape (T, K)
        The loss with the heads of each column changed.
    """

    how: str
    loss: str
    heads: tuple[tuple[Place, ...], ...]
    whole: FloatArray
    changed: FloatArray

    @property
    def effects(self) -> FloatArray:
        """By how much the loss rises, text by text, ``(T, K)``."""
        effects: FloatArray = self.changed - self.whole[:, None]
        return effects

    @property
    def mean(self) -> FloatArray:
        """Mean over the texts, ``(K,)``."""
        mean: FloatArray = self.effects.mean(axis=0)
        return mean

    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the t interval of the mean; NaN from fewer than three texts."""
        return mean_interval(self.effects)


@torch.no_grad()
def head_effects(
    model: nn.Module,
    batches: Sequence[Any],
    loss: Loss,
    *,
    heads: Sequence[Place] | None = None,
    how: str = "zero",
    other: Sequence[Any] | None = None,
    together: bool = False,
    selects: Selects = every_call,
    name: str = "",
) -> HeadEffects:
    """Measure the loss on each batch with heads removed, at their mean, or patched.

    Parameters
    ----------
    model, loss, selects
        As in :func:`~fourierkernels.diagnostics.networks.importance.head_importance`.
    batches : sequence
        One text each, so that effects have an interval over texts.
    heads : sequence of (layer, head), optional
        From 0; by default all of them.
    how : {"zero", "mean", "patch"}
        What a head puts out: nothing, its mean over the tokens of the text, or what it puts out on
        another batch, token by token.
    other : sequence, optional
        For "patch": a batch for each of `batches`, of as many tokens.
    together : bool
        Whether the heads are changed all at once, and not one after the other.
    name : str
        Of the loss.

    Raises
    ------
    ValueError, TypeError
        For heads that there are not, other batches of another length, or a model whose heads do not
        go into a linear layer.

    Examples
    --------
    >>> layer = nn.MultiheadAttention(4, 2, batch_first=True)
    >>> run = lambda model, x: model(x, x, x)[0].square().mean()
    >>> head_effects(layer, [torch.ones(1, 3, 4)] * 3, run, heads=[(0, 1)]).effects.shape
    (3, 1)
    """
    check_choice("how", how, list(HOW))
    if not batches:
        raise ValueError("batches must hold at least one batch, got none")
    if (how == "patch") != (other is not None):
        raise ValueError(
            f"other must be given to patch from, and only then, got {other!r:.40} for {how}"
        )
    if other is not None and len(other) != len(batches):
        raise ValueError(f"other must be as many as the texts, got {len(other)} for {len(batches)}")
    probe = make_probe(model, batches[0], loss, selects, about_mean=how == "mean")
    groups = _groups(probe, heads, together=together)
    rows = []
    for number, batch in enumerate(batches):
        donor = None if other is None else _outputs(model, other[number], loss, selects)
        changed = [_changed(probe, batch, group, donor) for group in groups]
        rows.append([float(loss(model, batch)), *changed])
    losses = np.array(rows)
    return HeadEffects(how, name, groups, losses[:, 0], losses[:, 1:])


def _groups(
    probe: Probe, heads: Sequence[Place] | None, *, together: bool
) -> tuple[tuple[Place, ...], ...]:
    """Return the heads that are changed at once, in turn."""
    layers, count = probe.shape
    given = list(np.ndindex(layers, count)) if heads is None else _places(heads)
    for layer, head in given:
        if not (0 <= layer < layers and 0 <= head < count):
            raise ValueError(
                f"heads must be (layer, head) below ({layers}, {count}), from 0, got "
                f"{(layer, head)}"
            )
    if not given:
        raise ValueError("heads must name a head, got none")
    return (tuple(given),) if together else tuple((head,) for head in given)


def _places(heads: Any) -> list[Place]:
    """Return layers and heads; what is no sequence of pairs of integers is refused."""
    pairs = list(heads) if isinstance(heads, Iterable) else [heads]
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise TypeError(
                f"heads must be pairs, as [(0, 1)], got {pair!r:.40} among {heads!r:.40}"
            )
    return [
        (check_integer("layer", layer, least=0), check_integer("head", head, least=0))
        for layer, head in pairs
    ]


def _outputs(model: nn.Module, batch: Any, loss: Loss, selects: Selects) -> list[Tensor]:
    """Return what the heads of each layer put out on a batch, ``(B, H, N, d)``."""
    with recording(model) as recorded:
        loss(model, batch)
    return [call.outputs for call in layer_calls(recorded, selects)]


def _changed(probe: Probe, batch: Any, group: Sequence[Place], donor: list[Tensor] | None) -> float:
    """Return the loss on a batch with some heads changed."""
    if donor is None:
        gates = probe.gates()
        for place in group:
            gates[place] = 0.0
        return float(probe.loss_with(gates, batch))

    def edit(layer: int, outputs: Tensor) -> Tensor:
        given = donor[layer].transpose(1, 2)
        if given.shape != outputs.shape:
            raise ValueError(
                "other must have as many tokens as the texts, got "
                f"{given.shape[1]} for {outputs.shape[1]}"
            )
        heads = [head for at, head in group if at == layer]
        patched = outputs.clone()
        patched[:, :, heads] = given[:, :, heads].to(outputs)
        return patched

    with edited_heads(probe.model, probe.calls, edit, recorded=probe.recorded):
        return float(probe.loss(probe.model, batch))
