"""What commands share: the files they write, and names of registries in their help.

A file is refused before the work, and complete or not there afterwards. Names are filled in when
the help is displayed.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from fourierkernels.foundation.extras import require
from fourierkernels.foundation.files import complete_file
from fourierkernels.foundation.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure
Names = Mapping[str, Iterable[str]]


def check_file(name: str, path: Path) -> None:
    """Refuse a file that could not be written, before there is anything to write."""
    if not path.parent.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {path}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{name} must be in a folder that can be written to, got {path}")
    if path.exists() and not path.is_file():
        what = "folder" if path.is_dir() else "device"
        raise ValueError(f"{name} must be a file, got the {what} {path}")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write numbers and where they come from; NaN, which JSON does not have, becomes null."""
    text = json.dumps(_without_nan(content), indent=2, ensure_ascii=False, allow_nan=False)
    with complete_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_picture(path: Path) -> None:
    """Refuse a figure whose format is unknown, or that could not be drawn or written."""
    check_choice("plot", path.suffix, [".png", ".svg", ".pdf"])
    check_file("plot", path)
    require("matplotlib", "--plot")


def write_picture(path: Path, figure: "Figure") -> None:
    """Write a figure, whole or not at all."""
    with complete_file(path) as part:
        figure.savefig(part, dpi=150)


class NamesInHelp(TyperCommand):
    """Writes registry names for {…} in the help, rows added later included.

    Paragraphs are set anew for the terminal: typer keeps the ends of the docstring's lines.
    """

    names: Callable[[], Names]

    def format_help(self, *arguments: Any) -> None:
        """Fill in the names, then write the help."""
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", self.help or "")
        rows = type(self).names()
        for parameter in self.params:
            for place, found in rows.items():
                text = getattr(parameter, "help", None) or ""
                vars(parameter)["help"] = text.replace(f"{{{place}}}", ", ".join(found))
        super().format_help(*arguments)


def command_with(names: Callable[[], Names]) -> type[NamesInHelp]:
    """Return the class of a command whose help shows these names; they are loaded only then."""
    return type("Command", (NamesInHelp,), {"names": staticmethod(names)})
