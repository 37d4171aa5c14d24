"""Recorder of attention as timm writes it; the library itself is not needed."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.call import Recorder, attention_call
from fourierkernels.checkpoints.recorders.heard import Heard

_NO_MAP = "it computes no map of all its tokens"


class _Listener:
    """Records qkv (queries, keys, values), attn_drop (maps) and proj (outputs) of a module."""

    def __init__(self, module: Any, name: str, heard: Heard) -> None:
        self.module, self.name, self.heard = module, name, heard
        self.seen: dict[str, Tensor] = {}
        self.taken = False

    def enter(self, _: Any, inputs: tuple[Any, ...]) -> None:
        self.taken = _takes(inputs)
        self.seen.clear()

    def split(self, _: Any, inputs: Any, output: Tensor) -> None:
        if self.taken:
            batch, n, _features = output.shape
            parts = output.reshape(batch, n, 3, self.module.num_heads, -1).permute(2, 0, 3, 1, 4)
            self.seen.update(zip(("q", "k", "v"), parts.unbind(0), strict=True))

    def normalise(self, which: str) -> Any:
        return lambda _, inputs, output: self.seen.update({which: output})

    def weigh(self, _: Any, inputs: tuple[Tensor, ...]) -> None:
        self.seen["maps"] = inputs[0]

    def joined(self, _: Any, inputs: tuple[Tensor, ...]) -> None:
        if not self.taken:
            return
        if "maps" not in self.seen:
            self.heard.unread[self.name] = _NO_MAP
            return
        batch, n, _features = inputs[0].shape
        outputs = inputs[0].reshape(batch, n, self.module.num_heads, -1).transpose(1, 2)
        vectors = (self.seen["q"], self.seen["k"], self.seen["v"])
        scale = self.module.scale
        self.heard.append(attention_call(self.name, self.seen["maps"], vectors, outputs, scale))


def _record_timm(module: Any, name: str, heard: Heard) -> Callable[[], None]:
    listener = _Listener(module, name, heard)
    handles = [
        module.register_forward_pre_hook(listener.enter),
        module.qkv.register_forward_hook(listener.split),
        module.attn_drop.register_forward_pre_hook(listener.weigh),
        # Before the hook that looks for the projection, which needs the call.
        module.proj.register_forward_pre_hook(listener.joined, prepend=True),
    ]
    for which, norm in (("q", "q_norm"), ("k", "k_norm")):
        if hasattr(module, norm):
            handles.append(getattr(module, norm).register_forward_hook(listener.normalise(which)))
    fused = getattr(module, "fused_attn", False)
    module.fused_attn = False  # fused attention never computes the map

    def detach() -> None:
        module.fused_attn = fused
        for handle in handles:
            handle.remove()

    return detach


def _takes(inputs: tuple[Any, ...]) -> bool:
    """Tell whether the input is a sequence; models with windows and grids of tokens differ."""
    return len(inputs) > 0 and isinstance(inputs[0], Tensor) and inputs[0].ndim == 3


def _is_timm(module: nn.Module) -> bool:
    parts = ("proj", "attn_drop", "num_heads", "scale")
    called = isinstance(getattr(module, "qkv", None), nn.Module)
    # With separate biases (BEiT, EVA) the weights of qkv are used and the layer is not called.
    return (
        called
        and getattr(module, "q_bias", None) is None
        and all(hasattr(module, part) for part in parts)
        and _is_threefold(module)
    )


def _is_threefold(module: Any) -> bool:
    """Tell whether qkv gives queries too; in a part of GCViT they come from elsewhere."""
    made, read = (
        getattr(module.qkv, "out_features", None),
        getattr(module.proj, "in_features", None),
    )
    return made is None or read is None or bool(made == 3 * read)


TIMM = Recorder("timm", _is_timm, _record_timm, _takes)
