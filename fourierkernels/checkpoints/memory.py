"""How much memory is free, and how much a network needs, said before it is built.

Parameters of a network are counted from the few hyperparameters that nearly all of them follow
from. It is an estimate, and a network is refused only where that exceeds the memory that may be
used.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.options import Config

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
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "hidden_sizes")
_INNER = ("intermediate_size", "d_ff", "n_inner", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim")
_WORDS = ("vocab_size", "vocabulary", "vocabulary_size")
_GROUPS = "num_hidden_groups"  # layers of ALBERT that share their weights
_FLOAT32 = 4
_MODULES = 30_000  # bytes of the Python objects of a layer, however narrow it is


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


def check_size(config: Config, name: str) -> None:
    """Refuse a config whose network would not fit into memory.

    Parameters
    ----------
    config : mapping
        Hyperparameters as a config.json has them; those of parts of the network may lie inside.
    name : str
        Of the file or folder, for the message.

    Raises
    ------
    ValueError
        With the hyperparameters, the bytes, and what may be used.
    """
    free = available_memory()
    for part in _parts(config):
        layers, width, inner, words = _sizes(part)
        shared = min(layers, _most(part, (_GROUPS,)) or layers)
        weights = shared * (4 * width**2 + 2 * width * inner) + words * width
        needed = _FLOAT32 * weights + _MODULES * layers
        if needed > free:
            raise ValueError(
                f"config of {name} must be that of a network that fits into memory, got "
                f"{layers} layers of {width} features and {words} words, about "
                f"{in_bytes(needed)}, of {in_bytes(free)} that may be used"
            )


def _parts(config: Config) -> Iterator[Config]:
    """Yield a config and those of the parts of its network; deeper than that there are none."""
    yield config
    yield from (part for part in config.values() if isinstance(part, Mapping))


def _sizes(part: Config) -> tuple[int, int, int, int]:
    """Return layers, their features, those of their feed-forward networks, and words."""
    layers = [name for name in part if "layer" in name or name == "depth"]
    width = _most(part, _WIDTHS)
    return _most(part, layers), width, _most(part, _INNER) or 4 * width, _most(part, _WORDS)


def _most(part: Config, names: Any) -> int:
    """Return the largest whole number under some names; 0 if there is none."""
    given = [part.get(name) for name in names]
    values = [one for value in given for one in (value if isinstance(value, list) else [value])]
    return max((one for one in values if type(one) is int), default=0)
