"""Blocks of a stream, checked one by one and cut to one size; errors give their place."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import as_real

LARGEST_DIM = 3
HEAVIEST = 1e290  # a sum of any number of them is finite


class RawBlock(NamedTuple):
    """Samples as they are read: points, responses or None, weights or None for 1 each."""

    points: Any
    responses: Any = None
    weights: Any = None


class Block(NamedTuple):
    """Checked samples of positive weight.

    Attributes
    ----------
    points : array of shape (m, dim)
    responses : array of shape (m, k)
    weights : array of shape (m,)
    """

    points: FloatArray
    responses: FloatArray
    weights: FloatArray

    def rows(self, start: int, stop: int) -> "Block":
        """Return some of the samples."""
        return Block(*(array[start:stop] for array in self))


@dataclass(frozen=True)
class Place:
    """Position of a block, both numbers from 0.

    Attributes
    ----------
    block : int
    first : int or None
        Row of the stream at which it starts, where that is known.
    """

    block: int
    first: int | None

    def of(self, row: int, column: int | None = None) -> str:
        """Return the place of a row, in words."""
        where = f"in block {self.block}, row {row}"
        where += "" if column is None else f", column {column}"
        return where if self.first is None else f"{where} (row {self.first + row} of the stream)"


@dataclass(frozen=True)
class Layout:
    """Layout common to all blocks.

    Attributes
    ----------
    dim : int
    outputs : tuple of int or None
        Shape of one response, ``()`` or ``(k,)``; None for a density.
    names : tuple of str or None
        Of the columns, if they are those of a data frame; no part of what must be equal.
    """

    dim: int
    outputs: tuple[int, ...] | None
    names: tuple[str, ...] | None = field(default=None, compare=False)

    def named(self, names: tuple[str, ...] | None) -> "Layout":
        """Return the layout with the names of further samples, if it has none.

        Raises
        ------
        ValueError
            If columns have other names, or another order.
        """
        if names is None or self.names is None:
            return replace(self, names=self.names or names)
        if names != self.names:
            raise ValueError(f"X must have the columns {self.names} as before, got {names}")
        return self


@dataclass(frozen=True)
class Expected:
    """Requirements for a block.

    Attributes
    ----------
    regression : bool
        Whether it must have responses; a density ignores them.
    limits : array of shape (2, dim), optional
        Where samples must lie.
    name : str
        What set those limits.
    """

    regression: bool
    limits: FloatArray | None = None
    name: str = "within"


def checked(
    raw: RawBlock, place: Place, expected: Expected, layout: Layout | None
) -> tuple[Block, Layout]:
    """Return a block as arrays, samples without weight left out, and its layout.

    Raises
    ------
    ValueError, TypeError
        With block, row and value: for what is not finite, negative weights, samples beyond the
        limits, lengths that differ, or another layout than that of earlier blocks.
    """
    with _located(place):
        if raw.responses is not None and not expected.regression:
            raise ValueError("a block of a density must be X or (X, None, weights), got (X, y)")
        if raw.responses is None and expected.regression:
            raise ValueError("a block of a regression must be (X, y) or (X, y, weights), got X")
        points = as_real("X", raw.points)
        responses = as_real("y", raw.responses) if expected.regression else np.zeros(len(points))
        weights = (
            np.ones(len(points)) if raw.weights is None else as_real("sample_weight", raw.weights)
        )
        _check_shapes(points, responses, weights)
        seen = Layout(points.shape[1], responses.shape[1:] if expected.regression else None)
        _check_layout(seen, layout, expected)
        seen = (layout or seen).named(_names(raw.points))
    columns = responses.reshape(len(points), -1)[:, : None if expected.regression else 0]
    for name, array in (("X", points), ("y", columns)):
        _refuse(name, "finite", array, ~np.isfinite(array), place)
    if expected.limits is not None:
        low, high = expected.limits
        ends = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
        rule = f"in the range promised by {expected.name}, {ends}"
        _refuse("X", rule, points, (points < low) | (points > high), place)
    block = Block(points, np.ascontiguousarray(columns), weights)
    return (block if raw.weights is None else _weighted(block, place)), seen


def regrouped(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Yield the same samples in blocks of `rows` rows, the last shorter.

    However a stream was cut, what is summed is cut alike: sums agree to the last bit, and many
    short blocks cost no more than a few long ones. All are copies: whoever reads a stream may use
    one buffer for all of it, while earlier blocks are held here or computed with elsewhere.
    """
    held: list[Block] = []
    count = 0
    for block in blocks:
        start = 0
        while count + len(block.points) - start >= rows:
            stop = start + rows - count
            yield _joined([*held, block.rows(start, stop)])
            held, count, start = [], 0, stop
        if start < len(block.points):
            held.append(_joined([block.rows(start, len(block.points))]))
            count += len(block.points) - start
    if held:
        yield _joined(held) if len(held) > 1 else held[0]


def _joined(blocks: list[Block]) -> Block:
    """Return the samples of all blocks in memory of their own."""
    return Block(*(np.concatenate(arrays) for arrays in zip(*blocks, strict=True)))


def _weighted(block: Block, place: Place) -> Block:
    """Return a block whose weights are checked, without the samples that have none."""
    weights = block.weights[:, None]
    rules = {
        "finite": ~np.isfinite(weights),
        "non-negative": weights < 0,
        f"at most {HEAVIEST:g} in a stream": weights > HEAVIEST,
    }
    for rule, broken in rules.items():
        _refuse("sample_weight", rule, weights, broken, place)
    used = block.weights > 0
    return block if used.all() else Block(*(array[used] for array in block))


@contextmanager
def _located(place: Place) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in block {place.block}") from error


def _refuse(name: str, rule: str, array: FloatArray, bad: BoolArray, place: Place) -> None:
    if not bad.any():
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    where = place.of(row, column if name != "sample_weight" else None)
    raise ValueError(f"{name} must be {rule}, got {array[row, column]} {where}")


def _names(points: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, None if they are no texts."""
    names = tuple(getattr(points, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _check_shapes(points: FloatArray, responses: FloatArray, weights: FloatArray) -> None:
    if points.ndim != 2:
        raise ValueError(
            f"X must be two-dimensional, (m, dim), got shape {points.shape}; "
            "one-dimensional data is a column: reshape(-1, 1)"
        )
    if not 1 <= points.shape[1] <= LARGEST_DIM:
        raise ValueError(
            f"X must have 1 to {LARGEST_DIM} columns in a stream, whose sums are band-limited, "
            f"got {points.shape[1]}; np.asarray(X) is fitted in memory"
        )
    if responses.ndim not in {1, 2} or len(responses) != len(points):
        raise ValueError(f"y must have one row per sample, {len(points)}, got {responses.shape}")
    if weights.shape != (len(points),):
        raise ValueError(f"sample_weight must have shape ({len(points)},), got {weights.shape}")


def _check_layout(seen: Layout, layout: Layout | None, expected: Expected) -> None:
    dim = seen.dim if expected.limits is None else expected.limits.shape[1]
    if seen.dim != dim:
        raise ValueError(f"{expected.name} must have a pair per column of X, {seen.dim}, got {dim}")
    if layout is None or seen == layout:
        return
    if seen.dim != layout.dim:
        raise ValueError(f"X must have {layout.dim} columns as in block 0, got {seen.dim}")
    raise ValueError(
        f"y must have rows of shape {layout.outputs} as in block 0, got {seen.outputs}"
    )
