"""Recorder of this package's attention: layers and mixers, which share one multi-head core."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention.multihead import MultiheadCore
from fourierkernels.checkpoints.recorders.call import Recorder, attention_call
from fourierkernels.checkpoints.recorders.heard import Heard
from fourierkernels.checkpoints.recorders.slabs import (
    MapRows,
    cut_rows,
    square_masks,
    without_numbers,
)


def _record(module: Any, name: str, calls: Heard) -> Callable[[], None]:
    """Record outputs as they are; weights that were not asked for are computed for the record."""
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        with calls.quiet.kept():
            output, weights = original(query, key, value, **options)
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
