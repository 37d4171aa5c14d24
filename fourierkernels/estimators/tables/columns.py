"""Read columns of a table from a file, and split them into groups of numbers."""

import csv
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.extras import require
from fourierkernels.foundation.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

_DELIMITERS = ",;\t|"
_START = 2**16  # bytes that are looked at to tell a table from another file


def read_columns(path: Path | str, columns: Sequence[str]) -> "pd.DataFrame":
    """Read some columns of a CSV or Parquet file.

    Only these are kept in memory, 8 bytes per number, whatever else is in the file. Columns of CSV
    may be separated by commas, semicolons, tabs or bars, whichever the first line has most of; the
    decimal mark is a point.

    Parameters
    ----------
    path : str or path
        ``.parquet`` and ``.pq`` are Parquet, for which pyarrow is needed; all else is CSV.
    columns : sequence of str

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is no table, its lines differ in length, or it lacks a column.
    ImportError
        If pandas, or pyarrow for Parquet, is missing.
    """
    file = Path(path)
    require("pandas", "a table")
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise FileNotFoundError(f"data must be a file, got {file}, which {what}")
    read = _read_parquet if file.suffix.lower() in {".parquet", ".pq"} else _read_csv
    return read(file, list(dict.fromkeys(columns)))


def check_columns(known: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse columns that are not there, with those that are near in name.

    Raises
    ------
    ValueError
    """
    for name in wanted:
        if name in known:
            continue
        by_case = {str(each).casefold(): str(each) for each in known}
        near = [by_case[each] for each in get_close_matches(name.casefold(), by_case, n=3)]
        others = near or [str(each) for each in known[:8]]
        which = "did you mean" if near else "the first are"
        raise ValueError(
            f"column must be one of the {len(known)} of the table, got {name!r}; "
            f"{which} {', '.join(map(repr, others))}"
        )


def _read_csv(file: Path, columns: list[str]) -> "pd.DataFrame":
    import pandas as pd

    first = _first_line(file)
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        check_columns(_header(file, delimiter), columns)
        frame: pd.DataFrame = pd.read_csv(
            file,
            sep=delimiter,
            usecols=columns,
            index_col=False,
            encoding="utf-8-sig",
            skipinitialspace=True,
            low_memory=False,
        )
    except (pd.errors.ParserError, csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"data must be a table in UTF-8, got {file}: {error}") from error
    return frame[columns]


def _header(file: Path, delimiter: str) -> list[str]:
    """Return the names of the columns, if every line has as many fields and no name is twice.

    pandas, asked for some columns, would pass over lines whose fields are shifted.
    """
    with file.open(newline="", encoding="utf-8-sig") as content:
        lines = csv.reader(content, delimiter=delimiter, skipinitialspace=True, strict=True)
        names = next(lines)
        for line in lines:
            if line and len(line) != len(names):
                raise ValueError(
                    f"data must have {len(names)} fields in every line, as its header, "
                    f"got {len(line)} in line {lines.line_num} of {file}"
                )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(f"data must name each column once, got {twice[0]!r} twice in {file}")
    return names


def _first_line(file: Path) -> str:
    with file.open("rb") as content:
        start = content.read(_START)
    if not start.strip():
        raise ValueError(f"data must be a table with a header, got the empty file {file}")
    if b"\0" in start:
        raise ValueError(f"data must be a table as text or Parquet, got the binary file {file}")
    return start.decode("utf-8", errors="replace").splitlines()[0]


def _read_parquet(file: Path, columns: list[str]) -> "pd.DataFrame":
    import pandas as pd

    require("pyarrow", "a Parquet file")
    from pyarrow import ArrowInvalid, parquet

    try:
        check_columns(parquet.read_schema(file).names, columns)
        return pd.read_parquet(file, columns=columns)[columns]
    except ArrowInvalid as error:
        raise ValueError(f"data must be a Parquet file by its name, got {file}: {error}") from error


MISSING = ["drop", "refuse"]


class Group(NamedTuple):
    """Rows of a table that share a value of the grouping column.

    Attributes
    ----------
    name : str
        That value; empty if there is no grouping.
    values : array of shape (n, k)
        The columns asked for, in rows where none is missing.
    dropped : int
        Rows in which some value is missing.
    """

    name: str
    values: FloatArray
    dropped: int


def groups_of(
    frame: "pd.DataFrame", columns: Sequence[str], by: str | None, *, missing: str
) -> list[Group]:
    """Return the rows by group, in the order of the groups' values; one group without `by`.

    Raises
    ------
    TypeError, ValueError
        For no table, an unknown column, text or dates among numbers, infinite values, missing
        values that are refused, a table or a group without a complete row.
    """
    check_choice("missing", missing, MISSING)
    if not hasattr(frame, "columns"):
        raise TypeError(f"frame must be a pandas DataFrame, got {type(frame).__name__}")
    check_columns(list(frame.columns), [*columns, *([] if by is None else [by])])
    if not len(frame):
        raise ValueError(f"the table must have rows, got none below {', '.join(frame.columns)}")
    values = np.column_stack([_numbers(frame[name], name) for name in columns])
    groups = [
        Group(name, rows[~np.isnan(rows).any(axis=1)], int(np.isnan(rows).any(axis=1).sum()))
        for name, rows in _split(frame, values, by)
    ]
    for group in groups:
        _check(group, columns, by, missing)
    return groups


def _split(
    frame: "pd.DataFrame", values: FloatArray, by: str | None
) -> Iterator[tuple[str, FloatArray]]:
    if by is None:
        yield "", values
        return
    if frame[by].isna().all():
        raise ValueError(f"column {by!r} must name groups, got missing values alone")
    for name, places in frame.groupby(by, observed=True, dropna=True).indices.items():
        yield str(name), values[places]


def _numbers(column: "pd.Series", name: str) -> FloatArray:
    """Return a column as float64, NaN where a value is missing."""
    import pandas as pd

    if getattr(column, "ndim", 1) != 1:
        raise ValueError(f"column {name!r} must be there once, got it {column.shape[1]} times")
    if column.dtype.kind in "mMc":
        raise TypeError(f"column {name!r} must be numeric, got {column.dtype} data")
    numbers = pd.to_numeric(column, errors="coerce")
    lost = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    if len(lost):
        raise TypeError(
            f"column {name!r} must be numeric, got {str(column.iloc[lost[0]])!r} in row "
            f"{lost[0] + 1} ({len(lost)} such value{'s' if len(lost) > 1 else ''})"
        )
    array = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    endless = np.flatnonzero(np.isinf(array))
    if len(endless):
        raise ValueError(
            f"column {name!r} must be finite, got {array[endless[0]]} in row {endless[0] + 1}"
        )
    return np.asarray(array)


def _check(group: Group, columns: Sequence[str], by: str | None, missing: str) -> None:
    where = "" if by is None else f" in group {group.name!r} of {by!r}"
    what = " and ".join(map(repr, columns))
    if group.dropped and missing == "refuse":
        raise ValueError(f"{what} must not be missing, got {group.dropped} rows without{where}")
    if not len(group.values):
        raise ValueError(f"{what} must have values, got none{where}")
