"""Folders of files of one kind, in the order of their paths."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class FileFolder:
    """Files under a folder, in the order of their paths; iterating gives the paths."""

    path: Path
    files: tuple[Path, ...]
    sha256: str

    def __iter__(self) -> Iterator[Path]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @classmethod
    def of(cls, found: tuple[Path, tuple[Path, ...]]) -> Self:
        """Return a folder and its files with the digest of all their contents."""
        path, files = found
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return cls(path, files, digest.hexdigest())


def files_under(
    what: str, folder: str | Path, suffixes: Collection[str]
) -> tuple[Path, tuple[Path, ...]]:
    """Return a folder and its files with one of the suffixes, in lower or upper case.

    Hidden files are left out.

    Parameters
    ----------
    what : str
        What a file is, for messages.

    Raises
    ------
    ValueError
        If there is no such folder, or it has no such file.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"{what} folder must exist, got {folder}")
    files = tuple(
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in suffixes and file.is_file() and not file.name.startswith(".")
    )
    if not files:
        raise ValueError(
            f"{what} folder must hold {what}s ({', '.join(suffixes)}), got none: {path}"
        )
    return path, files
