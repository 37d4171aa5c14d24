"""One measurement of the benchmark, and the files that keep them."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

# Outcomes that the same command would find again; others are measured again by the next run.
FINAL = ("ok", "out of memory", "too large", "not for causal")

Key = tuple[str, bool, str, str]


@dataclass(frozen=True)
class Line:
    """One measurement.

    Attributes
    ----------
    status : str
        "ok"; "out of memory"; "too large", if its arrays would not fit; "not for causal"; "no time
        left"; or "failed", with the error as note.
    milliseconds, quartile_low, quartile_high : float
        Of one call; NaN unless ok. Backward alone, its forward left out.
    floor, of_floor : float
        :func:`fourierkernels.cli.card.floor.floor_ms` in milliseconds, and the time over it.
    peak_bytes : int
        Of all tensors, inputs included; 0 on a CPU.
    error : float
        Relative error of the output of some queries against float64; NaN for another formula.
    """

    shape: str
    batch: int
    heads: int
    n: int
    dim: int
    causal: bool
    contender: str
    direction: str
    status: str = ""
    milliseconds: float = math.nan
    quartile_low: float = math.nan
    quartile_high: float = math.nan
    runs: int = 0
    floor: float = math.nan
    of_floor: float = math.nan
    peak_bytes: int = 0
    error: float = math.nan
    note: str = ""

    @property
    def key(self) -> Key:
        """What tells it from the others of a run."""
        return self.shape, self.causal, self.contender, self.direction


class Results:
    """A table that grows line by line, and its provenance beside it as JSON.

    Parameters
    ----------
    path : Path
        The CSV. Lines of an earlier run are kept unless they failed.
    record : mapping
        Provenance, the card and the software included.

    Raises
    ------
    ValueError
        If there are results of another card, other versions or other CUDA sources.
    """

    def __init__(self, path: Path, record: Mapping[str, Any]) -> None:
        self._path, beside = path, path.with_suffix(".json")
        if path.exists() and beside.exists():
            _check_same(path, json.loads(beside.read_text(encoding="utf-8")), record)
        self.lines = [line for line in _read(path) if line.status in FINAL]
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        beside.write_text(text, encoding="utf-8")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([field.name for field in fields(Line)])
            writer.writerows([_cells(line) for line in self.lines])

    def add(self, line: Line) -> None:
        """Append a line, so that what is measured outlives whatever ends the run."""
        self.lines.append(line)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(_cells(line))


def _cells(line: Line) -> list[object]:
    """Return the cells of a line; what was not measured is empty."""
    values = asdict(line).values()
    return ["" if isinstance(v, float) and math.isnan(v) else v for v in values]


def _read(path: Path) -> Sequence[Line]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [_line(row) for row in csv.DictReader(file)]


def _line(row: Mapping[str, str]) -> Line:
    parse: dict[Any, Any] = {
        str: str,
        int: int,
        bool: lambda text: text == "True",
        float: lambda text: float(text or "nan"),
    }
    return Line(**{field.name: parse[field.type](row[field.name]) for field in fields(Line)})


def _check_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in ("card", "sources", "versions"):
        if before.get(name) != now.get(name):
            raise ValueError(
                f"output must be new, or results of the same card, sources and versions to be "
                f"continued; got {path} with another {name}: {before.get(name)}"
            )
