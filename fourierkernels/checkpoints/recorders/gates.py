"""A gate on every head of a torch model: a factor of its output before the output projection.

A gate of 1 changes nothing, 0 removes the head, or leaves its mean over the tokens. The mean is the
part of it that the network does not determine: what the value bias of a head adds to every token
may as well stand in the bias of the output projection.

Gates are hooks, so the model needs no argument for them (transformers 5 has none), and they can
require gradients.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.call import AttentionCall
from fourierkernels.checkpoints.recorders.torch_multihead import (
    ask_for_weights,
    in_layout_of,
    is_torch_attention,
    torch_call,
)


@dataclass
class _Place:
    """Index of the next call of attention in the forward pass."""

    call: int = 0


@contextmanager
def gated_heads(
    model: nn.Module, calls: list[AttentionCall], gates: Tensor, *, about_mean: bool = False
) -> Iterator[None]:
    """Multiply the output of every head in every forward pass of `model`.

    Parameters
    ----------
    model : nn.Module
    calls : list of AttentionCall
        The calls of one pass of this model, from
        :func:`~fourierkernels.checkpoints.recorders.recording.attention_calls`; a module that is
        called several times has gates for each call.
    gates : Tensor, shape (L, H)
        One row per call, one column per head.
    about_mean : bool
        Whether the mean of a head's output over the tokens stays, and the gate multiplies what
        deviates from it; for batches of one text without padding.

    Raises
    ------
    ValueError
        If the shape of the gates does not fit the calls, no linear layer follows a call, or the
        calls are of more than one text where means are to stay.
    """
    check_gateable(calls)
    if about_mean and len(calls[0].maps) != 1:
        raise ValueError(
            f"batches must hold one text each where the mean of a head stays, "
            f"got {len(calls[0].maps)}"
        )
    if gates.shape != (len(calls), calls[0].maps.shape[1]):
        raise ValueError(
            f"gates must have shape {(len(calls), calls[0].maps.shape[1])}, "
            f"got {tuple(gates.shape)}"
        )
    place = _Place()
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(model.register_forward_pre_hook(_restart(place), prepend=True).remove)
        for module in _gated_modules(model, calls):
            for handle in _attach(module, place, gates, about_mean):
                stack.callback(handle.remove)
        yield


def check_gateable(calls: list[AttentionCall]) -> None:
    """Refuse calls without an output projection, and layers with unequal numbers of heads."""
    for call in calls:
        if call.projection is None:
            raise ValueError(
                f"heads must go into a linear layer to be masked, got none after {call.name}"
            )
    counts = {call.maps.shape[1] for call in calls}
    if len(counts) > 1:
        raise ValueError(f"layers must have one number of heads, got {sorted(counts)}")


def _gated_modules(model: nn.Module, calls: list[AttentionCall]) -> list[nn.Module]:
    """Return the modules to hook: projections, or torch's attention, which never calls its own."""
    found: dict[int, nn.Module] = {}
    for call in calls:
        owner = model.get_submodule(call.name)
        carrier = owner if is_torch_attention(owner) else call.projection
        if carrier is not None:  # check_gateable has refused the others
            found[id(carrier)] = carrier
    return list(found.values())


def _restart(place: _Place) -> Callable[..., None]:
    def hook(module: Any, inputs: Any) -> None:
        place.call = 0

    return hook


def _gated(heads: Tensor, gate: Tensor, about_mean: bool, dims: tuple[int, ...]) -> Tensor:
    """Return gated outputs; `dims` are those of texts and tokens."""
    if not about_mean:
        return heads * gate
    mean = heads.mean(dim=dims, keepdim=True)
    return mean + (heads - mean) * gate


def _attach(module: Any, place: _Place, gates: Tensor, about_mean: bool) -> list[Any]:
    def gate_of_this_call() -> Tensor:
        place.call += 1
        return gates[place.call - 1]

    def before_projection(_: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        joined, gate = inputs[0], gate_of_this_call()
        heads = joined.reshape(*joined.shape[:-1], len(gate), -1)
        tokens = tuple(range(heads.ndim - 2))
        gated = _gated(heads, gate[:, None], about_mean, tokens)
        return (gated.reshape(joined.shape), *inputs[1:])

    def after_attention(_: Any, args: Any, options: dict[str, Any], output: Any) -> Any:
        parts = torch_call(module, args, options, output[1])
        gate = gate_of_this_call()[:, None, None]
        gated = _gated(parts["outputs"], gate, about_mean, (0, 2))
        total = (gated @ parts["slices"]).sum(dim=1)  # (B, N, E)
        if module.out_proj.bias is not None:
            total = total + module.out_proj.bias
        return in_layout_of(module, total, output[0]), output[1]

    if is_torch_attention(module):
        return [
            module.register_forward_pre_hook(ask_for_weights, with_kwargs=True),
            module.register_forward_hook(after_attention, with_kwargs=True),
        ]
    return [module.register_forward_pre_hook(before_projection)]
