"""The range of data: a box whose sides a band-limited sum must cover."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray


class Box(NamedTuple):
    """Lower and upper ends per dimension; hashable, so that what was prepared for it can be kept.

    Examples
    --------
    >>> Box.around(np.array([[0.0], [2.0]])).including(Box((1.0,), (3.0,)))
    Box(low=(0.0,), high=(3.0,))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def around(cls, points: FloatArray) -> "Box":
        """Return the smallest box around points of shape ``(n, dim)``."""
        # One column at a time is fastest.
        low = tuple(float(column.min()) for column in points.T)
        return cls(low, tuple(float(column.max()) for column in points.T))

    @property
    def spans(self) -> FloatArray:
        """Lengths of the sides, shape ``(dim,)``; infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.subtract(self.high, self.low)

    def holds(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return which points of shape ``(n, dim)`` lie in the closed box, shape ``(n,)``."""
        inside = np.ones(len(points), bool)
        for column, low, high in zip(points.T, self.low, self.high, strict=True):
            inside &= (column >= low) & (column <= high)
        return inside

    def contains(self, other: "Box") -> bool:
        """Return whether no end of `other` lies outside."""
        below = all(mine <= end for mine, end in zip(self.low, other.low, strict=True))
        return below and all(mine >= end for mine, end in zip(self.high, other.high, strict=True))

    def including(self, other: "Box", *, spare: float = 0.0) -> "Box":
        """Return the smallest box around both; ends that move, move by `spare` sides more."""
        extra = [spare * float(span) for span in self.spans] if spare else [0.0] * len(self.low)
        low = zip(self.low, other.low, extra, strict=True)
        high = zip(self.high, other.high, extra, strict=True)
        return Box(
            tuple(end - more if end < mine else mine for mine, end, more in low),
            tuple(end + more if end > mine else mine for mine, end, more in high),
        )
