"""How much memory a long input takes, said before it is run.

A short piece of the input is run first. It shows how many maps there are and which of them the
model itself computes whole; the rest can be computed a slab of queries at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fourierkernels.checkpoints import AttentionCall, recording
from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.memory import available_memory, in_bytes
from fourierkernels.diagnostics.networks.layers import COMPUTED_SLAB, slab_rows

MOST_WEIGHTS = 2**18  # of one head in a batch, 16 texts of 128 tokens: memory follows from it
_PIECE = 24  # tokens of the short run
_FEW = 7  # queries at once in it: several slabs, the last of which is shorter
_SAME = 1e-5  # maps computed in slabs and whole ones agree to rounding
_NUMBER = 4  # bytes of float32
_SCORES = 2  # arrays as large as the maps of a layer that live while it is computed
_STATES = 24  # arrays (n, H d) that a layer and its feed-forward network hold


@dataclass(frozen=True)
class Footprint:
    """What determines the memory of a run, in numbers of float32.

    Attributes
    ----------
    held : int
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

    held: int
    most: int
    masks: int
    features: int
    widest: int
    heads: int
    in_slabs: bool

    def bytes(self, n: int, m: int) -> float:
        """Return about how many bytes a run on n queries and m keys takes."""
        maps = self.held + _SCORES * self.most + 1.25 * self.masks
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
        if self.held:
            return f" because the model computes {self.held} whole maps of attention"
        return " because the model makes a mask of all tokens" if self.masks else ""

    def longest(self, free: float) -> int:
        """Return how many tokens fit, to two digits below the limit."""
        low, high = 1, 2**40
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bytes(middle, middle) <= free else (low, middle)
        step = int(10 ** max(0, len(str(low)) - 2))
        return low // step * step


def check_held(checkpoint: Checkpoint, items: Sequence[Any]) -> None:
    """Refuse items one of which does not fit into memory where all its maps are held.

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
    _count(_calls(checkpoint, _piece(checkpoint, longest), slab=0), False).check(n, m)


def footprint(checkpoint: Checkpoint, item: Any) -> Footprint:
    """Return what determines the memory of runs on texts like this one.

    The beginning of the text is run twice, whole and in slabs; maps count as computed in slabs only
    if both agree.
    """
    piece = _piece(checkpoint, item)
    whole = _calls(checkpoint, piece, slab=0)
    try:
        found = _calls(checkpoint, piece, slab=_FEW)
        in_slabs = len(found) == len(whole) and all(map(_agree, found, whole))
    except Exception:  # a function that does not take some of the queries
        in_slabs = False
    return _count(found if in_slabs else whole, in_slabs)


def _piece(checkpoint: Checkpoint, item: Any) -> Any:
    """Return the beginning of a text, or of both texts of a pair."""
    return tuple(side[:_PIECE] for side in item) if checkpoint.part.pairs else item[:_PIECE]


def _calls(checkpoint: Checkpoint, piece: Any, *, slab: int) -> list[AttentionCall]:
    with torch.inference_mode(), recording(checkpoint.model, slab=slab) as heard:
        checkpoint.run([piece])
    return [call for call in heard if checkpoint.selects(call)]


def _agree(found: AttentionCall, whole: AttentionCall) -> bool:
    if found.maps.shape != whole.maps.shape:
        return False
    with torch.inference_mode():
        parts = [found.map_rows(0, start, start + 2) for start in range(0, whole.maps.shape[2], 2)]
        return torch.allclose(torch.cat(parts, dim=1), whole.maps[0], rtol=0.0, atol=_SAME)


def _count(calls: Sequence[AttentionCall], in_slabs: bool) -> Footprint:
    held = [call.maps.shape[1] if call.rows is None else 0 for call in calls]
    masks = [0 if call.rows is None else call.rows.masks for call in calls]
    features = [
        call.maps.shape[1] * (2 * call.queries.shape[-1] + 2 * call.values.shape[-1])
        for call in calls
    ]
    return Footprint(
        held=sum(held),
        most=max(held, default=0),
        masks=max(masks, default=0),
        features=sum(features),
        widest=max(features, default=0) // 4,
        heads=max((int(call.maps.shape[1]) for call in calls), default=0),
        in_slabs=in_slabs,
    )
