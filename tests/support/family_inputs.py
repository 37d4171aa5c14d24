"""Numbers and token ids of which batches for families of transformers are made."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Batch = Mapping[str, Any]
Make = Callable[[Any], Batch]
Kinds = Mapping[Make, Mapping[str, Mapping[str, Any]]]
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.long)


def text() -> Batch:
    return {"input_ids": IDS, "attention_mask": ones(1, IDS.shape[1])}


def image(size: int) -> Make:
    """Return what makes a batch of one square image."""
    return lambda model: {"pixel_values": noise(1, 3, size, size)}


def text_and_image(size: int) -> Make:
    return lambda model: {**text(), "pixel_values": noise(1, 3, size, size)}


def every(kinds: str, **entries: Any) -> dict[str, Mapping[str, Any]]:
    """Return the same entries of a configuration for several families."""
    return dict.fromkeys(kinds.split(), entries)
