"""Standard output, as the commands write on it; what is printed cannot command the terminal."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderHook
    from rich.segment import Segment

_WIDTH = 120  # of files and pipes, which have none
# Control characters but tabs and ends of lines, and those that turn the direction of text.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return a text with its control characters written out.

    Examples
    --------
    >>> print(visible("\x1b[2Jlayer 1"))
    \x1b[2Jlayer 1
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def standard_output(*, width: int = _WIDTH) -> "Console":
    """Return a console as wide as the terminal, or `width` columns wide in a file or pipe.

    Control characters in what is printed are written out; colours and tables are rich's own.
    """
    from rich.console import Console

    console = Console(highlight=False)
    return made_visible(console if console.is_terminal else Console(width=width, highlight=False))


def made_visible(console: "Console") -> "Console":
    """Make a console write out control characters, and return it."""
    console.push_render_hook(cast("RenderHook", _Hook()))
    return console


class _Hook:
    """Stands between what is printed and the terminal."""

    def process_renderables(self, renderables: Sequence[Any]) -> list[Any]:
        return [_Visible(one) for one in renderables]


@dataclass(frozen=True)
class _Visible:
    """What is printed, with the control characters in its texts written out."""

    content: Any

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[Segment]":
        for segment in console.render(self.content, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
