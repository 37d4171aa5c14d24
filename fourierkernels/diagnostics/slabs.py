"""Distances and statistics of one text from slabs of its maps, in memory for one slab. Arrays only.

A slab is some query rows of the maps of all heads of one layer, ``(H, s, m)``. Layers may differ in
their numbers of heads, queries and keys. Where attention stays within windows, the windows of a
layer follow each other, each with its own queries and keys; their rows are rows of the layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fourierkernels.diagnostics.chance import visible_keys
from fourierkernels.diagnostics.distances import METRICS, check_several
from fourierkernels.diagnostics.maps import RowSums, are_probabilities, check_rows
from fourierkernels.diagnostics.statistics import STATISTICS, Heads
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import check_choice


@dataclass(frozen=True, eq=False)
class MapSlab:
    """Some query rows of the maps of the heads of one layer.

    Attributes
    ----------
    layer : int
    maps : ndarray, shape (H, s, m)
    first : int
        Place of the first of these queries, in its window.
    window : int
        Number of the window; 0 where every token attends to every token.
    """

    layer: int
    maps: FloatArray
    first: int = 0
    window: int = 0

    @property
    def stop(self) -> int:
        """One past the place of the last query."""
        return self.first + len(self.maps[0])

    @cached_property
    def probabilities(self) -> bool:
        """Whether rows are probabilities; asked by several measures and answered once."""
        return are_probabilities(self.maps)

    @cached_property
    def visible(self) -> BoolArray:
        """Which keys each query may see, ``(s, m)``; told once for all controls and metrics."""
        return visible_keys(self.maps)

    def check(self, purpose: str) -> None:
        """Refuse values that are not finite, and rows that are no probabilities, for a purpose."""
        if not self.probabilities:
            self.check_finite()
            check_rows(self.maps, purpose)

    def check_finite(self) -> None:
        """Refuse values that are not finite, by layer, head, query and key of the first."""
        bad = np.argwhere(~np.isfinite(self.maps))
        if len(bad):
            head, query, key = map(int, bad[0])
            raise ValueError(
                f"maps must be finite, got {self.maps[head, query, key]} at index "
                f"{(self.layer, head, self.first + query, key)} ({len(bad)} such values)"
            )


class SlabDistances:
    """Distances between the heads of each layer on one text.

    Slabs come layer by layer, in order. A metric that is not a ``RowSums`` needs the whole maps,
    which are kept until the layer is complete.

    Parameters
    ----------
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS` that compares maps.
    part : callable, optional
        What adds up over the slabs instead of the metric's own sum over rows: from a slab to
        ``(H, H)``.
    """

    def __init__(self, metric: str, part: Callable[[MapSlab], FloatArray] | None = None) -> None:
        self._part = part
        self._row = METRICS[check_choice("metric", metric, list(METRICS))]
        self._layers: list[FloatArray] = []  # distances of complete layers
        self._current = -1
        self._total: FloatArray = np.zeros(())
        self._rows = 0
        self._kept: list[FloatArray] = []

    def take(self, slab: MapSlab) -> None:
        """Take in the next slab.

        Raises
        ------
        ValueError
            If rows are not probabilities where the metric needs them, or not finite.
        """
        if slab.layer != self._current:
            self._complete()
            self._current, self._rows, self._kept = slab.layer, 0, []
            self._total = np.zeros(2 * slab.maps.shape[:1])
        if self._row.probabilities:
            slab.check(self._row.name)
        self._rows += slab.maps.shape[1]
        if not isinstance(self._row.function, RowSums):
            self._kept.append(slab.maps)
        elif len(slab.maps) > 1:
            with np.errstate(invalid="ignore", over="ignore"):
                plain = self._row.function.part
                part = plain(slab.maps) if self._part is None else self._part(slab)
                self._total = self._total + part
            if not np.isfinite(self._total).all():
                slab.check_finite()

    def _complete(self) -> None:
        if not self._rows:
            return
        function = self._row.function
        if len(self._total) == 1:
            self._layers.append(np.zeros((1, 1)))
        elif isinstance(function, RowSums):
            self._layers.append(function.whole(self._total, self._rows))
        else:
            self._layers.append(function(np.concatenate(self._kept, axis=1)))

    def finish(self) -> list[FloatArray]:
        """Return the distances ``(H, H)`` of each layer, and be ready for another text.

        Raises
        ------
        ValueError
            If no layer has two heads.
        """
        self._complete()
        layers, self._layers, self._current, self._rows = self._layers, [], -1, 0
        self._kept = []
        check_several(max(map(len, layers), default=0), self._row.of)
        return layers


class SlabStatistics:
    """Statistics of the heads of each layer on one text.

    Parameters
    ----------
    names : sequence of str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._functions = [STATISTICS[name].function for name in names]
        self._names = list(names)
        self._sums: dict[int, FloatArray] = {}  # by layer, (S, H)
        self._rows: dict[int, int] = {}

    def take(self, layer: int, heads: Heads) -> None:
        """Take in some rows of a layer."""
        rows = heads.maps.shape[1]
        values = np.stack([function(heads) for function in self._functions])
        self._sums[layer] = self._sums.get(layer, 0.0) + rows * values
        self._rows[layer] = self._rows.get(layer, 0) + rows

    def finish(self) -> dict[str, FloatArray]:
        """Return values ``(L, H)`` by name, and be ready for another text.

        H is the largest number of heads; a layer with fewer has NaN in the places of the others.
        """
        layers = [self._sums[layer] / self._rows[layer] for layer in sorted(self._sums)]
        self._sums, self._rows = {}, {}
        return dict(zip(self._names, np.stack(padded(layers), axis=1), strict=True))


def padded(layers: Sequence[FloatArray]) -> list[FloatArray]:
    """Return arrays ``(..., H)`` of one shape, with NaN in place of heads that a layer lacks."""
    most = max(layer.shape[-1] for layer in layers)
    if all(layer.shape[-1] == most for layer in layers):
        return list(layers)
    wide = [np.full((*layer.shape[:-1], most), np.nan) for layer in layers]
    for filled, layer in zip(wide, layers, strict=True):
        filled[..., : layer.shape[-1]] = layer
    return wide
