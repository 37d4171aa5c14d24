"""Inputs kept with their attention maps, so that they can be looked at."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Example:
    """One input whose maps may be looked at.

    Attributes
    ----------
    label : str
        The text, the file name of the image, or the ids.
    keys : tuple of str, length m
        Labels of the tokens, or of the patches of an image.
    queries : tuple of str, length n
        The same as `keys` unless this is cross-attention.
    maps : ndarray, shape (L, H, n, m)
        Weights, not negative.
    """

    label: str
    keys: tuple[str, ...]
    queries: tuple[str, ...]
    maps: NDArray[Any]
