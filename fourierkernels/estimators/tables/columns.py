"""Numbers of a table, by group, with what is missing dropped or refused."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourierkernels.estimators.tables.files import check_columns
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

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
    found = [
        Group(name, rows[~np.isnan(rows).any(axis=1)], int(np.isnan(rows).any(axis=1).sum()))
        for name, rows in _split(frame, values, by)
    ]
    for group in found:
        _check(group, columns, by, missing)
    return found


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
