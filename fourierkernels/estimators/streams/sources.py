"""Sources of samples: blocks, arrays on disk, and the pass over their parts."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
from fourierkernels.foundation.progress import bar

T = TypeVar("T")
ROWS = 2**20  # samples of a part


class Source(Protocol):
    """Samples that are read block by block.

    Attributes
    ----------
    once : bool
        Whether they can be read only once.
    layout : Layout or None
        Known after the first block.
    """

    once: bool
    layout: Layout | None

    def columns(self) -> int | None:
        """Return the number of columns of the first block; None where it can be read only once."""

    def reduce(
        self,
        function: Callable[[Block], T],
        merge: Callable[[T, T], T],
        expected: Expected,
        *,
        label: str,
        rows: int = ROWS,
    ) -> T:
        """Return `merge` over `function` of all parts, of about `rows` samples each.

        Raises
        ------
        ValueError, TypeError
            For a block that is not as expected, or no samples at all.
        """


@dataclass
class LocalSource:
    """Samples that this process reads.

    Attributes
    ----------
    read : callable
        Returns an iterator over blocks from the start.
    once : bool
    length : callable, optional
        Number of samples, if known beforehand; for the progress.
    """

    read: Callable[[], Iterator[RawBlock]]
    once: bool = False
    length: Callable[[], int | None] = lambda: None
    layout: Layout | None = field(default=None, init=False)

    def columns(self) -> int | None:
        """Return the number of columns of the first block that has rows."""
        blocks = (raw.points for raw in (() if self.once else self.read()) if _rows(raw.points))
        return next((int(np.shape(points)[-1]) for points in blocks), None)

    def reduce(
        self,
        function: Callable[[Block], T],
        merge: Callable[[T, T], T],
        expected: Expected,
        *,
        label: str,
        rows: int = ROWS,
    ) -> T:
        """Read in this thread, compute in others; parts are merged in order."""
        blocks = _tracked(self._checked(expected), label, self.length())
        total: T | None = None
        for part in _in_order(function, regrouped(blocks, rows), _threads()):
            total = part if total is None else merge(total, part)
        return not_empty(total)

    def _checked(self, expected: Expected) -> Iterator[Block]:
        first = 0
        for number, raw in enumerate(self.read()):
            rows = _rows(raw.points)
            if rows:
                place = Place(number, first)
                block, self.layout = checked(raw, place, expected, self.layout)
                yield block
            first += rows


def not_empty(total: T | None) -> T:
    """Return what a pass has found.

    Raises
    ------
    ValueError
        If there was nothing to read.
    """
    if total is None:
        raise ValueError(
            "X must have at least one sample of positive weight, got a stream without any"
        )
    return total


def blocks_of(read: Callable[[], Iterable[Any]], *, once: bool) -> LocalSource:
    """Return the source of blocks that a person's iterable yields."""
    return LocalSource(lambda: map(_as_raw, read()), once)


def rows_of(points: Any, responses: Any, weights: Any, *, block: int) -> LocalSource:
    """Return the source of arrays on disk, memory maps or paths of ``.npy`` files."""
    first = _OnDisk.of(points)
    others = [None if array is None else _OnDisk.of(array) for array in (responses, weights)]

    def read() -> Iterator[RawBlock]:
        lengths = {len(array) for array in (first, *others) if array is not None}
        if len(lengths) > 1:
            raise ValueError(f"X, y and sample_weight must be equally long, got {sorted(lengths)}")
        for start in range(0, max(lengths), block):
            rest = (None if each is None else each.rows(start, start + block) for each in others)
            yield RawBlock(first.rows(start, start + block), *rest)

    return LocalSource(read, length=lambda: len(first))


@dataclass
class _OnDisk:
    """Rows of an array: of a ``.npy`` file without mapping it, or of an array that is mapped.

    Mapped pages count as memory of the process although the system may take them back.
    """

    array: Any
    path: Path | None = None

    @classmethod
    def of(cls, value: Any) -> "_OnDisk":
        if isinstance(value, str | os.PathLike):
            path = Path(value)
            return cls(_mapped(path), path)
        return cls(value)

    def __len__(self) -> int:
        if self.path is not None:
            self.array = _mapped(self.path)  # the file may have grown
        return len(self.array)

    def rows(self, start: int, stop: int) -> Any:
        if self.path is None or not self.array.flags.c_contiguous:
            return self.array[start:stop]
        row = self.array.itemsize * int(np.prod(self.array.shape[1:]))
        count = min(stop, len(self.array)) - start
        values = np.fromfile(
            self.path,
            self.array.dtype,
            count * (row // self.array.itemsize),
            offset=self.array.offset + start * row,
        )
        return values.reshape(count, *self.array.shape[1:])


def _mapped(path: Path) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(
            f"X must be an array in the format of NumPy, got {path}: {error}"
        ) from error


def _as_raw(block: Any) -> RawBlock:
    """Return a block from an array, or from a tuple (X, y) or (X, y, weights)."""
    if not isinstance(block, tuple):
        return RawBlock(block)
    if not 1 <= len(block) <= 3:
        raise ValueError(f"a block must be X, (X, y) or (X, y, weights), got {len(block)} members")
    return RawBlock(*block)


def _rows(points: Any) -> int:
    """Return the length of a block; what has none is refused by the checks."""
    return len(points) if hasattr(points, "__len__") else 1


def _threads() -> int:
    """Return how many threads compiled loops may use here: parts of a pass take as many."""
    import numba

    return int(numba.get_num_threads())


def _in_order(function: Callable[[Block], T], blocks: Iterator[Block], threads: int) -> Iterator[T]:
    """Yield the function of each block in turn, computed ahead by threads."""
    if threads == 1:
        yield from map(function, blocks)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(function, block))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _tracked(blocks: Iterator[Block], label: str, length: int | None) -> Iterator[Block]:
    """Yield the blocks; a bar counts their samples."""
    done = 0
    with bar(label, length) as advance:
        for block in blocks:
            yield block
            done += len(block.points)
            advance(done)
