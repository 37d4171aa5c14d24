"""The one report of the heads of a checkpoint: it prints, shows itself, and is saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.text import Text

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.console import made_visible, standard_output
from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.validation import check_choice
from fourierkernels.report.content import ReportContent
from fourierkernels.report.files import write_report
from fourierkernels.report.numbers import TABLES
from fourierkernels.report.page import page_fragment
from fourierkernels.report.terminal import print_report, report_parts

if TYPE_CHECKING:
    from pandas import DataFrame

    from fourierkernels.report.lens import HeadLens

MOST_SHOWN = 500_000  # attention weights of the page inside a notebook, 0.7 MB in base64


@dataclass(frozen=True, eq=False, repr=False)
class HeadReport(ReportContent):
    """All that was measured of the heads of a checkpoint, ready to be read.

    It prints as tables in a terminal and shows itself as a page in a notebook. The attributes are
    those of its content: `profiles`, by the name of the network, `pruning`, `origin`; and `lens`,
    which reads the heads of the network on other texts.

    Examples
    --------
    >>> print(HeadReport("a checkpoint without measures"))
    <BLANKLINE>
    """

    lens: "HeadLens | None" = None

    def maps(self, layer: int | str, text: Any) -> FloatArray:
        """Return the maps of a layer on any text, ``(H, n, m)``: those of `lens`.

        Texts are read as those of the report were: as ids, if these were ids.

        Parameters
        ----------
        layer : int or str
            See :meth:`~fourierkernels.report.HeadLens.maps`.

        Raises
        ------
        ValueError
            If the report was put together without its network.
        """
        if self.lens is None:
            raise ValueError("report must come from head_report to read texts, got one without")
        return self.lens.maps(layer, text)

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

    def frame(self, table: str = "heads") -> "DataFrame":
        """Return one of the tables that :meth:`save` writes as CSV, as a DataFrame.

        Parameters
        ----------
        table : str
            One of "heads", "shares", "difference", "matches", "statistics", "roles", "null",
            "importance" and "pruning". "heads" has a row per network, metric and layer: the mean
            distance between the heads with its interval and its spreads. "shares" has what the
            heads have in common beyond each control. "statistics", "roles" and "importance" have a
            row per head, with intervals. A table for which nothing was measured has no rows.

        Raises
        ------
        ImportError
            If pandas is missing.
        ValueError
            For another name.
        """
        columns, rows = TABLES[check_choice("table", table, list(TABLES))](self)
        with needed_for("a frame"):
            import pandas
        return pandas.DataFrame(list(rows), columns=columns)

    def __str__(self) -> str:
        width = standard_output().width
        # Told that it is in Jupyter, rich displays what is captured as well.
        plain = Console(
            file=StringIO(), width=width, highlight=False, color_system=None, force_jupyter=False
        )
        console = made_visible(plain)
        with console.capture() as capture:
            print_report(self, console)
        return capture.get().rstrip("\n")

    __repr__ = __str__

    def __rich_console__(self, *_: object) -> Iterator[RenderableType]:
        for part in report_parts(self):
            yield Text(part) if isinstance(part, str) else part

    def _repr_html_(self) -> str:
        return page_fragment(self, most=MOST_SHOWN)
