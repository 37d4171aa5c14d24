"""Attention maps that are not kept, but computed again some queries at a time.

The maps of one text of 6,000 tokens take 144 MB a head. What they follow from, queries, keys and a
mask, takes little: a call holds that, and asks for the rows that are looked at.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# From a text of the batch, the first query and one past the last, to weights (H, s, M).
Compute = Callable[[int, int, int], Tensor]


@dataclass(frozen=True, eq=False)
class MapRows:
    """How rows of the maps of a call are computed.

    Attributes
    ----------
    compute : callable
        From the number of a text in the batch, the first query and one past the last, to weights
        ``(H, s, M)``.
    masks : int
        Masks of all queries and all keys that the model makes and keeps.
    """

    compute: Compute
    masks: int = 0


def without_numbers(query: Tensor, keys: int) -> Tensor:
    """Return what has the shape of the maps of a call, and no numbers: reading it is an error."""
    return torch.empty((*query.shape[:3], keys), device="meta", dtype=query.dtype)


def stretches(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield first and one past the last of every `size` of n queries.

    Examples
    --------
    >>> list(stretches(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for start in range(0, n, size):
        yield start, min(start + size, n)


def cut_rows(mask: Tensor, text: int | None, start: int, stop: int) -> Tensor:
    """Return the part of a mask, broadcast against ``(B, H, N, M)``, for a text and some queries.

    `text` None keeps all texts of the batch.
    """
    whole = mask[(None,) * (4 - mask.ndim)]
    if text is not None and whole.shape[0] > 1:
        whole = whole[text : text + 1]
    return whole[:, :, start:stop] if whole.shape[2] > 1 else whole


def square_masks(mask: Tensor | None) -> int:
    """Return how many masks of all queries and all keys a mask holds."""
    if mask is None or mask.ndim < 2 or mask.shape[-2] == 1:
        return 0
    return mask.shape[:-2].numel()


def softmax_rows(
    query: Tensor,
    keys: Tensor,
    *,
    scale: float,
    masks: tuple[Tensor, ...] = (),
    causal: bool = False,
) -> MapRows:
    """Return rows of softmax(scale q·k + masks).

    Parameters
    ----------
    query, keys : Tensor
        ``(B, H, N, d)`` and ``(B, H, M, d)``.
    masks : tuple of Tensor
        Broadcast against ``(B, H, N, M)``: booleans that are True where a key is visible, or
        numbers that are added.
    """

    def compute(text: int, start: int, stop: int) -> Tensor:
        scores = scale * query[text, :, start:stop] @ keys[text].transpose(-1, -2)
        if causal:
            places = torch.arange(start, stop, device=query.device)[:, None]
            later = torch.arange(keys.shape[2], device=query.device) > places
            scores = scores.masked_fill(later, -torch.inf)
        for mask in masks:
            part = cut_rows(mask, text, start, stop)[0]
            hidden = part.dtype is torch.bool
            scores = scores.masked_fill(~part, -torch.inf) if hidden else scores + part
        return scores.softmax(dim=-1)

    return MapRows(compute, masks=sum(map(square_masks, masks)))


def all_outputs(rows: MapRows, values: Tensor, n: int, size: int) -> Tensor:
    """Return maps @ values of every text, ``(B, H, n, d)``, without the maps."""
    texts = [
        filled(lambda *ends, text=text: rows.compute(text, *ends) @ values[text], n, size, dim=1)
        for text in range(len(values))
    ]
    return torch.stack(texts)


def filled(part: Callable[[int, int], Tensor], n: int, size: int, *, dim: int) -> Tensor:
    """Return parts of `size` queries along a dimension, as one tensor of all n.

    The tensor is made once. Parts that stay until they are joined would lie between the large
    arrays that come and go, whose memory then could not be used again.
    """
    whole = None
    for start, stop in stretches(n, size):
        rows = part(start, stop)
        if whole is None:
            shape = list(rows.shape)
            shape[dim] = n
            whole = rows.new_empty(shape)
        whole.narrow(dim, start, stop - start).copy_(rows)
    return torch.empty(0) if whole is None else whole
