"""Where built libraries are kept, and how one process of several makes one.

The lock is flock's: the kernel releases it when its holder ends, however it ends. On a network
file system it holds between machines where the system passes it on (NFS since Linux 2.6.12); on one
without locks every process builds for itself, and the last to finish gives its library the name.
"""

import errno
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fourierkernels.ops.cuda.errors import CACHE_VARIABLE, BuildError, CompilationError, writing_to

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)
_LONGEST_MESSAGE = 2**16


def cache_folder() -> Path:
    """Return where libraries are kept: $FOURIERKERNELS_CACHE, or the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "fourierkernels"


def make_once(
    path: Path, make: Callable[[Path], None], *, waiting: Callable[[], None] = lambda: None
) -> bool:
    """Make a file unless it is there; of several processes one makes it and the others wait.

    Parameters
    ----------
    path : Path
        It appears complete or not at all.
    make : callable
        Called with the name of a file to write, beside `path`.
    waiting : callable
        Called when another process is found to be at work.

    Returns
    -------
    bool
        Whether this call made it.

    Raises
    ------
    BuildError
        If the folder cannot be written, or with the message of the process waited for, if its
        `make` raised a CompilationError.
    """
    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    place = path.with_suffix(".lock")
    while not path.exists():
        with _opened(place) as lock:
            alone = _take(lock, waiting)
            if os.fstat(lock).st_nlink == 0:  # its holder has finished
                _raise_what_was_told(lock)
            elif path.exists():
                place.unlink(missing_ok=True)
            else:
                _make_and_tell(path, make, lock, place, alone=alone)
                return True
    return False


def _make_and_tell(
    path: Path, make: Callable[[Path], None], lock: int, place: Path, *, alone: bool
) -> None:
    """Make the file; those who wait hold the same lock file and read from it why that failed."""
    if alone:
        for left in path.parent.glob(f"{path.stem}.*.tmp"):  # by a builder that was killed
            left.unlink(missing_ok=True)
    unfinished = path.with_suffix(f".{platform.node()}-{os.getpid()}.tmp")
    try:
        make(unfinished)
        with writing_to(path.parent):
            unfinished.replace(path)  # atomic: nobody loads half a library
    except CompilationError as error:
        with suppress(OSError):  # a full disk
            os.pwrite(lock, str(error).encode()[:_LONGEST_MESSAGE], 0)
        raise
    finally:
        unfinished.unlink(missing_ok=True)
        place.unlink(missing_ok=True)


def _raise_what_was_told(lock: int) -> None:
    told = os.pread(lock, _LONGEST_MESSAGE, 0).decode(errors="ignore")
    if told:
        raise CompilationError(told)


@contextmanager
def _opened(place: Path) -> Iterator[int]:
    with writing_to(place.parent):
        handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield handle
    finally:
        os.close(handle)  # releases the lock


def _take(handle: int, waiting: Callable[[], None]) -> bool:
    """Lock a file, waiting if need be; False where the file system has no locks."""
    import fcntl  # not on Windows, where nothing is built

    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise BuildError(f"the lock of the CUDA kernels failed: {error}") from error
        return False
    return True
