"""Recorder of attention as timm writes it; the library itself is not needed."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.call import AttentionCall, Recorder, attention_call


def _record_timm(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    """Record qkv (queries, keys, values), attn_drop (maps) and proj (outputs)."""
    seen: dict[str, Tensor] = {}

    def split(_: Any, inputs: Any, output: Tensor) -> None:
        batch, n, _features = output.shape
        parts = output.reshape(batch, n, 3, module.num_heads, -1).permute(2, 0, 3, 1, 4)
        seen.update(zip(("q", "k", "v"), parts.unbind(0), strict=True))

    def normalise(which: str) -> Any:
        return lambda _, inputs, output: seen.update({which: output})

    def joined(_: Any, inputs: tuple[Tensor, ...]) -> None:
        batch, n, _features = inputs[0].shape
        outputs = inputs[0].reshape(batch, n, module.num_heads, -1).transpose(1, 2)
        vectors = (seen["q"], seen["k"], seen["v"])
        calls.append(attention_call(name, seen["maps"], vectors, outputs, module.scale))

    handles = [
        module.qkv.register_forward_hook(split),
        module.attn_drop.register_forward_pre_hook(lambda _, inputs: seen.update(maps=inputs[0])),
        # Before the hook that looks for the projection, which needs the call.
        module.proj.register_forward_pre_hook(joined, prepend=True),
    ]
    for which, norm in (("q", "q_norm"), ("k", "k_norm")):
        if hasattr(module, norm):
            handles.append(getattr(module, norm).register_forward_hook(normalise(which)))
    fused = getattr(module, "fused_attn", False)
    module.fused_attn = False  # fused attention never computes the map

    def detach() -> None:
        module.fused_attn = fused
        for handle in handles:
            handle.remove()

    return detach


def _is_timm(module: nn.Module) -> bool:
    parts = ("proj", "attn_drop", "num_heads", "scale")
    called = isinstance(getattr(module, "qkv", None), nn.Module)
    # With separate biases (BEiT, EVA) the weights of qkv are used and the layer is not called.
    return (
        called
        and getattr(module, "q_bias", None) is None
        and all(hasattr(module, part) for part in parts)
    )


TIMM = Recorder("timm", _is_timm, _record_timm)
