"""Read columns of a table from a CSV or Parquet file."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourierkernels.estimators.tables.columns import check_columns
from fourierkernels.foundation.extras import require
from fourierkernels.foundation.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

_DELIMITERS = ",;\t|"
_MISSING = ["NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", ""]
_START = 2**16  # bytes that are looked at to tell a table from another file


class Marks(NamedTuple):
    """How numbers are written in CSV.

    Attributes
    ----------
    decimal : {".", ","}
    thousands : {"", ",", ".", " ", "'", "_"}
        What groups of three digits are separated by; nothing if empty.
    """

    decimal: str = "."
    thousands: str = ""

    def check(self) -> None:
        """Refuse other marks, or the same for both."""
        check_choice("decimal", self.decimal, [".", ","])
        check_choice("thousands", self.thousands, ["", ",", ".", " ", "'", "_"])
        if self.decimal == self.thousands:
            raise ValueError(f"thousands must not be the decimal mark, got {self.decimal!r} twice")

    def numbers(self, texts: "pd.Series") -> "pd.Series":
        """Return texts as numbers, NaN where nothing is written.

        A separator must have three digits after it, and one to three before the first: to drop
        them all would read 1,5 as 15.

        Raises
        ------
        TypeError
            For a text that is no number with these marks.
        """
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        whole = rf"\d{{1,3}}(?:{mark}\d{{3}})+|\d*" if mark else r"\d*"
        number = rf"[+-]?(?:{whole})(?:{point}\d*)?(?:[eE][+-]?\d+)?"
        wrong = np.flatnonzero(texts.notna() & ~texts.str.fullmatch(number).eq(True))
        if len(wrong):
            raise TypeError(
                f"column {texts.name!r} must have numbers with decimal mark {self.decimal!r} and "
                f"{self.thousands!r} between thousands, got {texts.iloc[wrong[0]]!r} in row "
                f"{wrong[0] + 1}"
            )
        plain = texts.str.replace(self.thousands, "", regex=False) if mark else texts
        return plain.str.replace(self.decimal, ".", regex=False)


AS_IN_PYTHON = Marks()


def read_columns(
    path: Path | str,
    columns: Sequence[str],
    *,
    by: str | None = None,
    texts: Sequence[str] = (),
    marks: Marks = AS_IN_PYTHON,
) -> "pd.DataFrame":
    """Read some columns of a CSV or Parquet file.

    Only these are kept in memory, 8 bytes per number, whatever else is in the file. Columns of CSV
    may be separated by commas, semicolons, tabs or bars, whichever the first line has most of
    outside quotes.

    Parameters
    ----------
    path : str or path
        ``.parquet`` and ``.pq`` are Parquet, for which pyarrow is needed; all else is CSV.
    columns : sequence of str
    by : str, optional
        One more column, of groups. In CSV its values are texts as they are written: "1", "01" and
        "NA" are three groups, and a row has none only where nothing is written.
    texts : sequence of str
        More columns of such texts.
    marks : Marks
        Of numbers in CSV.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is no table, its lines differ in length, it lacks a column, or
        there are no such marks.
    ImportError
        If pandas, or pyarrow for Parquet, is missing.
    """
    file = Path(path)
    require("pandas", "a table")
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise FileNotFoundError(f"data must be a file, got {file}, which {what}")
    marks.check()
    names = list(dict.fromkeys([*columns, *([] if by is None else [by]), *texts]))
    if file.suffix.lower() in {".parquet", ".pq"}:
        return _read_parquet(file, names)
    numbers = dict.fromkeys(columns if marks != AS_IN_PYTHON else ())  # pandas reads the others
    frame = _read_csv(
        file, names, texts={*numbers, *[name for name in names if name not in columns]}
    )
    for name in numbers:
        frame[name] = marks.numbers(frame[name].mask(frame[name].isin(_MISSING)))
    return frame


def _read_csv(file: Path, columns: list[str], *, texts: set[str]) -> "pd.DataFrame":
    """Return the columns, some of them as they are written; nothing is written where one is NaN."""
    import pandas as pd

    header = re.sub('"[^"]*"', "", _first_line(file))
    delimiter = max(_DELIMITERS, key=header.count) if any(map(header.count, _DELIMITERS)) else "\t"
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
            dtype=dict.fromkeys(texts, str),
            keep_default_na=False,
            na_values={name: [""] if name in texts else _MISSING for name in columns},
        )
    except (pd.errors.ParserError, csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"data must be a table in UTF-8, got {file}: {error}") from error
    for name in texts & {*columns}:
        frame[name] = frame[name].str.strip().mask(frame[name].str.strip() == "")
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
