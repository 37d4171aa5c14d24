"""Files .ts of the UEA archive: a header of @tags, then one series and its class in each line.

A line has the channels of a series, separated by colons, and its label; a channel has its values,
separated by commas, "?" or NaN where one is missing. https://www.aeon-toolkit.org describes it.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.texts.source import text_lines

Values = NDArray[np.float32]
Line = tuple[int, str]
_COMMENTS = ("#", "%")
_CUT_OFF = "the file is cut off, or no .ts file"


@dataclass(frozen=True)
class TsFile:
    """The series of a file.

    Attributes
    ----------
    path : Path
        Where it lies.
    classes : tuple of str
        Labels that there may be, in the order of the header.
    series : list of ndarray, each (steps, channels)
        Values; NaN where one is missing.
    labels : ndarray, shape (n,)
        Place of each series' label among `classes`.
    """

    path: Path
    classes: tuple[str, ...]
    series: list[Values]
    labels: NDArray[np.int64]

    @property
    def channels(self) -> int:
        """Channels of every series."""
        return int(self.series[0].shape[1])


@dataclass(frozen=True)
class _Header:
    path: Path
    classes: tuple[str, ...]
    channels: int | None
    length: int | None


def read_ts(path: Path) -> TsFile:
    """Read a file line by line.

    Parameters
    ----------
    path : Path
        Ends in .ts, or .ts.gz.

    Raises
    ------
    ValueError
        If it has timestamps, no classes or no series, is cut off, or a line has another number of
        channels or steps than it should, a label that the header lacks, or a value that is no
        number, infinite or beyond single precision; the message names the line.
    """
    lines = _meaningful_lines(path)
    header = _read_header(path, lines)
    places = {label: place for place, label in enumerate(header.classes)}
    series: list[Values] = []
    labels: list[int] = []
    for number, line in lines:
        where = f"line {number} of {path}"
        channels = series[0].shape[1] if series else header.channels
        *parts, label = line.split(":")
        _check_count(where, len(parts), channels)
        if label.strip() not in places:
            known = ", ".join(header.classes)
            raise ValueError(f"{where} must end in a label of {known}, got {label.strip()!r:.60}")
        series.append(_read_channels(where, parts, header.length))
        labels.append(places[label.strip()])
    if not series:
        raise ValueError(f"{path} must have series after @data, got none: {_CUT_OFF}")
    return TsFile(path, header.classes, series, np.array(labels))


def _meaningful_lines(path: Path) -> Iterator[Line]:
    for number, line in enumerate(text_lines(path), start=1):
        text = line.strip()
        if text and not text.startswith(_COMMENTS):
            yield number, text


def _read_header(path: Path, lines: Iterator[Line]) -> _Header:
    """Return what is said before @data, which is read, too."""
    tags: dict[str, list[str]] = {}
    for number, line in lines:
        if not line.startswith("@"):
            raise ValueError(f"line {number} of {path} must be a tag before @data, got {line:.40}")
        name, *values = line[1:].split() or [""]
        if name.lower() == "data":
            break
        tags[name.lower()] = values
    else:
        raise ValueError(f"{path} must have @data, got none: {_CUT_OFF}")
    if _flag(tags, "timestamps"):
        raise ValueError(
            f"{path} must have no timestamps, which are not read, got @timeStamps true"
        )
    if not _flag(tags, "classlabel") or len(tags["classlabel"]) < 3:
        given = " ".join(tags.get("classlabel", ["none"]))
        raise ValueError(f"{path} must have @classLabel true with two labels or more, got {given}")
    classes = tuple(tags["classlabel"][1:])
    if len(set(classes)) < len(classes):
        raise ValueError(f"{path} must name each label once, got @classLabel {' '.join(classes)}")
    return _Header(path, classes, _channels(path, tags), _length(path, tags))


def _channels(path: Path, tags: Mapping[str, list[str]]) -> int | None:
    for name in ("dimensions", "dimension"):
        if name in tags:
            return _count(path, name, tags[name])
    return 1 if _flag(tags, "univariate") else None


def _length(path: Path, tags: Mapping[str, list[str]]) -> int | None:
    known = _flag(tags, "equallength") and "serieslength" in tags
    return _count(path, "seriesLength", tags["serieslength"]) if known else None


def _flag(tags: Mapping[str, list[str]], name: str) -> bool:
    return [value.lower() for value in tags.get(name, [])[:1]] == ["true"]


def _count(path: Path, name: str, values: list[str]) -> int:
    if len(values) != 1 or not values[0].isdecimal() or int(values[0]) < 1:
        raise ValueError(f"@{name} of {path} must be a positive number, got {' '.join(values)!r}")
    return int(values[0])


def _check_count(where: str, found: int, expected: int | None) -> None:
    if found == 0 or (expected is not None and found != expected):
        rule = "channels" if expected is None else f"{expected} channel{'s' * (expected > 1)}"
        raise ValueError(
            f"{where} must have {rule} and a label, separated by colons, got {found} before the "
            "last colon"
        )


def _read_channels(where: str, parts: list[str], length: int | None) -> Values:
    """Return the values of a series, ``(steps, channels)``."""
    columns = [_read_values(where, part) for part in parts]
    steps = {len(column) for column in columns}
    if len(steps) > 1:
        raise ValueError(
            f"{where} must have equally many values in each channel, got {min(steps)} to "
            f"{max(steps)}"
        )
    if length is not None and steps != {length}:
        raise ValueError(
            f"{where} must have {length} values in each channel, as @seriesLength says, got "
            f"{steps.pop()}"
        )
    return np.stack(columns, axis=1)


def _read_values(where: str, part: str) -> Values:
    if "(" in part:
        raise ValueError(f"{where} must have no timestamps, which are not read, got {part:.40}")
    try:
        numbers = [_number(text) for text in part.split(",")]
    except ValueError as error:
        raise ValueError(f"{where} must have numbers, got {error}") from None
    with np.errstate(over="ignore"):
        values = np.array(numbers, dtype=np.float32)
    if np.isinf(values).any():
        worst = numbers[int(np.isinf(values).argmax())]
        raise ValueError(f"{where} must have values finite in single precision, got {worst}")
    return values


def _number(text: str) -> float:
    own = text.strip()
    if own == "?":
        return math.nan
    try:
        if "_" not in own:  # Python's own digits
            return float(own)
    except ValueError:
        pass
    raise ValueError(f"{own!r:.40}")
