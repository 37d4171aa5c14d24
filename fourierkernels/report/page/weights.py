"""Attention weights in one byte each, as text: what a page holds of the maps of its examples.

The byte is the root of the weight in 255 steps, so that small weights, which are most of them,
keep their digits.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.profile import Example
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite
from fourierkernels.report.content import ReportContent

Shape = tuple[int, ...]

LEVELS = 255
_AT_A_TIME = 2**20  # weights converted at once: the memory of the rest stays out of it
MOST_WEIGHTS = 5_000_000  # of all examples of a page together: 6.7 MB of text in base64
LEAST_SIDE = 32  # queries or keys of a cut map, if others have to be left out for it


def pack_weights(weights: ArrayLike) -> tuple[str, float]:
    """Return weights as base64 text of one byte each, and the scale they are divided by.

    A byte is b = round(255 sqrt(w / s)). With r = sqrt(w / s), the weight s (b / 255)² that is
    read back is off by at most s (r / 255 + 1 / 510²).

    Parameters
    ----------
    weights : array_like, any shape
        Not negative.

    Returns
    -------
    text : str
    scale : float
        s: 1, or the largest weight where that is larger.

    Raises
    ------
    ValueError
        If a weight is negative or not finite.

    Examples
    --------
    >>> pack_weights([0.0, 1.0])
    ('AP8=', 1.0)
    """
    array = np.asarray(weights)
    parts = np.array_split(array.reshape(-1), max(1, array.size // _AT_A_TIME))
    scale = max(1.0, *(_largest(part) for part in parts))
    codes = (np.rint(LEVELS * np.sqrt(part.astype(float) / scale)) for part in parts)
    joined = b"".join(part.astype(np.uint8).tobytes() for part in codes)
    return base64.b64encode(joined).decode("ascii"), scale


def _largest(weights: ArrayLike) -> float:
    array = check_finite("weights", as_real("weights", weights))
    if array.size and array.min() < 0:
        raise ValueError(f"weights must not be negative, got {array.min()}")
    return float(array.max(initial=0.0))


def unpack_weights(text: str, shape: Shape, *, scale: float = 1.0) -> FloatArray:
    """Return the weights that the text of :func:`pack_weights` holds.

    Examples
    --------
    >>> unpack_weights("AP8=", (2,))
    array([0., 1.])
    """
    codes = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(shape)
    weights: FloatArray = scale * (codes / LEVELS) ** 2
    return weights


def kept_shapes(shapes: Sequence[Shape], *, most: int = MOST_WEIGHTS) -> list[Shape]:
    """Return the shapes that maps are cut to, so that together they have at most so many weights.

    Maps are kept whole while they fit, the small ones first. What is left of the weights is shared
    evenly by the next ones, as many as keep at least 32 queries and keys (one at least); those lose
    their last queries and keys in equal proportion, and all others are left out.

    Parameters
    ----------
    shapes : sequence of (L, H, n, m)

    Returns
    -------
    list of (L, H, n', m')
        n' = m' = 0 where a map is left out, or not even one query and key of each head fit.

    Examples
    --------
    >>> kept_shapes([(1, 1, 2, 2), (1, 1, 30, 30)], most=104)
    [(1, 1, 2, 2), (1, 1, 10, 10)]
    """
    kept, left = [_without(shape) for shape in shapes], most
    sizes = [int(np.prod(shape, dtype=float)) for shape in shapes]
    rest = sorted(range(len(shapes)), key=sizes.__getitem__)
    while rest and sizes[rest[0]] <= left:
        place = rest.pop(0)
        kept[place], left = shapes[place], left - sizes[place]
    rest.sort()  # the first texts again
    sharing = _sharing([shapes[place] for place in rest], left)
    for place in rest[:sharing]:
        kept[place] = _cut(shapes[place], left // sharing)
    return kept


def _sharing(shapes: Sequence[Shape], left: int) -> int:
    """Return how many of the first shapes share what is left, so that each keeps enough."""
    enough = 0
    for count in range(1, len(shapes) + 1):
        cut = [_cut(shape, left // count) for shape in shapes[:count]]
        if all(min(a[2:]) >= min(LEAST_SIDE, *b[2:]) for a, b in zip(cut, shapes, strict=False)):
            enough = count
    return max(1, enough)


def _without(shape: Shape) -> Shape:
    return (*shape[:2], 0, 0)


def _cut(shape: Shape, share: int) -> Shape:
    layers, heads, n, m = shape
    if layers * heads * n * m <= share:
        return shape
    rows = min(n, int((share / (layers * heads) * n / m) ** 0.5))
    columns = min(m, int((share / (layers * heads) * m / n) ** 0.5))
    return (layers, heads, rows, columns) if rows and columns else _without(shape)


def page_examples(report: ReportContent, *, most: int) -> list[dict[str, Any]]:
    """Return texts, tokens and packed maps, as many weights as a page may hold.

    Where a map is cut, "beyond" holds the largest weight of each row whose largest weight belongs
    to a key that is cut off, and 0 for all other rows.
    """
    cut = kept_shapes([_shape(*both) for both in report.examples], most=most)
    both = zip(report.examples, cut, strict=True)
    return [_example(example, other, shape) for (example, other), shape in both]


def _shape(first: Example, other: Example | None) -> Shape:
    """Return the shape of the maps of one text, the heads of both networks counted together."""
    maps = [example.maps for example in (first, other) if example is not None]
    heads = sum(int(np.prod(np.shape(layer)[:2])) for layer in maps)
    return (1, heads, *np.shape(first.maps)[2:])


def _example(first: Example, other: Example | None, shape: Shape) -> dict[str, Any]:
    n, m = shape[2:]
    return {
        "label": first.label,
        "source": None if first.queries == first.keys else " ".join(first.keys),
        "queries": list(first.queries[:n]),
        "keys": list(first.keys[:m]),
        "of": [len(first.queries), len(first.keys)],
        **_packed(first, n, m),
        "other": None if other is None else _packed(other, n, m),
    }


def _packed(example: Example, n: int, m: int) -> dict[str, Any]:
    maps = np.asarray(example.maps)[:, :, :n]
    text, scale = pack_weights(maps[..., :m])
    packed = {"shape": [*maps.shape[:3], m], "scale": scale, "maps": text}
    if not 0 < m < maps.shape[-1]:
        return packed
    kept, beyond = maps[..., :m].max(axis=-1), maps[..., m:].max(axis=-1)
    text, scale = pack_weights(np.where(beyond > kept, beyond, 0))
    return {**packed, "beyond": {"scale": scale, "maps": text}}
