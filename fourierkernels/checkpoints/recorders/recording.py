"""What every head of a torch model computes: maps, queries, keys, values and outputs.

A model is run once while its attention is listened to. To listen to another kind of attention,
write a function that attaches to a module and add a row to :data:`LISTENERS`.

Models of Hugging Face are switched to their own eager attention for the time, because the others
return no weights; those with this package's attention keep it.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.multihead import MultiheadCore
from fourierkernels.validation import check_choice

_CROSS = re.compile(r"cross|encoder_attn|EncDec|reader", re.IGNORECASE)
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # its name in the modules of transformers that use it
_OWN = "fourierkernels"  # names of this package's attention start so
_SIDES = {"maps": "nm", "queries": "n", "keys": "m", "values": "m", "outputs": "n"}  # of padding
_WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # as many bytes as a number has


@dataclass(eq=False)
class AttentionCall:
    """One call of attention in a forward pass; a module that is shared is called several times.

    Padding is still there: see :meth:`part`. B is the batch, N and M are queries and keys.

    Attributes
    ----------
    name : str
        Of the module in the model.
    maps : Tensor, shape (B, H, N, M)
    queries : Tensor, shape (B, H, N, d)
    keys, values : Tensor, shape (B, H, M, d)
        After rotary positions; keys that several heads share are repeated.
    outputs : Tensor, shape (B, H, N, d)
        maps @ values.
    scale : float
        What multiplies q·k.
    cross : bool
        Whether the keys are those of another sequence, judged by the name of the module where the
        call does not tell.
    projection : nn.Module or None
        The linear layer that reads the joined heads; None if something lies between.
    slices : Tensor or None, shape (H, d, E)
        Each head's part of the output projection.
    """

    name: str
    maps: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    outputs: Tensor
    scale: float
    cross: bool = False
    projection: nn.Module | None = None
    slices: Tensor | None = None

    @property
    def projected(self) -> Tensor:
        """What each head adds to the output of the layer, ``(B, H, N, E)``.

        Their sum, and the bias of the projection, is that output.

        Raises
        ------
        ValueError
            If what reads the heads is not a linear layer.
        """
        return self.outputs @ self._known_slices()

    def part(self, name: str, row: int, queries: int, keys: int) -> Tensor:
        """Return one part of text `row` of the batch without padding behind its end.

        Padded keys *and* padded queries go; the latter are full rows that sum to one. Nothing is
        computed but the part that is asked for.

        Parameters
        ----------
        name : str
            "maps", "queries", "keys", "values", "outputs" or "projected".
        row : int
        queries, keys : int
            How many of each the text has.

        Raises
        ------
        ValueError
            For another name, or if the outputs cannot be projected.
        """
        if name == "projected":
            return self.part("outputs", row, queries, keys) @ self._known_slices()
        ends = {"n": queries, "m": keys}
        sides = _SIDES[check_choice("name", name, [*_SIDES, "projected"])]
        tensor: Tensor = getattr(self, name)
        cut = (slice(None), *(slice(ends[side]) for side in sides))
        return tensor[row][cut]

    def _known_slices(self) -> Tensor:
        if self.slices is None:
            raise ValueError(
                "projected outputs must come from a linear layer after the heads, "
                f"got none after {self.name}"
            )
        return self.slices


@dataclass(frozen=True)
class Listener:
    """A kind of attention: how it is recognised, and how it is listened to.

    Attributes
    ----------
    attach : callable
        From a module, its name and the list of calls; returns how to detach.
    """

    name: str
    recognise: Callable[[nn.Module], bool]
    attach: Callable[[Any, str, list[AttentionCall]], Callable[[], None]]


def attention_calls(model: nn.Module, *inputs: Any, **options: Any) -> list[AttentionCall]:
    """Run a model once, without gradients, and return its calls of attention in order.

    Parameters
    ----------
    model : nn.Module
        Of Hugging Face (encoder, decoder, encoder-decoder, vision), with nn.MultiheadAttention,
        with attention in the manner of timm, or with this package's attention or mixers.
    *inputs, **options
        Of its forward pass.

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
        raise ValueError(f"model must have attention, got none in {type(model).__name__}")
    return calls


@contextmanager
def recording(model: nn.Module) -> Iterator[list[AttentionCall]]:
    """Listen to a model; yield the list that its calls of attention are added to.

    The model is left as it was. Gradients, if enabled, flow through what is recorded.
    """
    calls: list[AttentionCall] = []
    names = {id(module): name for name, module in model.named_modules()}
    with ExitStack() as stack:
        fast = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)  # it would call no attention module at all
        known = False
        for module in model.modules():
            for row in LISTENERS:
                if row.recognise(module):
                    stack.callback(row.attach(module, names[id(module)], calls))
                    known = True
            if _is_linear(module):
                hook = module.register_forward_pre_hook(_find_projection(calls))
                stack.callback(hook.remove)
        if not _listen_to_interface(stack, model, names, calls) and not known:
            _listen_to_functions(stack, model, calls)
        yield calls


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _find_projection(calls: list[AttentionCall]) -> Any:
    """Return a hook that takes note of the linear layer which reads the joined heads."""

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
    """Tell whether one tensor is a copy of another of its shape; NaN is then equal to itself."""
    if one.dtype is not other.dtype:
        return False
    whole = _WHOLE[one.element_size()]
    return torch.equal(one.detach().view(whole), other.detach().view(whole))


def _listen_to_interface(
    stack: ExitStack, model: nn.Module, names: dict[int, str], calls: list[AttentionCall]
) -> bool:
    """Listen to the attention interface of transformers, if the model uses it; tell whether."""
    transformers = sys.modules.get("transformers")
    if transformers is None or not any(
        isinstance(module, transformers.PreTrainedModel) for module in model.modules()
    ):
        return False
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as INTERFACE

    _make_eager(stack, model, transformers.PreTrainedModel)
    choose = INTERFACE.get_interface

    def chosen(name: str, default: Any) -> Any:
        return _recorded(choose(name, default), names, calls)

    vars(INTERFACE)["get_interface"] = chosen
    stack.callback(vars(INTERFACE).pop, "get_interface")
    homes = {type(module).__module__ for module in model.modules()}
    return any(vars(sys.modules[home]).get(_INTERFACE) is INTERFACE for home in homes)


def _listen_to_functions(stack: ExitStack, model: nn.Module, calls: list[AttentionCall]) -> None:
    from fourierkernels.checkpoints.recorders.plain_attention import written_out

    def record(name: str, maps: Tensor, vectors: Any, outputs: Tensor, scale: float) -> None:
        calls.append(_call(name, maps, vectors, outputs, scale))

    stack.enter_context(written_out(model, record))


def _make_eager(stack: ExitStack, model: nn.Module, kind: type) -> None:
    owners: list[Any] = [module for module in model.modules() if isinstance(module, kind)]
    for owner in owners:
        before = owner.config._attn_implementation
        if before != "eager" and not str(before).startswith(_OWN):
            owner.set_attn_implementation("eager")
            stack.callback(owner.set_attn_implementation, before)


def _recorded(function: Any, names: dict[int, str], calls: list[AttentionCall]) -> Any:
    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **given: Any):  # type: ignore[no-untyped-def]
        options = {**given, "output_attentions": True}
        output, weights = function(module, query, key, value, *rest, **options)
        if id(module) in names and weights is not None:
            scale = given.get("scaling")
            outputs = output.transpose(1, 2)
            calls.append(_call(names[id(module)], weights, (query, key, value), outputs, scale))
        return output, weights

    return attend


def _call(
    name: str, maps: Tensor, vectors: tuple[Tensor, ...], outputs: Tensor, scale: float | None
) -> AttentionCall:
    """Return a call with a key and a value for every head, whether heads share them or not."""
    query, key, value = vectors
    groups = maps.shape[1] // key.shape[1]
    keys, values = key, value
    if groups > 1:
        keys, values = (side.repeat_interleave(groups, dim=1) for side in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    cross = bool(_CROSS.search(name))
    return AttentionCall(name, maps, query, keys, values, outputs, scale, cross)


def _replace(module: nn.Module, method: str, replacement: Any) -> Callable[[], None]:
    """Put a function before a method of one module; return how to take it away."""
    vars(module)[method] = replacement
    return lambda: vars(module).pop(method)


def _listen_to_core(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    """Record the layers and mixers of this package: their outputs as they are, and the weights."""
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        output, weights = original(query, key, value, **options)
        maps = weights
        if maps is None:
            asked = {**options, "dropout_p": 0.0, "return_weights": True}
            maps = original(query, key, key, **asked)[1]
        calls.append(_call(name, maps, (query, key, value), output, None))
        return output, weights

    return _replace(module, "attend", attend)


def _listen_to_timm(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    """Listen to qkv (queries, keys, values), attn_drop (maps) and proj (outputs)."""
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
        calls.append(_call(name, seen["maps"], vectors, outputs, module.scale))

    handles = [
        module.qkv.register_forward_hook(split),
        module.attn_drop.register_forward_pre_hook(lambda _, inputs: seen.update(maps=inputs[0])),
        # Before the hook that looks for the projection, which asks for the call.
        module.proj.register_forward_pre_hook(joined, prepend=True),
    ]
    for which, norm in (("q", "q_norm"), ("k", "k_norm")):
        if hasattr(module, norm):
            handles.append(getattr(module, norm).register_forward_hook(normalise(which)))
    fused = getattr(module, "fused_attn", False)
    module.fused_attn = False  # fused attention never holds the map

    def detach() -> None:
        module.fused_attn = fused
        for handle in handles:
            handle.remove()

    return detach


def _is_timm(module: nn.Module) -> bool:
    parts = ("proj", "attn_drop", "num_heads", "scale")
    called = isinstance(getattr(module, "qkv", None), nn.Module)
    # With biases of their own (BEiT, EVA) the weights of qkv are used and the layer is not called.
    return (
        called
        and getattr(module, "q_bias", None) is None
        and all(hasattr(module, part) for part in parts)
    )


def _listen_to_torch(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    from fourierkernels.checkpoints.recorders.multihead import ask_for_weights, torch_call

    def record(_: Any, args: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        calls.append(AttentionCall(name, **torch_call(module, args, options, output[1])))

    before = module.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
    after = module.register_forward_hook(record, with_kwargs=True)

    def detach() -> None:
        before.remove()
        after.remove()

    return detach


LISTENERS = (
    Listener(
        "nn.MultiheadAttention", lambda m: isinstance(m, nn.MultiheadAttention), _listen_to_torch
    ),
    Listener("timm", _is_timm, _listen_to_timm),
    Listener("fourierkernels", lambda m: isinstance(m, MultiheadCore), _listen_to_core),
)
