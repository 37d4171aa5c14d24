"""Attention as kernel regression on a trained network: how far softmax is from a Gaussian kernel.

With weights softmax(s q·k) and σ² = 1/s, exp(-‖q - k‖²/(2σ²)) = exp(s q·k) exp(-s ‖k‖²/2) times a
factor of the query, which cancels in the row. So keys of one common norm make the two the same
[vaswani2017attention]_, and only the norms of the keys tell them apart.

Neither number is a property of the function: a constant added to every key changes no softmax
weight, but it changes the norms. `centred` takes the mean key away first.
"""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.maps import check_probabilities, row_totals
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite, check_positive

# Some weight of a row is at least 1/m, so below this no row of exp(-x) times weights gets lost.
_WITHOUT_LOGARITHMS = 600.0


def key_norm_spread(keys: ArrayLike, *, centred: bool = False) -> FloatArray:
    """Return the standard deviation over the mean of the norms of the keys, of each head.

    Parameters
    ----------
    keys : array_like, shape (..., n, d)
        After rotary positions, if any.
    centred : bool
        Take the mean key of each head away first.

    Returns
    -------
    ndarray, shape (...)
        0 for keys of one norm, and where all norms are zero.

    Raises
    ------
    ValueError
        If keys are not finite, or there are none.

    Examples
    --------
    >>> key_norm_spread([[1.0, 0.0], [0.0, 3.0]])
    array(0.5)
    """
    norms = np.linalg.norm(_centred(_keys(keys), centred), axis=-1)
    mean = np.asarray(norms.mean(axis=-1))
    spread: FloatArray = np.divide(
        norms.std(axis=-1), mean, out=np.zeros_like(mean), where=mean > 0
    )
    return spread


def gaussian_counterpart(
    maps: ArrayLike, keys: ArrayLike, *, scale: float, centred: bool = False
) -> FloatArray:
    """Return the maps of Gaussian kernels with the queries, keys, masks and biases of softmax ones.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Softmax maps; weights that are zero stay so.
    keys : array_like, shape (H, m, d) or (L, H, m, d)
    scale : float
        s, what multiplies q·k: 1/sqrt(d) mostly. σ² = 1/s.
    centred : bool
        Take the mean key of each head away first: same softmax, other Gaussian.

    Returns
    -------
    ndarray, of the shape of `maps`

    Raises
    ------
    ValueError
        If the shapes do not fit, rows are not probabilities, or s is not positive.
    """
    array, points = _checked(maps, keys)
    return _counterpart(array, points, scale, centred)


def gaussian_gap(
    maps: ArrayLike, keys: ArrayLike, *, scale: float, centred: bool = False
) -> FloatArray:
    """Return the total variation between softmax rows and Gaussian ones, averaged over rows.

    In [0, 1]: the share of the weight that moves to other keys. Parameters as in
    ``gaussian_counterpart``; the result has shape ``(H,)`` or ``(L, H)``.
    """
    array, points = _checked(maps, keys)
    return _moved(array, _counterpart(array, points, scale, centred))


def gap_of_rows(
    maps: FloatArray, keys: FloatArray, *, scale: float, centred: bool = False
) -> FloatArray:
    """Return :func:`gaussian_gap` of maps whose rows are known to be probabilities."""
    return _moved(maps, _counterpart(maps, _keys(keys), scale, centred))


def _moved(maps: FloatArray, other: FloatArray) -> FloatArray:
    """Return the share of weight by which rows differ, writing over the others."""
    np.abs(np.subtract(maps, other, out=other), out=other)
    moved: FloatArray = row_totals(other).mean(axis=-1) / 2
    return moved


def _counterpart(maps: FloatArray, keys: FloatArray, scale: float, centred: bool) -> FloatArray:
    squares = np.square(_centred(keys, centred)).sum(axis=-1)
    half = float(check_positive("scale", scale)) / 2 * squares
    half = (half - half.min(axis=-1, keepdims=True))[..., None, :]
    if half.max() < _WITHOUT_LOGARITHMS:
        weights = maps * np.exp(-half)
    else:
        with np.errstate(divide="ignore"):
            logits = np.log(maps) - half
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= row_totals(weights)[..., None]
    normalised: FloatArray = weights
    return normalised


def _checked(maps: ArrayLike, keys: ArrayLike) -> tuple[FloatArray, FloatArray]:
    array, points = check_probabilities(as_real("maps", maps)), _keys(keys)
    if points.shape[:-1] != (*array.shape[:-2], array.shape[-1]):
        raise ValueError(
            f"keys must have shape {(*array.shape[:-2], array.shape[-1], 'features')}, "
            f"got {points.shape}"
        )
    return array, points


def _keys(keys: ArrayLike) -> FloatArray:
    points = check_finite("keys", as_real("keys", keys))
    if points.ndim < 2 or points.size == 0:
        raise ValueError(f"keys must have shape (..., n, features), got {points.shape}")
    return points


def _centred(points: FloatArray, centred: bool) -> FloatArray:
    return points - points.mean(axis=-2, keepdims=True) if centred else points
