"""The list of registries: what to write for a new row, and the rows that there are."""

import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("registries.toml")
_SHOWN = 6  # names of rows


@dataclass(frozen=True)
class Registry:
    """An entry of the list.

    Attributes
    ----------
    next : str
        What a row is.
    path : str
        Module in ``fourierkernels`` and name, separated by a dot.
    test : str
        The file that adds a row from outside the package.
    write : str
        What to write, as Markdown.
    """

    next: str
    path: str
    test: str
    write: str

    def rows(self) -> list[str]:
        """Return the names of the rows; none for a base class."""
        module, _, name = self.path.rpartition(".")
        registry: Any = getattr(import_module(f"fourierkernels.{module}"), name)
        return [] if isinstance(registry, type) else [_name(row) for row in registry]


def _name(row: Any) -> str:
    return row if isinstance(row, str) else str(getattr(row, "name", row))


def registries() -> list[Registry]:
    """Return every registry, in the order of the list."""
    rows = tomllib.loads(LIST.read_text(encoding="utf-8"))["registries"]
    return [Registry(**row) for row in rows]


def registry_list() -> str:
    """Return the list as MyST: one entry per registry."""
    return "\n\n".join(_entry(row) for row in registries())


def _entry(row: Registry) -> str:
    names = row.rows()
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    now = f" Now {len(names)}: {shown}{more}." if names else ""
    what = " ".join(row.write.split())
    return f"{row.next}\n: {what}{now}\n\n  `{row.path}`, tried in `{row.test}`"
