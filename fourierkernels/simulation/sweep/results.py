"""The results file: a header line, then one JSON line per finished cell.

A line is appended whole and forced to the disk before the next cell counts as finished. What a
crash leaves half written is cut off when the file is opened again; a line that was damaged later
is refused by its checksum.
"""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fourierkernels.foundation.files import force_to_disk, lock_file
from fourierkernels.foundation.records import append_line, read_record, record_line, whole_lines
from fourierkernels.simulation.sweep.cells import Cell, Outcome
from fourierkernels.simulation.sweep.grid import Sweep

Done = dict[Cell, Outcome]

# Without O_BINARY Windows writes another end of line.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Results:
    """A results file open for appending, locked against other runs.

    A run that fails before its first cell leaves no file behind, so that a corrected one may start.

    Parameters
    ----------
    path : path
        Created with its header if it is not there.
    sweep : Sweep
        The file must be of this sweep.

    Attributes
    ----------
    done : dict
        Finished cells and their outcomes.

    Raises
    ------
    ValueError
        If the file is of another sweep or version, is damaged, or is in use by another run.
    OSError
        If it cannot be read or written.
    """

    def __init__(self, path: str | Path, sweep: Sweep) -> None:
        self.path, self._sweep = Path(path), sweep
        self._new = not self.path.exists()
        self._file = os.open(self.path, _FLAGS, 0o644)
        try:
            self._lock()
            self.done = self._recover()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed = kind is not None and self._new and not self.done
        if failed and sys.platform != "win32":  # which removes no open file
            self.path.unlink(missing_ok=True)  # while it is locked: no finished cell is lost
        os.close(self._file)

    def append(self, cell: Cell, outcome: Outcome) -> None:
        """Write a finished cell to the disk; a cell that is there already is left as it is.

        Raises
        ------
        OSError
            If the line could not be written, as on a full disk: the file is as it was before.
        """
        if cell in self.done:
            return
        record = {"key": cell.key, "cell": asdict(cell), "outcome": asdict(outcome)}
        self._write(record_line(record))
        self.done[cell] = outcome

    def _lock(self) -> None:
        try:
            lock_file(self._file)
        except OSError:
            message = f"results must not be in use by another run, got {self.path}"
            raise ValueError(message) from None

    def _recover(self) -> Done:
        content = self.path.read_bytes()
        whole = len(whole_lines(content))
        header = record_line(self._sweep.header())
        if whole == 0:  # new, or the run ended before the header was written
            if not header.startswith(content):
                raise ValueError(f"results must be of a sweep, got {self.path}: no header line")
            os.ftruncate(self._file, 0)
            self._write(header)
            force_to_disk(self.path.parent)
            return {}
        done = _parse(self.path, content[:whole], self._sweep)
        os.ftruncate(self._file, whole)  # a line cut short by a crash
        return done

    def _write(self, line: bytes) -> None:
        try:
            append_line(self._file, line)
        except OSError as error:
            raise OSError(
                error.errno,
                f"results could not be written ({error.strerror}); all cells finished before "
                "are kept: make room and run the same sweep again",
                str(self.path),
            ) from error


def read_results(path: str | Path) -> tuple[Sweep, Done]:
    """Return the sweep and the finished cells of a results file, which may still be growing.

    Raises
    ------
    ValueError
        If it is not a results file, of another version, or damaged.
    OSError
        If it cannot be read.
    """
    content = Path(path).read_bytes()
    whole = whole_lines(content)
    if not whole:
        raise ValueError(f"results must be of a sweep, got {path}: no header line")
    sweep = _sweep_of(Path(path), whole.split(b"\n", 1)[0])
    return sweep, _parse(Path(path), whole, sweep)


def _parse(path: Path, content: bytes, sweep: Sweep) -> Done:
    first, *lines = content.splitlines()
    _check_header(path, first, sweep)
    cells = {cell.key: cell for cell in sweep.cells()}
    done: Done = {}
    for number, line in enumerate(lines, start=2):
        record = read_record(line)
        cell = cells.get(record["key"]) if record else None
        if record is None or cell is None:
            raise ValueError(
                f"results must hold whole lines of their sweep, got a damaged or foreign line "
                f"{number} in {path}: remove that line to compute its cell again"
            )
        outcome = record["outcome"]
        done.setdefault(cell, Outcome(**{**outcome, "values": tuple(outcome["values"])}))
    return done


def _check_header(path: Path, line: bytes, sweep: Sweep) -> None:
    header, expected = _header(path, line), sweep.header()
    for name in ("format", "fourierkernels", "numpy"):
        if header.get(name) != expected[name]:
            raise ValueError(
                f"results must be of {name} {expected[name]}, got {header.get(name)} in {path}: "
                "numbers of two versions are not mixed"
            )
    ours, theirs = expected["sweep"], header["sweep"]
    changed = sorted(k for k in {*ours, *theirs} if ours.get(k) != theirs.get(k))
    if changed:
        got = ", ".join(f"{k} = {theirs.get(k)!r} (now {ours.get(k)!r})" for k in changed)
        raise ValueError(f"results must be of the same sweep, got {path} with {got}")


def _sweep_of(path: Path, line: bytes) -> Sweep:
    config: dict[str, Any] = _header(path, line)["sweep"]
    axes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
    try:
        return Sweep(**axes)
    except TypeError:
        raise ValueError(f"results must be of a sweep of this version, got {path}") from None


def _header(path: Path, line: bytes) -> dict[str, Any]:
    header = read_record(line)
    if header is None or not isinstance(header.get("sweep"), dict):
        raise ValueError(f"results must be of a sweep, got {path}: no valid header line")
    return header
