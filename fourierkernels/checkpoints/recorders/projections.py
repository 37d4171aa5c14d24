"""The linear layer that reads the joined heads, recognised by the numbers that it reads.

They also show what the call alone does not: whether one dimension of texts and heads has texts or
heads first, and which calls of one head each, or of some queries each, are one layer.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fourierkernels.checkpoints.recorders.call import AttentionCall, RecordedCalls
from fourierkernels.checkpoints.recorders.flow import is_plain
from fourierkernels.checkpoints.recorders.products import regrouped
from fourierkernels.checkpoints.recorders.slabs import MapRows

_WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # as many bytes as a number has
_PARTS = ("maps", "queries", "keys", "values", "outputs")
_OWN_KEYS = "its queries are taken in turn, with other keys each time"


def find_projection(recorded: RecordedCalls) -> Any:
    """Return a hook that stores the linear layer that reads the joined heads."""

    def hook(module: Any, inputs: tuple[Any, ...]) -> None:
        if inputs and is_plain(inputs[0]):
            turned = isinstance(module, nn.Linear)
            call = read_by(recorded, inputs[0], partial(matrix, module.weight, turned=turned))
            if call is not None:
                call.projection = module

    return hook


def matrix(weight: Any, *, turned: bool) -> Tensor:
    """Return the weights of a layer as numbers, also where they are held in fewer bits.

    Parameters
    ----------
    weight : Tensor
    turned : bool
        Whether it has one row for each number that is put out, not read.
    """
    whole = type(weight) in (Tensor, nn.Parameter)
    numbers: Tensor = weight if whole else weight.dequantize()
    return numbers.mT if turned else numbers


def read_by(
    recorded: RecordedCalls, read: Tensor, weight: Callable[[], Tensor]
) -> AttentionCall | None:
    """Return the call whose joined heads a product with weights ``(H d, E)`` reads, if one is."""
    if not recorded or recorded[-1].slices is not None:
        return None
    with recorded.unseen.suspended():
        call = _reader_of(recorded, read)
        if call is not None:
            heads, features = call.outputs.shape[1], call.outputs.shape[-1]
            call.slices = weight().reshape(heads, features, -1).detach()
    return call


def _reader_of(recorded: RecordedCalls, read: Tensor) -> AttentionCall | None:
    """Return the last call if its heads are what a layer reads, put in order for that."""
    call = recorded[-1]
    if _is_read(read, call):
        return call
    heads = _joined(recorded, read) if call.outputs.shape[1] == 1 else None
    return _in_turn(recorded, read) if heads is None else heads


def _is_read(read: Tensor, call: AttentionCall) -> bool:
    """Tell whether a layer reads a call, and put its heads in order."""
    if _reads(read, call.outputs):
        call.merged = False
    elif call.merged and _reads(read, _turned(call.outputs)):
        regrouped(call)
        call.merged = False
    else:
        return False
    return True


def _turned(outputs: Tensor) -> Tensor:
    texts, heads, n, features = outputs.shape
    return outputs.reshape(heads, texts, n, features).transpose(0, 1)


def _joined(recorded: RecordedCalls, read: Tensor) -> AttentionCall | None:
    """Make one call of the last ones, one head each, if a layer reads them side by side."""
    first = recorded[-1]
    alone = list(
        takewhile(
            lambda call: call.slices is None and call.outputs.shape == first.outputs.shape,
            reversed(recorded),
        )
    )
    count = read.shape[-1] // first.outputs.shape[-1]
    group = alone[:count][::-1]
    if not 1 < count == len(group) or not _reads(read, _side_by_side(group, "outputs")):
        return None
    call, rows = group[0], _rows_together(group)
    for name in _PARTS:
        setattr(call, name, _side_by_side(group, name))
    call.rows = rows
    call.name = ".".join(_common([member.name.split(".") for member in group]))
    del recorded[-count + 1 :]
    return call


def _in_turn(recorded: RecordedCalls, read: Tensor) -> AttentionCall | None:
    """Make one call of the last ones, some queries each, if a layer reads them one after another.

    Keys may grow from one to the next, as in causal attention: those left out have no weight.
    """
    last, group, total = recorded[-1], list[AttentionCall](), 0
    for call in reversed(recorded):
        if total >= read.numel() or call.slices is not None or not _alike(call, last):
            break
        group.insert(0, call)
        total += call.outputs.numel()
    if len(group) < 2 or total != read.numel():
        return None
    most = max(group, key=lambda call: call.keys.shape[2])
    call = replace(
        most,
        maps=torch.cat([pad(part.maps, (0, _lack(part, most))) for part in group], dim=2),
        queries=torch.cat([part.queries for part in group], dim=2),
        outputs=torch.cat([part.outputs for part in group], dim=2),
        rows=_rows_in_turn(group, most),
    )
    if not _is_read(read, call):
        return None
    del recorded[-len(group) :]
    if not all(_begins(most, part) for part in group):
        recorded.unread[call.name] = _OWN_KEYS
        return None
    recorded.append(call)
    call.cross = recorded.differ(most.queries, most.keys, call.cross)
    return call


def _alike(call: AttentionCall, other: AttentionCall) -> bool:
    """Tell whether calls may be of some queries each of one layer."""
    shapes = [(*each.outputs.shape[:2], each.outputs.shape[-1]) for each in (call, other)]
    return (call.name, call.merged) == (other.name, other.merged) and shapes[0] == shapes[1]


def _lack(call: AttentionCall, most: AttentionCall) -> int:
    return most.keys.shape[2] - call.keys.shape[2]


def _begins(most: AttentionCall, call: AttentionCall) -> bool:
    """Tell whether keys and values of a call are the first of those of another."""
    m = call.keys.shape[2]
    pairs = [(call.keys, most.keys), (call.values, most.values)]
    return all(_same_bits(part.contiguous(), whole[:, :, :m]) for part, whole in pairs)


def _rows_in_turn(group: list[AttentionCall], most: AttentionCall) -> MapRows | None:
    """Return the rows of one call with the queries of all, if its maps are not kept."""
    if all(call.rows is None for call in group):
        return None

    def compute(text: int, start: int, stop: int) -> Tensor:
        pieces, first = [], 0
        for call in group:
            n = call.queries.shape[2]
            ends = max(start - first, 0), min(stop - first, n)
            if ends[0] < ends[1]:
                pieces.append(pad(call.map_rows(text, *ends), (0, _lack(call, most))))
            first += n
        return torch.cat(pieces, dim=1)

    return MapRows(compute, masks=max(call.rows.masks for call in group if call.rows is not None))


def _common(paths: list[list[str]]) -> list[str]:
    """Return the modules that all paths begin with."""
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return [level[0] for level in levels]


def _rows_together(group: list[AttentionCall]) -> MapRows | None:
    """Return the rows of one call with the heads of all, if its maps are not kept."""
    rows = [call.rows for call in group if call.rows is not None]
    if not rows:
        return None

    def compute(text: int, start: int, stop: int) -> Tensor:
        return torch.cat([part.compute(text, start, stop) for part in rows])

    return MapRows(compute, masks=sum(part.masks for part in rows))


def _side_by_side(group: list[AttentionCall], name: str) -> Tensor:
    return torch.cat([getattr(call, name) for call in group], dim=1)


def _reads(read: Tensor, outputs: Tensor) -> bool:
    """Tell whether a layer reads the outputs of the heads ``(B, H, N, d)`` joined by token.

    It may read texts in turn, the tokens of all texts in turn, or those of all windows of a text.
    """
    heads, features = outputs.shape[1], outputs.shape[-1]
    if read.shape[-1] != heads * features or read.numel() != outputs.numel():
        return False
    rows = read.reshape(-1, heads * features)
    by_text, texts = outputs.transpose(1, 2), len(read)
    orders = [by_text, by_text.transpose(0, 1)]
    if 1 < texts < len(outputs) and len(outputs) % texts == 0:
        windows = by_text.reshape(texts, len(outputs) // texts, *by_text.shape[1:])
        orders.append(windows.transpose(1, 2))
    return any(_same_bits(rows, order.reshape(rows.shape)) for order in orders)


def _same_bits(left: Tensor, right: Tensor) -> bool:
    """Tell whether two tensors of one shape are equal bit by bit, so that NaN equals itself."""
    if left.dtype is not right.dtype:
        return False
    whole = _WHOLE[left.element_size()]
    return torch.equal(left.detach().view(whole), right.detach().contiguous().view(whole))
