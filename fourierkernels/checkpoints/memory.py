"""How much memory is free, so that what would not fit is refused before it is begun."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

SHARE = 0.9  # of what is free: other programs go on
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_GROUP = Path("/sys/fs/cgroup")
_LIMITS = (  # of versions 2 and 1 of control groups; the last is the cache of files, given up early
    ("memory.max", "memory.current", "memory.stat", "file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_cache",
    ),
)


def available_memory() -> float:
    """Return the bytes that may be used now; infinite where the system does not tell.

    The least of what the machine has free, what the control group of the process leaves, and what
    its limit of addresses leaves.

    Examples
    --------
    >>> available_memory() > 0
    True
    """
    return SHARE * min(_free(), default=float("inf"))


def in_bytes(count: float) -> str:
    """Return a number of bytes as people read it.

    Examples
    --------
    >>> in_bytes(9.2e9), in_bytes(2.54e6)
    ('9.2 GB', '2.5 MB')
    """
    unit, size = next((row for row in _UNITS if count >= row[1]), _UNITS[-1])
    return f"{count / size:,.1f} {unit}"


def _free() -> Iterator[float]:
    yield from _of_machine()
    yield from _of_group()
    if sys.platform != "win32":
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        used = _numbers(Path("/proc/self/statm"))
        if limit != resource.RLIM_INFINITY and used:
            yield max(0.0, limit - used[0] * os.sysconf("SC_PAGE_SIZE"))


def _of_machine() -> Iterator[float]:
    if (free := _named(Path("/proc/meminfo"), "MemAvailable:")) is not None:
        yield 1024.0 * free


def _of_group() -> Iterator[float]:
    for limit, current, stat, cache in _LIMITS:
        most, used = _numbers(_GROUP / limit), _numbers(_GROUP / current)
        if most and used:
            yield max(0.0, most[0] - used[0] + (_named(_GROUP / stat, cache) or 0.0))


def _named(file: Path, name: str) -> float | None:
    """Return the number after a name in a file of names and numbers."""
    if not file.is_file():
        return None
    lines = (line.split() for line in file.read_text("ascii").splitlines())
    return next((float(words[1]) for words in lines if words[:1] == [name]), None)


def _numbers(file: Path) -> list[float]:
    """Return the numbers that a file of the kernel consists of; none if it has another word."""
    try:
        return [float(word) for word in file.read_text("ascii").split()]
    except (OSError, ValueError):  # "max" stands for no limit
        return []
