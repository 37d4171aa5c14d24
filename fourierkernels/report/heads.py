"""The one report of the heads of a checkpoint: it prints, shows itself, and is saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from fourierkernels.console import made_visible, standard_output
from fourierkernels.report.content import ReportContent
from fourierkernels.report.files import write_report
from fourierkernels.report.page import page_html
from fourierkernels.report.terminal import print_report, report_parts

MOST_SHOWN = 500_000  # attention weights of the page inside a notebook, 0.7 MB in base64
_STYLE = "width: 100%; height: 60rem; border: 1px solid; color-scheme: light dark"


@dataclass(frozen=True, eq=False, repr=False)
class HeadReport(ReportContent):
    """All that was measured of the heads of a checkpoint, ready to be read.

    It prints as tables in a terminal and shows itself as a page in a notebook. The attributes are
    those of its content: `profiles`, by the name of the network, `pruning`, `origin`.

    Examples
    --------
    >>> print(HeadReport("a checkpoint without measures"))
    <BLANKLINE>
    """

    def save(self, folder: str | Path) -> list[Path]:
        """Write tables (CSV), all numbers (JSON), figures and a page; return their paths.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If it is not a folder, or cannot be written.
        """
        return write_report(self, folder)

    def __str__(self) -> str:
        width = standard_output().width
        console = made_visible(
            Console(file=StringIO(), width=width, highlight=False, color_system=None)
        )
        with console.capture() as capture:
            print_report(self, console)
        return capture.get().rstrip("\n")

    __repr__ = __str__

    def __rich_console__(self, *_: object) -> Iterator[RenderableType]:
        for part in report_parts(self):
            yield Text(part) if isinstance(part, str) else part

    def _repr_html_(self) -> str:
        page = escape(page_html(self, most=MOST_SHOWN))
        title = escape(f"Report on the heads of {self.title}")
        return f'<iframe title="{title}" srcdoc="{page}" style="{_STYLE}"></iframe>'
