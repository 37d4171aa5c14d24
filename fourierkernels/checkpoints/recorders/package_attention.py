"""Recorders of this package's attention: the multi-head module and the attention mixers."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fourierkernels.attention.multihead import MultiheadKernelAttention
from fourierkernels.checkpoints.recorders.call import AttentionCall, Recorder, attention_call
from fourierkernels.mixing import AttentionMixer


def _record_multihead(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        output, weights = original(query, key, value, **{**options, "return_weights": True})
        calls.append(attention_call(name, weights, (query, key, value), output, None))
        return output, weights if options["return_weights"] else None

    return _replace(module, "attend", attend)


def _record_mixer(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool) -> Any:
        output = original(query, key, value, mask, is_causal)
        weights = module.weights(query, key, mask, is_causal)
        calls.append(attention_call(name, weights, (query, key, value), output, None))
        return output

    return _replace(module, "attend", attend)


def _replace(module: Any, method: str, replacement: Any) -> Callable[[], None]:
    """Put a function before a method of one module; return how to take it away."""
    vars(module)[method] = replacement
    return lambda: vars(module).pop(method)


MULTIHEAD = Recorder(
    "fourierkernels.attention",
    lambda module: isinstance(module, MultiheadKernelAttention),
    _record_multihead,
)
MIXER = Recorder(
    "fourierkernels.mixing", lambda module: isinstance(module, AttentionMixer), _record_mixer
)
