"""What the map of one head looks like: a registry of statistics of attention maps. Arrays only.

A map is the n x m matrix of attention weights of one head on one text, padding cut away; its rows
are probabilities. Queries and keys are the same tokens, n = m, but in cross-attention. Every
statistic is averaged over the query rows.

To add a statistic, write a function from maps (H, n, m) and :class:`Tokens` to values (H,) and add
a row to :data:`STATISTICS`; the tests and :func:`map_statistics` pick it up from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.arrays import BoolArray, FloatArray
from fourierkernels.validation import as_real, check_choice, check_finite

LOCAL = 2  # a key is local if it is at most so far from its query
# Weights rounded to bfloat16 are off by at most 2^-8 of themselves, and so is the sum of a row
# however long it is (2^-11 in float16): 3.91e-3, and room for float32 before that.
_ROW_SUM_TOLERANCE = 4e-3


@dataclass(frozen=True, eq=False)
class Tokens:
    """What is known of the n tokens of a map besides the weights.

    Attributes
    ----------
    distances : ndarray, shape (n, m)
        Distance from each query to each key, in tokens or in the unit of the positions.
    special : ndarray of bool, shape (m,)
        Which keys are special: first and last marks, separators.
    """

    distances: FloatArray
    special: BoolArray


@dataclass(frozen=True)
class MapStatistic:
    """One number that describes the map of a head.

    Attributes
    ----------
    function : callable
        From maps ``(H, n, m)`` and a ``Tokens`` to values ``(H,)``.
    own : bool
        Whether it needs queries and keys to be the same tokens.
    """

    name: str
    function: Callable[[FloatArray, Tokens], FloatArray]
    unit: str
    description: str
    source: str = ""
    own: bool = False


def row_entropies(maps: FloatArray) -> FloatArray:
    """-Σ p log p of each row (0 log 0 = 0) in nats, from ``(..., n, m)`` to ``(..., n)``."""
    # The least normal number stands for zero: its p log p is 0 to within 2e-305.
    logs = np.log(np.maximum(maps, np.finfo(np.float64).tiny))
    entropies: FloatArray = -_row_products(maps, logs)
    return entropies


def _row_products(maps: FloatArray, of: FloatArray) -> FloatArray:
    """Σ_j a_ij b_ij of arrays of one shape, ``(..., n, m)`` to ``(..., n)``, without a third."""
    products: FloatArray = np.einsum("...j,...j->...", maps, of)
    return products


def _effective_keys(maps: FloatArray, tokens: Tokens) -> FloatArray:
    counts: FloatArray = (1 / _row_products(maps, maps)).mean(axis=-1)
    return counts


def _expected(maps: FloatArray, of: FloatArray | BoolArray) -> FloatArray:
    """Mean over rows of Σ_j p_ij f_ij, for f of shape ``(n, m)``."""
    values: FloatArray = maps.reshape(len(maps), -1) @ of.ravel().astype(float) / maps.shape[-2]
    return values


def _offset(maps: FloatArray, offset: int) -> FloatArray:
    """Mean weight of the key `offset` places after the query, over all n rows."""
    on_it = np.diagonal(maps, offset=offset, axis1=-2, axis2=-1)
    weight: FloatArray = on_it.sum(axis=-1) / maps.shape[-2]
    return weight


def _special(maps: FloatArray, tokens: Tokens) -> FloatArray:
    weight: FloatArray = maps.mean(axis=-2) @ tokens.special.astype(float)
    return weight


STATISTICS = {
    row.name: row
    for row in (
        MapStatistic(
            name="entropy",
            function=lambda maps, tokens: row_entropies(maps).mean(axis=-1),
            unit="nats per row",
            description="entropy of a row",
            source="clark2019bert",
        ),
        MapStatistic(
            name="effective_keys",
            function=_effective_keys,
            unit="keys",
            description=(
                "1 / Σ w² of a row: a kernel average of so many samples of equal weight has the "
                "same variance"
            ),
        ),
        MapStatistic(
            name="distance",
            function=lambda maps, tokens: _expected(maps, tokens.distances),
            unit="tokens, or the unit of the positions",
            description="mean distance from query to key",
            own=True,
        ),
        MapStatistic(
            name="local",
            function=lambda maps, tokens: _expected(maps, tokens.distances <= LOCAL),
            unit="share of the weight",
            description=f"weight on keys at most {LOCAL} away, the query's own place included",
            own=True,
        ),
        MapStatistic(
            name="own_token",
            function=lambda maps, tokens: _offset(maps, 0),
            unit="share of the weight",
            description="weight on the query's own place",
            own=True,
        ),
        MapStatistic(
            name="first_token",
            function=lambda maps, tokens: maps[:, :, 0].mean(axis=-1),
            unit="share of the weight",
            description="weight on the first token",
        ),
        MapStatistic(
            name="previous_token",
            function=lambda maps, tokens: _offset(maps, -1),
            unit="share of the weight",
            description="weight on the token before the query, over all rows",
            source="clark2019bert",
            own=True,
        ),
        MapStatistic(
            name="next_token",
            function=lambda maps, tokens: _offset(maps, 1),
            unit="share of the weight",
            description="weight on the token after the query, over all rows",
            source="clark2019bert",
            own=True,
        ),
        MapStatistic(
            name="special_tokens",
            function=_special,
            unit="share of the weight",
            description="weight on special tokens",
            source="clark2019bert",
        ),
    )
}


def map_statistics(
    maps: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    positions: ArrayLike | None = None,
    special: ArrayLike | None = None,
) -> dict[str, FloatArray]:
    """Return statistics of the maps of a layer, or of every layer.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Attention weights on one text, padding cut away.
    names : sequence of str, optional
        Keys of :data:`STATISTICS`; by default all, or all that have a meaning if n is not m.
    positions : array_like, shape (m,) or (m, dim), optional
        Where the tokens are, for an image say; by default 0, 1, 2, ...
    special : array_like of bool, shape (m,), optional
        Which keys are special; by default none is.

    Returns
    -------
    dict
        From names to arrays ``(H,)`` or ``(L, H)``.

    Raises
    ------
    ValueError
        For an unknown name, another shape, or rows that are not probabilities.

    Examples
    --------
    >>> map_statistics([[[0.5, 0.5], [0.0, 1.0]]], names=["effective_keys"])["effective_keys"]
    array([1.5])
    """
    array = check_probabilities(as_real("maps", maps))
    known = statistics_of(*array.shape[-2:])
    chosen = [check_choice("names", name, list(STATISTICS)) for name in names or known]
    if strange := [name for name in chosen if name not in known]:
        raise ValueError(
            f"names must have a meaning where queries and keys differ, got {strange[0]} for maps "
            f"of {array.shape[-2]} queries and {array.shape[-1]} keys"
        )
    tokens = _tokens(array.shape[-1], positions, special)
    layers = array.reshape(-1, *array.shape[-3:])  # one at a time: its arrays stay in the cache
    values = [[STATISTICS[name].function(layer, tokens) for name in chosen] for layer in layers]
    by_name = np.array(values).swapaxes(0, 1).reshape(-1, *array.shape[:-2])
    return dict(zip(chosen, by_name, strict=True))


def statistics_of(queries: int, keys: int) -> list[str]:
    """Return the names of the statistics that have a meaning for maps of this shape."""
    return [name for name, row in STATISTICS.items() if queries == keys or not row.own]


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


def check_rows(maps: FloatArray, purpose: str) -> None:
    """Refuse maps whose rows are not probabilities, which `purpose` needs."""
    worst = float(np.abs(maps.sum(axis=-1) - 1).max())
    if maps.min() < 0 or worst > _ROW_SUM_TOLERANCE:
        raise ValueError(
            f"maps must have rows that are probabilities for {purpose}, "
            f"got least weight {maps.min():.3g} and row sums off by up to {worst:.3g}"
        )


def _tokens(n: int, positions: ArrayLike | None, special: ArrayLike | None) -> Tokens:
    places = check_finite(
        "positions", as_real("positions", np.arange(n) if positions is None else positions)
    )
    if places.ndim not in {1, 2} or len(places) != n:
        raise ValueError(f"positions must have shape ({n},) or ({n}, dim), got {places.shape}")
    places = places.reshape(n, -1)
    marks = np.zeros(n, dtype=bool) if special is None else np.asarray(special)
    if marks.shape != (n,) or marks.dtype != bool:
        raise ValueError(
            f"special must be booleans of shape ({n},), got {marks.dtype} of {marks.shape}"
        )
    return Tokens(np.linalg.norm(places[:, None] - places, axis=-1), marks)
