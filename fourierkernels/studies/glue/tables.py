"""Tables of tabs as GLUE distributes them: no quotes, sometimes no header, sometimes broken rows.

A quotation mark is a character like any other, and a row ends where its line does. A row of another
number of fields than the header's is left out and counted; a file with many of them is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.studies.glue.tasks import Task
from fourierkernels.studies.texts.source import text_lines

_BROKEN = 0.01  # share of broken rows that is taken for carelessness, and not for another file
_BYTE_ORDER_MARK = "\ufeff"
_NO_LABEL = "-1"


@dataclass(frozen=True)
class Row:
    """The texts of a row, and its label where it has one."""

    texts: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class Rows:
    """The rows of a file, and how many broken ones were left out."""

    rows: list[Row]
    broken: int


def read_rows(path: Path, task: Task, *, labelled: bool = True) -> Rows:
    """Return the rows of a file of a task.

    Parameters
    ----------
    labelled : bool
        Whether it has labels. A file that has none may lack their column, or have -1 in it, and
        always names its columns.

    Raises
    ------
    ValueError
        If a column is missing, a label is none of the task's, the file has no rows or many broken
        ones, or is no UTF-8.
    """
    lines = _fields(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path} must have rows, got an empty file")
    named = task.header is None or not labelled
    header = first if named or task.header is None else list(task.header)
    wanted = (*task.texts, *([task.label] if labelled else []))
    places = _places(path, header, wanted)
    found, broken = [], 0
    rest = lines if named else _again(first, lines)
    for number, fields in enumerate(rest, start=1 + named):
        if len(fields) != len(header):
            broken += 1
            continue
        values = [fields[place].strip() for place in places]
        label = _label(path, number, task, values.pop()) if labelled else None
        found.append(Row(tuple(values), label))
    if not found or broken > max(_BROKEN * len(found), 1):
        raise ValueError(
            f"{path} must have rows of {len(header)} fields ({', '.join(header)}), "
            f"got {len(found)} of them and {broken} of other lengths"
        )
    return Rows(found, broken)


def _fields(path: Path) -> Iterator[list[str]]:
    for line in text_lines(path):
        yield line.rstrip("\r\n").replace(_BYTE_ORDER_MARK, "").split("\t")


def _again(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _places(path: Path, header: Sequence[str], wanted: Sequence[str]) -> list[int]:
    missing = [name for name in wanted if name not in header]
    if missing:
        raise ValueError(
            f"{path} must have the columns {', '.join(wanted)}, got {', '.join(header)[:200]}"
        )
    return [list(header).index(name) for name in wanted]


def _label(path: Path, number: int, task: Task, label: str) -> str:
    """Return a label that the task has, or a number where it asks for one."""
    if task.labels == ():
        try:
            right = -1e6 < float(label) < 1e6
        except ValueError:
            right = False
        rule = "a number"
    elif task.labels is None:
        right, rule = label not in ("", _NO_LABEL), "given"
    else:
        right, rule = label in task.labels, f"one of {', '.join(task.labels)}"
    if not right:
        raise ValueError(f"{task.label} of {path} must be {rule}, got {label!r} in line {number}")
    return label
