"""Coordinates in which a kernel is a product: a vector of radii scales x, a matrix maps it once.

With a matrix R the sums are of ∏_d shape((R (x - x_i))_d): those of the points R (x_i - c) with
radius 1. The centre c of the data is taken away first, so that a large mean costs no digits.
"""

from dataclasses import dataclass

import numpy as np

from fourierkernels.foundation.arrays import FloatArray


@dataclass(frozen=True)
class Frame:
    """Where points lie for a kernel sum, and its radius there.

    Attributes
    ----------
    radius : array of shape (dim,)
        In the coordinates of the frame: R, or ones for a matrix.
    matrix : array of shape (dim, dim), optional
        R, if it is a matrix.
    centre : array of shape (dim,), optional

    Examples
    --------
    >>> frame = Frame.of(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [2.0, 4.0]]))
    >>> frame.placed(np.array([[1.0, 2.0], [2.0, 2.0]]))
    array([[0., 0.],
           [2., 0.]])
    """

    radius: FloatArray
    matrix: FloatArray | None = None
    centre: FloatArray | None = None

    @classmethod
    def of(cls, radius: FloatArray, points: FloatArray) -> "Frame":
        """Return the frame of a radius of shape ``(dim,)`` or ``(dim, dim)`` for these points."""
        if radius.ndim == 1:
            return cls(radius)
        centre = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)
        return cls(np.ones(len(radius)), radius, centre)

    def placed(self, points: FloatArray) -> FloatArray:
        """Return points of shape ``(n, dim)`` in the coordinates of the frame, contiguous."""
        if self.matrix is None or self.centre is None:
            return points
        return np.ascontiguousarray((points - self.centre) @ self.matrix.T)

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """Return derivatives in x from those in the frame, along the last axis: the chain rule."""
        return slopes if self.matrix is None else np.asarray(slopes @ self.matrix)

    @property
    def log_determinant(self) -> float:
        """Return log |det R| of a matrix, 0 for a vector, whose scale the sums' radius has."""
        return 0.0 if self.matrix is None else float(np.linalg.slogdet(self.matrix)[1])
