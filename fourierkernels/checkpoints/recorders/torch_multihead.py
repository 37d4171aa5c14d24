"""Recorder of nn.MultiheadAttention: its queries, keys, values and outputs by head.

The module returns at most its weights and calls no modules for its projections, so these are
computed again from its parameters.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from fourierkernels.checkpoints.recorders.call import AttentionCall, RecordedCalls, Recorder
from fourierkernels.checkpoints.recorders.slabs import (
    MapRows,
    all_outputs,
    softmax_rows,
    without_numbers,
)

_SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


def ask_for_weights(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Change the arguments of a forward pass so that it returns the weights of each head."""
    bound = _SIGNATURE.bind(module, *args, **options)
    bound.arguments.update(need_weights=True, average_attn_weights=False)
    return bound.args[1:], bound.kwargs


def torch_call(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any], weights: Tensor
) -> dict[str, Any]:
    """Return the fields of an :class:`~.call.AttentionCall` except its name."""
    fields = _without_maps(module, args, options)
    maps = weights if weights.ndim == 4 else weights[None]
    return {**fields, "maps": maps, "outputs": maps @ fields["values"]}


def _without_maps(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any]
) -> dict[str, Any]:
    bound = _SIGNATURE.bind(module, *args, **options).arguments
    inputs = [_batch_first(module, bound[side]) for side in ("query", "key", "value")]
    query, key, value = (
        _heads(module, part) for part in _with_extras(module, _projected(module, inputs))
    )
    weight = module.out_proj.weight.detach()
    return {
        "queries": query,
        "keys": key,
        "values": value,
        "scale": query.shape[-1] ** -0.5,
        "projection": module.out_proj,
        "cross": not _same_numbers(bound["query"], bound["key"]),
        "slices": weight.T.reshape(module.num_heads, -1, module.embed_dim),
    }


def _same_numbers(query: Tensor, key: Tensor) -> bool:
    """Tell whether a sequence reads itself, perhaps by two tensors, as norm(x) and norm(x) are."""
    if query is key:
        return True
    same_shape = query.shape == key.shape
    return same_shape and torch.allclose(query, key, rtol=0.0, atol=0.0, equal_nan=True)


def _batch_first(module: nn.MultiheadAttention, tensor: Tensor) -> Tensor:
    if tensor.ndim == 2:
        return tensor[None]
    return tensor if module.batch_first else tensor.transpose(0, 1)  # (B, N, E)


def _projected(module: nn.MultiheadAttention, inputs: list[Tensor]) -> list[Tensor]:
    weights: Any = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    bias: Any = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, bias, strict=True)]


def _with_extras(module: nn.MultiheadAttention, parts: list[Tensor]) -> list[Tensor]:
    """Append the keys and values that the module adds: learnt ones, and zeros."""
    query, key, value = parts
    if module.bias_k is not None and module.bias_v is not None:
        key = torch.cat([key, module.bias_k.expand(len(key), 1, -1)], dim=1)
        value = torch.cat([value, module.bias_v.expand(len(value), 1, -1)], dim=1)
    if module.add_zero_attn:
        key, value = (torch.cat([x, x.new_zeros(len(x), 1, x.shape[-1])], 1) for x in (key, value))
    return [query, key, value]


def _heads(module: nn.MultiheadAttention, tensor: Tensor) -> Tensor:
    batch, n, _ = tensor.shape
    return tensor.reshape(batch, n, module.num_heads, -1).transpose(1, 2)  # (B, H, N, d)


def in_layout_of(module: nn.MultiheadAttention, outputs: Tensor, example: Tensor) -> Tensor:
    """Return outputs ``(B, N, E)`` in the layout that the module returned `example` in."""
    if example.ndim == 2:
        return outputs[0]
    return outputs if module.batch_first else outputs.transpose(0, 1)


def torch_call_in_slabs(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any], slab: int
) -> dict[str, Any]:
    """Return the same fields with maps whose rows are computed when they are asked for."""
    bound = _SIGNATURE.bind(module, *args, **options).arguments
    fields = _without_maps(module, args, options)
    rows = _rows(bound, fields["queries"], fields["keys"])
    maps = without_numbers(fields["queries"], fields["keys"].shape[2])
    outputs = all_outputs(rows, fields["values"], maps.shape[2], slab)
    return {**fields, "maps": maps, "outputs": outputs, "rows": rows}


def _rows(bound: dict[str, Any], queries: Tensor, keys: Tensor) -> MapRows:
    """Return rows of softmax weights under the two masks of the module, True where hidden."""
    masks = []
    if (mask := bound.get("attn_mask")) is not None:
        mask = mask.reshape(-1, queries.shape[1], *mask.shape[1:]) if mask.ndim == 3 else mask
        masks.append(mask)
    if (padding := bound.get("key_padding_mask")) is not None:
        masks.append((padding if padding.ndim == 2 else padding[None])[:, None, None])
    seen = tuple(~mask if mask.dtype is torch.bool else mask for mask in masks)
    return softmax_rows(queries, keys, scale=queries.shape[-1] ** -0.5, masks=seen)


def _adds_keys(module: nn.MultiheadAttention) -> bool:
    return module.bias_k is not None or bool(module.add_zero_attn)


def _record(module: Any, name: str, calls: RecordedCalls) -> Callable[[], None]:
    in_slabs = bool(calls.slab) and not _adds_keys(module)

    def ask(_: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if not in_slabs:
            return ask_for_weights(module, args, options)
        bound = _SIGNATURE.bind(module, *args, **options)
        bound.arguments.update(need_weights=False)
        return bound.args[1:], bound.kwargs

    def record(_: Any, args: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        with calls.unseen.suspended():
            if in_slabs:
                fields = torch_call_in_slabs(module, args, options, calls.slab)
            else:
                fields = torch_call(module, args, options, output[1])
            calls.append(call := AttentionCall(name, **fields))
        bound = _SIGNATURE.bind(module, *args, **options).arguments
        call.cross = calls.differ(bound["query"], bound["key"], fields["cross"])

    before = module.register_forward_pre_hook(ask, with_kwargs=True)
    after = module.register_forward_hook(record, with_kwargs=True)

    def detach() -> None:
        before.remove()
        after.remove()

    return detach


def is_torch_attention(module: nn.Module) -> bool:
    """Tell whether a module runs torch's attention, and no forward pass of its own."""
    return getattr(type(module), "forward", None) is nn.MultiheadAttention.forward


TORCH = Recorder("nn.MultiheadAttention", is_torch_attention, _record)
