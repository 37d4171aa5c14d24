"""Curves of error against n: exact with the rates, and simulated with bars."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.plotting.look import COLOURS, LINES, MARKERS, new_panels, styled
from fourierkernels.theory import Rate, RateRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def plot_rates(rows: Iterable[RateRow], ax: "Axes | None" = None) -> "Axes":
    """Draw the best exact MISE against n, with the rates of the paper and the sharp ones.

    One curve per kernel on logarithmic axes. Its sharp rate is drawn through its last point,
    dashed, and the paper's rate, dotted, where it differs; the legend names both.

    Parameters
    ----------
    rows : iterable of RateRow
        From :func:`fourierkernels.theorems.rate_table`, of one density.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure, reached as ``.figure`` of the result.

    Raises
    ------
    ValueError
        If there are no rows, or they are of several densities or dimensions.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> from fourierkernels.theorems import rate_table
    >>> axes = plot_rates(rate_table("laplace", ["fourier1"], sizes=[100, 10_000]))
    >>> axes.get_xscale(), axes.get_title()
    ('log', 'laplace')
    """
    density, dim, curves = _curves(rows)
    axes = ax if ax is not None else new_panels(1, size=(5.6, 4.8))[1][0]
    for i, curve in enumerate(curves.values()):
        _draw_curve(axes, curve, number=i)
    axes.plot([], [], color="0.3", linestyle="--", label="sharp rate, through the last point")
    axes.plot([], [], color="0.3", linestyle=":", label="rate of the paper, if another")
    title = density if dim == 1 else f"{density}, D = {dim}"
    axes.set(xscale="log", yscale="log", xlabel="sample size $N$", ylabel="best exact MISE")
    axes.set_title(title)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), borderaxespad=0.0)
    return axes


class SimulatedCurve(NamedTuple):
    """Sizes, simulated errors, their standard errors, and computed errors, each ``(k,)``."""

    sizes: ArrayLike
    errors: ArrayLike
    standard_errors: ArrayLike
    computed: ArrayLike

    @classmethod
    def of(cls, rows: Iterable[object], *, computed: str) -> "SimulatedCurve":
        """Return the curve of rows with members n, mean, standard_error, and the one named."""
        names = ("n", "mean", "standard_error", computed)
        table = [[getattr(row, name) for name in names] for row in rows]
        return cls(*zip(*table, strict=True))


@styled
def plot_simulated(
    panels: Mapping[str, Mapping[str, SimulatedCurve]],
    *,
    width: float = 3.6,
    ylabel: str = "integrated squared error",
) -> "Figure":
    """Draw simulated errors, with bars of two standard errors, over computed curves.

    Parameters
    ----------
    panels : mapping of title to mapping of label to SimulatedCurve
        A panel per title; the same labels in each, at most seven.
    width : float
        Of one panel, in inches.

    Raises
    ------
    ValueError
        If there are no panels.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> n = np.array([100.0, 1000.0])
    >>> curve = SimulatedCurve(n, 1 / n, 0.1 / n, 1 / n)
    >>> figure = plot_simulated({"gaussian": {"fourier4": curve}})
    >>> figure.axes[0].get_xscale(), figure.axes[0].get_title()
    ('log', 'gaussian')
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    if not panels:
        raise ValueError("panels must have at least one entry, got none")
    figure = Figure(figsize=(width * len(panels), 3.8))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for i, curve in enumerate(curves.values()):
            _draw_simulated(axis, curve, number=i)
        axis.set(xscale="log", yscale="log", xlabel="n", title=title)
    axes[0].set_ylabel(ylabel)
    labels = next(iter(panels.values()))
    handles = [
        Line2D([], [], color=COLOURS[i], marker=MARKERS[i], ls=LINES[i], label=label)
        for i, label in enumerate(labels)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _curves(rows: Iterable[RateRow]) -> tuple[str, int, dict[str, list[RateRow]]]:
    """Return density, dimension, and the rows of each kernel in the order of n."""
    targets, curves = set[tuple[str, int]](), dict[str, list[RateRow]]()
    for row in rows:
        targets.add((row.density, row.optimum.dim))
        curves.setdefault(row.kernel, []).append(row)
    if len(targets) != 1:
        raise ValueError(f"rows must be of one density and dimension, got {sorted(targets)}")
    for curve in curves.values():
        curve.sort(key=lambda row: row.optimum.n)
    return *targets.pop(), curves


def _draw_curve(axes: "Axes", curve: list[RateRow], *, number: int) -> None:
    n = np.array([float(row.optimum.n) for row in curve])
    error = np.array([row.optimum.mise.total for row in curve])
    colour, marker = (names[number % len(names)] for names in (COLOURS, MARKERS))
    (drawn,) = axes.plot(n, error, "-", color=colour, marker=marker, label=_rate_label(curve[0]))
    drawn.set(fillstyle="none", markersize=7)
    sharp, paper = curve[0].sharp, curve[0].paper
    other = paper if paper is not None and not _same(sharp, paper) else None
    for rate, line in ((sharp, "--"), (other, ":")):
        if rate is not None:
            shape = np.array([rate(size) for size in n])
            axes.plot(n, error[-1] * shape / shape[-1], linestyle=line, color=colour, linewidth=1.2)


def _rate_label(row: RateRow) -> str:
    same = row.paper is not None and _same(row.sharp, row.paper)
    stated = "the same" if same else "none" if row.paper is None else _tex(row.paper)
    return f"{row.kernel} – sharp: {_tex(row.sharp)}, paper: {stated}"


def _same(one: Rate, other: Rate) -> bool:
    return (one.exponent, one.log_power) == (other.exponent, other.log_power)


def _tex(rate: Rate) -> str:
    """Write (log n)^1/2 n^-1 as mathematics, N being the sample size in formulas."""
    tex = re.sub(r"\^(\S+)", r"^{\1}", str(rate).replace("log n", r"\log N"))
    tex = tex.replace("n^", "N^")
    return f"${tex}$"


def _draw_simulated(axes: "Axes", curve: SimulatedCurve, *, number: int) -> None:
    colour = COLOURS[number]
    axes.plot(curve.sizes, curve.computed, ls=LINES[number], color=colour, lw=1.2)
    axes.errorbar(
        curve.sizes,
        curve.errors,
        2.0 * np.asarray(curve.standard_errors, float),
        fmt=MARKERS[number],
        color=colour,
        ms=4,
        capsize=2,
    )
