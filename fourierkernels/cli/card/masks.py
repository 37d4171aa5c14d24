"""The masks of the problems that are checked, broadcastable to ``(B, H, N, M)``."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

BATCH, HEADS = 2, 3

Mask = Callable[[int, int, torch.Generator], Tensor | None]


def _boolean(n: int, m: int, generator: torch.Generator) -> Tensor:
    attend = torch.rand(BATCH, HEADS, n, m, generator=generator) > 0.4
    attend[..., n // 2, :] = False  # a query without any key
    return attend


def _padding(n: int, m: int, generator: torch.Generator) -> Tensor:
    lengths = torch.randint(1, m + 1, (BATCH, 1, 1, 1), generator=generator)
    return torch.arange(m) < lengths


def _additive(n: int, m: int, generator: torch.Generator) -> Tensor:
    return torch.randn(1, HEADS, n, m, generator=generator, dtype=torch.float64)


def _minus_infinity(n: int, m: int, generator: torch.Generator) -> Tensor:
    return _additive(n, m, generator).masked_fill(~_boolean(n, m, generator)[:1], -math.inf)


def _per_key(n: int, m: int, generator: torch.Generator) -> Tensor:
    return torch.randn(BATCH, 1, 1, m, generator=generator, dtype=torch.float64)


def _blocks(n: int, m: int, generator: torch.Generator) -> Tensor:
    """Return blocks of 64 along the diagonal: every other tile is hidden as a whole."""
    return (torch.arange(n)[:, None] // 64 == torch.arange(m) // 64)[None, None]


MASKS: dict[str, Mask] = {
    "none": lambda n, m, generator: None,
    "boolean": _boolean,
    "padding": _padding,
    "additive": _additive,
    "minus infinity": _minus_infinity,
    "per key": _per_key,
    "blocks": _blocks,
}
