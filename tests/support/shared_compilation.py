"""Code that one process of a test run compiled serves the others: numba's cache in two folders."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from numba.core import caching
from numba.core.caching import IndexDataCacheFile


class SharedFiles(IndexDataCacheFile):
    """Compiled code of a function in the folder of this process, and under a lock in one of all.

    The index of numba's cache has no lock: of two processes that compile a function for different
    types at the same moment, one may later load the other's code. So each has a folder of its own,
    which the programs that it starts share with it one after the other.
    """

    shared: ClassVar[Path]

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        super().__init__(cache_path, filename_base, source_stamp)
        self._folder = self.shared / Path(cache_path).name
        self._of_all = IndexDataCacheFile(str(self._folder), filename_base, source_stamp)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def load(self, key: Any) -> Any:
        found = super().load(key)
        if found is None:
            with self._alone():
                found = self._of_all.load(key)
            if found is not None:
                Path(self._cache_path).mkdir(parents=True, exist_ok=True)
                super().save(key, found)
        return found

    def save(self, key: Any, data: Any) -> None:
        super().save(key, data)
        with self._alone():
            self._of_all.save(key, data)


def share_compiled_code(folder: Path) -> None:
    """Let numba keep what it compiles in a folder that all processes read and write."""
    SharedFiles.shared = folder
    caching.IndexDataCacheFile = SharedFiles
