"""Words in a figure: labels beside curves, which need no legend, and a note of what to see."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.foundation.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

_CONTRAST = 4.5  # of text on white, WCAG 2.2, criterion 1.4.3


def label_curves(
    axes: "Axes", places: Mapping[str, tuple[float, float]] | None = None, **look: Any
) -> None:
    """Write the label of each curve beside it, in its colour, in place of a legend.

    Labels without a place stand at the right ends of their curves, moved apart where they would
    overlap; so limits and scales are set before. A colour too pale for text is darkened.

    Parameters
    ----------
    axes : matplotlib Axes
        Its lines and error bars have labels.
    places : mapping of label to (x, y), optional
        Left end of a label, halfway up, as data.
    **look
        Of the texts, as matplotlib names it.

    Raises
    ------
    ValueError
        If `places` has a label that no curve has, or a curve has no point inside the limits.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> _ = axes.plot([0, 1], [1, 2], label="rising")
    >>> label_curves(axes)
    >>> [text.get_text() for text in axes.texts]
    ['rising']
    """
    curves, free = _labelled(axes), dict(places or {})
    if unknown := sorted(set(free) - set(curves)):
        raise ValueError(f"places must have labels of curves, {sorted(curves)}, got {unknown}")
    for label, (x, y) in free.items():
        colour = text_colour(curves[label].get_color())
        axes.text(x, y, label, **{"color": colour, "va": "center"} | look)
    ends = {label: _end(axes, line) for label, line in curves.items() if label not in free}
    heights = _apart(np.array([y for _, y in ends.values()]), _step(axes, list(ends), look))
    for (label, (x, _)), height in zip(ends.items(), heights, strict=True):
        axes.annotate(
            label,
            (x, height),
            xycoords=("data", "axes fraction"),
            xytext=(5, 0),
            textcoords="offset points",
            annotation_clip=False,
            **{"color": text_colour(curves[label].get_color()), "va": "center"} | look,
        )


def point_out(
    axes: "Axes", text: str, at: tuple[float, float], place: tuple[float, float], **look: Any
) -> "Annotation":
    """Write `text` at `place`, with an arrow to what it is about, `at`; both as data.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> point_out(Figure().subplots(), "the peak", (0.5, 1.0), (0.8, 0.5)).xy
    (0.5, 1.0)
    """
    arrow = {"arrowstyle": "->", "color": "0.3", "shrinkB": 3}
    return axes.annotate(text, at, place, **{"color": "0.2", "arrowprops": arrow} | look)


def text_colour(colour: Any) -> tuple[float, float, float]:
    """Return `colour`, darkened until text of it can be read on white.

    Examples
    --------
    >>> text_colour("black")
    (0.0, 0.0, 0.0)
    """
    from matplotlib.colors import to_rgb

    parts = np.array(to_rgb(colour))
    while 1.05 / (_luminance(parts) + 0.05) < _CONTRAST:
        parts = 0.97 * parts
    red, green, blue = parts.tolist()
    return red, green, blue


def _luminance(parts: FloatArray) -> float:
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _labelled(axes: "Axes") -> dict[str, Any]:
    """Return the line of each label; that of an error bar is its first."""
    named = zip(*axes.get_legend_handles_labels(), strict=True)
    return {str(label): getattr(handle, "lines", [handle])[0] for handle, label in named}


def _end(axes: "Axes", line: Any) -> tuple[float, float]:
    """Return the last point of a line inside the limits: x as data, y as a share of the axes."""
    x, y = (np.asarray(values, float) for values in line.get_data())
    shown = _within(x, axes.get_xlim()) & _within(y, axes.get_ylim())
    if not shown.any():
        raise ValueError(f"curve {line.get_label()!r} must have a point inside the limits")
    last = np.flatnonzero(shown)[np.argmax(x[shown])]
    height = (axes.transData + axes.transAxes.inverted()).transform((x[last], y[last]))[1]
    return float(x[last]), float(height)


def _within(values: FloatArray, ends: tuple[float, float]) -> NDArray[np.bool_]:
    return (values >= min(ends)) & (values <= max(ends))


def _step(axes: "Axes", labels: list[str], look: Mapping[str, Any]) -> float:
    """Return the height of the tallest label as a share of the axes."""
    import matplotlib as mpl

    size = float(look.get("fontsize", mpl.rcParams["font.size"]))
    rows = 1 + max((label.count("\n") for label in labels), default=0)
    points = axes.get_window_extent().height * 72.0 / axes.figure.dpi
    return 1.2 * size * rows / points


def _apart(heights: ArrayLike, step: float) -> FloatArray:
    """Return heights in the same order, moved as little as it takes to be `step` apart."""
    moved = np.array(heights, float)
    order = np.argsort(moved, kind="stable")
    for _ in range(200):
        lower, upper = moved[order[:-1]], moved[order[1:]]
        short = np.maximum(step - (upper - lower), 0.0) / 2.0
        if not short.any():
            break
        np.subtract.at(moved, order[:-1], short)
        np.add.at(moved, order[1:], short)
    return moved
