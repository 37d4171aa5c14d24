"""The tables that the commands show; everything else is in the files they write."""

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from fourierkernels.cli.card.bounds import BOUNDS
from fourierkernels.cli.card.card import Card
from fourierkernels.cli.card.check import summary
from fourierkernels.cli.card.measurement import Line
from fourierkernels.cli.card.outcome import Row

_LONGEST_NOTE = 60


def check_table(rows: Sequence[Row], card: Card) -> Table:
    """Return the worst row of each group and precision beside its bound."""
    header = ("group", "dtype", "worst case", "quantity", "error", "bound", "")
    bad, skipped = (
        sum(row.status in kinds for row in rows) for kinds in (("miss", "failed"), ("skipped",))
    )
    told = f"{len(rows)} numbers on {_named(card)}: {bad} bad, {skipped} skipped"
    table = Table(*header, box=box.SIMPLE_HEAD, caption=f"{told}\n{_bounds()}")
    for row in summary(rows):
        state = row.status if row.status != "skipped" else f"skipped: {row.note[:_LONGEST_NOTE]}"
        if row.status == "failed":
            state = f"failed: {row.note[:_LONGEST_NOTE]}"
        cells = (row.group, row.dtype, row.case, row.quantity, _short(row.error), _short(row.bound))
        table.add_row(*cells, state)
    return table


def bench_table(lines: Sequence[Line], card: Card, missing: Sequence[str]) -> Table:
    """Return one line for each measurement."""
    header = ("shape", "causal", "method", "", "ms", "quartiles", "floor", "ratio", "MB", "error")
    told = f"{_named(card)}, {card.multiprocessors} multiprocessors, {card.clock:.3g} GHz"
    note = f"{told}; ratio: over the issue floor of our kernels. {_left(lines)}"
    if missing:
        note += f"Left out: {'; '.join(missing)}."
    table = Table(*header, box=box.SIMPLE_HEAD, caption=note)
    for line in lines:
        if line.status != "no time left":
            causal = "yes" if line.causal else ""
            table.add_row(line.shape, causal, line.contender, line.direction, *_numbers(line))
    return table


def _numbers(line: Line) -> list[str]:
    if line.status != "ok":
        return [f"{line.status} {line.note[:_LONGEST_NOTE]}".strip()]
    quartiles = f"{line.quartile_low:.3g} to {line.quartile_high:.3g}"
    memory = f"{line.peak_bytes / 1e6:.0f}" if line.peak_bytes else ""
    numbers = (line.floor, line.of_floor)
    floor, ratio = ("" if math.isnan(number) else f"{number:.3g}" for number in numbers)
    return [f"{line.milliseconds:.3g}", quartiles, floor, ratio, memory, _short(line.error)]


def _left(lines: Sequence[Line]) -> str:
    left = sum(line.status == "no time left" for line in lines)
    return f"No time was left for {left}: run again with the same output. " if left else ""


def _named(card: Card) -> str:
    driver = "" if card.driver == "none" else f", driver {card.driver}"
    return f"{card.name}{driver}, torch {card.torch}, nvcc {card.toolkit}"


def _short(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.1e}"


def _bounds() -> str:
    parts = [
        f"{dtype} {bounds['value']:.1e} and {bounds['gradient']:.1e}"
        for dtype, bounds in BOUNDS.items()
    ]
    return f"bounds of values and gradients, relative to float64: {'; '.join(parts)}"
