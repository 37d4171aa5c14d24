"""Split columns of a table into groups of numbers."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

MISSING = ["drop", "refuse"]


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


def check_distinct(names: Sequence[str]) -> None:
    """Refuse names of written columns of which one would replace another.

    Raises
    ------
    ValueError
    """
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"columns of curves must have different names, got {twice[0]!r} twice among "
            f"{', '.join(names)}: rename that of the table"
        )


def check_variables(x: Sequence[str], y: str | None) -> None:
    """Refuse a column that is named twice among those of a design and its response.

    Raises
    ------
    ValueError
    """
    if not x or len({*x, y}) <= len(x):
        raise ValueError(f"x and y must be different columns, each once, got {list(x)} and {y!r}")


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
    values = numbers_of(frame, columns, also=[] if by is None else [by])
    groups = [
        Group(name, rows[~np.isnan(rows).any(axis=1)], int(np.isnan(rows).any(axis=1).sum()))
        for name, rows in _split(frame, values, by)
    ]
    for group in groups:
        _check(group, columns, by, missing)
    return groups


def numbers_of(
    frame: "pd.DataFrame", columns: Sequence[str], *, also: Sequence[str] = ()
) -> FloatArray:
    """Return columns of a table as numbers, ``(n, k)``, NaN where a value is missing.

    Raises
    ------
    TypeError, ValueError
        For no table, an unknown column (of those named `also` too), text or dates among numbers,
        infinite values, a table without rows.
    """
    if not hasattr(frame, "columns"):
        raise TypeError(f"frame must be a pandas DataFrame, got {type(frame).__name__}")
    check_columns(list(frame.columns), [*columns, *also])
    if not len(frame):
        raise ValueError(f"the table must have rows, got none below {', '.join(frame.columns)}")
    return np.column_stack([_numbers(frame[name], name) for name in columns])


def check_missing(dropped: int, n: int, columns: Sequence[str], missing: str) -> None:
    """Refuse rows without a value if they are to be refused, and a table without others.

    Raises
    ------
    ValueError
    """
    what = " and ".join(map(repr, columns))
    if dropped and check_choice("missing", missing, MISSING) == "refuse":
        raise ValueError(f"{what} must not be missing, got {dropped} rows without")
    if dropped == n:
        raise ValueError(f"{what} must have values, got none")


def _split(
    frame: "pd.DataFrame", values: FloatArray, by: str | None
) -> Iterator[tuple[str, FloatArray]]:
    if by is None:
        yield "", values
        return
    if frame[by].isna().all():
        raise ValueError(f"column {by!r} must name groups, got missing values alone")
    groups = frame.groupby(by, observed=True, dropna=True).indices
    for name in _in_order(list(groups)):
        yield str(name), values[groups[name]]


def _in_order(names: list[Any]) -> list[Any]:
    """Return names of groups as they are sorted; texts that are all numbers by these."""
    try:
        return sorted(names, key=float) if all(isinstance(name, str) for name in names) else names
    except ValueError:
        return names


def _numbers(column: "pd.Series", name: str) -> FloatArray:
    """Return a column as float64, NaN where a value is missing."""
    import pandas as pd

    if getattr(column, "ndim", 1) != 1:
        raise ValueError(f"column {name!r} must be there once, got it {column.shape[1]} times")
    numbers = pd.to_numeric(column, errors="coerce")  # objects may be complex
    for dtype in (column.dtype, numbers.dtype):
        if dtype.kind in "mMc" or isinstance(dtype, pd.PeriodDtype):
            raise TypeError(f"column {name!r} must be numeric, got {dtype} data")
    lost = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    if len(lost):
        raise TypeError(
            f"column {name!r} must be numeric, got {str(column.iloc[lost[0]])!r} in row "
            f"{lost[0] + 1} ({len(lost)} such value{'s' if len(lost) > 1 else ''})"
            f"{_how_it_is_read(str(column.iloc[lost[0]]))}"
        )
    array = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    endless = np.flatnonzero(np.isinf(array))
    if len(endless):
        raise ValueError(
            f"column {name!r} must be finite, got {array[endless[0]]} in row {endless[0] + 1}"
        )
    return np.asarray(array)


def _how_it_is_read(text: str) -> str:
    """Return which option reads a text, if it is a number with other marks."""
    for mark, what in ((",", "--decimal ,"), (" ", "--thousands ' '"), ("'", '--thousands "\'"')):
        if re.fullmatch(rf"[+-]?\d+(?:{mark}\d+)+(?:[.]\d*)?", text.strip()):
            other = " or --thousands ," if mark == "," else ""
            return f"; {what}{other} reads other marks than a point"
    return ""


def _check(group: Group, columns: Sequence[str], by: str | None, missing: str) -> None:
    where = "" if by is None else f" in group {group.name!r} of {by!r}"
    what = " and ".join(map(repr, columns))
    if group.dropped and missing == "refuse":
        raise ValueError(f"{what} must not be missing, got {group.dropped} rows without{where}")
    if not len(group.values):
        raise ValueError(f"{what} must have values, got none{where}")
