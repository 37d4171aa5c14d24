"""Standard output of the commands; printed text cannot control the terminal."""

import codecs
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from io import TextIOWrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, cast

from fourierkernels.foundation.progress import paused

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderHook
    from rich.segment import Segment
    from rich.table import Column, Table

_WIDTH = 120  # of files and pipes, which have none
# The least columns of a terminal for text that may break anywhere, and for headers beside cells.
_FOLDED, _HEADER = 16, 6
# Control characters but tabs and ends of lines, and those that turn the direction of text.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NUMBER = re.compile(r"[+-]?\d[\d.,e+-]*(\s|$)")  # at the beginning
# For terminals that have ASCII alone; Greek letters have their names.
_SPELLED = {"±": "+-", "…": "...", "²": "^2", "∞": "inf", "→": "->", "’": "'", "–": "-", "·": "*"}


def visible(text: str) -> str:
    r"""Return a text with its control characters written out.

    Examples
    --------
    >>> print(visible("\x1b[2Jlayer 1"))
    \x1b[2Jlayer 1
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def prepare_streams() -> None:
    """Let standard output and error take any text: what their encoding lacks is spelled out.

    Where one is closed, what is written to it is discarded.
    """
    codecs.register_error("spelled", _spelled)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Stand for one character that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    name = unicodedata.name(character, "")
    known = name.split()[-1].lower() if name.startswith("GREEK") else _SPELLED.get(character)
    return (known or ascii(character)[1:-1]), error.start + 1


def discard_output() -> None:
    """Discard what is yet to be written on standard output: nobody reads it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def standard_output(*, width: int = _WIDTH) -> "Console":
    """Return a console as wide as the terminal, or `width` columns wide in a file or pipe.

    Control characters in what is printed are written out; colours and tables are rich's own, but
    that no number of a table is cut. Once a reader such as ``head`` has closed the pipe, the rest
    is discarded, so that files are written all the same.
    """
    from rich.console import Console

    size = shutil.get_terminal_size()  # rich takes 80 columns for a terminal that it finds dumb
    columns = size.columns if sys.stdout.isatty() else width
    console = Console(width=columns, height=size.lines, highlight=False)
    setattr(console, "on_broken_pipe", MethodType(_go_on_quietly, console))  # noqa: B010
    return made_visible(console)


def _go_on_quietly(console: "Console") -> None:
    console.quiet = True
    discard_output()


def made_visible(console: "Console") -> "Console":
    """Make a console write out control characters and whole numbers, and return it."""
    console.push_render_hook(cast("RenderHook", _Hook()))
    return console


class _Hook:
    """Stands between what is printed and the terminal."""

    def process_renderables(self, renderables: Sequence[Any]) -> list[Any]:
        with paused():  # for a second, in which it is printed
            return [_Visible(one) for one in renderables]


@dataclass(frozen=True)
class _Visible:
    """Printed content with the control characters in its texts written out."""

    content: Any

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[Segment]":
        from rich.table import Table

        table = isinstance(self.content, Table)
        content = _fitted(self.content, console, options) if table else self.content
        for segment in console.render(content, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _fitted(table: "Table", console: "Console", options: "ConsoleOptions") -> "RenderableType":
    """Return a table that breaks lines between words alone, or its rows below each other.

    Columns that overflow by folding may break anywhere. Lines that begin with a number stay whole.
    """
    endless = options.update(width=10_000)
    sizes = [_sizes(column, console, endless) for column in table.columns]
    widest, least = [most for _, most in sizes], [fewest for fewest, _ in sizes]
    room = options.max_width - console.measure(table, options=endless).maximum + sum(widest)
    if sum(widest) <= room:
        return table
    if sum(least) > room:
        return _below_each_other(table, options.max_width - max(least) - 2)
    fitted = copy(table)
    widths = zip(table.columns, _shared(widest, least, room), strict=True)
    fitted.columns = [replace(column, width=width, overflow="fold") for column, width in widths]
    return fitted


def _sizes(column: "Column", console: "Console", options: "ConsoleOptions") -> tuple[int, int]:
    """Return the least width of a column, and that at which no line breaks."""
    sizes = []
    for cell in (column.header, *column.cells):
        fewest, most = console.measure(cell, options=options)
        number = isinstance(cell, str) and any(map(_NUMBER.match, cell.splitlines()))
        sizes.append((most if number else fewest, most))
    least, widest = (max(side) for side in zip(*sizes, strict=True))
    return min(least, _FOLDED) if column.overflow == "fold" else least, widest


def _shared(widest: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Take from the widest columns until all have room."""
    widths = list(widest)
    while sum(widths) > room:
        wide = [k for k, width in enumerate(widths) if width > least[k]]
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _below_each_other(table: "Table", left: int) -> "RenderableType":
    """Return the rows of a table as blocks of lines: the header of a column, and the cell.

    The headers take what the cells have left, but a readable part.
    """
    from rich.console import Group
    from rich.table import Table

    blocks: list[RenderableType] = [] if table.title is None else [table.title, ""]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        block = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        block.add_column(max_width=max(left, _HEADER), overflow="fold")
        block.add_column(overflow="fold")
        for column, cell in zip(table.columns, cells, strict=True):
            if cell != "":
                block.add_row(column.header, cell)
        blocks += [block, ""]
    return Group(*blocks, *([] if table.caption is None else [table.caption]))
