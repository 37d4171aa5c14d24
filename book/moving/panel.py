"""Axes of a drawing: from numbers to its units, with ticks, labels and styles of lines.

Colours are names: `moving.css` gives them for a light and a dark page, and each has the colour of
:data:`~fourierkernels.plotting.COLOURS` where there is no style sheet. A style of lines goes with
each, so that colour is never the only cue.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from book.moving.drawing import Drawing, Over, element, number, opening
from fourierkernels.plotting import COLOURS

INK = "currentColor"
BAR = {"fill": INK, "fill-opacity": "0.13", "stroke": INK, "stroke-opacity": "0.55"}
_DASHES = ("", "7 4", "8 3 2 3", "2 3")
_FARTHEST = 999.0  # drawing units: what is farther away is cut off by the panel anyway


def stroke(kind: int, width: float = 2.0) -> dict[str, str]:
    """Return the look of line `kind`, from 1: a colour and the dashes that go with it."""
    look = {
        "class": f"moving-line-{kind}",
        "fill": "none",
        "stroke": COLOURS[kind - 1],
        "stroke-width": number(width),
    }
    dashes = _DASHES[kind - 1]
    return {**look, "stroke-dasharray": dashes} if dashes else look


def fill(kind: int) -> dict[str, str]:
    """Return the look of a mark or a surface of colour `kind`, from 1."""
    return {"class": f"moving-fill-{kind}", "fill": COLOURS[kind - 1]}


def label(text: str, x: float, y: float, *, anchor: str = "start", **more: str) -> str:
    """Return a text of the drawing."""
    place = {"x": number(x), "y": number(y), "text-anchor": anchor}
    return element("text", {**place, **{k.replace("_", "-"): v for k, v in more.items()}}, text)


def line(x1: float, y1: float, x2: float, y2: float, **more: str) -> str:
    """Return a straight line in the colour of the text."""
    ends = {"d": f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", "stroke": INK}
    return element("path", {**ends, **{k.replace("_", "-"): v for k, v in more.items()}})


def key(y: float, x: float, rows: Sequence[tuple[int | str, str]]) -> list[str]:
    """Return what lines and marks mean, side by side: a kind of line, ``"dot"`` or ``"bar"``."""
    marks = []
    for kind, text in rows:
        if isinstance(kind, int):
            marks.append(line(x, y - 4, x + 26, y - 4, **stroke(kind)))
        elif kind == "dot":
            dot = {"cx": number(x + 19), "cy": number(y - 4), "r": "2", "fill-opacity": "0.5"}
            marks.append(element("circle", dot))
        else:
            box = {"x": number(x + 8), "y": number(y - 10), "width": "16", "height": "10"}
            marks.append(element("rect", {**box, **BAR}))
        marks.append(label(text, x + 31, y))
        x += 41 + 6.6 * len(text)
    return marks


@dataclass(frozen=True)
class Panel:
    """A rectangle of the drawing with two scales.

    Attributes
    ----------
    left, top, width, height : float
        In units of the drawing.
    x, y : (float, float)
        Ends of the scales.
    log_x, log_y : bool
    """

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False
    log_y: bool = False

    def across(self, x: float) -> float:
        """Return where a number is, from left to right."""
        return self.left + self.width * _share(x, self.x, self.log_x)

    def down(self, y: float) -> float:
        """Return where a number is, from top to bottom."""
        place = self.top + self.height * (1.0 - _share(y, self.y, self.log_y))
        return min(max(place, -_FARTHEST), _FARTHEST)

    def path(self, x: ArrayLike, y: ArrayLike) -> str:
        """Return the line through these points; it is broken where one is not finite."""
        steps, pen = [], "M"
        for a, b in zip(np.asarray(x, float), np.asarray(y, float), strict=True):
            if math.isfinite(b):
                steps.append(f"{pen}{number(self.across(a))} {number(self.down(b))}")
            pen = "L" if math.isfinite(b) else "M"
        return "".join(steps)

    def frame(
        self, drawing: Drawing, ticks: Mapping[str, Sequence[float]], *, x: str = "", y: str = ""
    ) -> None:
        """Draw the two axes with their ticks, and name them: `x` below, `y` above."""
        base, right = self.top + self.height, self.left + self.width
        drawing.add(line(self.left, base, right, base), line(self.left, self.top, self.left, base))
        for value in ticks["x"]:
            at = self.across(value)
            drawing.add(line(at, base, at, base + 4))
            drawing.add(label(_minus(value), at, base + 16, anchor="middle"))
        for value in ticks["y"]:
            at = self.down(value)
            drawing.add(line(self.left - 4, at, self.left, at))
            drawing.add(label(_minus(value), self.left - 7, at + 4, anchor="end"))
        drawing.add(label(x, right, base + 31, anchor="end"), label(y, 2, self.top - 9))

    def clipped(self, drawing: Drawing, name: str) -> str:
        """Open a group that ends where the panel ends, a line's width more; ``</g>`` closes it."""
        box = {"x": self.left, "y": self.top - 2, "width": self.width, "height": self.height + 3}
        unique = f"{drawing.prefix}-{name}"
        shape = element("rect", {key: number(value) for key, value in box.items()})
        inside = f"{opening('clipPath', {'id': unique})}{shape}</clipPath>"
        return f"{inside}{opening('g', {'clip-path': f'url(#{unique})'})}"

    def ruler(self, drawing: Drawing, values: Sequence[float], control: int = 0) -> None:
        """Draw the upright line that shows where a slider is."""
        top, base = number(self.top), number(self.top + self.height)
        steps = [f"M{number(self.across(value))} {top}V{base}" for value in values]
        drawing.change("path", {"stroke": INK, "stroke-width": "1.5"}, d=Over(steps, (control,)))


def _minus(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    low, high = ends
    if log:
        value, low, high = (math.log(max(v, 1e-300)) for v in (value, low, high))
    return (value - low) / (high - low)
