"""One NaN or infinity shows in what it touches, and in nothing else.

A masked key does not count: what is in it is seen by no query that is masked from it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.calls import LEAVES, PLAIN, Attend, inputs_on, results
from fourierkernels.cli.card.cases import Case, draw
from fourierkernels.cli.card.masks import BATCH, HEADS
from fourierkernels.cli.card.outcome import Measure

_BATCH, _HEAD, _ROW, _KEY, _FEATURE = 1, 2, 5, 77, 3  # where it is put
_OF_KEYS = 2  # place of the gradient of the key among the results; that of the value follows
_SHAPE = replace(PLAIN, causal=False, keys=150)


@dataclass(frozen=True)
class _Poison:
    """An input with one bad entry, and the masks it is tried with."""

    name: str
    value: float
    masks: tuple[str, ...]


_POISONS = (
    _Poison("query", float("nan"), ("none", "boolean", "additive")),
    _Poison("key", float("nan"), ("none", "boolean", "additive")),
    _Poison("mask", float("nan"), ("additive",)),
    _Poison("mask", float("inf"), ("additive",)),
)


def not_finite(device: torch.device) -> list[Measure]:
    """Count, for each bad entry, the entries of results that wrongly show it or do not."""
    return [
        Measure(
            f"{poison.value} in {poison.name}, mask {mask}: entries wrongly finite or not",
            float(_wrong(device, poison, replace(_SHAPE, mask=mask))),
            0.0,
        )
        for poison in _POISONS
        for mask in poison.masks
    ]


def _wrong(device: torch.device, poison: _Poison, case: Case) -> int:
    inputs = dict(zip((*LEAVES, "output"), inputs_on(device, case), strict=True))
    mask = draw(case).get("mask")
    mask = None if mask is None else mask.expand(BATCH, HEADS, -1, -1).clone()
    visible = torch.ones(BATCH, HEADS, case.queries, case.keys, dtype=torch.bool)
    if mask is not None and mask.dtype is torch.bool:
        mask[_BATCH, _HEAD, _ROW, _KEY] = True
        visible = mask.clone()
    touched = _put(poison, inputs, mask, visible)
    found = results(
        list(inputs.values()),
        _without_reading(device),
        is_causal=False,
        attn_mask=_moved(mask, inputs["query"]),
    )
    wrong = [
        ~torch.isfinite(one.cpu()) != where
        for one, where in zip(found, _expected(touched, visible), strict=True)
    ]
    if math.isinf(poison.value):  # beside an infinite weight the others may be 0 or not a number
        seen = _expected(touched, visible)[_OF_KEYS]
        wrong[_OF_KEYS] &= ~seen
        wrong[_OF_KEYS + 1] &= ~seen
    return sum(int(entries.sum()) for entries in wrong)


def _put(
    poison: _Poison, inputs: dict[str, Tensor], mask: Tensor | None, visible: Tensor
) -> Tensor:
    """Put in the bad entry; return the queries that it touches, ``(B, H, N)``."""
    touched = torch.zeros(visible.shape[:3], dtype=torch.bool)
    touched[_BATCH, _HEAD, _ROW] = True
    with torch.no_grad():
        if poison.name == "mask" and mask is not None:
            mask[_BATCH, _HEAD, _ROW, _KEY] = poison.value
        elif poison.name == "key":
            inputs["key"][_BATCH, _HEAD, _KEY, _FEATURE] = poison.value
            touched[_BATCH, _HEAD] = visible[_BATCH, _HEAD, :, _KEY]
        else:
            inputs["query"][_BATCH, _HEAD, _ROW, _FEATURE] = poison.value
    return touched


def _expected(touched: Tensor, visible: Tensor) -> list[Tensor]:
    """Return where output, dq, dk, dv and dR are not finite.

    G_ij of a touched query is not a number at any key that it sees, and goes into their gradients.
    """
    seen = (touched[..., None] & visible).any(dim=2)  # (B, H, M)
    rows, keys = touched[..., None], seen[..., None]
    return [rows, rows, keys, keys, touched.any(dim=2).any(dim=0)[:, None]]


def _moved(mask: Tensor | None, query: Tensor) -> Tensor | None:
    if mask is None or mask.dtype is torch.bool:
        return None if mask is None else mask.to(query.device)
    return mask.to(query.device, query.dtype)


def _without_reading(device: torch.device) -> Attend:
    """Return the function that does not look at the values of its arguments.

    On a CPU it refuses what is not finite, since values cost nothing to read there. Mapped by vmap
    they have none, so that the operator gets them.
    """
    return fourier_attention if device.type == "cuda" else _mapped


def _mapped(*leaves: Tensor, attn_mask: Tensor | None, **options: Any) -> Tensor:
    *batched, radius = leaves

    def one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        found: Tensor = fourier_attention(query, key, value, radius, attn_mask=mask, **options)
        return found

    masks = [] if attn_mask is None else [attn_mask]
    result: Tensor = torch.vmap(one)(*batched, *masks)
    return result
