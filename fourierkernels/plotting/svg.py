"""Pictures as SVG written by hand: axes, lines, marks and texts, without matplotlib.

For pictures that follow a slider or the pointer: one takes a millisecond where a figure takes a
hundred. Colours are names that a style sheet may give for a dark page, and each has the colour of
:data:`~fourierkernels.plotting.COLOURS` where there is none. A style of lines goes with each, so
that colour is never the only cue.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.plotting.look import COLOURS

INK = "currentColor"
BAR = {"fill": INK, "fill-opacity": "0.13", "stroke": INK, "stroke-opacity": "0.55"}
_DASHES = ("", "7 4", "8 3 2 3", "2 3")
# What XML does not hold, whatever a token does: signs stand for control characters.
_NONE = (*range(0xD800, 0xE000), 0xFFFE, 0xFFFF)
_SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"}
_SIGNS |= dict.fromkeys(_NONE, 0xFFFD)
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
    """Return a text of the picture."""
    place = {"x": number(x), "y": number(y), "text-anchor": anchor}
    return element("text", {**place, **{k.replace("_", "-"): v for k, v in more.items()}}, text)


def line(x1: float, y1: float, x2: float, y2: float, **more: str) -> str:
    """Return a straight line in the colour of the text."""
    ends = {"d": f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", "stroke": INK}
    return element("path", {**ends, **{k.replace("_", "-"): v for k, v in more.items()}})


def key(y: float, x: float, rows: Sequence[tuple[int | str, str]]) -> list[str]:
    """Return what lines and marks mean, side by side.

    Each row has a kind of line, ``"dot"``, ``"dot-1"`` to ``"dot-4"`` of a colour, or ``"bar"``.
    """
    marks = []
    for kind, text in rows:
        if isinstance(kind, int):
            marks.append(line(x, y - 4, x + 26, y - 4, **stroke(kind)))
        elif kind.startswith("dot"):
            place = {"cx": number(x + 19), "cy": number(y - 4)}
            plain = {"r": "2", "fill-opacity": "0.5"}
            look = plain if kind == "dot" else {**fill(int(kind[4:])), "r": "3.5"}
            marks.append(element("circle", {**place, **look}))
        else:
            box = {"x": number(x + 8), "y": number(y - 10), "width": "16", "height": "10"}
            marks.append(element("rect", {**box, **BAR}))
        marks.append(label(text, x + 31, y))
        x += 41 + 6.6 * len(text)
    return marks


@dataclass
class Picture:
    """A picture in units of its own, with a title and a description for readers who do not see it.

    Attributes
    ----------
    name : str
        Part of every id.
    title, description : str
    size : (float, float)
    parts : list
        Markup, from back to front.
    """

    name: str
    title: str
    description: str
    size: tuple[float, float]
    parts: list[Any] = field(default_factory=list, kw_only=True)

    @property
    def prefix(self) -> str:
        """What every id of the picture begins with."""
        return f"moving-{self.name}"

    def add(self, *markup: str) -> None:
        """Add what lies in front of the rest."""
        self.parts.extend(markup)

    def svg(self) -> str:
        """Return the picture as a whole SVG element."""
        return self.framed(self.parts)

    def framed(self, drawn: Iterable[str]) -> str:
        """Return markup as a whole SVG element of this size and title."""
        width, height = self.size
        names = {key: f"{self.prefix}-{key}" for key in ("title", "desc")}
        head = {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:g} {height:g}",
            "role": "img",
            "aria-labelledby": " ".join(names.values()),
            "font-family": "system-ui, sans-serif",
            "font-size": "13",
            "fill": "currentColor",
        }
        said = [
            element("title", {"id": names["title"]}, self.title),
            element("desc", {"id": names["desc"]}, self.description),
        ]
        return f"{opening('svg', head)}{''.join(said)}{''.join(drawn)}</svg>"


@dataclass(frozen=True)
class Panel:
    """A rectangle of the picture with two scales.

    Attributes
    ----------
    left, top, width, height : float
        In units of the picture.
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

    def number_at(self, across: float, down: float) -> tuple[float, float]:
        """Return the numbers of a place of the picture, the inverse of `across` and `down`."""
        return (
            _number((across - self.left) / self.width, self.x, self.log_x),
            _number(1.0 - (down - self.top) / self.height, self.y, self.log_y),
        )

    def holds(self, across: float, down: float) -> bool:
        """Return whether a place of the picture is on the panel."""
        wide = self.left <= across <= self.left + self.width
        return wide and self.top <= down <= self.top + self.height

    def path(self, x: ArrayLike, y: ArrayLike) -> str:
        """Return the line through these points; it is broken where one is not finite."""
        steps, pen = [], "M"
        for a, b in zip(np.asarray(x, float), np.asarray(y, float), strict=True):
            if math.isfinite(b):
                steps.append(f"{pen}{number(self.across(a))} {number(self.down(b))}")
            pen = "L" if math.isfinite(b) else "M"
        return "".join(steps)

    def frame(
        self, picture: Picture, ticks: Mapping[str, Sequence[float]], *, x: str = "", y: str = ""
    ) -> None:
        """Draw the two axes with their ticks, and name them: `x` below, `y` above."""
        base, right = self.top + self.height, self.left + self.width
        picture.add(line(self.left, base, right, base), line(self.left, self.top, self.left, base))
        for value, text in zip(ticks["x"], written(ticks["x"]), strict=True):
            at = self.across(value)
            picture.add(line(at, base, at, base + 4))
            picture.add(label(text, at, base + 16, anchor="middle"))
        for value, text in zip(ticks["y"], written(ticks["y"]), strict=True):
            at = self.down(value)
            picture.add(line(self.left - 4, at, self.left, at))
            picture.add(label(text, self.left - 7, at + 4, anchor="end"))
        picture.add(label(x, right, base + 31, anchor="end"), label(y, 2, self.top - 9))

    def clipped(self, picture: Picture, name: str) -> str:
        """Open a group that ends where the panel ends, a line's width more; ``</g>`` closes it."""
        box = {"x": self.left, "y": self.top - 2, "width": self.width, "height": self.height + 3}
        unique = f"{picture.prefix}-{name}"
        shape = element("rect", {key: number(value) for key, value in box.items()})
        inside = f"{opening('clipPath', {'id': unique})}{shape}</clipPath>"
        return f"{inside}{opening('g', {'clip-path': f'url(#{unique})'})}"


def written(ticks: Sequence[float]) -> list[str]:
    """Return the numbers of an axis: six digits, or as many as a hundredth of a step needs.

    >>> written([-0.5, 0.0, 0.5]), written([1234562.0, 1234564.0])
    (['−0.5', '0', '0.5'], ['1234562', '1234564'])
    """
    step = min((abs(b - a) for a, b in pairwise(ticks)), default=math.inf)
    for digits in range(6, 18):
        texts = [f"{value:.{digits}g}" for value in ticks]
        away = (abs(float(text) - value) for text, value in zip(texts, ticks, strict=True))
        if all(distance <= 0.01 * step for distance in away):
            break
    return [text.replace("-", "−") for text in texts]


def _number(share: float, ends: tuple[float, float], log: bool) -> float:
    low, high = ends
    return low * (high / low) ** share if log else low + share * (high - low)


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    low, high = ends
    if log:
        value, low, high = (math.log(max(v, 1e-300)) for v in (value, low, high))
    return (value - low) / (high - low)


def opening(tag: str, attributes: Mapping[str, str]) -> str:
    """Return the first tag of an element."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{written}>"


def element(tag: str, attributes: Mapping[str, str], content: str = "") -> str:
    r"""Return an element; its content is text, not markup.

    >>> element("text", {}, "a < b\x1b")
    '<text>a &lt; b␛</text>'
    """
    text = escape(content.translate(_SIGNS), quote=False)
    return f"{opening(tag, attributes)}{text}</{tag}>"


def number(value: float, digits: int = 1) -> str:
    """Return a coordinate as short as it can be written.

    >>> [number(x) for x in (12.04, 0.5, -0.5, -0.01)]
    ['12', '.5', '-.5', '0']
    """
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    text = text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
    return "0" if text in ("-0", "-", "") else text
