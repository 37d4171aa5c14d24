"""Atomic writing of folders: they are complete, and survive a loss of power, or absent.

A folder that is being written is locked by ``flock``, which the kernel releases when its holder
ends, however it ends. So what a killed process has left is told from what a living one is writing.
Windows has no lock of folders; what a killed process has left stays there.
"""

import csv
import hashlib
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

UNFINISHED = ".unfinished-"
_CLAIM = ".in-use"
_LOCKED_BYTE = 2**40  # beyond any content: on Windows a locked byte cannot be read


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder under another name, force it to the disk, and give it its name.

    A process that is killed, or a disk that is full, leaves the folder as it was, absent; what was
    written until then is removed, at the latest by :func:`remove_unfinished`. A folder of that name
    which is there already stays as it is.

    Parameters
    ----------
    fill : callable
        Writes files, without folders, into the folder that it is given.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    if folder.exists():
        return
    scratch, lock = _begin(folder)
    try:
        fill(scratch)
        for path in (*scratch.iterdir(), scratch):
            force_to_disk(path)
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has been faster
                raise
        force_to_disk(folder.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_unfinished(parent: Path) -> None:
    """Remove what killed processes left of folders that they were writing.

    What a living process is writing stays, and so does all on a file system without locks.
    """
    for scratch in parent.glob(f"{UNFINISHED}*"):
        with suppress(OSError):  # another process removes or finishes it
            lock = _lock(scratch, wait=False)
            if lock is not None:
                shutil.rmtree(scratch, ignore_errors=True)
                os.close(lock)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and keep other processes that claim it out meanwhile.

    The system gives a claim up when its holder ends, however it ends.

    Raises
    ------
    ValueError
        If another one has claimed it.
    """
    claim = _claim(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; it is no claim once it is closed
            (folder / _CLAIM).unlink()
        os.close(claim)


def _claim(folder: Path) -> int:
    """Return the descriptor of the file that is locked as long as the folder is claimed.

    It is a file and not the folder, which network file systems and Windows cannot lock.
    """
    place = folder / _CLAIM
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        claim = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock_file(claim)
        except OSError as error:
            if isinstance(error, BlockingIOError | PermissionError):
                os.close(claim)
                raise ValueError(
                    f"output must not be in use by another run, got {folder}"
                ) from error
            warnings.warn(
                f"{folder} cannot be locked ({error.strerror}): nothing keeps another run out",
                stacklevel=4,
            )
            return claim
        with suppress(FileNotFoundError):  # given up by another process before it was locked here
            if os.path.samestat(os.fstat(claim), place.stat()):
                return claim
        os.close(claim)


def lock_file(file: int) -> None:
    """Lock an open file until it is closed; an OSError if another process has locked it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)  # what is written is appended all the same
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, or leave it as it was."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file by other content, or leave it as it was."""
    with complete_file(path) as part:
        part.write_bytes(content)


def write_table(
    path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None
) -> None:
    """Replace a file by rows of the same columns as CSV, or leave it as it was."""
    with complete_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a file beside `path` that replaces it on success and is deleted on failure."""
    # Another process has its own; the suffix stays: it names the format.
    part = path.with_name(f".part-{uuid4().hex[:8]}-{path.name}")
    try:
        yield part
        force_to_disk(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def force_to_disk(path: Path) -> None:
    """Force a file, or the entries of a folder, to the disk.

    Windows opens no folder, whose entries its file system journals, and flushes only a file that
    is open for writing.
    """
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _begin(folder: Path) -> tuple[Path, int | None]:
    """Return a new folder beside another, and the descriptor that locks it, if it can be."""
    while True:
        scratch = folder.with_name(f"{UNFINISHED}{folder.name}-{uuid4().hex[:8]}")
        scratch.mkdir(parents=True)
        with suppress(FileNotFoundError):  # removed as left behind, before it was locked
            lock = _lock(scratch, wait=True)
            if scratch.is_dir():
                return scratch, lock
            if lock is not None:
                os.close(lock)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Return a descriptor that locks a folder until it is closed; None where there are no locks.

    Raises
    ------
    BlockingIOError
        If another process has locked it, and this one does not wait.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle
