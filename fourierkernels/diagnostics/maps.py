"""Attention maps as arrays: rows that must be probabilities, and sums over rows.

A map is the n x m matrix of attention weights of one head on one text, padding cut away; its rows
are probabilities. Queries and keys are the same tokens, n = m, except in cross-attention.

Metrics of maps are functions of sums over query rows, to which slabs of rows add up. A slab is some
rows of the maps of every head of a layer, ``(H, s, m)``. Whole maps are one slab, so that there is
one formula for both, and memory for a slab is enough for maps of any length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_finite

# Weights rounded to bfloat16 are off by at most 2^-8 of themselves, and so is the sum of a row
# however long it is (2^-11 in float16): 3.91e-3, and room for float32 before that.
_ROW_SUM_TOLERANCE = 4e-3
# Below this share of the norms the Gram trick has lost too many digits: 2e-16 / 1e-3 is 2e-13.
_NEAR = 1e-3


class InapplicableError(ValueError):
    """A metric or statistic has no meaning for these heads; another one may have."""


def row_entropies(maps: FloatArray) -> FloatArray:
    """-Σ p log p of each row (0 log 0 = 0) in nats, from ``(..., n, m)`` to ``(..., n)``."""
    # The least normal number stands for zero: its p log p is 0 to within 2e-305.
    logs = np.maximum(maps, np.finfo(np.float64).tiny)
    np.log(logs, out=logs)
    entropies: FloatArray = -row_products(maps, logs)
    return entropies


def row_products(maps: FloatArray, of: FloatArray) -> FloatArray:
    """Σ_j a_ij b_ij of arrays of one shape, ``(..., n, m)`` to ``(..., n)``, without a third."""
    products: FloatArray = np.einsum("...j,...j->...", maps, of)
    return products


def row_totals(maps: FloatArray) -> FloatArray:
    """Σ_j a_ij, ``(..., n, m)`` to ``(..., n)``, as a product of a matrix and a vector."""
    totals: FloatArray = maps @ np.ones(maps.shape[-1])
    return totals


def are_probabilities(maps: FloatArray) -> bool:
    """Return whether rows are probabilities; they are not if a weight is not finite."""
    worst = np.abs(row_totals(maps) - 1).max()
    return bool(maps.min() >= 0 and worst <= _ROW_SUM_TOLERANCE)


def check_probabilities(maps: FloatArray) -> FloatArray:
    """Return maps ``(H, n, m)`` or ``(L, H, n, m)`` whose rows are probabilities.

    Raises
    ------
    ValueError
        For another shape, or for rows that are negative somewhere or do not sum to one.
    """
    if maps.ndim not in {3, 4} or maps.size == 0:
        raise ValueError(
            "maps must have shape (heads, queries, keys) or (layers, heads, queries, keys), "
            f"got shape {maps.shape}"
        )
    check_rows(check_finite("maps", maps), "this statistic")
    return maps


def has_short_rows(maps: FloatArray) -> bool:
    """Return whether rows are nonnegative and sum to less than one, some of them clearly.

    Attention with a constant in its denominator has such rows where keys are far.
    """
    sums = maps.sum(axis=-1)
    near = sums.max() < 1 + _ROW_SUM_TOLERANCE
    return bool(near and sums.min() < 1 - _ROW_SUM_TOLERANCE and maps.min() >= 0)


def check_rows(maps: FloatArray, purpose: str) -> None:
    """Refuse maps whose rows are not probabilities, which `purpose` needs."""
    least, worst = float(maps.min()), float(np.abs(maps.sum(axis=-1) - 1).max())
    if least < 0 or worst > _ROW_SUM_TOLERANCE:
        raise InapplicableError(
            f"maps must have rows that are probabilities for {purpose}, "
            f"got least weight {least:.3g} and row sums off by up to {worst:.3g}; what needs "
            "none: --metric frobenius_per_sqrt_n --statistic none"
        )


@dataclass(frozen=True)
class RowSums:
    """A metric of maps that is a function of a sum over query rows.

    Attributes
    ----------
    part : callable
        From a slab of maps ``(H, s, m)`` to what adds up over slabs, ``(H, H)``.
    whole : callable
        From the sum and the number of query rows to distances ``(H, H)``.
    of_products : callable or None
        The same as `part`, from the inner products of the maps ``(H, H)``; None where these do not
        determine it. Of a metric that has it the distance expected by chance is known in closed
        form.
    """

    part: Callable[[FloatArray], FloatArray]
    whole: Callable[[FloatArray, int], FloatArray]
    of_products: Callable[[FloatArray], FloatArray] | None = None

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
    norms, squared = np.diag(gram), apart(gram)
    sums = norms[:, None] + norms
    for a, b in np.argwhere(np.triu(squared < _NEAR * sums, k=1)):
        squared[a, b] = squared[b, a] = np.sum((flat[a] - flat[b]) ** 2)
    return squared


def apart(products: FloatArray) -> FloatArray:
    """‖A_a - A_b‖² of every pair, from their inner products ``(H, H)``."""
    norms = np.diag(products)
    squared: FloatArray = np.maximum(norms[:, None] + norms - (products + products.T), 0.0)
    return squared


def inner_products(maps: FloatArray) -> FloatArray:
    """⟨A_a, A_b⟩ of every pair of maps ``(H, s, m)``, as ``(H, H)``."""
    flat = maps.reshape(len(maps), -1)
    products: FloatArray = flat @ flat.T
    return products


def mixed_entropies(maps: FloatArray) -> FloatArray:
    """Sum over rows of H((p + q)/2) - (H(p) + H(q))/2 in nats, for maps ``(H, s, m)``."""
    entropies = row_entropies(maps).sum(axis=-1)  # (H,)
    upper = np.zeros((len(maps), len(maps)))
    for a in range(len(maps) - 1):
        mixed = row_entropies((maps[a] + maps[a + 1 :]) / 2).sum(axis=-1)
        upper[a, a + 1 :] = mixed - (entropies[a] + entropies[a + 1 :]) / 2
    return upper + upper.T


def moved_weights(maps: FloatArray) -> FloatArray:
    """Sum over rows of Σ_j |p_j - q_j| / 2, for maps ``(H, s, m)``."""
    upper = np.zeros((len(maps), len(maps)))
    for a in range(len(maps) - 1):
        gaps = np.abs(maps[a] - maps[a + 1 :])
        upper[a, a + 1 :] = gaps.sum(axis=(-2, -1)) / 2
    return upper + upper.T
