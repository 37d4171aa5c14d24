"""The finished networks of a comparison, on the disk."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from fourierkernels.foundation.records import append_line, read_record, record_line, whole_lines
from fourierkernels.foundation.version import __version__
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import Network


class Finished:
    """One line per finished network, forced to the disk.

    Parameters
    ----------
    path : Path
        Made with the first line.
    header : mapping
        What all numbers depend on, the first line.

    Raises
    ------
    ValueError
        If the file is of another header, or damaged.
    """

    def __init__(self, path: Path, header: Mapping[str, object] | None = None) -> None:
        self._path, self._rows = path, dict[str, Row]()
        ours = {**(header or {}), "fourierkernels": __version__, "torch": torch.__version__}
        content = whole_lines(path.read_bytes()) if path.exists() else b""
        if path.exists():
            os.truncate(path, len(content))  # a line cut short by a crash
        first, *lines = content.splitlines() or [b""]
        if first:
            _check_header(path, read_record(first), ours)
        else:
            self._append(ours)
        for number, line in enumerate(lines, start=2):
            record = read_record(line)
            if record is None:
                raise ValueError(
                    f"{path} must have whole lines, got a damaged line {number}: remove it to "
                    "train its network again"
                )
            self._rows[record["key"]] = record["row"]

    def __contains__(self, network: Network) -> bool:
        return network.key in self._rows

    def add(self, network: Network, row: Row) -> None:
        """Keep a row at once."""
        self._append({"key": network.key, "row": dict(row)})
        self._rows[network.key] = row

    def rows(self, networks: Iterable[Network]) -> list[Row]:
        """Return the rows of networks, in their order."""
        return [self._rows[network.key] for network in networks]

    def _append(self, record: dict[str, object]) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            append_line(file, record_line(record, nan=True))
        finally:
            os.close(file)


def rows_on_disk(path: Path) -> list[Row]:
    """Return the rows of a file of finished networks, as far as they are whole."""
    lines = whole_lines(path.read_bytes()).splitlines()[1:] if path.exists() else []
    return [record["row"] for record in map(read_record, lines) if record is not None]


def _check_header(path: Path, theirs: dict[str, object] | None, ours: dict[str, object]) -> None:
    if theirs is None:
        raise ValueError(f"{path} must be a file of finished networks, got another file")
    for name in {**ours, **theirs}:
        if theirs.get(name) != ours.get(name):
            raise ValueError(
                f"finished networks must be of {name} {ours.get(name)}, got {theirs.get(name)} in "
                f"{path}: another output, or that file removed, trains them anew"
            )
