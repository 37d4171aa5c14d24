"""Importance of each head for a loss, and the loss as heads are pruned.

To add a measure of importance, write a function from a :class:`Probe` and a batch to values (L, H)
and add a row to :data:`IMPORTANCES`. The command line finds it there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from fourierkernels.checkpoints import AttentionCall, recording
from fourierkernels.checkpoints.checkpoint import layer_calls
from fourierkernels.checkpoints.recorders.gates import check_gateable, gated_heads
from fourierkernels.diagnostics.moments import RunningMoments, t_interval
from fourierkernels.diagnostics.profile import HeadImportance, PruningCurve
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_choice, check_finite, check_integer

Loss = Callable[[nn.Module, Any], Tensor]
Selects = Callable[[AttentionCall], bool]


@dataclass(frozen=True, eq=False)
class Probe:
    """A model, its loss on a batch, and the calls of attention in one pass.

    Attributes
    ----------
    calls : list of AttentionCall
        Those that are layers.
    recorded : list of AttentionCall
        All of the pass.
    """

    model: nn.Module
    loss: Loss
    calls: list[AttentionCall]
    recorded: list[AttentionCall]
    about_mean: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Layers (calls) and heads."""
        return len(self.calls), int(self.calls[0].maps.shape[1])

    def gates(self, value: float = 1.0) -> Tensor:
        """Return equal gates ``(L, H)``, in the dtype and on the device of the model."""
        return next(self.model.parameters()).new_full(self.shape, value)

    def loss_with(self, gates: Tensor, batch: Any) -> Tensor:
        """Return the loss on a batch with these gates ``(L, H)``."""
        with gated_heads(
            self.model, self.calls, gates, about_mean=self.about_mean, recorded=self.recorded
        ):
            return self.loss(self.model, batch)


@dataclass(frozen=True)
class Importance:
    """A measure of how much a loss on a batch depends on each head.

    Attributes
    ----------
    about_mean : bool
        Whether a head that is taken away leaves its mean over the tokens. If not, the measure is no
        property of the function that the network computes: a constant that moves from the value
        bias to the output bias changes it.
    """

    name: str
    function: Callable[[Probe, Any], FloatArray]
    description: str
    source: str
    about_mean: bool = False


def gradient_importance(probe: Probe, batch: Any) -> FloatArray:
    """|∂ loss / ∂ gate| of every head at gates of 1."""
    gates = probe.gates().requires_grad_()
    with torch.enable_grad():
        value = probe.loss_with(gates, batch)
    if not value.requires_grad:
        raise ValueError("loss must depend on the heads, got one without a gradient")
    return _array(torch.autograd.grad(value, gates)[0].abs())


@torch.no_grad()
def masking_importance(probe: Probe, batch: Any) -> FloatArray:
    """Loss without the head minus loss with it, for every head; negative if the head harms."""
    gates = probe.gates()
    whole = float(probe.loss_with(gates, batch))
    values = np.zeros(probe.shape)
    for layer, head in np.ndindex(probe.shape):
        gates[layer, head] = 0.0
        values[layer, head] = float(probe.loss_with(gates, batch)) - whole
        gates[layer, head] = 1.0
    return values


IMPORTANCES = {
    row.name: row
    for row in (
        Importance(
            name="gradient",
            function=gradient_importance,
            description="|∂ loss / ∂ gate|: one forward and one backward pass per batch",
            source="michel2019sixteen, there with one text per batch",
        ),
        Importance(
            name="masking",
            function=masking_importance,
            description="change of the loss when the head is removed: one pass per head and batch",
            source="michel2019sixteen",
        ),
        Importance(
            name="mean_gradient",
            function=gradient_importance,
            description="|∂ loss / ∂ gate|, the gate on deviations from the mean over tokens",
            source="",
            about_mean=True,
        ),
        Importance(
            name="mean_masking",
            function=masking_importance,
            description="change of the loss when the head puts out its mean over tokens",
            source="",
            about_mean=True,
        ),
    )
}


def every_call(call: AttentionCall) -> bool:
    """Select every call of attention."""
    return True


def head_importance(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Loss,
    *,
    method: str = "gradient",
    selects: Selects = every_call,
) -> HeadImportance:
    """Measure how much a loss depends on every head.

    Parameters
    ----------
    model : nn.Module
        What :func:`~fourierkernels.checkpoints.recorders.recording.attention_calls` can record,
        in the mode (training or not) in which it is to be measured. It is left as it was.
    batches : iterable
        Read once. The absolute value of a gradient is taken for each batch: one text per batch is
        the definition of [michel2019sixteen]_.
    loss : callable
        From the model and a batch to a scalar. It must run the model once.
    method : str
        A key of :data:`IMPORTANCES`.
    selects : callable
        Which calls of attention to look at: those of the decoder of an encoder-decoder, say. Of
        these, calls of one query, which pool, are layers only where there are no others.

    Raises
    ------
    ValueError
        If there is no batch, no attention, or heads do not go into a linear layer.

    Examples
    --------
    >>> layer = nn.MultiheadAttention(4, 2, batch_first=True)
    >>> run = lambda model, x: model(x, x, x)[0].square().mean()
    >>> head_importance(layer, [torch.ones(1, 3, 4)], run).values.shape
    (1, 2)
    """
    row = IMPORTANCES[check_choice("method", method, list(IMPORTANCES))]
    moments, probe = RunningMoments(), None
    for batch in batches:
        probe = probe or make_probe(model, batch, loss, selects, about_mean=row.about_mean)
        moments.add(check_finite("importance", row.function(probe, batch)))
    if probe is None:
        raise ValueError("batches must hold at least one batch, got none")
    low, high = t_interval(moments.mean, moments.std(), moments.count)
    layers = tuple(call.name for call in probe.calls)
    return HeadImportance(row.name, moments.mean, low, high, layers, moments.count)


def pruning_curve(
    model: nn.Module,
    batches: Sequence[Any] | Iterable[Any],
    loss: Loss,
    importance: ArrayLike,
    *,
    steps: int = 10,
    selects: Selects = every_call,
    about_mean: bool = False,
) -> PruningCurve:
    """Prune heads, the least important first, and return the loss.

    Parameters
    ----------
    model, loss, selects
        As in :func:`head_importance`.
    batches : sequence
        Read once per step. They should not be those that the importance was measured on: the
        curve would flatter it.
    importance : array_like, shape (L, H)
        Random numbers give the curve to compare with.
    steps : int
        Points of the curve after the first, evenly spread from no head pruned to all.
    about_mean : bool
        Whether a pruned head leaves its mean over the tokens of the text.

    Raises
    ------
    ValueError, TypeError
        If importance does not fit the model, or batches can be read only once.
    """
    if not isinstance(batches, Sequence):
        raise TypeError(
            f"batches must be readable more than once, a list, got {type(batches).__name__}"
        )
    if not batches:
        raise ValueError("batches must hold at least one batch, got none")
    probe = make_probe(model, batches[0], loss, selects, about_mean=about_mean)
    scores = check_finite("importance", as_real("importance", importance))
    if scores.shape != probe.shape:
        raise ValueError(f"importance must have shape {probe.shape}, got {scores.shape}")
    ranking = np.argsort(scores, axis=None, kind="stable")
    order = np.stack(np.unravel_index(ranking, scores.shape), axis=1)
    removed = np.unique(np.linspace(0, scores.size, check_integer("steps", steps) + 1).astype(int))
    losses = [_pruned_loss(probe, batches, order[:count]) for count in removed]
    return PruningCurve(removed, np.array(losses), order)


@torch.no_grad()
def _pruned_loss(probe: Probe, batches: Sequence[Any], pruned: NDArray[np.int64]) -> float:
    gates = probe.gates()
    gates[pruned[:, 0], pruned[:, 1]] = 0.0
    return float(np.mean([float(probe.loss_with(gates, batch)) for batch in batches]))


def make_probe(
    model: nn.Module, batch: Any, loss: Loss, selects: Selects, *, about_mean: bool
) -> Probe:
    """Run once to see which calls of attention there are.

    Raises
    ------
    ValueError
        If there is none, or heads do not go into a linear layer.
    """
    with torch.no_grad(), recording(model) as recorded:
        loss(model, batch)
    calls = layer_calls(recorded, selects)
    if not calls:
        raise ValueError(f"model must have attention, {recorded.nothing(model)}")
    check_gateable(calls)
    return Probe(model, loss, calls, recorded, about_mean)


def _array(tensor: Tensor) -> FloatArray:
    return tensor.detach().to(torch.float64).cpu().numpy()
