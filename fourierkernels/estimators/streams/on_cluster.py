"""Samples in a Dask array or data frame: parts on whatever scheduler is active.

What travels is what a pass makes of a chunk, modes or counts, never samples. Dask computes what a
worker that dies has lost on another one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from fourierkernels.estimators.streams.blocks import (
    Block,
    Expected,
    Layout,
    Place,
    RawBlock,
    checked,
    regrouped,
)
from fourierkernels.estimators.streams.frames import Columns, check_columns
from fourierkernels.estimators.streams.sources import ROWS, not_empty

T = TypeVar("T")
_BRANCHES = 8  # of the tree in which parts are merged


@dataclass
class DaskSource:
    """Samples in chunks that workers read.

    Attributes
    ----------
    chunks : list of lists of delayed objects
        Of each chunk, what `assemble` makes a block of.
    assemble : callable
        Those objects, computed, to a :class:`RawBlock`.
    firsts : list of int or None
        Row at which each chunk starts, where that is known.
    layout : Layout or None
    """

    chunks: list[list[Any]]
    assemble: Callable[..., RawBlock]
    firsts: list[int | None]
    layout: Layout | None = None
    once: bool = field(default=False, init=False)

    def columns(self) -> int | None:
        """Return the number of columns of the first chunk that has rows."""
        import dask

        blocks = (self.assemble(*dask.compute(*chunk)).points for chunk in self.chunks)
        return next((int(np.shape(points)[-1]) for points in blocks if len(points)), None)

    def reduce(
        self,
        function: Callable[[Block], T],
        merge: Callable[[T, T], T],
        expected: Expected,
        *,
        label: str,
        rows: int = ROWS,
    ) -> T:
        """Compute a part per chunk and merge parts as a tree."""
        import dask

        work = _Pass(function, merge, expected, self.layout, self.assemble, rows)
        on_part, on_merge = dask.delayed(work.part), dask.delayed(work.merged)
        places = [Place(number, first) for number, first in enumerate(self.firsts)]
        parts = [on_part(place, *chunk) for place, chunk in zip(places, self.chunks, strict=True)]
        while len(parts) > 1:
            cuts = range(0, len(parts), _BRANCHES)
            parts = [on_merge(parts[i : i + _BRANCHES]) for i in cuts]
        combined: tuple[T | None, Layout | None]
        combined = dask.compute(*parts)[0] if parts else (None, None)
        self.layout = combined[1]
        total: T = not_empty(combined[0])
        return total


@dataclass(frozen=True)
class _Pass:
    """Task of a worker: small, except for what `function` holds."""

    function: Callable[[Block], Any]
    merge: Callable[[Any, Any], Any]
    expected: Expected
    layout: Layout | None
    assemble: Callable[..., RawBlock]
    rows: int

    def part(self, place: Place, *objects: Any) -> tuple[Any, Layout | None]:
        """Return what a chunk comes to, and its layout; of an empty one None."""
        raw = self.assemble(*objects)
        if not len(raw.points):
            return None, self.layout
        block, layout = checked(raw, place, self.expected, self.layout)
        parts = [self.function(piece) for piece in regrouped([block], self.rows)]
        return (reduce(self.merge, parts) if parts else None), layout

    def merged(self, parts: list[tuple[Any, Layout | None]]) -> tuple[Any, Layout | None]:
        """Return the parts of several chunks as one."""
        layouts = [layout for _, layout in parts if layout is not None]
        if len(set(layouts)) > 1:
            raise ValueError(
                f"X and y must have as many columns in every chunk, got {set(layouts)}"
            )
        full = [part for part, _ in parts if part is not None]
        layout = reduce(lambda one, other: one.named(other.names), layouts) if layouts else None
        return (reduce(self.merge, full) if full else None), layout


def is_dask(value: object) -> bool:
    """Return whether an object is a Dask collection."""
    return hasattr(value, "__dask_graph__") and type(value).__module__.startswith("dask")


def dask_source(points: Any, responses: Any = None, weights: Any = None) -> DaskSource:
    """Return the source of Dask arrays, or of a data frame whose columns are all points.

    Raises
    ------
    ValueError
        If they are cut into different numbers of chunks, one is no Dask collection, or has more
        than two dimensions.
    """
    members = [_chunks(array) for array in (points, responses, weights) if array is not None]
    counts = {len(chunks) for chunks in members}
    if len(counts) > 1:
        raise ValueError(
            "X, y and sample_weight must have the same chunks along the samples, got "
            f"{sorted(counts)} of them"
        )
    given = [array is not None for array in (points, responses, weights)]
    chunks = [list(together) for together in zip(*members, strict=True)]
    return DaskSource(chunks, _Assembled(given), _firsts(points, len(chunks)))


def dask_table(table: Any, columns: Columns) -> DaskSource:
    """Return the source of some columns of a Dask data frame."""
    check_columns(columns, list(table.columns), "the data frame")
    chunks = [[part] for part in table[columns.names].to_delayed()]
    return DaskSource(chunks, columns.of, [None] * len(chunks))


@dataclass(frozen=True)
class _Assembled:
    """Puts the arrays of a chunk, or a data frame of points, in their places."""

    given: list[bool]

    def __call__(self, *arrays: Any) -> RawBlock:
        left = iter(arrays)
        return RawBlock(*(next(left) if given else None for given in self.given))


def _chunks(array: Any) -> list[Any]:
    """Return delayed chunks along the samples."""
    if not is_dask(array) or array.ndim > 2:
        raise ValueError(
            "X, y and sample_weight must all be Dask collections of at most two dimensions, got "
            f"{type(array).__name__} of shape {np.shape(array)}"
        )
    if hasattr(array, "rechunk") and array.ndim == 2:
        array = array.rechunk({1: -1})
    return list(np.ravel(np.array(array.to_delayed(), dtype=object)))


def _firsts(points: Any, count: int) -> list[int | None]:
    lengths = points.chunks[0] if hasattr(points, "chunks") else [np.nan]
    if np.isnan(lengths).any():
        return [None] * count
    return [int(first) for first in np.cumsum([0, *lengths[:-1]])]
