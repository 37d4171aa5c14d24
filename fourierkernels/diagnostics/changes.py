"""How far a changed input moves what heads attend to, and what a network predicts. Arrays only."""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.maps import check_rows
from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.foundation.validation import as_real, check_choice, check_finite


def head_changes(
    before: ArrayLike,
    after: ArrayLike,
    *,
    metric: str = "total_variation",
    places: ArrayLike | None = None,
) -> FloatArray:
    """Return the distance of each head's map from its map on another input, ``(L, H)``.

    Parameters
    ----------
    before : array_like, shape (L, H, n, m)
        Maps of the input as it was.
    after : array_like, shape (L, H, n, m)
        Maps of the changed input; ``(L, H, k, k)`` if only k of its n = m tokens are left.
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS` that compares maps.
    places : array_like, shape (k,)
        Where the tokens that are left stood, increasing. Rows of the others are not compared, and
        to keys that are gone the changed map gives no weight.

    Raises
    ------
    ValueError
        For a metric of outputs, shapes that do not fit, or rows that are not probabilities where
        the metric needs them.

    Examples
    --------
    >>> one, other = np.eye(2), np.full((2, 2), 0.5)
    >>> head_changes([[one, one]], [[one, other]])
    array([[0. , 0.5]])
    """
    row = METRICS[check_choice("metric", metric, list(METRICS))]
    if row.of != MAPS:
        raise ValueError(f"metric must compare maps, got {metric}")
    old, new = (
        check_finite(name, as_real(name, maps))
        for name, maps in (("before", before), ("after", after))
    )
    if old.ndim != 4:
        raise ValueError(f"before must have shape (layers, heads, n, m), got {old.shape}")
    if places is not None:
        old, new = _in_place(old, new, _check_places(places, old, new))
    if old.shape != new.shape:
        raise ValueError(f"after must have the shape of before, {old.shape}, got {new.shape}")
    if row.probabilities:
        check_rows(np.concatenate([old, new]), row.name)
    pairs = np.stack([old, new], axis=2).reshape(-1, 2, *old.shape[2:])
    changes = np.array([row.between(pair)[0, 1] for pair in pairs])
    return changes.reshape(old.shape[:2])


def output_changes(before: ArrayLike, after: ArrayLike) -> FloatArray:
    """Return the total variation between predictions, given their logarithms ``(..., C)``.

    Half the sum of absolute differences of the probabilities of the C classes or words: the largest
    difference of the probabilities of any set of them, 0 to 1.

    Raises
    ------
    ValueError
        If shapes differ, or the values are no logarithms of probabilities.

    Examples
    --------
    >>> output_changes(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]]))
    array([0.25])
    """
    old, new = as_real("before", before), as_real("after", after)
    if old.shape != new.shape or old.ndim < 1:
        raise ValueError(f"after must have the shape of before, {old.shape}, got {new.shape}")
    one, other = np.exp(old), np.exp(new)
    for name, weights in (("before", one), ("after", other)):
        worst = float(np.abs(weights.sum(axis=-1) - 1).max())
        if not worst < 1e-3:
            raise ValueError(
                f"{name} must be log-probabilities, got sums of probabilities off by {worst:.3g}"
            )
    variation: FloatArray = np.abs(one - other).sum(axis=-1) / 2
    return variation


def _check_places(places: ArrayLike, old: FloatArray, new: FloatArray) -> IntArray:
    kept = np.asarray(places)
    n = old.shape[-1]
    if old.shape[-2] != n or new.shape != (*old.shape[:2], kept.size, kept.size):
        raise ValueError(
            f"after must have maps of {kept.size} of {n} tokens, as places has, got {new.shape}"
        )
    inside = kept.size and kept.min() >= 0 and kept.max() < n and np.all(np.diff(kept) > 0)
    if kept.ndim != 1 or not inside:
        raise ValueError(f"places must increase within 0, …, {n - 1}, got {kept.tolist()}")
    return kept


def _in_place(old: FloatArray, new: FloatArray, places: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows that are left, and the new maps with zeros at keys that are gone."""
    wide = np.zeros((*new.shape[:-1], old.shape[-1]))
    wide[..., places] = new
    return old[..., places, :], wide
