"""Density and regression summaries as terminal tables."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table

_SHOWN = 4  # modes or intervals of one group

Rows = Sequence[dict[str, Any]]


def density_table(
    rows: Rows, title: str, *, by: str | None, level: float, lost: int, untested: bool = False
) -> Table:
    """Return a table of densities: size, radius, modes, region, and the test of one mode.

    On a circle a region over the end goes from a larger number to a smaller one.

    Parameters
    ----------
    by : str or None
        Column of the groups.
    level : float
        Probability of the regions.
    lost : int
        Rows without a group.
    untested : bool
        Whether a test was left out because of the number of samples.
    """
    tested = any(row["p_value"] is not None for row in rows)
    columns = ["modes (density)", f"{100 * level:g} % region", *(["one mode: p"] if tested else [])]
    notes = [_ungrouped(by, lost)]
    if tested:
        notes.append("p: Silverman's test of one mode, with its Monte Carlo interval")
    if untested:
        notes.append("no test of one mode of so many samples unless --replicates is given")
    if not all(row["region"] for row in rows):
        notes.append("no region: the kernel has negative values")
    table = _new(rows, by, columns, title, notes)
    for row in rows:
        both = zip(row["modes"], row["densities"], strict=True)
        modes = [f"{place:.4g} ({height:.3g})" for place, height in both]
        around = row["period"] or math.inf
        ends = [
            f"{low:.4g} to {high - around if high > around else high:.4g}"
            for low, high in row["region"]
        ]
        radii = [row["radius"]], [row["bandwidth"]]
        test = [_test(row)] if tested else []
        table.add_row(*_first(row, rows, by), *map(_list, radii), _some(modes), _some(ends), *test)
    return table


def regression_table(rows: Rows, title: str, *, by: str | None, lost: int) -> Table:
    """Return a table of regressions: size, radius, leave-one-out error, degrees of freedom.

    Parameters as for :func:`density_table`.
    """
    note = "error (root mean square) and R² leave each sample out; freedom: tr H"
    table = _new(
        rows, by, ["error", "R²", "freedom", "undefined"], title, [_ungrouped(by, lost), note]
    )
    for row in rows:
        numbers = _number(row["error"], ".4g"), _number(row["r2"], ".3f"), f"{row['freedom']:.2f}"
        radii = row["radius"], row["bandwidth"]
        table.add_row(*_first(row, rows, by), *map(_list, radii), *numbers, str(row["undefined"]))
    return table


def grid_table(row: dict[str, Any], title: str) -> Table:
    """Return a table of an estimate on a grid: size, radius, places, and the largest value."""
    columns = ["n", "missing", "radius", "places", "largest value", "at"]
    table = Table(*columns, title=title, box=box.SIMPLE_HEAD)
    radii = [
        value for each in row["radius"] for value in (each if isinstance(each, list) else [each])
    ]
    places = " x ".join(map(str, row["lengths"]))
    table.add_row(
        f"{row['n']:,}",
        str(row["dropped"]),
        _list(radii),
        places,
        f"{row['largest']:.4g}",
        _list(row["at"]),
    )
    return table


def _new(
    rows: Rows, by: str | None, columns: Iterable[str], title: str, notes: Sequence[str]
) -> Table:
    counted = ["samples"] if _counted(rows) else []
    first = [*([] if by is None else [by]), "n", *counted, "missing", "radius", "bandwidth"]
    if counted:
        notes = [*notes, "samples: what rows stand for, by their weights; repeated ones are one"]
    caption = "\n".join(note for note in notes if note) or None
    return Table(*first, *columns, title=title, caption=caption, box=box.SIMPLE_HEAD)


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)


def _counted(rows: Rows) -> bool:
    """Return whether rows are not samples somewhere."""
    return any(abs(row["samples"] - row["n"]) > 1e-9 * row["n"] for row in rows)


def _first(row: dict[str, Any], rows: Rows, by: str | None) -> list[str]:
    samples = [f"{row['samples']:,.6g}"] if _counted(rows) else []
    group = [] if by is None else [row["group"]]
    return [*group, f"{row['n']:,}", *samples, str(row["dropped"])]


def _some(texts: Sequence[str]) -> str:
    more = f"\n… {len(texts)} in all" if len(texts) > _SHOWN else ""
    return "\n".join(texts[:_SHOWN]) + more or "-"


def _test(row: dict[str, Any]) -> str:
    if row["p_value"] is None:
        return "-"
    low, high = row["p_interval"]
    return f"{row['p_value']:.2f} [{low:.2f}, {high:.2f}]"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ungrouped(by: str | None, count: int) -> str:
    return f"{count:,} rows without a value of {by!r} left out" if count else ""
