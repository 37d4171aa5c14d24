"""Metrics of maps as sums over query rows, to which slabs of rows add up. Arrays only.

A slab is some rows of the maps of every head of a layer, ``(H, s, m)``. Whole maps are one slab, so
that there is one formula for both, and memory for a slab is enough for maps of any length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.foundation.arrays import FloatArray

# Below this share of the norms the Gram trick has lost too many digits: 2e-16 / 1e-3 is 2e-13.
_NEAR = 1e-3


@dataclass(frozen=True)
class RowSums:
    """A metric of maps that is a function of a sum over query rows.

    Attributes
    ----------
    part : callable
        From a slab of maps ``(H, s, m)`` to what adds up over slabs, ``(H, H)``.
    whole : callable
        From the sum and the number of query rows to distances ``(H, H)``.
    """

    part: Callable[[FloatArray], FloatArray]
    whole: Callable[[FloatArray, int], FloatArray]

    def __call__(self, maps: FloatArray) -> FloatArray:
        """Return the distances of maps ``(H, n, m)``, as ``(H, H)``."""
        return self.whole(self.part(maps), maps.shape[-2])


def squared_distances(maps: FloatArray) -> FloatArray:
    """‖A_a - A_b‖² of every pair of maps ``(H, s, m)``, as ``(H, H)``.

    From the Gram matrix, in float64; the few pairs that are so near that this would cost digits
    are subtracted directly.
    """
    flat = maps.reshape(len(maps), -1)
    gram = flat @ flat.T
    norms = np.diag(gram)
    sums = norms[:, None] + norms
    squared: FloatArray = np.maximum(sums - (gram + gram.T), 0.0)
    for a, b in np.argwhere(np.triu(squared < _NEAR * sums, k=1)):
        squared[a, b] = squared[b, a] = np.sum((flat[a] - flat[b]) ** 2)
    return squared


def inner_products(maps: FloatArray) -> FloatArray:
    """⟨A_a, A_b⟩ of every pair of maps ``(H, s, m)``, as ``(H, H)``."""
    flat = maps.reshape(len(maps), -1)
    products: FloatArray = flat @ flat.T
    return products


def mixed_entropies(maps: FloatArray) -> FloatArray:
    """Sum over rows of H((p + q)/2) - (H(p) + H(q))/2 in nats, for maps ``(H, s, m)``."""
    own = row_entropies(maps).sum(axis=-1)  # (H,)
    upper = np.zeros((len(maps), len(maps)))
    for a in range(len(maps) - 1):
        mixed = row_entropies((maps[a] + maps[a + 1 :]) / 2).sum(axis=-1)
        upper[a, a + 1 :] = mixed - (own[a] + own[a + 1 :]) / 2
    return upper + upper.T


def moved_weights(maps: FloatArray) -> FloatArray:
    """Sum over rows of Σ_j |p_j - q_j| / 2, for maps ``(H, s, m)``."""
    upper = np.zeros((len(maps), len(maps)))
    for a in range(len(maps) - 1):
        gaps = np.abs(maps[a] - maps[a + 1 :])
        upper[a, a + 1 :] = gaps.sum(axis=(-2, -1)) / 2
    return upper + upper.T
