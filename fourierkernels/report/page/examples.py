"""The texts of a page with their maps, those of another network beside them."""

from typing import Any

import numpy as np

from fourierkernels.diagnostics.examples import Example
from fourierkernels.report.content import ReportContent
from fourierkernels.report.page.weights import Shape, kept_shapes, pack_weights


def page_examples(report: ReportContent, *, most: int) -> list[dict[str, Any]]:
    """Return texts, tokens and packed maps, as many weights as a page may hold.

    Where a map is cut, "beyond" holds the largest weight of each row whose largest weight belongs
    to a key that is cut off, and 0 for all other rows.
    """
    cut = kept_shapes([_shape(*both) for both in report.examples], most=most)
    both = zip(report.examples, cut, strict=True)
    return [_example(own, other, shape) for (own, other), shape in both]


def _shape(own: Example, other: Example | None) -> Shape:
    """Return the shape of the maps of one text, the heads of both networks counted together."""
    maps = [example.maps for example in (own, other) if example is not None]
    heads = sum(int(np.prod(np.shape(one)[:2])) for one in maps)
    return (1, heads, *np.shape(own.maps)[2:])


def _example(own: Example, other: Example | None, shape: Shape) -> dict[str, Any]:
    n, m = shape[2:]
    return {
        "label": own.label,
        "source": None if own.queries == own.keys else " ".join(own.keys),
        "queries": list(own.queries[:n]),
        "keys": list(own.keys[:m]),
        "of": [len(own.queries), len(own.keys)],
        **_packed(own, n, m),
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
