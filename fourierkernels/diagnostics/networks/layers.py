"""One layer of what the heads compute on one input, its maps read a slab of queries at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fourierkernels.checkpoints import AttentionCall
from fourierkernels.checkpoints.recorders.slabs import stretches
from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.diagnostics.slabs import MapSlab
from fourierkernels.foundation.arrays import FloatArray

HELD_SLAB = 2**18  # weights of all heads: 2 MB in float64, which stay in the cache
COMPUTED_SLAB = 2**21  # more where rows are computed from queries and keys: products are long


def slab_rows(heads: int, keys: int, *, weights: int) -> int:
    """Return how many query rows of all heads have so many weights; at least one."""
    return max(1, weights // (heads * keys))


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
            found = self.call.map_rows(self.row + window, first, stop)[..., : self.keys]
            return MapSlab(self.number, as_float64(found), first, window)

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
