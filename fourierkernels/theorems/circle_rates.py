"""Rates of the best exact MISE on a circle, beside the same density and kernel on the line.

``fourierkernels rates --density wrapped_laplace`` shows and writes them. The laws in n are those of
the line in one dimension: sums over frequencies grow as the integrals do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theorems.rate_tables import SIZES
from fourierkernels.theory.circle import CircleOptimum, circle_optimum
from fourierkernels.theory.densities.circular import CircularDensity, as_circular
from fourierkernels.theory.optimum import Optimum, optimum
from fourierkernels.theory.rates import RadiusLaw, RateRow, rate_of_smoothness

if TYPE_CHECKING:
    from rich.table import Table

_HEADER = (
    "kernel",
    "n",
    "frequencies",
    "best radius",
    "exact MISE",
    "local slope",
    "on the line",
    "its slope",
    "rate",
)


@dataclass(frozen=True)
class CircleRow(RateRow):
    """A line of the table: with the optimum of the density on the line, if it was wrapped."""

    circle: CircleOptimum
    line: Optimum | None


def circle_rate_table(
    density: CircularDensity | str,
    kernels: Iterable[Kernel | str],
    *,
    sizes: Iterable[int] = SIZES,
    dim: int = 1,
) -> list[CircleRow]:
    """Return the optimum for every kernel and sample size, kernels outermost.

    The rate is that of the class of the density; the coefficients of the von Mises density fall
    faster than any of its class, so that for l = 1 it is a bound.

    Raises
    ------
    ValueError, TypeError
        As :func:`fourierkernels.theory.circle_optimum`, or if there is more than one dimension.

    Examples
    --------
    >>> row = circle_rate_table("wrapped_laplace", ["fourier1"], sizes=[10**6])[0]
    >>> row.circle.frequencies, f"{row.circle.slope:.3f} {row.line.slope:.3f}", str(row.sharp)
    (63, '-0.749 -0.745', 'n^-3/4')
    """
    if dim != 1:
        raise ValueError(f"dim must be 1 for a density on a circle, got {dim}")
    target = as_circular(density)
    label = density if isinstance(density, str) else repr(density)
    wide, rows = list(sizes), []
    for kernel in map(as_kernel, kernels):
        rate = rate_of_smoothness(target.smoothness, kernel)
        growth = 1.0 - rate.exponent
        law = RadiusLaw(growth, rate.log_power and (growth or rate.log_power), 1.0, rate.source)
        for n in wide:
            best, line = circle_optimum(target, kernel, n=n), None
            if target.unwrapped is not None:
                line = optimum(target.unwrapped, kernel, n=n)
            rows.append(CircleRow(label, kernel.name, best, None, rate, None, law, best, line))
    return rows


def circle_table(rows: Sequence[CircleRow]) -> "Table":
    """Return the table for the terminal."""
    from rich import box
    from rich.table import Table

    notes = [] if rows[0].line else ["- : the density is no wrapped one"]
    if rows[0].density.lower().startswith(("von_mises", "vonmises")):
        notes.append("the rate of l = 1 is a bound: the coefficients fall like exp(-m log m)")
    title = f"{rows[0].density}, on a circle"
    table = Table(*_HEADER, title=title, box=box.SIMPLE_HEAD, caption="\n".join(notes) or None)
    for before, row in zip([rows[0], *rows], rows, strict=False):
        if row.kernel != before.kernel:
            table.add_section()
        best = row.circle
        numbers = str(best.frequencies), f"{best.radius:.5g}", f"{best.mise.total:.4e}"
        line = ("-", "-") if row.line is None else _of_line(row.line)
        size = f"1e{len(str(best.n)) - 1}"
        table.add_row(row.kernel, size, *numbers, f"{best.slope:.4f}", *line, str(row.sharp))
    return table


def _of_line(best: Optimum) -> tuple[str, str]:
    return f"{best.mise.total:.4e}", f"{best.slope:.4f}"


def circle_records(rows: Sequence[CircleRow]) -> list[dict[str, Any]]:
    """Return the table as rows of a file; empty where there is no density on the line."""
    return [
        {
            "density": row.density,
            "kernel": row.kernel,
            "n": row.circle.n,
            "frequencies": row.circle.frequencies,
            "radius": row.circle.radius,
            "bias2": row.circle.mise.bias2,
            "variance": row.circle.mise.variance,
            "mise": row.circle.mise.total,
            "slope": row.circle.slope,
            "line_radius": "" if row.line is None else row.line.radius,
            "line_mise": "" if row.line is None else row.line.mise.total,
            "line_slope": "" if row.line is None else row.line.slope,
            "rate": str(row.sharp),
        }
        for row in rows
    ]
