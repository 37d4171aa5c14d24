"""Setup of every chapter of the book: style, quick mode, tables, files.

A chapter runs where it lies, in a checkout, and where a reader put it: a download brings the
results it reads in the folders ``results`` and ``data`` beside it.
"""

import csv
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierkernels.foundation.extras import needed_for

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Markdown

# Mathematics, code, a link's target, a tag: they stay as they are.
_VERBATIM = re.compile(r"(\$+[^$]*\$+|`+[^`]*`+|\]\([^)]*\)|<[^>]*>)")
_NEGATIVE = re.compile(r"(?:(?<=\de)|(?<![^\s(\[*=,≤<>]))-(?=\.?\d|inf\b)")  # -2, 1e-05; not 1-2
FAST = os.environ.get("FK_FAST") == "1"
RESULTS = ("results", "experiments/results")
DATA = ("data", "notebooks/data")


def start() -> None:
    """Give figures the look of the book, as SVG, and keep progress bars' warnings out of it."""
    with needed_for("a chapter"):
        from matplotlib import pyplot
        from matplotlib_inline.backend_inline import set_matplotlib_formats

    from fourierkernels.plotting.look import style

    warnings.filterwarnings("ignore", message="IProgress not found")  # of tqdm
    pyplot.rcParams.update(style())
    set_matplotlib_formats("svg")


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> "Markdown":
    """Return a table that Jupyter and the book typeset, with Markdown and mathematics in it.

    Parameters
    ----------
    header, rows
        Cells, written by ``str``; all rows are as long as the header. Negative numbers of rows get
        a minus sign in place of the hyphen, after which lines may be broken.

    Raises
    ------
    ValueError
        If a row is longer or shorter than the header.
    """
    with needed_for("a table of a chapter"):
        from IPython.display import Markdown

    lines = [[_with_minus(str(cell)) for cell in row] for row in rows]
    for number, line in enumerate(lines):
        if len(line) != len(header):
            raise ValueError(
                f"rows must have {len(header)} cells like the header, "
                f"got {len(line)} in row {number}"
            )
    written = [[str(cell) for cell in header], ["---"] * len(header), *lines]
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in written))


def _with_minus(cell: str) -> str:
    parts = _VERBATIM.split(cell)  # every second one is such
    parts[::2] = [_NEGATIVE.sub("−", part) for part in parts[::2]]
    return "".join(parts)


def kernel_title(name: str) -> str:
    """Return what text and figures call a kernel: its power of the sinc, its order, or Gaussian.

    Examples
    --------
    >>> kernel_title("fourier4"), kernel_title("order6"), kernel_title("gaussian")
    ('$l = 4$', 'order 6', 'Gaussian')
    """
    order, power = name.removeprefix("order"), name.removeprefix("fourier")
    if order != name:
        return f"order {order}"
    return f"$l = {power}$" if power != name else name.capitalize()


def result(name: str) -> Path:
    """Return the path of a committed result, such as ``rates_density.csv``.

    Raises
    ------
    FileNotFoundError
        If it is neither in the folder ``results`` here or above, nor in a checkout here or above.
    """
    return _find(name, RESULTS)


def data(name: str) -> Path:
    """Return the path of a file that the chapters read, such as ``genera.txt``.

    Raises
    ------
    FileNotFoundError
        If it is neither in the folder ``data`` here or above, nor in a checkout here or above.
    """
    return _find(name, DATA)


def read_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a committed result, as text by column."""
    with result(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_frame(name: str) -> "pd.DataFrame":
    """Return a committed result as a data frame."""
    with needed_for("a frame"):
        import pandas as pd

    return pd.read_csv(result(name))


def _find(name: str, folders: Sequence[str]) -> Path:
    here = Path.cwd()
    places = [place / folder for place in (here, *here.parents) for folder in folders]
    for place in places:
        if (place / name).exists():
            return place / name
    raise FileNotFoundError(
        f"name must be a file of {' or '.join(folders)} in {here} or above, got {name!r}: "
        "unpack the download of the chapter there"
    )
