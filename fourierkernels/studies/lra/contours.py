"""Images of dashed contours with two dots, drawn: a stand-in for Pathfinder's.

As there, two long contours are among short ones that distract, and two dots are either at both ends
of a long one or at one end of each. The contours are this package's own: smooth random walks whose
dashes keep a distance from all others; the published ones are drawn by
https://github.com/drewlinsley/pathfinder, with other shapes and rates of bending.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.lra.examples import (
    BYTE_TOKENS,
    ArenaData,
    ArenaSplit,
    Tokens,
    digest_of,
)
from fourierkernels.studies.lra.pixels import CONNECTED, pixel_tokens

Points = NDArray[np.float64]
_TRIES = 40  # beginnings of a contour, and of an image
_DASH, _GAP = 2.0, 1.0  # lengths in pixels
_BEND = 0.35  # standard deviation of the turn from dash to dash, in radians
_APART = 2.5  # pixels between dashes of two contours, at least
_DOT = 1.5  # radius of a dot
_BRIGHT, _DIM = 255, 190  # of dots and of dashes


@dataclass(frozen=True)
class Scene:
    """What is drawn.

    Attributes
    ----------
    side : int
        Pixels of a side.
    dashes : int
        Of the two long contours; those that distract have a third.
    distractors : int
        How many distract.
    """

    side: int = 32
    dashes: int = 6
    distractors: int = 3

    def __post_init__(self) -> None:
        check_integer("side", self.side, least=16)
        check_integer("dashes", self.dashes, least=3)
        check_integer("distractors", self.distractors, least=0)


SMALL = Scene(side=16, dashes=3, distractors=1)
SMALL_COUNTS = {"train": 2000, "valid": 200, "test": 400}
_SMALL_SEED = 2020


def draw_image(scene: Scene, label: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return an image ``(side, side)`` of a class: 1 if the dots are ends of one contour.

    Examples
    --------
    >>> image = draw_image(SMALL, 1, np.random.default_rng(0))
    >>> image.shape, int(image.max())
    ((16, 16), 255)
    """
    while True:
        contours = _contours(scene, rng)
        if contours is not None:
            first, second = contours[:2]
            ends = (first[0], first[-1]) if label else (first[0], second[0])
            return _painted(scene.side, contours, ends)


def open_contours(folder: Path) -> ArenaData:
    """Return small images, each drawn when it is first opened; `folder` is not used.

    Classes take turns. An image follows from its split and its place alone.
    """
    splits = {
        name: _split(number, count) for number, (name, count) in enumerate(SMALL_COUNTS.items())
    }
    return ArenaData(
        "pathfinder",
        "contours",
        str(SMALL),
        digest_of(f"contours 1 {SMALL} {SMALL_COUNTS} {_SMALL_SEED}", ()),
        CONNECTED,
        BYTE_TOKENS,
        splits,
        side=SMALL.side,
    )


def _split(number: int, count: int) -> ArenaSplit:
    labels = np.arange(count, dtype=np.int64) % 2

    @cache
    def opened(place: int) -> tuple[Tokens, ...]:
        rng = np.random.default_rng([_SMALL_SEED, number, place])
        return (pixel_tokens(draw_image(SMALL, int(labels[place]), rng)),)

    return ArenaSplit(labels, np.full(count, SMALL.side**2, dtype=np.int64), opened)


def _contours(scene: Scene, rng: np.random.Generator) -> list[Points] | None:
    """Return contours that keep apart, the two long ones first; None if there is no room."""
    sizes = [scene.dashes] * 2 + [max(scene.dashes // 3, 1)] * scene.distractors
    taken: list[Points] = []
    for size in sizes:
        found = (_walk(scene.side, size, rng) for _ in range(_TRIES))
        own = next((walk for walk in found if walk is not None and _is_free(walk, taken)), None)
        if own is None:
            return None
        taken.append(own)
    return taken


def _walk(side: int, dashes: int, rng: np.random.Generator) -> Points | None:
    """Return the ends of dashes one after another, ``(2 dashes, 2)``; None if it leaves the image.

    It must not come back to itself either: dashes that are no neighbours keep apart.
    """
    turns = rng.normal(scale=_BEND, size=dashes)
    angles = rng.uniform(0, 2 * np.pi) + np.cumsum(turns)
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # (dashes, 2)
    starts = rng.uniform(2, side - 3, size=2) + np.cumsum((_DASH + _GAP) * steps, axis=0)
    points = np.stack([starts, starts + _DASH * steps], axis=1).reshape(-1, 2)
    if points.min() < 1.5 or points.max() > side - 2.5:
        return None
    ends = np.linalg.norm(starts[:, None] - starts, axis=-1)
    far = np.abs(np.subtract.outer(np.arange(dashes), np.arange(dashes))) > 1
    return None if (ends[far] < _DASH + _APART).any() else points


def _is_free(walk: Points, taken: list[Points]) -> bool:
    return all(
        np.linalg.norm(_along(walk)[:, None] - _along(other), axis=-1).min() > _APART
        for other in taken
    )


def _along(walk: Points) -> Points:
    """Return points of the dashes, close to each other."""
    starts, ends = walk[::2, None], walk[1::2, None]  # (dashes, 1, 2)
    shares = np.linspace(0, 1, 5)[:, None]
    return (starts + shares * (ends - starts)).reshape(-1, 2)


def _painted(side: int, contours: list[Points], dots: tuple[Points, Points]) -> NDArray[np.uint8]:
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1)
    pixels = grid.reshape(-1, 1, 2).astype(np.float64)
    dashes = np.concatenate([_along(walk) for walk in contours])
    image = _DIM * np.clip(1.2 - _nearest(pixels, dashes), 0, 1)
    disc = _BRIGHT * np.clip(_DOT + 0.5 - _nearest(pixels, np.stack(dots)), 0, 1)
    return np.maximum(image, disc).astype(np.uint8).reshape(side, side)


def _nearest(pixels: Points, points: Points) -> Points:
    distances: Points = np.linalg.norm(pixels - points, axis=-1).min(axis=1)
    return distances
