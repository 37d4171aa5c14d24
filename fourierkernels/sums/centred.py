"""Direct sums whose coordinates are centred near each query, so that its differences keep digits.

See ``fourierkernels.sums.centring`` for how near that is.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.centring import centring_limit
from fourierkernels.sums.direct import DirectSum
from fourierkernels.sums.reference import ReferenceSum
from fourierkernels.sums.result import KernelSums

_FEW = 4  # queries that the reference sums sooner than the sines of all samples are computed


class CentredSum(DirectSum):
    """Direct sums with further centres where queries are too far from the middle for `tol`.

    Arguments are as `SampleSum` passes them; the middle is the lower median unless it is given.
    Each further centre serves the queries of one cell and costs a pass over the samples; cells of
    a few queries go to the reference.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float = 1e-12,
        centre: FloatArray | None = None,
    ) -> None:
        options: dict[str, Any] = {"kernel": kernel, "radius": radius}
        super().__init__(points, weights, responses, **options, tol=tol, centre=centre)
        self._again = partial(DirectSum, points, weights, responses, **options)
        self._reference = ReferenceSum(points, weights, responses, **options)
        self._limit = centring_limit(kernel, len(radius), tol)

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums of shapes at queries of shape ``(m, dim)``; `parts` are all "value"."""
        scaled = self._radius * (queries - self._centre)
        is_far = self._is_far(np.abs(scaled))
        if not is_far.any():
            return super().at(queries, parts)
        near, far = np.flatnonzero(~is_far), np.flatnonzero(is_far)
        pieces = [(near, super().at(queries[near], parts))] if len(near) else []
        cells = np.floor(scaled[far] / self._limit)
        _, which, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        which = which.ravel()
        few = far[counts[which] < _FEW]
        if len(few):
            pieces.append((few, self._reference.at(queries[few], parts)))
        for cell in np.flatnonzero(counts >= _FEW):
            rows = far[which == cell]
            around = self._again(centre=queries[rows[0]])
            pieces.append((rows, around.at(queries[rows], parts)))
        return KernelSums.joined(pieces)

    def _is_far(self, size: FloatArray) -> NDArray[np.bool_]:
        """Return which queries are beyond the limit and not far beyond all samples too.

        At twice the samples' distance from the centre |q| is at most 2|u|.
        """
        doubtful = (size > self._limit) & (size < 2.0 * self._span)
        return np.asarray(doubtful.any(axis=1))
