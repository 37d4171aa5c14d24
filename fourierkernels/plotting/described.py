"""Figures of density and regression summaries, by group, in one panel."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.plotting.look import COLOURS, LINES, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 1000  # samples drawn of a group: beyond, every k-th in order


class DensityCurve(NamedTuple):
    """Data for drawing one density: arrays of shape (m,), (n,), (k, 2) and (j, 2).

    `modes` has places and heights, `region` the ends of intervals.
    """

    density: FloatArray
    samples: FloatArray
    modes: FloatArray
    region: FloatArray


class RegressionCurve(NamedTuple):
    """Data for drawing one regression: arrays of shape (m,) and, for the samples, (n,)."""

    at: FloatArray
    fit: FloatArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray
    samples: FloatArray
    responses: FloatArray


@styled
def plot_densities(
    curves: Mapping[str, DensityCurve],
    at: FloatArray,
    *,
    xlabel: str = "x",
    level: float | None = None,
    period: float | None = None,
) -> "Figure":
    """Draw densities with modes as dots; below them samples as ticks and regions as bars.

    Parameters
    ----------
    curves : mapping of label to DensityCurve
        At most seven; a single one gets no legend, and the area over its region is filled.
    at : array of shape (m,)
        Where the densities are.
    level : float, optional
        Probability of the regions, for the legend.
    period : float, optional
        Of a circle, which is the axis.

    Raises
    ------
    ValueError
        For no curve, or more than seven.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> at = np.linspace(-1, 1, 5)
    >>> curve = DensityCurve(1 - at**2, at, np.array([[0.0, 1.0]]), np.array([[-0.5, 0.5]]))
    >>> plot_densities({"a": curve}, at).axes[0].get_ylabel()
    'density'
    """
    figure, axes = _panel(curves)
    step = 0.05 * max(float(curve.density.max()) for curve in curves.values())
    for i, (label, curve) in enumerate(curves.items()):
        colour = COLOURS[i]
        axes.plot(at, curve.density, color=colour, linestyle=LINES[i], label=label)
        axes.plot(*curve.modes.T, "o", color=colour, markersize=5)
        height = -(i + 1) * step
        ticks = _some(curve.samples)
        axes.plot(ticks, np.full_like(ticks, height), "|", color=colour, alpha=0.35, markersize=7)
        for low, high in curve.region:
            axes.plot([low, high], [height, height], color=colour, linestyle="-", linewidth=2.5)
            if len(curves) == 1:
                inside = (at >= low) & (at <= high)
                axes.fill_between(at, curve.density, where=inside, color=colour, alpha=0.15)
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    axes.set(xlabel=xlabel, ylabel="density")
    _around(axes, period)
    _legend(figure, axes, curves, "" if level is None else f"bars: {100 * level:g} % regions")
    return figure


@styled
def plot_regressions(
    curves: Mapping[str, RegressionCurve],
    *,
    xlabel: str = "x",
    ylabel: str = "y",
    limits: str = "limits",
    derivative: bool = False,
    period: float | None = None,
) -> "Figure":
    """Draw samples, fits and their limits; with `derivative`, the slopes in a panel below.

    Parameters
    ----------
    curves : mapping of label to RegressionCurve
        At most seven; a single one gets no legend.
    limits : str
        What the shaded limits are.
    derivative : bool
    period : float, optional
        Of a circle, which is the axis.

    Raises
    ------
    ValueError
        For no curve, or more than seven.
    ImportError
        If matplotlib is missing.
    """
    figure, axes = _panel(curves, rows=1 + derivative)
    for i, (label, curve) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": COLOURS[i], "linestyle": LINES[i]}
        chosen = _every(len(curve.samples))
        cloud = "0.65" if len(curves) == 1 else COLOURS[i]
        places = curve.samples[chosen], curve.responses[chosen]
        axes.plot(*places, ".", color=cloud, markersize=4, alpha=0.6)
        axes.fill_between(curve.at, curve.low, curve.high, color=COLOURS[i], alpha=0.2, linewidth=0)
        axes.plot(curve.at, curve.fit, label=label, **look)
        if derivative:
            figure.axes[1].plot(curve.at, curve.slope, **look)
    axes.set(ylabel=ylabel, ylim=_range([curve.responses for curve in curves.values()]))
    if derivative:
        figure.axes[1].axhline(0.0, color="0.6", linewidth=0.8)
        figure.axes[1].set(ylabel="derivative")
    figure.axes[-1].set(xlabel=xlabel)
    _around(axes, period)
    _legend(figure, axes, curves, f"shaded: {limits}")
    return figure


@styled
def plot_left_out(
    pairs: Mapping[str, tuple[FloatArray, FloatArray]], *, ylabel: str = "y"
) -> "Figure":
    """Draw responses against the fits that leave them out, with the diagonal.

    Parameters
    ----------
    pairs : mapping of label to (fits, responses)
        Arrays of shape (n,); at most seven pairs.

    Raises
    ------
    ValueError
        For no pair, or more than seven.
    ImportError
        If matplotlib is missing.
    """
    figure, axes = _panel(pairs)
    for i, (label, (fit, response)) in enumerate(pairs.items()):
        chosen = _every(len(fit))
        axes.plot(fit[chosen], response[chosen], ".", color=COLOURS[i], label=label, alpha=0.6)
    low, high = _range([fit[np.isfinite(fit)] for fit, _ in pairs.values()])
    axes.plot([low, high], [low, high], "--", color="0.3", linewidth=1.0)
    axes.set(xlabel="fit without the sample", ylabel=ylabel)
    _legend(figure, axes, pairs, "dashed: equal")
    return figure


def _panel(curves: Mapping[str, Any], rows: int = 1) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    if not 0 < len(curves) <= len(COLOURS):
        raise ValueError(
            f"a figure must have from one to {len(COLOURS)} groups, got {len(curves)}; "
            "leave it out, or some groups"
        )
    figure = Figure(figsize=(6.4, 3.8 + 2.2 * (rows - 1)))
    ratios = [2.0, 1.2][:rows]
    figure.subplots(rows, 1, sharex=True, height_ratios=ratios)
    return figure, figure.axes[0]


def _around(axes: "Axes", period: float | None) -> None:
    """Make a circle the axis, with ticks at quarters and eighths."""
    if period is not None:
        axes.set(xlim=(0.0, period), xticks=np.linspace(0.0, period, 9))


def _legend(figure: "Figure", axes: "Axes", curves: Mapping[str, Any], note: str) -> None:
    if len(curves) > 1:
        columns = min(4, len(curves))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    axes.set_title(note, loc="right", fontsize=9.5, color="0.35")


def _every(count: int) -> slice:
    return slice(None, None, -(-count // _MOST))


def _some(samples: FloatArray) -> FloatArray:
    return np.sort(samples)[_every(len(samples))]


def _range(arrays: list[FloatArray]) -> tuple[float, float]:
    every = np.concatenate(arrays)
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin
