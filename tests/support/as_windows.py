"""Make this process miss what Windows misses: modules, calls, and what open files allow there.

Nothing here tells that the package runs on Windows; it finds what certainly would not. Other
packages are imported first, since they choose their own code for each system at import.
"""

import fcntl
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")
CALLS = ("fork", "geteuid", "getuid", "pread", "pwrite", "sched_getaffinity")
_open, _fsync = os.open, os.fsync


def become_windows() -> None:
    """Hide modules and calls, forbid what open files forbid, and call the system win32."""
    for name in CALLS:
        delattr(os, name)
    os.open, os.fsync = _open_file, _flush  # type: ignore[assignment]
    for name in ("unlink", "replace", "rename"):
        setattr(os, name, _unless_open(getattr(os, name)))
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[misc]
    locks = ModuleType("msvcrt")
    locks.LK_NBLCK, locks.locking = 2, _lock  # type: ignore[attr-defined]
    sys.modules.update({"msvcrt": locks, **dict.fromkeys(MODULES)})  # type: ignore[arg-type]
    sys.platform = "win32"


def _open_file(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
    if Path(path).is_dir():
        raise PermissionError(13, "Permission denied", str(path))
    return _open(path, flags, mode, **options)


def _flush(descriptor: int) -> None:
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "Bad file descriptor")
    _fsync(descriptor)


def _lock(descriptor: int, mode: int, count: int) -> None:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, 0, os.SEEK_CUR)


def _unless_open(call: Callable[..., None]) -> Callable[..., None]:
    def refusing(*paths: Any, **options: Any) -> None:
        links = list(Path("/proc/self/fd").iterdir())
        held = {link.readlink() for link in links if link.is_symlink()}
        for path in paths:
            if Path(path).absolute() in held:
                raise PermissionError(32, "The file is in use", str(path))
        call(*paths, **options)

    return refusing
