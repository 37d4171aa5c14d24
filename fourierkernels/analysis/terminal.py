"""Descriptions as tables for a terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from fourierkernels.analysis.density import DensityDescription
    from fourierkernels.analysis.regression import RegressionDescription

_SHOWN = 4  # modes or intervals of one group


def density_table(found: "DensityDescription") -> Table:
    """Return one row per group: size, radius, modes, region, and the test of one mode."""
    tested = any(group.test is not None for group in found.groups)
    region = f"{100 * found.level:g} % region"
    columns = ["n", "missing", "radius", "bandwidth", "modes (density)", region]
    table = _new(found.by, [*columns, *(["one mode: p"] if tested else [])])
    table.title = f"{found.column}, kernel {found.kernel}, radius {found.rule}"
    notes = [_ungrouped(found.by, found.ungrouped)]
    if tested:
        notes.append("p: Silverman's test of one mode, with its Monte Carlo interval")
    if any(group.region is None for group in found.groups):
        notes.append("no region: the kernel has negative values")
    table.caption = "\n".join(note for note in notes if note) or None
    for row in found.rows():
        both = zip(row["modes"], row["densities"], strict=True)
        modes = [f"{place:.4g} ({height:.3g})" for place, height in both]
        ends = [f"{low:.4g} to {high:.4g}" for low, high in row["region"]]
        cells = [*_first(row, found.by), f"{row['radius']:.4g}", f"{row['bandwidth']:.4g}"]
        table.add_row(*cells, _some(modes), _some(ends), *([_test(row)] if tested else []))
    return table


def regression_table(found: "RegressionDescription") -> Table:
    """Return one row per group: size, radius, leave-one-out error, degrees of freedom."""
    columns = ["n", "missing", "radius", "bandwidth", "error", "R²", "freedom", "undefined"]
    table = _new(found.by, columns)
    table.title = (
        f"{found.y} on {', '.join(found.x)}, degree {found.degree}, kernel {found.kernel}, "
        f"radius {found.rule}"
    )
    notes = [
        _ungrouped(found.by, found.ungrouped),
        "error (root mean square) and R² leave each sample out; freedom: tr H",
    ]
    table.caption = "\n".join(note for note in notes if note)
    for row in found.rows():
        table.add_row(
            *_first(row, found.by),
            ", ".join(f"{radius:.4g}" for radius in row["radius"]),
            ", ".join(f"{width:.4g}" for width in row["bandwidth"]),
            _number(row["error"], ".4g"),
            _number(row["r2"], ".3f"),
            f"{row['freedom']:.2f}",
            str(row["undefined"]),
        )
    return table


def _new(by: str | None, columns: Iterable[str]) -> Table:
    return Table(*([] if by is None else [by]), *columns, box=box.SIMPLE_HEAD)


def _first(row: dict[str, Any], by: str | None) -> list[str]:
    return [*([] if by is None else [row["group"]]), f"{row['n']:,}", str(row["dropped"])]


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
