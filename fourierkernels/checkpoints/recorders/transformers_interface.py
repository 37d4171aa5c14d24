"""Recorder of the attention interface that models of Hugging Face transformers share.

Meanwhile the models use their eager attention, because the other implementations return no weights;
models with this package's attention keep it.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.call import AttentionCall, RecordedCalls, attention_call
from fourierkernels.checkpoints.recorders.slabs import (
    MapRows,
    cut_rows,
    filled,
    square_masks,
    without_numbers,
)

_PREFIX = "fourierkernels"  # prefix of the names of this package's attention


def record_interface(
    stack: ExitStack,
    model: nn.Module,
    modules: Sequence[tuple[str, nn.Module]],
    calls: RecordedCalls,
) -> None:
    """Record what goes through the attention interface, if the model is one of transformers."""
    transformers = sys.modules.get("transformers")
    kind = () if transformers is None else transformers.PreTrainedModel
    owners = [module for _, module in modules if isinstance(module, kind)]
    if not owners:
        return
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as INTERFACE

    _make_eager(stack, owners)
    names = {id(module): name for name, module in modules}
    choose = INTERFACE.get_interface

    def chosen(name: str, default: Any) -> Any:
        function = default if name == "eager" else choose(name, default)
        return _recorded(function, partial(_name_of, model, names), calls)

    vars(INTERFACE)["get_interface"] = chosen
    stack.callback(vars(INTERFACE).pop, "get_interface")
    if "eager" not in INTERFACE:  # for models that look it up, and have none of their own
        INTERFACE["eager"] = _attend
        stack.callback(INTERFACE.pop, "eager")


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Return outputs ``(B, N, H, d)`` and maps as "sdpa" of the interface computes them."""
    groups, (n, m) = query.shape[1] // key.shape[1], (query.shape[2], key.shape[2])
    key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is None and causal and n > 1:
        attention_mask = torch.ones(n, m, dtype=torch.bool, device=query.device).tril()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is not None and attention_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(-1)
    return (weights @ value).transpose(1, 2), weights


def _make_eager(stack: ExitStack, owners: Sequence[Any]) -> None:
    for owner in owners:
        before = owner.config._attn_implementation
        if before != "eager" and not str(before).startswith(_PREFIX):
            owner.set_attn_implementation("eager")
            stack.callback(owner.set_attn_implementation, before)


def _name_of(model: nn.Module, names: dict[int, str], module: nn.Module) -> str | None:
    """Return the name of a module, which may have come into the model since recording began."""
    if id(module) not in names:
        names.update({id(part): name for name, part in model.named_modules()})
    return names.get(id(module))


def _recorded(function: Any, name_of: Callable[[Any], str | None], calls: RecordedCalls) -> Any:
    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **given: Any):  # type: ignore[no-untyped-def]
        options = {**given, "output_attentions": True}
        run = partial(function, module)
        rows, name = None, name_of(module)
        with calls.suspension.suspended():
            if calls.slab:
                named = {"attention_mask": rest[0]} if rest else {}
                sliced = _Sliced(run, (query, key, value), {**options, **named}, rest[1:])
                rows = MapRows(sliced.weights, masks=square_masks(sliced.mask))
                with calls.unseen.suspended():  # what is known of each slab would not be forgotten
                    output = sliced.outputs(calls.slab)
                calls.flow.meet(name or "", output, (query, key, value))
                weights = without_numbers(query, key.shape[2])
            else:
                output, weights = run(query, key, value, *rest, **options)
        if name is not None and weights is not None:
            outputs = output.transpose(1, 2)
            vectors, scale = (query, key, value), given.get("scaling")
            _add(calls, attention_call(name, weights, vectors, outputs, scale, rows))
        return output, None if rows is not None else weights

    return attend


@dataclass(frozen=True, eq=False)
class _Sliced:
    """A model's own attention function, run on some queries at a time."""

    run: Any
    vectors: tuple[Tensor, Tensor, Tensor]
    options: dict[str, Any]
    rest: tuple[Any, ...]

    @property
    def mask(self) -> Tensor | None:
        return self.options.get("attention_mask")

    def weights(self, text: int, start: int, stop: int) -> Tensor:
        """Return the weights of some queries of one text, ``(H, s, M)``."""
        maps: Tensor = self._part(text, start, stop)[1][0]
        return maps

    def outputs(self, size: int) -> Tensor:
        """Return outputs as the function does, ``(B, N, H, d)``, of all queries."""
        n = self.vectors[0].shape[2]
        return filled(lambda *ends: self._part(None, *ends)[0], n, size, dim=1)

    def _part(self, text: int | None, start: int, stop: int) -> Any:
        texts = slice(None) if text is None else slice(text, text + 1)
        query, key, value = (part[texts] for part in self.vectors)
        mask = self.mask
        if mask is not None:
            mask = cut_rows(mask, text, start, stop)
        options = {**self.options, "attention_mask": mask}
        return self.run(query[:, :, start:stop], key, value, *self.rest, **options)


def _add(calls: RecordedCalls, call: AttentionCall) -> None:
    """Add a call; one map that meets two halves of the values, as in DiffLlama, is one call."""
    last = calls[-1] if calls else None
    if last is None or last.name != call.name or last.queries is not call.queries:
        calls.append(call)
        return
    last.values = torch.cat([last.values, call.values], dim=-1)
    last.outputs = torch.cat([last.outputs, call.outputs], dim=-1)
