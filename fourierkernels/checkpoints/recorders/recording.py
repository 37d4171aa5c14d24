"""What every head of a torch model computes: maps, queries, keys, values and outputs.

Attention modules are recorded by the rows of :data:`RECORDERS`, models of transformers by the
interface that they share, and models with neither by the functions of torch that they call.

To record another kind of attention module, write a function that attaches to it, in a file beside
this one, and add a row to :data:`RECORDERS`.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.call import AttentionCall, Recorder
from fourierkernels.checkpoints.recorders.package_attention import CORE
from fourierkernels.checkpoints.recorders.plain_functions import record_functions
from fourierkernels.checkpoints.recorders.timm_attention import TIMM
from fourierkernels.checkpoints.recorders.torch_multihead import TORCH
from fourierkernels.checkpoints.recorders.transformers_interface import record_interface

RECORDERS = {row.name: row for row in (TORCH, TIMM, CORE)}
_WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # as many bytes as a number has


def attention_calls(model: nn.Module, *inputs: Any, **options: Any) -> list[AttentionCall]:
    """Run a model once, without gradients, and return its calls of attention in order.

    Parameters
    ----------
    model : nn.Module
        A model of transformers (encoder, decoder, encoder-decoder, vision), or one with
        nn.MultiheadAttention, attention as timm writes it, this package's attention or mixers, or
        attention in plain functions of torch.
    *inputs, **options
        Arguments of its forward pass.

    Raises
    ------
    ValueError
        If no attention was called.

    Examples
    --------
    >>> layer = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    >>> attention_calls(layer, torch.zeros(1, 3, 8))[0].maps.shape
    torch.Size([1, 2, 3, 3])
    """
    with torch.inference_mode(), recording(model) as calls:
        model(*inputs, **options)
    if not calls:
        raise ValueError(
            f"model must have attention that is recognised, got none in {type(model).__name__}; "
            "another kind of attention is a row of RECORDERS"
        )
    return calls


@contextmanager
def recording(model: nn.Module) -> Iterator[list[AttentionCall]]:
    """Record the attention of a model; yield the list that its calls are added to.

    The model is restored afterwards. Gradients, if enabled, flow through what is recorded.
    """
    calls: list[AttentionCall] = []
    names = {id(module): name for name, module in model.named_modules()}
    with ExitStack() as stack:
        fast = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)  # it calls no attention module at all
        known = False
        for module in model.modules():
            row = _find_recorder(module)
            if row is not None:
                stack.callback(row.attach(module, names[id(module)], calls))
                known = True
            if _is_linear(module):
                hook = module.register_forward_pre_hook(_find_projection(calls))
                stack.callback(hook.remove)
        if not record_interface(stack, model, names, calls) and not known:
            stack.enter_context(record_functions(model, calls))
        yield calls


def _find_recorder(module: nn.Module) -> Recorder | None:
    """Return the last row that recognises a module, so that a row can be more special."""
    rows = reversed(RECORDERS.values())
    return next((row for row in rows if row.recognises(module)), None)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _find_projection(calls: list[AttentionCall]) -> Any:
    """Return a hook that stores the linear layer that reads the joined heads."""

    def hook(module: Any, inputs: tuple[Any, ...]) -> None:
        if not calls or calls[-1].slices is not None or not inputs:
            return
        call, read = calls[-1], inputs[0]
        batch, heads, n, features = call.outputs.shape
        if read.shape[-1] != heads * features or read.numel() != call.outputs.numel():
            return
        joined = call.outputs.transpose(1, 2).reshape(batch * n, heads * features)
        if _same_bits(read.reshape(batch * n, -1), joined):
            weight = module.weight.T if isinstance(module, nn.Linear) else module.weight
            call.projection, call.slices = module, weight.unflatten(0, (heads, features)).detach()

    return hook


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors of one shape are equal bit by bit, so that NaN equals itself."""
    if one.dtype is not other.dtype:
        return False
    whole = _WHOLE[one.element_size()]
    return torch.equal(one.detach().view(whole), other.detach().view(whole))
