"""What ``fourierkernels rates`` shows and writes."""

import csv
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from fourierkernels.theory.rates import RateRow

_HEADER = ("kernel", "n", "best radius", "exact MISE", "local slope", "paper's rate", "sharp rate")


def rates_table(rows: Sequence[RateRow]) -> Table:
    """Return the table of best radii, errors and rates."""
    first = rows[0]
    title = f"{first.density}, D = {first.optimum.dim}"
    caption = "- : the paper states none" if any(row.paper is None for row in rows) else None
    table = Table(*_HEADER, title=title, box=box.SIMPLE_HEAD, caption=caption)
    for before, row in zip([first, *rows], rows, strict=False):
        if row.kernel != before.kernel:
            table.add_section()
        table.add_row(*_cells(row))
    return table


def _cells(row: RateRow) -> list[str]:
    best = row.optimum
    return [
        row.kernel,
        f"1e{len(str(best.n)) - 1}",
        f"{best.radius:.5g}",
        f"{best.mise.total:.4e}",
        f"{best.slope:.4f}",
        str(row.paper or "-"),
        str(row.sharp),
    ]


def write_rates(path: Path, rows: Sequence[RateRow]) -> None:
    """Write the same as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "density",
                "dim",
                "kernel",
                "n",
                "radius",
                "bias2",
                "variance",
                "mise",
                "slope",
                "paper_rate",
                "sharp_rate",
            ]
        )
        for row in rows:
            best = row.optimum
            writer.writerow(
                [
                    row.density,
                    best.dim,
                    row.kernel,
                    best.n,
                    best.radius,
                    best.mise.bias2,
                    best.mise.variance,
                    best.mise.total,
                    best.slope,
                    row.paper or "",
                    row.sharp,
                ]
            )
