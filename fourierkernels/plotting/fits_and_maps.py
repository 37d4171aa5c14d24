"""Panels side by side: regression curves over a sample, and weight maps."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.plotting.look import COLOURS, MAPS, new_panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNDEFINED = "0.8"  # grey
_NOISE = 1e-3  # of the largest value: what is hardly negative is drawn as if it were not


@styled
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
    """Draw regression curves over one sample, one panel per curve.

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
    figure, axes = new_panels(len(fits), share=True)
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


@styled
def plot_weight_maps(
    panels: Mapping[str, ArrayLike],
    *,
    top: float | None = None,
    xlabel: str = "sample",
    ylabel: str = "query",
) -> "Figure":
    """Draw weight (hat or attention) matrices as images on one colour scale, one panel per matrix.

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
    figure, axes = new_panels(len(maps))
    signed = any((matrix < 0).any() for matrix in maps.values())
    limit = _limit(maps, top)
    low = -limit if signed else 0.0
    for axis, (title, matrix) in zip(axes, maps.items(), strict=True):
        image = axis.imshow(
            matrix, cmap=MAPS[signed], vmin=low, vmax=limit, aspect="auto", interpolation="nearest"
        )
        axis.set(title=title, facecolor=_UNDEFINED)  # NaN is transparent
        axis.grid(False)
    _label(figure, axes, xlabel=xlabel, ylabel=ylabel)
    figure.colorbar(image, ax=axes, label="weight", shrink=0.7, extend=_extend(maps, low, limit))
    return figure


@styled
def plot_grid(
    axes: Sequence[ArrayLike],
    values: ArrayLike,
    *,
    columns: Sequence[str] = ("x", "y"),
    label: str = "density",
) -> "Figure":
    """Draw a curve over one axis, or a map with contours over two; what is undefined is grey.

    Parameters
    ----------
    axes : sequence of one or two arrays, increasing
    values : array of shape ``(len(axes[0]),)`` or ``(len(axes[0]), len(axes[1]))``
    columns : sequence of str
        What the axes are.
    label : str
        What the values are.

    Raises
    ------
    ValueError
        If there are other axes, or the shape of the values is another.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> figure = plot_grid([[0.0, 1.0], [0.0, 1.0, 2.0]], np.eye(2, 3))
    >>> figure.axes[0].get_ylabel(), figure.axes[1].get_ylabel()
    ('y', 'density')
    """
    ends, heights = [np.asarray(axis, float) for axis in axes], np.asarray(values, float)
    if len(ends) not in {1, 2} or heights.shape != tuple(map(len, ends)):
        raise ValueError(
            "values must have the lengths of one or two axes as their shape, "
            f"{tuple(map(len, ends))}, got {heights.shape}"
        )
    figure, (panel,) = new_panels(1, size=(5.2, 4.0))
    if len(ends) == 1:
        panel.plot(ends[0], heights)
        panel.set(xlabel=columns[0], ylabel=label)
        return figure
    signed = bool(np.nanmin(heights) < -_NOISE * np.nanmax(np.abs(heights)))
    limit = float(np.nanmax(np.abs(heights))) if signed else None
    mesh = panel.pcolormesh(
        *ends,
        heights.T,
        cmap=MAPS[signed],
        vmin=-limit if limit else None,
        vmax=limit,
        shading="nearest",
        rasterized=True,
    )
    panel.contour(*ends, heights.T, levels=7, colors="0.9", linewidths=0.5)
    panel.set(xlabel=columns[0], ylabel=columns[1], facecolor=_UNDEFINED)
    panel.grid(False)
    figure.colorbar(mesh, ax=panel, label=label)
    return figure


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
    """Return the ends of the colour bar that get an arrow because weights lie beyond them."""
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
