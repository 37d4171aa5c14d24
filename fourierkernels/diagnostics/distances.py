"""Distances between the attention maps of the heads of a layer. Arrays only.

A map is the n x n matrix of attention weights of one head on one text of n tokens, padding cut away
from keys *and* queries. The published table of distances between heads (nguyen2022fourierformer)
gives no formula; "frobenius" is this package's reading of it, not a formula of its authors.

To add a metric, write a function from maps (H, n, n) to distances (H, H) and add a row to
:data:`METRICS`; the contract tests and the command line pick it up from there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from fourierkernels.validation import as_real, check_choice, check_finite

FloatArray = NDArray[np.float64]

DEFAULT_METRIC = "frobenius_per_sqrt_n"
# Below this share of the norms the Gram trick has lost too many digits: 2e-16 / 1e-3 is 2e-13.
_NEAR = 1e-3
_ROW_SUM_TOLERANCE = 1e-3  # rows of half-precision maps sum to one only to about 1e-3


@dataclass(frozen=True)
class HeadMetric:
    """One way to compare two heads.

    Attributes
    ----------
    function : callable
        Maps of shape ``(H, n, n)`` to distances of shape ``(H, H)``.
    bound : callable
        From n, the largest value two maps with rows of probabilities can have.
    any_length : bool
        Whether values at different n may be averaged.
    triangle : bool
        Whether the triangle inequality holds.
    probabilities : bool
        Whether rows must be non-negative and sum to one.
    """

    name: str
    function: Callable[[FloatArray], FloatArray]
    bound: Callable[[int], float]
    any_length: bool
    triangle: bool
    probabilities: bool
    normaliser: str
    unit: str
    description: str
    source: str


def frobenius(maps: FloatArray) -> FloatArray:
    """‖A_a - A_b‖_F of every pair of maps ``(H, n, n)``, as ``(H, H)``.

    From the Gram matrix of the centred maps, in float64; the few pairs that are so near that this
    would cost digits are subtracted directly.
    """
    flat = maps.reshape(len(maps), -1)
    centred = flat - flat.mean(axis=0)  # distances stay, what cancels in the Gram matrix shrinks
    gram = centred @ centred.T
    norms = np.diag(gram)
    sums = norms[:, None] + norms
    squared = np.maximum(sums - gram - gram.T, 0.0)  # symmetric whatever the order of additions
    for a, b in np.argwhere(np.triu(squared < _NEAR * sums, k=1)):
        squared[a, b] = squared[b, a] = np.sum((flat[a] - flat[b]) ** 2)
    distances: FloatArray = np.sqrt(squared)
    return distances


def frobenius_per_sqrt_n(maps: FloatArray) -> FloatArray:
    """‖A_a - A_b‖_F / sqrt(n) of every pair of maps ``(H, n, n)``, n the number of query rows."""
    return frobenius(maps) / math.sqrt(maps.shape[-2])


def jensen_shannon(maps: FloatArray) -> FloatArray:
    """Mean over rows of H((p + q)/2) - (H(p) + H(q))/2 in nats, for maps ``(H, n, n)``."""
    own = _entropy(maps)  # (H,)
    upper = np.zeros((len(maps), len(maps)))
    for a in range(len(maps) - 1):
        mixed = _entropy((maps[a] + maps[a + 1 :]) / 2)
        upper[a, a + 1 :] = np.maximum(mixed - (own[a] + own[a + 1 :]) / 2, 0.0)
    return upper + upper.T


def _entropy(maps: FloatArray) -> FloatArray:
    """Mean over rows of -Σ p log p (0 log 0 = 0) of each map ``(H, n, n)``, as ``(H,)``."""
    entropy: FloatArray = -xlogy(maps, maps).sum(axis=-1).mean(axis=-1)
    return entropy


METRICS = {
    row.name: row
    for row in (
        HeadMetric(
            name="frobenius",
            function=frobenius,
            bound=lambda n: math.sqrt(2 * n),
            any_length=False,
            triangle=True,
            probabilities=False,
            normaliser="none",
            unit="weight",
            description="Frobenius distance of the maps; grows about as sqrt(n)",
            source="a reading of nguyen2022fourierformer (no formula given there), at n = 256",
        ),
        HeadMetric(
            name="frobenius_per_sqrt_n",
            function=frobenius_per_sqrt_n,
            bound=lambda n: math.sqrt(2),
            any_length=True,
            triangle=True,
            probabilities=False,
            normaliser="sqrt(n), n the number of query rows",
            unit="weight per sqrt(row)",
            description="Frobenius distance over sqrt(n): root mean square over query rows",
            source="a reading of nguyen2022fourierformer, divided so that lengths may be mixed",
        ),
        HeadMetric(
            name="jensen_shannon",
            function=jensen_shannon,
            bound=lambda n: math.log(2),
            any_length=True,
            triangle=False,
            probabilities=True,
            normaliser="n, the number of query rows",
            unit="nats per row",
            description="Jensen-Shannon divergence of the rows, averaged over query rows",
            source="clark2019bert, there unsmoothed sums over rows instead of their mean",
        ),
    )
}


def head_distances(maps: ArrayLike, *, metric: str = DEFAULT_METRIC) -> FloatArray:
    """Return the distance between every two heads of a layer, or of every layer.

    Parameters
    ----------
    maps : array_like, shape (H, n, n) or (L, H, n, n)
        Attention weights of H heads (in L layers) on one text, padding cut away.
    metric : str
        A key of :data:`METRICS`.

    Returns
    -------
    ndarray, shape (H, H) or (L, H, H)
        Symmetric, zero on the diagonal, in the metric's unit.

    Raises
    ------
    ValueError
        For an unknown metric, another shape, fewer than two heads, values that are not finite, or
        rows that are not probabilities where the metric needs them.

    Examples
    --------
    >>> head_distances([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], metric="frobenius")
    array([[0., 2.],
           [2., 0.]])
    """
    row = METRICS[check_choice("metric", metric, list(METRICS))]
    layers = _check_maps(as_real("maps", maps))
    if row.probabilities:
        _check_probabilities(layers, row.name)
    n = layers.shape[-1]
    heads = layers.shape[-3]
    distances = [row.function(layer) for layer in layers.reshape(-1, heads, n, n)]
    return np.stack(distances).reshape(*layers.shape[:-2], heads)


def _check_maps(maps: FloatArray) -> FloatArray:
    if maps.ndim not in {3, 4} or maps.shape[-1] != maps.shape[-2] or maps.size == 0:
        raise ValueError(
            f"maps must have shape (heads, n, n) or (layers, heads, n, n), got shape {maps.shape}"
        )
    if maps.shape[-3] < 2:
        raise ValueError(
            f"maps must have at least 2 heads for a distance between heads, got {maps.shape[-3]}"
        )
    return check_finite("maps", maps)


def _check_probabilities(maps: FloatArray, metric: str) -> None:
    worst = float(np.abs(maps.sum(axis=-1) - 1).max())
    if maps.min() < 0 or worst > _ROW_SUM_TOLERANCE:
        raise ValueError(
            f"maps must have rows that are probabilities for {metric}, "
            f"got least weight {maps.min():.3g} and row sums off by up to {worst:.3g}"
        )
