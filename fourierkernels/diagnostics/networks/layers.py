"""One layer of what the heads compute on one input, and how much memory a long input takes.

Maps are read a slab of queries at a time. A short piece of a long input is run first: it shows how
many maps there are and which of them the model itself computes whole; the rest can be computed a
slab of queries at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fourierkernels.checkpoints import AttentionCall, recording
from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.memory import available_memory, in_bytes
from fourierkernels.checkpoints.recorders.slabs import stretches
from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.diagnostics.slabs import MapSlab
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer

HELD_SLAB = 2**18  # weights of all heads: 2 MB in float64, which stay in the cache
COMPUTED_SLAB = 2**21  # more where rows are computed from queries and keys: products are long
MOST_WEIGHTS = 2**18  # of one head in a batch, 16 texts of 128 tokens: memory follows from it
_PIECE = 24  # tokens of the short run
_FEW = 7  # queries at once in it: several slabs, the last of which is shorter
_SAME = 1e-5  # maps computed in slabs and whole ones agree to rounding
_NUMBER = 4  # bytes of float32
_SCORES = 2  # arrays as large as the maps of a layer that live while it is computed
_STATES = 24  # arrays (n, H d) that a layer and its feed-forward network hold


def slab_rows(heads: int, keys: int, *, weights: int) -> int:
    """Return how many query rows of all heads have so many weights; at least one."""
    return max(1, weights // (heads * keys))


def layer_number(layer: int | str, names: Sequence[str]) -> int:
    """Return the number of a layer, from 0, by itself or by the name of its module.

    Raises
    ------
    ValueError, TypeError
        For a layer that there is not.
    """
    if isinstance(layer, str):
        if layer not in names:
            raise ValueError(f"layer must be one of {', '.join(names)}, got {layer}")
        return names.index(layer)
    if check_integer("layer", layer, least=0) >= len(names):
        raise ValueError(f"layer must be below {len(names)}, from 0, got {layer}")
    return layer


@dataclass(frozen=True, eq=False)
class HeadLayer:
    """What the heads of one layer compute on one input, in float64, padding cut away.

    Attributes
    ----------
    number : int
        Of the layer, from 0.
    call : AttentionCall
    row : int
        Of the input in the batch. Where attention stays within windows, the batch is one input,
        and its windows are the rows of the call.
    windows : int
    queries, keys : int
        Their numbers n and m, in each window.
    """

    number: int
    call: AttentionCall
    row: int
    windows: int
    queries: int
    keys: int

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.call.maps.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Heads, windows, queries and keys."""
        return self.heads, self.windows, self.queries, self.keys

    def slabs(self) -> Iterator[MapSlab]:
        """Yield the maps, some query rows at a time; windows in turn."""
        most = HELD_SLAB if self.call.rows is None else COMPUTED_SLAB
        size = slab_rows(self.heads, self.keys, weights=most)
        for window in range(self.windows):
            for ends in stretches(self.queries, size):
                yield self.slab(window, *ends)

    def slab(self, window: int, first: int, stop: int) -> MapSlab:
        """Return the maps of queries first, …, stop - 1 of a window."""
        with torch.inference_mode():
            rows = self.call.map_rows(self.row + window, first, stop)[..., : self.keys]
            return MapSlab(self.number, as_float64(rows), first, window)

    def part(self, name: str, window: int = 0) -> FloatArray:
        """Return another part of the call, or whole maps; see ``AttentionCall.part``.

        Raises
        ------
        ValueError
            If the outputs cannot be projected.
        """
        if name == "projected" and self.call.slices is None:
            raise InapplicableError(
                "projected outputs must come from a linear layer after the heads, "
                f"got none after {self.call.name}"
            )
        with torch.inference_mode():
            row = self.row + window
            return as_float64(self.call.part(name, row, self.queries, self.keys))

    def whole(self, name: str) -> FloatArray:
        """Return a part of the call with the queries or keys of all windows in turn."""
        windows = [self.part(name, window) for window in range(self.windows)]
        return windows[0] if len(windows) == 1 else np.concatenate(windows, axis=1)


def as_float64(tensor: Tensor) -> FloatArray:
    """Return a copy, whatever the dtype was."""
    array = np.empty(tuple(tensor.shape))
    torch.from_numpy(array).copy_(tensor)
    return array


@dataclass(frozen=True)
class Footprint:
    """What determines the memory of a run, in numbers of float32.

    Attributes
    ----------
    whole : int
        Maps (one head of one layer) that the model computes whole.
    most : int
        The largest number of those in a layer.
    masks : int
        Masks of all queries and keys that it makes.
    features : int
        Features of queries, keys, values and outputs of all heads and layers.
    widest : int
        Those of one layer.
    heads : int
        The largest number of heads of a layer.
    in_slabs : bool
        Whether the other maps can be computed a slab at a time.
    """

    whole: int
    most: int
    masks: int
    features: int
    widest: int
    heads: int
    in_slabs: bool

    def bytes(self, n: int, m: int) -> float:
        """Return about how many bytes a run on n queries and m keys takes."""
        maps = self.whole + _SCORES * self.most + 1.25 * self.masks
        slab = 8 * slab_rows(self.heads, m, weights=COMPUTED_SLAB) * self.heads * m
        vectors = (self.features + _STATES * self.widest) * max(n, m)
        return _NUMBER * (float(n) * m * maps + vectors + slab)

    def check(self, n: int, m: int) -> None:
        """Refuse a run that does not fit into the memory that is free.

        Raises
        ------
        ValueError
            With the number of tokens, the bytes, and what to do.
        """
        needed, free = self.bytes(n, m), available_memory()
        if needed <= free:
            return
        size = f"{n} tokens" if n == m else f"{n} and {m} tokens"
        raise ValueError(
            f"inputs must fit into memory, got one of {size}, which needs about "
            f"{in_bytes(needed)}{self._reason()}, of {in_bytes(free)} that may be used: "
            f"cut it into windows of at most {self.longest(free)} (--max-tokens)"
        )

    def _reason(self) -> str:
        if self.whole:
            return f" because the model computes {self.whole} whole maps of attention"
        return " because the model makes a mask of all tokens" if self.masks else ""

    def longest(self, free: float) -> int:
        """Return how many tokens fit, to two digits below the limit."""
        low, high = 1, 2**40
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bytes(middle, middle) <= free else (low, middle)
        step = int(10 ** max(0, len(str(low)) - 2))
        return low // step * step


def check_whole_maps(checkpoint: Checkpoint, items: Sequence[Any]) -> None:
    """Refuse items one of which does not fit into memory where all its maps are computed whole.

    Raises
    ------
    ValueError
        With the number of tokens, the bytes, and what to do.
    """
    sides = [span for item in items if (span := checkpoint.spans(item)) is not None]
    if not sides or max(n * m for n, m in sides) <= MOST_WEIGHTS:
        return
    n, m = max(sides, key=lambda side: side[0] * side[1])
    longest = next(item for item in items if checkpoint.spans(item) == (n, m))
    _count(_calls(checkpoint, checkpoint.beginning(longest, _PIECE), slab=0), False).check(n, m)


def footprint(checkpoint: Checkpoint, item: Any) -> Footprint:
    """Return what determines the memory of runs on texts like this one.

    The beginning of the text is run twice, whole and in slabs; maps count as computed in slabs only
    if both agree.
    """
    piece = checkpoint.beginning(item, _PIECE)
    whole = _calls(checkpoint, piece, slab=0)
    try:
        in_parts = _calls(checkpoint, piece, slab=_FEW)
        in_slabs = len(in_parts) == len(whole) and all(map(_agree, in_parts, whole))
    except Exception:  # a function that does not take some of the queries
        in_slabs = False
    return _count(in_parts if in_slabs else whole, in_slabs)


def _calls(checkpoint: Checkpoint, piece: Any, *, slab: int) -> list[AttentionCall]:
    with torch.inference_mode(), recording(checkpoint.model, slab=slab) as recorded:
        checkpoint.run([piece])
    return checkpoint.own_calls(recorded)


def _agree(in_parts: AttentionCall, whole: AttentionCall) -> bool:
    if in_parts.maps.shape != whole.maps.shape:
        return False
    with torch.inference_mode():
        parts = [
            in_parts.map_rows(0, start, start + 2) for start in range(0, whole.maps.shape[2], 2)
        ]
        return torch.allclose(torch.cat(parts, dim=1), whole.maps[0], rtol=0.0, atol=_SAME)


def _count(calls: Sequence[AttentionCall], in_slabs: bool) -> Footprint:
    whole = [call.maps.shape[1] if call.rows is None else 0 for call in calls]
    masks = [0 if call.rows is None else call.rows.masks for call in calls]
    features = [
        call.maps.shape[1] * (2 * call.queries.shape[-1] + 2 * call.values.shape[-1])
        for call in calls
    ]
    return Footprint(
        whole=sum(whole),
        most=max(whole, default=0),
        masks=max(masks, default=0),
        features=sum(features),
        widest=max(features, default=0) // 4,
        heads=max((int(call.maps.shape[1]) for call in calls), default=0),
        in_slabs=in_slabs,
    )
