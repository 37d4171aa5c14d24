"""Standard output, as the commands write on it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120  # of files and pipes, which have none


def standard_output(*, width: int = _WIDTH) -> "Console":
    """Return a console as wide as the terminal, or `width` columns wide in a file or pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=width, highlight=False)
