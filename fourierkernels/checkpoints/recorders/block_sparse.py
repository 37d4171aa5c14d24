"""Recorder of BigBird's block-sparse attention, which never computes a map of all tokens.

Its outputs are linear in the values: with the unit matrix for values they are the map. (What the
model itself returns as weights has a block that is attended to several times only once.)
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.call import AttentionCall, Recorder, attention_call

_METHOD = "bigbird_block_sparse_attention"
_KEY_MASK = 2  # its place after queries, keys and values


def _record_blocks(module: Any, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    attend = getattr(module, _METHOD)

    def recorded(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **given: Any) -> Any:
        output = attend(query, key, value, *rest, **given)
        n = key.shape[2]
        unit = torch.eye(n, dtype=value.dtype, device=value.device).expand(*key.shape[:2], n, n)
        maps, outputs = (
            found[0].transpose(1, 2) for found in (attend(query, key, unit, *rest, **given), output)
        )
        call = attention_call(name, maps, (query, key, value), outputs, None)
        call.filler = _hidden_at_the_end(rest[_KEY_MASK])
        calls.append(call)
        return output

    setattr(module, _METHOD, recorded)
    return lambda: delattr(module, _METHOD)


def _hidden_at_the_end(mask: Tensor) -> int:
    """Return how many keys at the end no text has; the model fills a block up with them."""
    seen = mask.reshape(-1, mask.shape[-1]).any(dim=0)
    return int(seen.flip(0).cummax(dim=0).values.logical_not().sum())


BLOCKS = Recorder("blocks", lambda module: hasattr(type(module), _METHOD), _record_blocks)
