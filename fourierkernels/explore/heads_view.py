"""Heads of a layer that follow a slider: sharpness, distances, chance, a head that is masked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fourierkernels.diagnostics import head_distances
from fourierkernels.diagnostics.chance import chance_distances
from fourierkernels.diagnostics.controls import CONTROLS, DEFAULT_CONTROLS
from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.explore.exploration import Exploration
from fourierkernels.explore.settings import Choice, Slider, log_grid, ticks
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.plotting.svg import (
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

NOBODY = -1
_TITLES = {CONTROLS[name].title: name for name in DEFAULT_CONTROLS}
_SHARPNESS = (0.125, 8.0)
_CURVE = 13  # sharpnesses at which mean distance and chance are computed
_DRAWN = 28  # tokens of a map that are drawn, from the first


@dataclass(frozen=True)
class HeadsState:
    """Layer, two heads, sharpness, control, and the head that is masked: numbers from 0.

    Sharpness β raises the weights of a row to the power β: scores times β. Nobody is masked at -1.
    """

    layer: int = 0
    first: int = 0
    second: int = 1
    sharpness: float = 1.0
    control: str = next(iter(_TITLES))
    masked: int = NOBODY


class HeadsResult(NamedTuple):
    """Distances of all pairs of heads, ``(H, H)``, root mean squares over the texts.

    `chance` are those of unrelated heads; `share` is the part of squared distance that is missing
    beside them, NaN where they do not differ either, as with a single key, and `width` the mean
    number of keys over which even rows would be as wide.
    """

    distances: FloatArray
    chance: FloatArray
    share: float
    width: float


class Curves(NamedTuple):
    """Root mean squares over all pairs at `sharpness`; losses of each text, if a head is masked."""

    sharpness: FloatArray
    distances: FloatArray
    chance: FloatArray
    loss: str
    whole: FloatArray
    masked: FloatArray


class HeadsExploration(Exploration[HeadsState, HeadsResult]):
    """See :func:`fourierkernels.explore.heads`."""

    name = "heads"

    def __init__(self, network: Network | HeadLens, texts: Sequence[Any]) -> None:
        if isinstance(texts, str):
            raise TypeError(f"texts must be a list of texts, got {texts!r:.40}")
        self.texts = list(texts)
        if not self.texts:
            raise ValueError("texts must hold at least one text, got none")
        self.lens = network if isinstance(network, HeadLens) else HeadLens(network)
        samples = [self.lens.read(text) for text in self.texts]
        # As in a report, those of one key are passed over: heads are alike on them in any case.
        self.samples = [each for each in samples if each.span[1] > 1] or samples
        first = self.samples[0]
        usable = [each for each in first.by_layer if each.windows == 1 and each.heads > 1]
        if not usable:
            raise ValueError(
                "network must have a layer of two heads or more that attends over the whole input"
            )
        heads = max(each.heads for each in usable)
        self.tokens = first.checkpoint.labels(first.item)[1]
        self.settings = (
            Slider("layer", "Layer", 0, len(first.by_layer) - 1, whole=True),
            Slider("first", "Head", 0, heads - 1, whole=True),
            Slider("second", "beside head", 0, heads - 1, whole=True),
            Slider("sharpness", "Sharpness β", *_SHARPNESS, log=True),
            Choice("control", "Beside", tuple(_TITLES)),
            Slider("masked", "Masked (−1: none)", NOBODY, heads - 1, whole=True),
        )
        self._parts: dict[int, list[FloatArray]] = {}
        self._losses: dict[tuple[int, int], Any] = {}
        super().__init__(HeadsState(layer=usable[0].number))

    def checked(self, state: HeadsState) -> HeadsState:
        """Refuse a layer of windows or of one head, and heads that the layer does not have."""
        attention = self.samples[0].by_layer[state.layer]
        if attention.windows > 1:
            raise ValueError(f"layer must attend over the whole input, got {state.layer}: windows")
        heads = attention.heads
        if heads < 2:
            raise ValueError(f"layer must have at least two heads, got {state.layer}: one")
        for name in ("first", "second", "masked"):
            if getattr(state, name) >= heads:
                raise ValueError(
                    f"{name} must be below {heads} in layer {state.layer}, got "
                    f"{getattr(state, name)}"
                )
        return state

    def compute(self, state: HeadsState) -> HeadsResult:
        """Return distances of all pairs, and those of heads that share nothing but what is kept."""
        maps = [_sharpened(each, state.sharpness) for each in self._maps(state.layer)]
        squares = np.mean([np.square(head_distances(each)) for each in maps], axis=0)
        chance = np.mean(self._chance(maps, state.control), axis=0)
        width = float(np.exp(np.mean([row_entropies(each).mean() for each in maps])))
        pairs = np.triu_indices(len(squares), 1)
        even = float(chance[pairs].mean())
        share = 1.0 - float(squares[pairs].mean()) / even if even else np.nan
        return HeadsResult(np.sqrt(squares), np.sqrt(chance), share, width)

    def later_key(self) -> HeadsState:
        """Return layer, control and masked head, on which curves and losses depend."""
        return replace(self.state, first=0, second=0, sharpness=1.0)

    def compute_later(self, state: HeadsState) -> Curves:
        """Return distances and chance at all sharpnesses, and the losses with a head masked."""
        sharpness = log_grid(*_SHARPNESS, _CURVE)
        found = []
        for each in sharpness:
            at = self.compute(replace(state, sharpness=float(each)))
            pairs = np.triu_indices(len(at.distances), 1)
            found.append([np.square(of[pairs]).mean() for of in (at.distances, at.chance)])
        distances, chance = np.sqrt(np.array(found)).T
        name, whole, masked = self._loss(state.layer, state.masked)
        return Curves(sharpness, distances, chance, name, whole, masked)

    def sentence(self) -> str:
        """Return distances beside chance, and what the masked head costs."""
        state, result = self.state, self.result
        pair = (state.first, state.second)
        said = (
            f"Layer {state.layer}, β = {state.sharpness:.3g}: rows as wide as even ones over "
            f"{result.width:.1f} keys. {self._beside_chance()} Heads {state.first} and "
            f"{state.second}: {result.distances[pair]:.3f}, by chance {result.chance[pair]:.3f}."
        )
        if state.masked == NOBODY:
            return said
        if self.later is None:
            return f"{said} Loss without head {state.masked}: being computed."
        before, after = self.later.whole.mean(), self.later.masked.mean()
        return (
            f"{said} Loss ({self.later.loss}) {before:.4g}, without head {state.masked} "
            f"{after:.4g}: {after - before:+.3g} over {len(self.texts)} texts."
        )

    def _beside_chance(self) -> str:
        share, others = self.result.share, f"heads that share nothing ({self.state.control})"
        if np.isnan(share):
            return f"The distances of {others} are 0, too: there is nothing to compare."
        way = "closer" if share >= 0 else "farther apart"
        return f"In squared distance the heads are {abs(share):.1%} {way} than {others}."

    def panels(self) -> dict[str, Panel]:
        """Return the panel of distances, where the pointer chooses a pair, and the curves'."""
        heads = len(self.result.distances)
        side = (-0.5, heads - 0.5)
        top = 1.05 * float(np.sqrt(2.0))
        return {
            "pairs": Panel(40, 30, 200, 200, side, (heads - 0.5, -0.5)),
            "curves": Panel(60, 275, 570, 110, _SHARPNESS, (0.0, top), log_x=True),
        }

    def point(self, panel: str, x: float, y: float, *, pressed: bool) -> None:
        """Choose the pair of heads, or the sharpness, under the pointer."""
        last = len(self.result.distances) - 1
        if panel == "pairs":
            first, second = (int(np.clip(round(value), 0, last)) for value in (y, x))
            self.set(first=first, second=second)
        else:
            self.set(sharpness=float(np.clip(x, *_SHARPNESS)))

    def press(self, key: str) -> None:
        """Go to the head before or after, of the second to the left and right."""
        last, state = len(self.result.distances) - 1, self.state
        way = 1 if key in ("ArrowRight", "ArrowDown") else -1
        if key in ("ArrowLeft", "ArrowRight"):
            self.set(second=min(max(state.second + way, 0), last))
        else:
            self.set(first=min(max(state.first + way, 0), last))

    def picture(self) -> Picture:
        """Return distances and two maps above the curves against sharpness."""
        picture = Picture(
            name="heads",
            title="Distances of heads, two maps, and distance against sharpness",
            description="Above, left, distances of all pairs of heads, darker where they are "
            "closer than unrelated heads; the two heads that are chosen, with their maps beside. "
            "Below, root mean square distance and that of unrelated heads against sharpness.",
            size=(640, 430),
        )
        panels = self.panels()
        self._draw_pairs(picture, panels["pairs"])
        for place, head in enumerate((self.state.first, self.state.second)):
            self._draw_map(picture, head, 262.0 + 192.0 * place)
        self._draw_curves(picture, panels["curves"])
        return picture

    def _maps(self, layer: int) -> list[FloatArray]:
        """Return the maps of a layer on each text, computed when it is first asked for."""
        if layer not in self._parts:
            self._parts[layer] = [each.by_layer[layer].part("maps") for each in self.samples]
        return self._parts[layer]

    def _chance(self, maps: Sequence[FloatArray], control: str) -> list[FloatArray]:
        name = _TITLES[control]
        special: list[BoolArray | None] = [sample.special for sample in self.samples]
        return [
            np.square(chance_distances(each, control=name, special=marks))
            for each, marks in zip(maps, special, strict=True)
        ]

    def _loss(self, layer: int, head: int) -> tuple[str, FloatArray, FloatArray]:
        if head == NOBODY:
            return "", np.zeros(0), np.zeros(0)
        if (layer, head) not in self._losses:
            self._losses[layer, head] = self.lens.effects(self.texts, heads=[(layer, head)])
        found = self._losses[layer, head]
        return found.loss, found.whole, found.changed[:, 0]

    def _draw_pairs(self, picture: Picture, panel: Panel) -> None:
        result, state = self.result, self.state
        heads = len(result.distances)
        wide, high = panel.width / heads, panel.height / heads
        picture.add(label("closer than chance: darker", 40, 20))
        with np.errstate(divide="ignore", invalid="ignore"):
            closer = 1.0 - np.square(result.distances) / np.square(result.chance)
        closer = np.clip(np.nan_to_num(closer), 0.0, 1.0)
        for i, j in np.ndindex(heads, heads):
            if i != j:
                place = _box(panel.left + j * wide, panel.top + i * high, wide, high)
                shade = {"fill-opacity": number(float(closer[i, j]), 2)}
                picture.add(element("rect", {**fill(1), **place, **shade}))
        edge = _box(panel.left, panel.top, panel.width, panel.height)
        picture.add(element("rect", {**edge, "fill": "none", "stroke": INK}))
        at = _box(panel.left + state.second * wide, panel.top + state.first * high, wide, high)
        picture.add(element("rect", {**at, "fill": "none", "stroke": INK, "stroke-width": "2.5"}))
        for k in range(0, heads, max(1, heads // 6)):
            picture.add(
                label(str(k), panel.left + (k + 0.5) * wide, 243, anchor="middle", font_size="11"),
                label(str(k), 36, panel.top + (k + 0.7) * high, anchor="end", font_size="11"),
            )

    def _draw_map(self, picture: Picture, head: int, left: float) -> None:
        state = self.state
        weights = _sharpened(self._maps(state.layer)[0], state.sharpness)[head]
        shown = weights[:_DRAWN, :_DRAWN]
        rows, columns = shown.shape
        wide, high = 176.0 / columns, 200.0 / rows
        masked = " (masked)" if head == state.masked else ""
        picture.add(label(f"head {head}{masked}", left, 20))
        for i, j in np.ndindex(rows, columns):
            if shown[i, j] > 1e-4:
                place = _box(left + j * wide, 30.0 + i * high, wide, high)
                shade = {"fill-opacity": number(float(np.sqrt(shown[i, j])), 2)}
                picture.add(element("rect", {**fill(2), **place, **shade}))
        edge = _box(left, 30.0, 176.0, 200.0)
        picture.add(element("rect", {**edge, "fill": "none", "stroke": INK}))

    def _draw_curves(self, picture: Picture, panel: Panel) -> None:
        where = {"x": ticks(*panel.x, log=True), "y": ticks(*panel.y)}
        panel.frame(picture, where, x="sharpness β", y="distance")
        at = panel.across(self.state.sharpness)
        picture.add(line(at, panel.top, at, panel.top + panel.height, stroke_width="1.5"))
        found = self.later
        if found is None:
            picture.add(label("being computed", panel.left + 10, panel.top + 16))
            return
        picture.add(*key(panel.top - 9, 200, [(1, "heads"), (2, "unrelated heads")]))
        for kind, values in ((2, found.chance), (1, found.distances)):
            path = panel.path(found.sharpness, values)
            picture.add(element("path", {**stroke(kind), "d": path}))


def _sharpened(maps: FloatArray, sharpness: float) -> FloatArray:
    """Return rows raised to a power and normalised: scores times β."""
    with np.errstate(divide="ignore"):
        logs = sharpness * np.log(maps)
    powers = np.exp(logs - logs.max(axis=-1, keepdims=True))
    sharp: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return sharp


def _box(x: float, y: float, width: float, height: float) -> dict[str, str]:
    box = {"x": x, "y": y, "width": width, "height": height}
    return {name: number(value) for name, value in box.items()}
