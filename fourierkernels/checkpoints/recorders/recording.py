"""What every head of a torch model computes: maps, queries, keys, values and outputs.

All recorders listen at once: the rows of :data:`RECORDERS` record attention modules, the interface
that models of transformers share records theirs, and everything else is read from the functions of
torch that it calls.

To record another kind of attention module, write a function that attaches to it, in a file beside
this one, and add a row to :data:`RECORDERS`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from fourierkernels.checkpoints.recorders.attention_modules import BLOCKS, CORE, TIMM
from fourierkernels.checkpoints.recorders.call import (
    AttentionCall,
    RecordedCalls,
    Recorder,
    watched_modules,
)
from fourierkernels.checkpoints.recorders.plain_functions import record_functions
from fourierkernels.checkpoints.recorders.projections import find_projection
from fourierkernels.checkpoints.recorders.torch_multihead import TORCH
from fourierkernels.checkpoints.recorders.transformers_interface import record_interface

RECORDERS = {row.name: row for row in (TORCH, TIMM, BLOCKS, CORE)}


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
            f"model must have attention that is recognised, {calls.nothing(model)}; "
            "another kind of attention is a row of RECORDERS"
        )
    return calls


@contextmanager
def recording(model: nn.Module, *, slab: int = 0) -> Iterator[RecordedCalls]:
    """Record the attention of a model; yield the list that its calls are added to.

    The model is restored afterwards. Gradients, if enabled, flow through what is recorded.

    Parameters
    ----------
    model : nn.Module
    slab : int
        Run attention on so many queries at a time, where it is not written out in the model, and
        keep no maps: their rows are computed again when they are asked for, see
        ``AttentionCall.map_rows``. 0 to keep whole maps.
    """
    recorded = RecordedCalls(slab=slab)
    claimed = dict[int, Callable[[tuple[Any, ...]], bool]]()
    modules = list(watched_modules(model))
    names = {id(module): name for name, module in modules}
    with ExitStack() as stack:
        fast = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)  # it calls no attention module at all
        for _, module in modules:
            row = _find_recorder(module)
            if row is not None:
                stack.callback(row.attach(module, names[id(module)], recorded))
                claimed[id(module)] = row.takes
            if _is_linear(module):
                hook = module.register_forward_pre_hook(find_projection(recorded))
                stack.callback(hook.remove)
        record_interface(stack, model, modules, recorded)
        stack.enter_context(record_functions(model, modules, recorded, claimed=claimed))
        yield recorded


def _find_recorder(module: nn.Module) -> Recorder | None:
    """Return the last row that recognises a module, so that a row can be more special."""
    rows = reversed(RECORDERS.values())
    return next((row for row in rows if row.recognises(module)), None)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"
