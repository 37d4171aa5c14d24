"""Attention as a regression that follows a slider: one row of a head, and its Gaussian twin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fourierkernels.diagnostics.kernel_gap import gaussian_counterpart, key_norm_spread
from fourierkernels.diagnostics.networks.layers import HeadLayer
from fourierkernels.explore.exploration import Exploration
from fourierkernels.explore.settings import Choice, Slider, ticks
from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.plotting.svg import (
    BAR,
    INK,
    Panel,
    Picture,
    element,
    fill,
    key,
    label,
    line,
    number,
    stroke,
)
from fourierkernels.report.lens import HeadLens
from fourierkernels.report.opened import Network

CENTRES = ("origin", "mean key")
_NAMED = 26  # tokens up to which each key has its name below
_STRONGEST = 8  # keys that are named in the plane, where there is room
_WIDTH, _HEIGHT = 7.0, 13.0  # of a letter, about


@dataclass(frozen=True)
class AttentionState:
    """Layer, head and query token, from 0; temperature; the point that keys are measured from."""

    layer: int = 0
    head: int = 0
    token: int = 0
    temperature: float = 1.0
    centre: str = "origin"


class AttentionResult(NamedTuple):
    """Rows of one query over m keys, and the keys in their two principal axes, ``(m, 2)``.

    `softmax` is the row of the head, `gaussian` that of the regression with the Gaussian kernel,
    which leaves out the factor exp(|k|²/(2σ²)) of each key; `moved` is their total variation, and
    `spread` the standard deviation of the keys' norms over their mean.
    """

    softmax: FloatArray
    gaussian: FloatArray
    plane: FloatArray
    kept: float
    moved: float
    spread: float

    @property
    def width(self) -> float:
        """The number of equal weights that have the entropy of the softmax row."""
        seen = self.softmax[self.softmax > 0]
        return float(np.exp(-(seen * np.log(seen)).sum()))


class AttentionExploration(Exploration[AttentionState, AttentionResult]):
    """See :func:`fourierkernels.explore.attention`."""

    name = "attention"

    def __init__(self, network: Network | HeadLens, text: Any) -> None:
        lens = network if isinstance(network, HeadLens) else HeadLens(network)
        sample = lens.read(text)
        self.layers = list(sample.by_layer)
        self.names = sample.layers
        self.queries, self.tokens = sample.checkpoint.labels(sample.item)
        whole = [each for each in self.layers if each.windows == 1]
        if not whole:
            raise ValueError("network must have a layer that attends over the whole input")
        self.settings = (
            Slider("layer", "Layer", 0, len(self.layers) - 1, whole=True),
            Slider("head", "Head", 0, max(each.heads for each in whole) - 1, whole=True),
            Slider("token", "Query", 0, max(each.queries for each in whole) - 1, whole=True),
            Slider("temperature", "Temperature", 0.125, 8.0, log=True),
            Choice("centre", "Keys from", CENTRES),
        )
        self._parts: dict[int, tuple[FloatArray, FloatArray]] = {}
        super().__init__(AttentionState(layer=whole[0].number, token=whole[0].queries // 2))

    def checked(self, state: AttentionState) -> AttentionState:
        """Refuse a head or a query that the layer does not have."""
        attention = self._layer(state.layer)
        for name, value, count in (
            ("head", state.head, attention.heads),
            ("token", state.token, attention.queries),
        ):
            if value >= count:
                raise ValueError(
                    f"{name} must be below {count} in layer {state.layer}, got {value}"
                )
        return state

    def compute(self, state: AttentionState) -> AttentionResult:
        """Return both rows of the query, and the keys in a plane."""
        maps, keys = self._read(state.layer)
        row = maps[state.head, state.token]
        with np.errstate(divide="ignore"):
            logs = np.log(row) / state.temperature
        softmax = np.exp(logs - logs.max())
        softmax /= softmax.sum()
        centred, scale = state.centre != CENTRES[0], self._layer(state.layer).call.scale
        key = keys[[state.head]]
        gaussian = gaussian_counterpart(
            softmax[None, None], key, scale=scale / state.temperature, centred=centred
        )[0, 0]
        plane, kept = _principal_plane(key[0])
        moved = 0.5 * float(np.abs(softmax - gaussian).sum())
        spread = float(key_norm_spread(key, centred=centred)[0])
        return AttentionResult(softmax, gaussian, plane, kept, moved, spread)

    def sentence(self) -> str:
        """Return where the row looks, how wide it is, and what the norms of the keys change."""
        state, result = self.state, self.result
        best, attention = int(result.softmax.argmax()), self._layer(state.layer)
        query = _said(self.queries, state.token, attention.queries)
        return (
            f"Layer {state.layer}, head {state.head}, query {query}: {result.softmax[best]:.0%} of "
            f"the weight is on {_said(self.tokens, best, attention.keys)}; the row is as "
            f"wide as an even one over {result.width:.1f} keys. The norms of the keys, which "
            f"spread by {result.spread:.0%} about their mean, move {result.moved:.0%} of the "
            "weight; if all were equal, softmax would be the regression with a Gaussian kernel."
        )

    def panels(self) -> dict[str, Panel]:
        """Return the panel of the rows, where the pointer chooses a query, and the keys'."""
        result = self.result
        m = len(result.softmax)
        top = 1.1 * float(max(result.softmax.max(), result.gaussian.max()))
        (x_low, y_low), (x_high, y_high) = result.plane.min(axis=0), result.plane.max(axis=0)
        x_pad, y_pad = 0.15 * (x_high - x_low) or 1.0, 0.15 * (y_high - y_low) or 1.0
        return {
            "rows": Panel(60, 30, 570, 130, (-0.5, m - 0.5), (0.0, top)),
            "keys": Panel(
                60, 280, 570, 190, (x_low - x_pad, x_high + x_pad), (y_low - y_pad, y_high + y_pad)
            ),
        }

    def point(self, panel: str, x: float, y: float, *, pressed: bool) -> None:
        """Make the token under the pointer the query, where queries and keys are the same."""
        attention = self._layer(self.state.layer)
        if panel == "rows" and self.queries == self.tokens and attention.queries == attention.keys:
            self.set(token=int(np.clip(round(x), 0, attention.queries - 1)))

    def press(self, key: str) -> None:
        """Go to the token before or after, or to the head before or after."""
        state, attention = self.state, self._layer(self.state.layer)
        way = 1 if key in ("ArrowRight", "ArrowUp") else -1
        if key in ("ArrowLeft", "ArrowRight"):
            self.set(token=min(max(state.token + way, 0), attention.queries - 1))
        else:
            self.set(head=min(max(state.head + way, 0), attention.heads - 1))

    def picture(self) -> Picture:
        """Return the two rows of the query above the keys in their two principal axes."""
        picture = Picture(
            name="attention",
            title="One row of attention, and the keys behind it",
            description="Above, the weight of each key in the row of the query, of softmax as bars "
            "and of the Gaussian kernel as points. Below, the keys of the head in their two "
            "principal axes, larger where they have more weight, the strongest with their names.",
            size=(640, 510),
        )
        panels = self.panels()
        self._draw_rows(picture, panels["rows"])
        self._draw_keys(picture, panels["keys"])
        return picture

    def _layer(self, number_of: int) -> HeadLayer:
        found = self.layers[number_of]
        if found.windows > 1:
            raise ValueError(f"layer must attend over the whole input, got {number_of}: windows")
        return found

    def _read(self, number_of: int) -> tuple[FloatArray, FloatArray]:
        """Return maps and keys of a layer, computed when it is first asked for."""
        if number_of not in self._parts:
            attention = self._layer(number_of)
            self._parts[number_of] = (attention.part("maps"), attention.part("keys"))
        return self._parts[number_of]

    def _draw_rows(self, picture: Picture, panel: Panel) -> None:
        result, state = self.result, self.state
        panel.frame(picture, {"x": [], "y": ticks(0.0, panel.y[1])}, y="weight")
        picture.add(*key(21, 180, [("bar", "softmax"), ("dot-2", "Gaussian kernel")]))
        m, base = len(result.softmax), panel.down(0.0)
        wide = 0.7 * panel.width / m
        for k, (weight, other) in enumerate(zip(result.softmax, result.gaussian, strict=True)):
            at, top = panel.across(k), panel.down(float(weight))
            shape = f"M{number(at - wide / 2)} {number(base)}V{number(top)}h{number(wide)}"
            picture.add(element("path", {**BAR, "d": f"{shape}V{number(base)}"}))
            place = {"cx": number(at), "cy": number(panel.down(float(other))), "r": "3.5"}
            picture.add(element("circle", {**fill(2), **place}))
        for k in _named(result.softmax):
            bold = (
                {"font-weight": "bold"} if self.queries == self.tokens and k == state.token else {}
            )
            across, down = number(panel.across(float(k))), number(base + 12)
            turned = {"transform": f"rotate(-40 {across} {down})", "text-anchor": "end"}
            place = {"x": across, "y": down, "font-size": "12"}
            picture.add(element("text", {**place, **turned, **bold}, self._name(k, m)))

    def _name(self, key: int, count: int) -> str:
        """Return the name of one of so many keys; its number where a layer has keys of its own."""
        return _short(self.tokens[key]) if len(self.tokens) == count else str(key + 1)

    def _draw_keys(self, picture: Picture, panel: Panel) -> None:
        result = self.result
        title = f"keys, {result.kept:.0%} of their variance in this plane"
        panel.frame(picture, {"x": [], "y": []}, y=title)
        places = [(panel.across(float(x)) + 6, panel.down(float(y)) - 6) for x, y in result.plane]
        for k, (x, y) in enumerate(result.plane):
            radius = 2.0 + 16.0 * float(np.sqrt(result.softmax[k]))
            place = {"cx": number(panel.across(float(x))), "cy": number(panel.down(float(y)))}
            look = {**fill(1), "fill-opacity": "0.45", "stroke": INK, "stroke-opacity": "0.5"}
            picture.add(element("circle", {**look, **place, "r": number(radius)}))
        strongest = [
            (self._name(k, len(places)), *places[k])
            for k in np.argsort(-result.softmax)[:_STRONGEST]
        ]
        for name, x, y in _without_overlap(strongest):
            picture.add(label(name, x, y))
        middle = result.plane.mean(axis=0) if self.state.centre != CENTRES[0] else None
        if middle is not None:
            x, y = panel.across(float(middle[0])), panel.down(float(middle[1]))
            cross = {**stroke(2), "stroke-dasharray": "none"}
            picture.add(line(x - 6, y, x + 6, y, **cross), line(x, y - 6, x, y + 6, **cross))


def _principal_plane(keys: FloatArray) -> tuple[FloatArray, float]:
    """Return keys in their two principal axes, ``(m, 2)``, and the share of variance kept."""
    centred = keys - keys.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    if len(sizes) < 2:
        axes, sizes = np.vstack([axes, np.zeros_like(axes)]), np.append(sizes, 0.0)
    axes = axes[:2] * np.sign(axes[:2][np.arange(2), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    total = float(np.square(sizes).sum())
    return keys @ axes.T, float(np.square(sizes[:2]).sum() / total) if total else 1.0


def _without_overlap(names: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """Return names with their places, but those that would lie on one before them."""
    kept: list[tuple[str, float, float]] = []
    for name, x, y in names:
        apart = (
            abs(y - b) >= _HEIGHT or x >= a + _WIDTH * len(other) or a >= x + _WIDTH * len(name)
            for other, a, b in kept
        )
        if all(apart):
            kept.append((name, x, y))
    return kept


def _named(weights: FloatArray) -> IntArray:
    """Return which keys have their names below: all of few, the strongest of many."""
    return np.sort(np.argsort(-weights)[:_NAMED])


def _said(names: Sequence[str], place: int, count: int) -> str:
    """Return the name of one of so many tokens; its number where a layer has tokens of its own."""
    return repr(names[place]) if len(names) == count else f"number {place + 1}"


def _short(token: str) -> str:
    return token if len(token) <= 12 else f"{token[:11]}…"
