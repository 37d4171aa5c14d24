"""Folders that are written completely, and survive a loss of power, or not at all."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

UNFINISHED = ".unfinished-"


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
    scratch = folder.parent / f"{UNFINISHED}{folder.name}-{os.getpid()}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        fill(scratch)
        for path in (*scratch.iterdir(), scratch):
            _force_to_disk(path)
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has been faster
                raise
        _force_to_disk(folder.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def remove_unfinished(parent: Path) -> None:
    """Remove what killed processes left of folders that they were writing."""
    for scratch in parent.glob(f"{UNFINISHED}*"):
        shutil.rmtree(scratch, ignore_errors=True)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, or leave it as it was."""
    part = path.with_name(f".part-{path.name}")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        _force_to_disk(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
