"""What the heads of a torch model put out, edited before the output projection: a gate on each.

A gate is a factor: 1 changes nothing, 0 removes the head, or leaves its mean over the tokens. The
mean is the part of it that the network does not determine: what the value bias of a head adds to
every token may as well stand in the bias of the output projection.

Edits are hooks, so the model needs no argument for them (transformers 5 has none), and gates can
require gradients.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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

Edit = Callable[[int, Tensor], Tensor]  # from the number of a call and its outputs (B, N, H, d)


@contextmanager
def gated_heads(
    model: nn.Module,
    calls: list[AttentionCall],
    gates: Tensor,
    *,
    about_mean: bool = False,
    recorded: Sequence[AttentionCall] | None = None,
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
    recorded : sequence of AttentionCall, optional
        All calls of the pass, where `calls` are some of them.

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

    def gated(number: int, heads: Tensor) -> Tensor:
        gate = gates[number][:, None]
        if not about_mean:
            return heads * gate
        mean = heads.mean(dim=(0, 1), keepdim=True)
        return mean + (heads - mean) * gate

    with edited_heads(model, calls, gated, recorded=recorded):
        yield


@contextmanager
def edited_heads(
    model: nn.Module,
    calls: Sequence[AttentionCall],
    edit: Edit,
    *,
    recorded: Sequence[AttentionCall] | None = None,
) -> Iterator[None]:
    """Put other outputs of the heads in place of their own before they are projected.

    Parameters
    ----------
    calls : sequence of AttentionCall
        Those of one pass of this model that are edited.
    edit : callable
        From the number of a call in `calls` and its outputs ``(B, N, H, d)`` to others of that
        shape.
    recorded : sequence of AttentionCall, optional
        All calls of the pass, where `calls` are some of them: a module may also be called to pool.

    Raises
    ------
    ValueError
        If no linear layer follows a call, or layers differ in their numbers of heads.
    """
    check_gateable(calls)
    carriers = {
        id(module): module for call in calls if (module := _carrier(model, call)) is not None
    }
    numbers = {id(call): number for number, call in enumerate(calls)}
    hooked = [call for call in recorded or calls if id(_carrier(model, call)) in carriers]
    edits = _Edits(edit, calls[0].maps.shape[1], [numbers.get(id(call)) for call in hooked])
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)  # it calls no attention module
        stack.callback(model.register_forward_pre_hook(edits.restart, prepend=True).remove)
        for carrier in carriers.values():
            for handle in edits.attach(carrier):
                stack.callback(handle.remove)
        yield


def check_gateable(calls: Sequence[AttentionCall]) -> None:
    """Refuse calls without an output projection, and layers with unequal numbers of heads."""
    for call in calls:
        if call.projection is None:
            raise ValueError(
                f"heads must go into a linear layer to be masked, got none after {call.name}"
            )
    counts = {call.maps.shape[1] for call in calls}
    if len(counts) > 1:
        raise ValueError(f"layers must have one number of heads, got {sorted(counts)}")


def _carrier(model: nn.Module, call: AttentionCall) -> nn.Module | None:
    """Return the module to hook: the projection; torch's attention, which never calls its own."""
    owner = model.get_submodule(call.name)
    return owner if is_torch_attention(owner) else call.projection


class _Edits:
    """Edits the calls that hooked modules make in a pass, in order; those without number stay.

    Parameters
    ----------
    heads : int
    numbers : list of int or None
        Of these calls.
    """

    def __init__(self, edit: Edit, heads: int, numbers: list[int | None]) -> None:
        self._edit, self._heads, self._numbers, self._at = edit, heads, numbers, 0

    def restart(self, *_: Any) -> None:
        """Start a pass over."""
        self._at = 0

    def attach(self, carrier: Any) -> list[Any]:
        """Add the hooks of a module, and return their handles."""
        if is_torch_attention(carrier):
            return [
                carrier.register_forward_pre_hook(ask_for_weights, with_kwargs=True),
                carrier.register_forward_hook(self._after_attention, with_kwargs=True),
            ]
        return [carrier.register_forward_pre_hook(self._before_projection)]

    def _next(self) -> int | None:
        self._at += 1
        return self._numbers[self._at - 1]

    def _before_projection(self, _: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        joined, number = inputs[0], self._next()
        if number is None:
            return None
        texts = len(joined) if joined.ndim > 2 else 1
        width = joined.shape[-1] // self._heads
        edited = self._edit(number, joined.reshape(texts, -1, self._heads, width))
        return (edited.reshape(joined.shape), *inputs[1:])

    def _after_attention(self, module: Any, args: Any, options: Any, output: Any) -> Any:
        number = self._next()
        if number is None:
            return None
        parts = torch_call(module, args, options, output[1])
        edited = self._edit(number, parts["outputs"].transpose(1, 2)).transpose(1, 2)
        total = (edited @ parts["slices"]).sum(dim=1)  # (B, N, E)
        if module.out_proj.bias is not None:
            total = total + module.out_proj.bias
        return in_layout_of(module, total, output[0]), output[1]
