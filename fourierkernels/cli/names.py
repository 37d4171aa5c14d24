"""Names of registries in the help of a command: filled in when it is displayed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typer.core import TyperCommand

Names = Mapping[str, Iterable[str]]


class NamesInHelp(TyperCommand):
    """Writes registry names for {…} in the help, rows added later included."""

    names: Callable[[], Names]

    def format_help(self, *arguments: Any) -> None:
        """Fill in the names, then write the help."""
        rows = type(self).names()
        for parameter in self.params:
            for place, found in rows.items():
                text = getattr(parameter, "help", None) or ""
                vars(parameter)["help"] = text.replace(f"{{{place}}}", ", ".join(found))
        super().format_help(*arguments)


def command_with(names: Callable[[], Names]) -> type[NamesInHelp]:
    """Return the class of a command whose help shows these names; they are loaded only then."""
    return type("Command", (NamesInHelp,), {"names": staticmethod(names)})
