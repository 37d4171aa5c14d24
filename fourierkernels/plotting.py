"""Figures in one look: rates, fits and weight maps.

Figures are made without pyplot: they belong to no window and no backend. Save them, or let a
notebook display them. matplotlib is imported on first use.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.arrays import FloatArray
from fourierkernels.theory import Rate, RateRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito's colours, told apart by colour-blind readers, without the yellow that a white page
# swallows. Lines and markers go along in the same order: colour is never the only cue.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (6, 1.5)), (0, (4, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MAPS = {False: "cividis", True: "PuOr_r"}  # signed or not; both safe for colour-blind eyes
_UNDEFINED = "0.8"  # grey


def style() -> dict[Any, Any]:  # matplotlib types the keys as literals that vary by version
    """Return the look of the book as matplotlib settings (rcParams).

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> with plt.rc_context(style()):
    ...     plt.rcParams["axes.grid"]
    True
    """
    return {
        "axes.prop_cycle": f"cycler('color', {COLOURS!r}) + cycler('linestyle', {LINES!r})",
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.labelsize": 10.5,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 11,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",  # on a dark page too
        "font.size": 10,
        "grid.color": "0.9",
        "grid.linewidth": 0.6,
        "image.cmap": _MAPS[False],
        "legend.fontsize": 9.5,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "svg.hashsalt": "fourierkernels",  # the same numbers give the same file
        "xtick.labelsize": 9.5,
        "ytick.labelsize": 9.5,
    }


def _styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Run `draw` with the settings of :func:`style`; say what to install if it cannot run."""

    @wraps(draw)
    def draw_in_style(*args: P.args, **kwargs: P.kwargs) -> T:
        if find_spec("matplotlib") is None:
            raise ImportError('figures need matplotlib: pip install "fourierkernels[plot]"')
        import matplotlib as mpl

        with mpl.rc_context(style()):
            return draw(*args, **kwargs)

    return draw_in_style


@_styled
def plot_rates(rows: Iterable[RateRow], ax: "Axes | None" = None) -> "Axes":
    """Draw the best exact MISE against n, with the rates of the paper and the sharp ones.

    A curve per kernel on logarithmic axes. Through its last point goes its sharp rate, dashed, and
    the paper's, dotted, where that is another; the legend names both.

    Parameters
    ----------
    rows : iterable of RateRow
        From :func:`fourierkernels.theory.rate_table`, of one density.
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
    >>> from fourierkernels.theory import rate_table
    >>> axes = plot_rates(rate_table("laplace", ["fourier1"], sizes=[100, 10_000]))
    >>> axes.get_xscale(), axes.get_title()
    ('log', 'laplace')
    """
    density, dim, curves = _curves(rows)
    axes = ax if ax is not None else _panels(1, size=(5.6, 4.8))[1][0]
    for i, curve in enumerate(curves.values()):
        _draw_curve(axes, curve, number=i)
    axes.plot([], [], color="0.3", linestyle="--", label="sharp rate, through the last point")
    axes.plot([], [], color="0.3", linestyle=":", label="rate of the paper, if another")
    title = density if dim == 1 else f"{density}, D = {dim}"
    axes.set(xscale="log", yscale="log", xlabel="sample size $N$", ylabel="best exact MISE")
    axes.set_title(title)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), borderaxespad=0.0)
    return axes


@_styled
def plot_fits(
    panels: Mapping[str, ArrayLike],
    x: ArrayLike,
    y: ArrayLike,
    *,
    at: ArrayLike,
    truth: ArrayLike | None = None,
    xlabel: str = "x",
    ylabel: str = "y",
) -> "Figure":
    """Draw regression curves over one sample, a panel each; :func:`plot_weight_maps` is its twin.

    The vertical range is that of the sample and the truth, so a curve may leave its panel. Queries
    where a curve is NaN are marked on the lower edge.

    Parameters
    ----------
    panels : mapping of title to array of shape (m,)
        Fitted values at `at`.
    x, y : arrays of shape (n,)
        The sample.
    at : array of shape (m,)
        The queries, increasing.
    truth : array of shape (m,), optional
        The true curve at the queries.

    Raises
    ------
    ValueError
        If there are no panels, or shapes do not fit together.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 9)
    >>> figure = plot_fits({"line": x, "mean": 0 * x}, x, x**2, at=x)
    >>> [axes.get_title() for axes in figure.axes]
    ['line', 'mean']
    """
    queries, sample, responses = _vector("at", at), _vector("x", x), _vector("y", y, like=x)
    fits = {title: _vector(f"panels[{title!r}]", fit, like=at) for title, fit in panels.items()}
    curve = None if truth is None else _vector("truth", truth, like=at)
    figure, axes = _panels(len(fits), share=True)
    for axis, (title, fit) in zip(axes, fits.items(), strict=True):
        axis.plot(sample, responses, ".", color="0.65", markersize=4, label="sample")
        if curve is not None:
            axis.plot(queries, curve, "--", color=COLOURS[-1], linewidth=1.2, label="truth")
        axis.plot(queries, fit, "-", color=COLOURS[0], label="fit")
        _mark_undefined(axis, queries[np.isnan(fit)])
        axis.set(title=title, ylim=_range(responses if curve is None else [*responses, *curve]))
    _label(figure, axes, xlabel=xlabel, ylabel=ylabel)
    named = {label: line for axis in axes for line, label in zip(*_legend_of(axis), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside upper right", ncols=4)
    return figure


@_styled
def plot_weight_maps(
    panels: Mapping[str, ArrayLike],
    *,
    top: float | None = None,
    xlabel: str = "sample",
    ylabel: str = "query",
) -> "Figure":
    """Draw weight (hat or attention) matrices as images on one colour scale, a panel each.

    The scale runs from 0 to `top`, or from -`top` to `top` if any weight is negative; what lies
    beyond is drawn at its end. Undefined (NaN) weights are grey.

    Parameters
    ----------
    panels : mapping of title to array of shape (m, n)
        Row i holds the weights of query i.
    top : float, optional
        By default the largest absolute weight.

    Raises
    ------
    ValueError
        If there are no panels, one is not a matrix, or `top` is not positive.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> figure = plot_weight_maps({"uniform": np.full((2, 4), 0.25)})
    >>> figure.axes[0].get_images()[0].get_clim()
    (0.0, 0.25)
    """
    maps = {title: _matrix(f"panels[{title!r}]", panel) for title, panel in panels.items()}
    figure, axes = _panels(len(maps))
    signed = any((matrix < 0).any() for matrix in maps.values())
    limit = _limit(maps, top)
    low = -limit if signed else 0.0
    for axis, (title, matrix) in zip(axes, maps.items(), strict=True):
        image = axis.imshow(
            matrix, cmap=_MAPS[signed], vmin=low, vmax=limit, aspect="auto", interpolation="nearest"
        )
        axis.set(title=title, facecolor=_UNDEFINED)  # NaN is transparent
        axis.grid(False)
    _label(figure, axes, xlabel=xlabel, ylabel=ylabel)
    figure.colorbar(image, ax=axes, label="weight", shrink=0.7, extend=_extend(maps, low, limit))
    return figure


def _panels(
    count: int, *, size: tuple[float, float] | None = None, share: bool = False
) -> "tuple[Figure, list[Axes]]":
    """Return a figure and `count` axes in it, at most two in a row."""
    from matplotlib.figure import Figure

    if count == 0:
        raise ValueError("panels must have at least one entry, got none")
    columns = min(2, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=size or (3.4 * columns, 2.5 * rows + 0.4))
    axes = figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False)
    for spare in axes.flat[count:]:
        spare.remove()
    return figure, list(axes.flat[:count])


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


def _vector(name: str, values: ArrayLike, *, like: ArrayLike | None = None) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must have shape (n,) with n >= 1, got {array.shape}")
    if like is not None and array.shape != np.shape(like):
        raise ValueError(f"{name} must have shape {np.shape(like)}, got {array.shape}")
    return array


def _matrix(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a matrix of weights, got shape {array.shape}")
    return array


def _range(values: ArrayLike) -> tuple[float, float]:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


def _limit(maps: Mapping[str, FloatArray], top: float | None) -> float:
    if top is None:
        sizes = [np.abs(matrix[np.isfinite(matrix)]) for matrix in maps.values()]
        return max((float(size.max()) for size in sizes if size.size), default=1.0) or 1.0
    if not (math.isfinite(top) and top > 0):
        raise ValueError(f"top must be positive and finite, got {top}")
    return float(top)


def _extend(maps: Mapping[str, FloatArray], low: float, high: float) -> str:
    """Which end of the colour bar gets an arrow: weights lie beyond it."""
    above = any((matrix > high).any() for matrix in maps.values())
    below = any((matrix < low).any() for matrix in maps.values())
    return {(False, False): "neither", (True, False): "max", (False, True): "min"}.get(
        (above, below), "both"
    )


def _mark_undefined(axis: "Axes", at: FloatArray) -> None:
    if at.size:
        edge = axis.get_xaxis_transform()  # x in data, y in axes
        axis.plot(
            at, np.full_like(at, 0.02), "|", transform=edge, color=COLOURS[1], label="undefined"
        )


def _legend_of(axis: "Axes") -> tuple[list[Any], list[str]]:
    handles, labels = axis.get_legend_handles_labels()
    return list(handles), [str(label) for label in labels]


def _label(figure: "Figure", axes: "list[Axes]", *, xlabel: str, ylabel: str) -> None:
    """Label the outer axes only; a panel without one below it counts as outer."""
    columns = min(2, len(axes))
    for i, axis in enumerate(axes):
        if i % columns == 0:
            axis.set_ylabel(ylabel)
        if i + columns >= len(axes):
            axis.set_xlabel(xlabel)
            axis.tick_params(labelbottom=True)
