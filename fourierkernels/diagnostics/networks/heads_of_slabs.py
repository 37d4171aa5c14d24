"""What statistics read of the slabs of one sample: maps, keys, and how far tokens are apart."""

import numpy as np

from fourierkernels.diagnostics.networks.layers import HeadLayer
from fourierkernels.diagnostics.networks.samples import HeadSample
from fourierkernels.diagnostics.slabs import MapSlab
from fourierkernels.diagnostics.statistic_summary import check_tokens, token_distances
from fourierkernels.diagnostics.statistics import Heads
from fourierkernels.foundation.arrays import BoolArray, FloatArray

_KEPT = 16  # slabs whose distances between tokens are kept for the next layer


class HeadsOfSlabs:
    """What statistics read, for slabs of one sample; what slabs have in common is kept."""

    def __init__(self, sample: HeadSample | None = None, *, reads_keys: bool = False) -> None:
        self._sample, self._reads_keys = sample, reads_keys
        self._at = (-1, -1)  # layer and window of the keys and places below
        self._keys: FloatArray = np.zeros(())
        self._places: FloatArray = np.zeros(())
        self._marks: BoolArray = np.zeros((), dtype=bool)
        self._distances: dict[tuple[int, int, int], FloatArray] = {}

    def of(self, slab: MapSlab) -> Heads:
        """Return what statistics read of a slab."""
        if self._sample is None:
            raise ValueError("a sample must have been begun, got none")
        layer = self._sample.by_layer[slab.layer]
        if self._at != (slab.layer, slab.window):
            self._at = (slab.layer, slab.window)
            self._begin(layer, slab.window)
        return Heads(
            maps=slab.maps,
            distances=self._between(slab),
            special=self._marks,
            keys=self._keys,
            scale=self._sample.scale,
            first=slab.first,
        )

    def _begin(self, layer: HeadLayer, window: int) -> None:
        sample, m = self._sample, layer.keys
        positions = special = None
        if sample is not None and layer.windows == 1 and m == sample.span[1]:
            positions, special = sample.checkpoint.positions, sample.special
        self._places, self._marks = check_tokens(m, positions, special)
        none = np.zeros((layer.heads, m, 0))
        self._keys = layer.part("keys", window) if self._reads_keys else none

    def _between(self, slab: MapSlab) -> FloatArray:
        """Return distances of tokens, kept as long as slabs are those of short inputs."""
        m = slab.maps.shape[2]
        place = (slab.first, slab.stop, m)
        if place not in self._distances:
            if len(self._distances) > _KEPT:
                self._distances.clear()
            self._distances[place] = token_distances(self._places, slab.first, slab.stop)
        return self._distances[place]
