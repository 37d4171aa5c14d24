"""Recorders of attention modules: this package's, timm's, and BigBird's block-sparse one.

The libraries themselves are not needed. BigBird never computes a map of all tokens, but its outputs
are linear in the values: with the unit matrix for values they are the map. (What the model itself
returns as weights has a block that is attended to several times only once.)
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.multihead import MultiheadCore
from fourierkernels.checkpoints.recorders.call import RecordedCalls, Recorder, attention_call
from fourierkernels.checkpoints.recorders.slabs import (
    MapRows,
    cut_rows,
    square_masks,
    without_numbers,
)

_NO_MAP = "it computes no map of all its tokens"
_WINDOWS = "it splits its sequence into windows itself"
_METHOD = "bigbird_block_sparse_attention"
_KEY_MASK = 2  # its place after queries, keys and values


def _record(module: Any, name: str, calls: RecordedCalls) -> Callable[[], None]:
    """Record outputs as they are; weights that were not asked for are computed for the record."""
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        with calls.suspension.suspended():
            output, weights = original(query, key, value, **options)
        with calls.suspension.suspended(), calls.unseen.suspended():
            maps, rows = weights, None
            asked = {**options, "dropout_p": 0.0, "return_weights": True}
            if maps is None and calls.slab:
                rows = _rows(original, query, key, asked)
                maps = without_numbers(query, key.shape[2])
            elif maps is None:
                maps = original(query, key, key, **asked)[1]
        calls.append(attention_call(name, maps, (query, key, value), output, None, rows))
        return output, weights

    vars(module)["attend"] = attend
    return lambda: vars(module).pop("attend")


def _rows(attend: Any, query: Tensor, key: Tensor, asked: dict[str, Any]) -> MapRows:
    """Return rows of maps by the module's own attention from some queries to all keys."""
    given = asked.get("attn_mask")

    def compute(text: int, start: int, stop: int) -> Tensor:
        mask = None if given is None else cut_rows(given, text, start, stop)
        if asked.get("is_causal"):
            places = torch.arange(start, stop, device=query.device)[:, None]
            mask = torch.arange(key.shape[2], device=query.device) <= places
        options = {**asked, "attn_mask": mask, "is_causal": False}
        texts = slice(text, text + 1)
        weights: Tensor = attend(query[texts, :, start:stop], key[texts], key[texts], **options)[1]
        return weights[0]

    return MapRows(compute, masks=square_masks(given))


CORE = Recorder("fourierkernels", lambda module: isinstance(module, MultiheadCore), _record)


class _Listener:
    """Records qkv (queries, keys, values), attn_drop (maps) and proj (outputs) of a module."""

    def __init__(self, module: Any, name: str, recorded: RecordedCalls) -> None:
        self.module, self.name, self.recorded = module, name, recorded
        self.seen: dict[str, Tensor] = {}
        self.taken = False

    def enter(self, _: Any, inputs: tuple[Any, ...]) -> None:
        self.taken = _takes(inputs)
        self.seen.clear()

    def split(self, _: Any, inputs: Any, output: Tensor) -> None:
        if self.taken and output.ndim != 3:
            self.taken = False
            self.recorded.unread[self.name] = _WINDOWS
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
            self.recorded.unread[self.name] = _NO_MAP
            return
        batch, n, _features = inputs[0].shape
        outputs = inputs[0].reshape(batch, n, self.module.num_heads, -1).transpose(1, 2)
        vectors = (self.seen["q"], self.seen["k"], self.seen["v"])
        scale = self.module.scale
        self.recorded.append(attention_call(self.name, self.seen["maps"], vectors, outputs, scale))


def _record_timm(module: Any, name: str, recorded: RecordedCalls) -> Callable[[], None]:
    listener = _Listener(module, name, recorded)
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
    """Tell whether the input is a sequence; models with windows and grids of tokens differ.

    Those that are given the sides of a grid make windows of the sequence themselves.
    """
    if not inputs or any(isinstance(value, tuple | list) for value in inputs):
        return False
    return isinstance(inputs[0], Tensor) and inputs[0].ndim == 3


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


def _record_blocks(module: Any, name: str, calls: RecordedCalls) -> Callable[[], None]:
    attend = getattr(module, _METHOD)

    def attended(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **given: Any) -> Any:
        output = attend(query, key, value, *rest, **given)
        n = key.shape[2]
        unit = torch.eye(n, dtype=value.dtype, device=value.device).expand(*key.shape[:2], n, n)
        with calls.unseen.suspended():
            maps = attend(query, key, unit, *rest, **given)[0].transpose(1, 2)
        outputs = output[0].transpose(1, 2)
        call = attention_call(name, maps, (query, key, value), outputs, None)
        call.filler = _hidden_at_the_end(rest[_KEY_MASK])
        calls.append(call)
        return output

    setattr(module, _METHOD, attended)
    return lambda: delattr(module, _METHOD)


def _hidden_at_the_end(mask: Tensor) -> int:
    """Return how many keys at the end no text has; the model fills a block up with them."""
    seen = mask.reshape(-1, mask.shape[-1]).any(dim=0)
    return int(seen.flip(0).cummax(dim=0).values.logical_not().sum())


BLOCKS = Recorder("blocks", lambda module: hasattr(type(module), _METHOD), _record_blocks)
