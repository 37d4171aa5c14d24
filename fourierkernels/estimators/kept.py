"""What is prepared on first use and kept while its sources are the same."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple


class Sources(NamedTuple):
    """Sources of prepared objects: large arrays by identity, small ones by value.

    The references are held, so that a new array can never pass for one that is gone.
    """

    objects: tuple[object, ...]
    values: tuple[bytes, ...]

    def equal(self, other: "Sources") -> bool:
        """Return whether both have the same objects and equal values."""
        pairs = zip(self.objects, other.objects, strict=True)
        return self.values == other.values and all(mine is theirs for mine, theirs in pairs)


class Kept:
    """Objects by key, all built from the same sources; new sources drop them.

    Threads may share it: what one of them returns, it has found or built itself.
    """

    def __init__(self) -> None:
        self._current: tuple[Sources, dict[Hashable, Any]] | None = None

    def get(self, key: Hashable, sources: Sources, build: Callable[[], Any]) -> Any:
        """Return what is kept under the key, built now unless it was from the same sources."""
        current = self._current
        if current is None or not current[0].equal(sources):
            current = self._current = sources, {}
        built = current[1]
        value = built.get(key)
        return built.setdefault(key, build()) if value is None else value
