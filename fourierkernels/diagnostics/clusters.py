"""Groups of similar heads, a plane to draw them in, and whether redundant heads are unimportant.

Arrays only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite, check_integer

_SYMMETRIC = 1e-9  # relative; distances of this package are symmetric to the last bit


@dataclass(frozen=True)
class Association:
    """Rank correlation of a head's distance to the nearest other one with its importance.

    Attributes
    ----------
    correlation : float
        Spearman's, of the distance to the nearest head with the importance. Positive: redundant
        heads are the unimportant ones.
    p_value : float
        Share of permutations of the importance within layers with a correlation as far from 0.
    """

    correlation: float
    p_value: float


def head_linkage(distances: ArrayLike) -> FloatArray:
    """Return the dendrogram of the heads of a layer, average linkage, as scipy draws it.

    Parameters
    ----------
    distances : array_like, shape (H, H)
        Of :func:`~fourierkernels.diagnostics.distances.head_distances`, or their mean over texts.

    Returns
    -------
    ndarray, shape (H - 1, 4)
        For `scipy.cluster.hierarchy.dendrogram`.

    Raises
    ------
    ValueError
        If distances are not a symmetric, non-negative matrix with zeros on the diagonal.
    """
    from scipy.cluster.hierarchy import linkage  # slow to import
    from scipy.spatial.distance import squareform

    merges: FloatArray = linkage(squareform(_check(distances), checks=False), method="average")
    return merges


def head_clusters(distances: ArrayLike, *, count: int) -> NDArray[np.int64]:
    """Return the cluster of each head, 0, 1, ... in the order in which they appear.

    Parameters
    ----------
    distances : array_like, shape (H, H)
    count : int
        Most clusters; fewer if heads are equal.

    Examples
    --------
    >>> head_clusters([[0, 1, 5], [1, 0, 5], [5, 5, 0]], count=2)
    array([0, 0, 1])
    """
    from scipy.cluster.hierarchy import fcluster  # slow to import

    labels = fcluster(head_linkage(distances), check_integer("count", count), "maxclust")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    places: NDArray[np.int64] = np.argsort(np.argsort(first))[inverse]
    return places


def head_positions(distances: ArrayLike, *, dim: int = 2) -> FloatArray:
    """Return points whose distances are near those of the heads: classical scaling.

    The eigenvectors of -½ J D² J (D² the squared distances, J the centring), times the roots of
    their eigenvalues; a negative one, of distances that no points have, counts as zero. In each
    column the coordinate farthest from zero is positive.

    Parameters
    ----------
    distances : array_like, shape (H, H)
    dim : int

    Returns
    -------
    ndarray, shape (H, dim)
    """
    matrix = _check(distances)
    if check_integer("dim", dim) > len(matrix):
        raise ValueError(f"dim must be at most the {len(matrix)} heads, got {dim}")
    squared = matrix**2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    points = vectors[:, ::-1][:, :dim] * np.sqrt(np.maximum(values[::-1][:dim], 0.0))
    farthest = points[np.abs(points).argmax(axis=0), np.arange(dim)]
    positions: FloatArray = points * np.where(farthest < 0, -1.0, 1.0)
    return positions


def nearest_distances(distances: ArrayLike) -> FloatArray:
    """Return the distance of each head to the nearest other of its layer: small if redundant.

    Parameters
    ----------
    distances : array_like, shape (H, H) or (L, H, H)

    Returns
    -------
    ndarray, shape (H,) or (L, H)
    """
    array = as_real("distances", distances)
    layers = np.stack([_check(layer) for layer in array.reshape(-1, *array.shape[-2:])])
    layers[:, np.arange(layers.shape[-1]), np.arange(layers.shape[-1])] = np.inf
    nearest: FloatArray = layers.min(axis=-1).reshape(array.shape[:-1])
    return nearest


def redundancy_against_importance(
    distances: ArrayLike,
    importance: ArrayLike,
    *,
    rng: np.random.Generator,
    permutations: int = 999,
) -> Association:
    """Test whether heads that resemble another one are the less important ones.

    Ranks are taken within each layer, so that differences between layers do not
    count as differences between heads.

    Parameters
    ----------
    distances : array_like, shape (L, H, H)
    importance : array_like, shape (L, H)

    Raises
    ------
    ValueError
        If the shapes do not fit, or neither varies within any layer.
    """
    alone = nearest_distances(distances)
    needed = check_finite("importance", as_real("importance", importance))
    if alone.ndim != 2 or needed.shape != alone.shape:
        raise ValueError(
            f"importance must have shape (L, H) for distances (L, H, H), got {needed.shape} "
            f"for {np.shape(distances)}"
        )
    first, second = _centred_ranks(alone), _centred_ranks(needed)
    norm = np.sqrt((first**2).sum() * (second**2).sum())
    if norm == 0:
        raise ValueError("distances and importance must vary within a layer, got constants")
    observed = float((first * second).sum() / norm)
    drawn = [
        (first * rng.permuted(second, axis=1)).sum() / norm
        for _ in range(check_integer("permutations", permutations))
    ]
    as_far = int((np.abs(drawn) >= abs(observed) * (1 - _SYMMETRIC)).sum())
    return Association(observed, (1 + as_far) / (1 + permutations))


def _centred_ranks(values: FloatArray) -> FloatArray:
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(values, axis=1)
    centred: FloatArray = ranks - ranks.mean(axis=1, keepdims=True)
    return centred


def _check(distances: ArrayLike) -> FloatArray:
    matrix = check_finite("distances", as_real("distances", distances))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(f"distances must have shape (heads, heads), got {matrix.shape}")
    scale = _SYMMETRIC * max(float(np.abs(matrix).max()), 1e-300)
    if matrix.min() < 0 or np.diag(matrix).any() or np.abs(matrix - matrix.T).max() > scale:
        raise ValueError(
            "distances must be symmetric, not negative, and zero on the diagonal, got "
            f"least {matrix.min():.3g}"
        )
    return matrix
