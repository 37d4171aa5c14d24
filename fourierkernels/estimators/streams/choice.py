"""Choice of the source for a given object: blocks, files, memory maps, Dask collections."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.estimators.streams.blocks import LARGEST_DIM, RawBlock
from fourierkernels.estimators.streams.frames import Columns, check_columns, table_of
from fourierkernels.estimators.streams.on_cluster import (
    DaskSource,
    dask_source,
    dask_table,
    is_dask,
)
from fourierkernels.estimators.streams.sources import LocalSource, Source, blocks_of, rows_of
from fourierkernels.foundation.validation import check_integer

_ROWS = 2**18  # of a block of a table
# Numbers of a memory map that is read block by block, 1 GiB of float64: smaller ones are arrays, as
# joblib hands an array of a megabyte to its workers as a memory map.
MAPPED_AS_STREAM = 2**27


def samples_from(
    data: object,
    *,
    columns: Sequence[Any] | None = None,
    responses: Any = None,
    weights: Any = None,
    block: int = _ROWS,
) -> Source:
    """Return samples to be read block by block, for `fit` of density and regression.

    Parameters
    ----------
    data : path, memory map, Dask data frame, callable or iterable
        A ``.csv`` or ``.parquet`` file (with pandas; with pyarrow), a ``.npy`` file, a Dask data
        frame, a function that returns the blocks anew at each call, or an iterable over blocks. A
        block is an array ``(m, dim)``, or a tuple (X, y) or (X, y, weights), None for what a
        density does not have.
    columns : sequence
        Of a table, the names of the columns of X; of a ``.npy`` file their numbers, all by default.
    responses : name, or sequence of names, optional
        The column y, whose responses are numbers then, or several columns.
    weights : name, optional
    block : int
        Rows read at once from a file.

    Raises
    ------
    ValueError, TypeError, ImportError
        For columns of a table that are not named or not there, columns of blocks, an unknown kind
        of file, or a package that is missing.

    Examples
    --------
    >>> from fourierkernels import KernelDensity
    >>> blocks = lambda: (np.linspace(k, k + 1, 50)[:, None] for k in range(4))
    >>> model = KernelDensity("gaussian", radius=2.0).fit(samples_from(blocks))
    >>> print(model.density([[2.0]]).round(3))
    [0.25]
    """
    rows = check_integer("block", block)
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of names, got {columns!r}")
    several = isinstance(responses, list | tuple)
    named = Columns(tuple(columns or ()), tuple(responses) if several else responses, weights)
    if isinstance(data, str | os.PathLike):
        return _file(Path(data), named, rows)
    if is_dask(data) and hasattr(data, "columns"):
        return dask_table(data, named if columns else named._replace(points=tuple(data.columns)))
    if named.names:
        raise TypeError(f"columns must be named of a table or file only, got {type(data).__name__}")
    if is_dask(data):
        return dask_source(data)
    return _of_blocks(data, rows)


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> Source | None:
    """Return the source of what is fitted as a stream; None for data in memory.

    Streams are what :func:`samples_from` returns, paths of ``.npy`` files, iterators, lists of
    blocks, Dask collections, and memory maps of at least 2^27 numbers in at most three columns.

    Raises
    ------
    TypeError
        For responses or weights beside blocks, which must have their own.
    """
    if is_dask(X):
        return dask_source(X, y, sample_weight)
    if _is_mapped(X) or _is_array_file(X):
        return rows_of(X, y, sample_weight, block=_ROWS)
    blocks = _as_blocks(X)
    if blocks is not None and not (y is None and sample_weight is None):
        raise TypeError(
            "y and sample_weight must be None beside a stream, whose blocks have their own: "
            "(X, y, weights)"
        )
    return blocks


def stream_of(X: Any, y: Any = None, sample_weight: Any = None) -> Source:
    """Return the source of a stream, or of arrays as its only block."""
    source = as_source(X, y, sample_weight)
    return source or LocalSource(lambda: iter([RawBlock(X, y, sample_weight)]))


def _as_blocks(X: Any) -> Source | None:
    if isinstance(X, LocalSource | DaskSource):
        return X
    if isinstance(X, str | os.PathLike) or callable(X):
        return samples_from(X)
    if isinstance(X, list | tuple):
        return blocks_of(lambda: X, once=False) if _holds_blocks(X) else None
    array_like = hasattr(X, "__array__") or hasattr(X, "__array_interface__") or hasattr(X, "shape")
    if array_like or not isinstance(X, Iterable) or hasattr(X, "__len__"):
        return None
    return samples_from(X)


def _holds_blocks(X: Sequence[Any]) -> bool:
    """Return whether a list is one of blocks, not of rows: arrays of two dimensions, or tuples."""
    if not len(X):
        return False
    first = X[0][0] if isinstance(X[0], tuple) and len(X[0]) else X[0]
    return np.ndim(first) == 2 if hasattr(first, "shape") else False


def _is_mapped(X: Any) -> bool:
    large = isinstance(X, np.memmap) and X.size >= MAPPED_AS_STREAM
    return large and X.ndim == 2 and X.shape[1] <= LARGEST_DIM


def _is_array_file(X: Any) -> bool:
    return isinstance(X, str | os.PathLike) and Path(X).suffix.lower() == ".npy"


def _of_blocks(data: Any, rows: int) -> LocalSource:
    """Return the source of what is, returns or yields blocks."""
    if isinstance(data, np.memmap):
        return rows_of(data, None, None, block=rows)
    if callable(data):
        return blocks_of(data, once=False)
    if not isinstance(data, Iterable):
        raise TypeError(f"data must be a path, a function or an iterable of blocks, got {data!r}")
    return blocks_of(lambda: data, once=iter(data) is data)


def _file(path: Path, columns: Columns, block: int) -> LocalSource:
    if path.suffix.lower() == ".npy":
        source = rows_of(path, None, None, block=block)
        return source if not columns.names else _picked(source, path, columns)
    if not columns.points:
        raise ValueError(
            f"columns must name those of X in {path.name}: samples_from(path, columns=[...])"
        )
    return table_of(path, columns, block=block)


def _picked(source: LocalSource, path: Path, columns: Columns) -> LocalSource:
    """Return the source of some columns of an array on disk."""
    known = range(np.load(path, mmap_mode="r", allow_pickle=False).shape[-1])
    points = columns.points or tuple(
        i for i in known if i not in Columns((), columns.responses, columns.weights).names
    )
    check_columns(columns._replace(points=points), known, path.name)

    def read() -> Iterator[RawBlock]:
        for raw in source.read():
            parts = (list(points), _index(columns.responses), columns.weights)
            yield RawBlock(*(None if part is None else raw.points[:, part] for part in parts))

    return LocalSource(read, length=source.length)


def _index(columns: Any) -> Any:
    return list(columns) if isinstance(columns, tuple) else columns
