"""Importance of heads, and the loss as heads are pruned: what was measured. Arrays only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """Importance of every head, averaged over batches.

    Attributes
    ----------
    method : str
        A key of :data:`~fourierkernels.diagnostics.networks.importance.IMPORTANCES`.
    values : ndarray, shape (L, H)
        Mean over batches.
    low, high : ndarray, shape (L, H)
        Bootstrap interval over batches, level 0.95; NaN from one batch.
    layers : tuple of str
        Name of the module of each row.
    """

    method: str
    values: FloatArray
    low: FloatArray
    high: FloatArray
    layers: tuple[str, ...]
    n_batches: int


@dataclass(frozen=True, eq=False)
class PruningCurve:
    """Loss as heads are pruned, the least important first.

    Attributes
    ----------
    removed : ndarray of int, shape (K,)
        Numbers of heads pruned.
    losses : ndarray, shape (K,)
        Mean loss over the batches.
    order : ndarray of int, shape (L H, 2)
        Layer and head, in the order in which they are pruned.
    """

    removed: NDArray[np.int64]
    losses: FloatArray
    order: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeadPruning:
    """Importance of the heads for a loss, and the loss as they are pruned.

    Attributes
    ----------
    loss, description : str
        Which loss, and what it is.
    importance : HeadImportance
    curve : PruningCurve
        The least important heads first, on inputs that the importance was not measured on.
    at_random : PruningCurve
        The same heads in random order.
    """

    loss: str
    description: str
    importance: HeadImportance
    curve: PruningCurve
    at_random: PruningCurve
