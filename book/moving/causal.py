"""The causal DFT, token by token, beside the DFT of what has come so far."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from book.moving.drawing import Control, Drawing, Over
from fourierkernels.mixing import causal_dft
from fourierkernels.mixing.causal import causal_dft_matrix
from fourierkernels.plotting.svg import INK, element, label, line, number, stroke

Complex = NDArray[np.complex128]

LENGTH = 8  # tokens, and L of ω = exp(-2πi/L)
TOKENS = (1.0, 0.5, -0.8, 0.3, 0.9, -0.4, -1.0, 0.6)  # numbers of our making
SAME = 1e-9  # outputs closer than that are drawn, and called, the same

_CELL = 29.0
_LEFT, _TOP = 40.0, 66.0
_OUTPUTS = {"causal": 312.0, "plain": 368.0}
_RADIUS = 13.0
_RIM = {"fill": "none", "stroke": INK, "stroke-opacity": "0.6"}
_DOT = {**_RIM, "stroke-width": "3", "stroke-linecap": "round"}


@dataclass(frozen=True)
class Step:
    """Outputs of both transforms after so many tokens."""

    tokens: int
    causal: Complex
    plain: Complex


def compute(tokens: int) -> Step:
    """Return both transforms of the first tokens."""
    x = torch.tensor(TOKENS[:tokens], dtype=torch.float64)[:, None]
    return Step(
        tokens=tokens,
        causal=causal_dft(x, length=LENGTH, method="matrix")[:, 0].numpy(),
        plain=torch.fft.fft(x, dim=0)[:, 0].numpy(),
    )


def changes(before: Complex, now: Complex) -> list[bool]:
    """Return which of the outputs that were there before have changed."""
    return [bool(abs(a - b) > SAME) for a, b in zip(before, now, strict=False)]


def shown(output: complex, largest: float) -> complex:
    """Return an output as drawn: of its direction, and of the square root of its size."""
    size = abs(output)
    return output / size * (size / largest) ** 0.5 if size > SAME else 0j


def draw() -> Drawing:
    """Return the moving figure."""
    steps = [compute(tokens) for tokens in range(1, LENGTH + 1)]
    control = Control(
        name="step",
        label="Tokens so far",
        hint="Each step adds one token and one row.",
        values=tuple(f"{step.tokens} of {LENGTH}" for step in steps),
        start=4,
    )
    drawing = Drawing(
        name="causal",
        title="The causal DFT step by step",
        description="A triangle of arrows, one row per output and one column per token: entries of "
        "the masked DFT matrix, rows in use drawn strongly. On the right each output as an arrow, "
        "its length the square root of the size, of the causal DFT and of the plain DFT of the "
        "tokens so far, with a mark that says whether the last token changed it.",
        size=(400, 326),
        controls=(control,),
        sentences=[_sentence(steps, k) for k in range(LENGTH)],
    )
    _draw_tokens(drawing)
    _draw_matrix(drawing)
    for name, x in _OUTPUTS.items():
        _draw_outputs(drawing, [getattr(step, name) for step in steps], name, x)
    drawing.add(label("= as before, ≠ changed, + new", 398, 318, anchor="end"))
    return drawing


def _sentence(steps: list[Step], k: int) -> str:
    if k == 0:
        return "1 token: both transforms have one output, the token itself."
    told = {
        name: sum(changes(getattr(steps[k - 1], name), getattr(steps[k], name)))
        for name in _OUTPUTS
    }
    return (
        f"{k + 1} tokens: the causal DFT adds output {k} and changes {told['causal']} of {k} "
        f"earlier ones; the plain DFT, now of length {k + 1}, changes {told['plain']} of {k}."
    )


def _draw_tokens(drawing: Drawing) -> None:
    """Draw the tokens as bars above their columns; the last one is marked."""
    zero, unit = 34.0, 16.0
    drawing.add(label("token", 2, 24), label("output", 2, _TOP - 4))
    for n, value in enumerate(TOKENS):
        x, y = _LEFT + _CELL * n + _CELL / 2, zero - unit * value
        bar = {"d": f"M{number(x)} {number(zero)}V{number(y)}", "fill": "none"}
        look = {**stroke(2, 7.0), **bar}
        look.pop("stroke-dasharray")
        shown = Over(["1" if n <= step else ".15" for step in range(LENGTH)])
        drawing.change("path", look, stroke_opacity=shown)
    drawing.add(line(_LEFT, zero, _LEFT + _CELL * LENGTH, zero, stroke_opacity="0.6"))


def _draw_matrix(drawing: Drawing) -> None:
    matrix = causal_dft_matrix(LENGTH, length=LENGTH).numpy()
    for m in range(LENGTH):
        y = _TOP + _CELL * m + _CELL / 2
        drawing.add(label(str(m), _LEFT - 12, y + 4, anchor="end"))
        dots = "".join(_dot(_column(n), y) for n in range(m + 1, LENGTH))
        if dots:
            drawing.add(element("path", {**_DOT, "d": dots}))
        arrows = "".join(_arrow(_column(n), y, matrix[m, n], 10.0) for n in range(m + 1))
        look = {**stroke(1), "d": arrows, "stroke-linecap": "round"}
        used = ["1" if m <= step else ".2" for step in range(LENGTH)]
        bold = ["3" if m == step else "1.7" for step in range(LENGTH)]
        drawing.change("path", look, stroke_opacity=Over(used), stroke_width=Over(bold))


def _column(n: int) -> float:
    return _LEFT + _CELL * n + _CELL / 2


def _dot(x: float, y: float) -> str:
    return f"M{number(x)} {number(y)}h0"


def _arrow(x: float, y: float, value: complex, length: float) -> str:
    """Path of an arrow centred at (x, y) that points along a complex number."""
    way = np.array([value.real, -value.imag]) * length  # y runs downwards
    return _pointed(np.array([x, y]) - way, np.array([x, y]) + way)


def _pointed(tail: NDArray[np.float64], head: NDArray[np.float64]) -> str:
    along = head - tail
    size = float(np.hypot(*along))
    if size < 1.0:
        return _dot(*map(float, head))
    along = along / size * min(5.0, size / 2)
    across = np.array([-along[1], along[0]]) * 0.6
    left, right = head - along + across, head - along - across
    points = [" ".join(map(number, map(float, point))) for point in (tail, head, left, right)]
    return f"M{points[0]}L{points[1]}M{points[2]}L{points[1]}L{points[3]}"


def _draw_outputs(drawing: Drawing, steps: list[Complex], name: str, x: float) -> None:
    largest = max(float(np.abs(outputs).max()) for outputs in steps)
    drawing.add(label(name, x, 24, anchor="middle"), label("DFT", x, 40, anchor="middle"))
    kind = 1 if name == "causal" else 2
    for m in range(LENGTH):
        centre = np.array([x - 7.0, _TOP + _CELL * m + _CELL / 2])
        place = {"cx": number(centre[0]), "cy": number(centre[1]), "r": number(_RADIUS)}
        drawing.add(element("circle", {**place, **_RIM}))
        arrows, marks = [], []
        for k, outputs in enumerate(steps):
            there = m < len(outputs)
            value = shown(outputs[m], largest) if there else 0j
            way = np.array([value.real, -value.imag]) * _RADIUS
            arrows.append(_pointed(centre, centre + way) if there else "")
            marks.append(_mark(steps, k, m))
        look = {**stroke(kind), "stroke-linecap": "round"}
        look.pop("stroke-dasharray", None)
        drawing.change("path", look, d=Over(arrows))
        beside = {"x": number(centre[0] + 18), "y": number(centre[1] + 5), "font-weight": "bold"}
        drawing.change("text", beside, text=Over(marks))


def _mark(steps: list[Complex], k: int, m: int) -> str:
    """Return the sign of output m after step k: new, changed, as before, or not there."""
    if m >= len(steps[k]):
        return ""
    if k == 0 or m >= len(steps[k - 1]):
        return "+"
    return "≠" if changes(steps[k - 1], steps[k])[m] else "="
