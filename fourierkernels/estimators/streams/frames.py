"""CSV and Parquet tables, read by the names of their columns."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fourierkernels.estimators.streams.blocks import RawBlock
from fourierkernels.estimators.streams.sources import LocalSource
from fourierkernels.foundation.extras import require


class Columns(NamedTuple):
    """Roles of columns, given by name or, in an array, by number.

    Attributes
    ----------
    points : tuple
    responses : hashable, tuple or None
        One column, whose response is a number, or several.
    weights : hashable or None
    """

    points: tuple[Any, ...]
    responses: Any = None
    weights: Any = None

    @property
    def names(self) -> list[Any]:
        """All that must be read, once each."""
        several = isinstance(self.responses, list | tuple)
        responses = self.responses if several else (self.responses,)
        given = [*self.points, *responses, self.weights]
        return list(dict.fromkeys(name for name in given if name is not None))

    def of(self, table: Any) -> RawBlock:
        """Return the block of a data frame."""
        responses = self.responses
        responses = list(responses) if isinstance(responses, tuple) else responses
        return RawBlock(
            _numbers(table[list(self.points)]),
            None if responses is None else _numbers(table[responses]),
            None if self.weights is None else _numbers(table[self.weights]),
        )


def check_columns(columns: Columns, known: Sequence[Any], where: str) -> None:
    """Refuse columns that are not there.

    Raises
    ------
    ValueError
    """
    missing = [name for name in columns.names if name not in known]
    if missing:
        has = ", ".join(map(str, known))
        raise ValueError(f"columns must be in {where}, which has {has}, got {missing[0]!r}")


def table_of(path: Path, columns: Columns, *, block: int) -> LocalSource:
    """Return the source of a table on disk, by the ending of its name.

    Raises
    ------
    ValueError
        If no table is known by that ending.
    ImportError
        If the package that reads it is missing.
    """
    row = READERS.get(path.suffix.lower())
    if row is None:
        known = ", ".join((".npy", *READERS))
        raise ValueError(f"a path of samples must end in one of {known}, got {str(path)!r}")
    require(row.package, f"a {path.suffix} file")
    return LocalSource(lambda: row.blocks(path, columns, block))


def _csv_blocks(path: Path, columns: Columns, block: int) -> Iterator[RawBlock]:
    import pandas as pd

    check_columns(columns, list(pd.read_csv(path, nrows=0).columns), str(path))
    with pd.read_csv(path, usecols=columns.names, chunksize=block) as reader:
        for table in reader:
            yield columns.of(table)


def _parquet_blocks(path: Path, columns: Columns, block: int) -> Iterator[RawBlock]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        check_columns(columns, file.schema_arrow.names, str(path))
        for batch in file.iter_batches(block, columns=columns.names):
            yield columns.of(batch.to_pandas())


def _numbers(table: Any) -> Any:
    """Return a data frame or series as an array; missing values are NaN."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    named = {table.name: table} if table.ndim == 1 else {name: table[name] for name in table}
    for name, column in named.items():
        if not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
            raise TypeError(f"columns must be numeric, got {column.dtype} data in {name!r}")
    return table.to_numpy(dtype=np.float64, na_value=np.nan)


class Reader(NamedTuple):
    """Reader for one kind of table.

    Attributes
    ----------
    package : str
        That must be installed.
    blocks : callable
        (path, columns, rows of a block) to the blocks.
    """

    package: str
    blocks: Callable[[Path, Columns, int], Iterator[RawBlock]]


#: By the ending of the file's name.
READERS: dict[str, Reader] = {
    ".csv": Reader("pandas", _csv_blocks),
    ".parquet": Reader("pyarrow", _parquet_blocks),
}
