"""How much of each input token reaches each output through all layers. Arrays only.

Both follow [abnar2020quantifying]_: heads are averaged, the residual stream is a weight of each
token on itself, and layers are stacked. Values and feed-forward layers are left out, so these are
pictures of the maps and not of the function.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_integer, check_number

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_UNITS = 2**24  # the flow algorithm counts in whole numbers: a weight of 1 is so many


def attention_rollout(maps: ArrayLike, *, residual: float = 0.5) -> FloatArray:
    """Return the product of the layers' maps, from outputs (rows) to inputs (columns).

    Source: [abnar2020quantifying]_, equation 1, with (1 - r) A + r I for each layer.

    Parameters
    ----------
    maps : array_like, shape (L, H, n, n)
        First layer first.
    residual : float
        r in [0, 1], the share of the residual stream.

    Returns
    -------
    ndarray, shape (n, n)
        Rows are probabilities.

    Raises
    ------
    ValueError
        For another shape, rows that are not probabilities, or r outside [0, 1].

    Examples
    --------
    >>> attention_rollout([[[[1.0, 0.0], [1.0, 0.0]]]] * 2)
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    total = None
    for layer in _layers(maps, residual):
        total = layer if total is None else layer @ total
    return np.asarray(total)


def attention_flow(
    maps: ArrayLike, *, residual: float = 0.5, query: int | None = None
) -> FloatArray:
    """Return the maximum flow from outputs (rows) to inputs (columns), weights as capacities.

    Source: [abnar2020quantifying]_, section 3. It is never below the rollout, whose paths to one
    input are a flow. Each entry is one maximum-flow problem with L n² edges: name a `query` where
    n is large. Capacities are rounded down to multiples of 2⁻²⁴.

    Parameters
    ----------
    maps : array_like, shape (L, H, n, n)
        First layer first.
    residual : float
        As in :func:`attention_rollout`.
    query : int, optional
        Only this output.

    Returns
    -------
    ndarray, shape (n, n), or (n,) for one query

    Raises
    ------
    ValueError
        As :func:`attention_rollout`, or for a query that is not there.
    """
    from scipy.sparse.csgraph import maximum_flow  # slow to import

    layers = _layers(maps, residual)
    n = layers[0].shape[0]
    if query is not None and check_integer("query", query, least=0) >= n:
        raise ValueError(f"query must be below the {n} tokens, got {query}")
    network, top = _network(layers), len(layers) * n
    queries = range(n) if query is None else [query]
    flows = [
        [maximum_flow(network, top + i, j).flow_value / _UNITS for j in range(n)] for i in queries
    ]
    result: FloatArray = np.array(flows)
    return result if query is None else result[0]


def _layers(maps: ArrayLike, residual: float) -> list[FloatArray]:
    array = check_probabilities(as_real("maps", maps))
    if array.ndim != 4 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"maps must have shape (layers, heads, n, n), got {array.shape}")
    if not 0 <= check_number("residual", residual) <= 1:
        raise ValueError(f"residual must lie in [0, 1], got {residual}")
    skipped = residual * np.eye(array.shape[-1])
    return [(1 - residual) * layer.mean(axis=0) + skipped for layer in array]


def _network(layers: list[FloatArray]) -> "csr_array":
    """Node l n + i is token i after l layers; edges lead from each layer to the one below."""
    from scipy.sparse import csr_array  # slow to import

    n = layers[0].shape[0]
    rows, columns, weights = [], [], []
    for number, layer in enumerate(layers):
        query, key = np.nonzero(layer)
        rows.append((number + 1) * n + query)
        columns.append(number * n + key)
        weights.append(np.floor(layer[query, key] * _UNITS).astype(np.int32))
    nodes = (len(layers) + 1) * n
    places = (np.concatenate(rows), np.concatenate(columns))
    return csr_array((np.concatenate(weights), places), shape=(nodes, nodes))
