"""What a head does: a registry of numbers that describe its map, or its keys. Arrays only.

Every statistic of maps is a mean over the query rows. So it is the mean of its values on slabs of
rows, weighted by their numbers of rows, and maps of any length can be measured slab by slab.

To add a statistic, write a function from :class:`Heads` to values (H,) and add a row to
:data:`STATISTICS`. Reports, the command line and the contract tests find it there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fourierkernels.diagnostics.kernel_gap import gap_of_rows, key_norm_spread
from fourierkernels.diagnostics.maps import row_entropies, row_products
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import check_choice

LOCAL = 2  # a key is local if it is at most so far from its query
MAPS, MARKS, KEYS = "maps", "marks", "keys"  # what a statistic reads


@dataclass(frozen=True, eq=False)
class Heads:
    """What the heads of one layer compute on one text, or a slab of it, as statistics read it.

    Attributes
    ----------
    maps : ndarray, shape (H, n, m)
        Attention weights of n queries in turn, padding cut away.
    distances : ndarray, shape (n, m)
        Distance from each query to each key, in tokens or in the unit of the positions.
    special : ndarray of bool, shape (m,)
        Which keys are special: first and last marks, separators.
    keys : ndarray, shape (H, m, d)
        After rotary positions; without features if no statistic reads them.
    scale : float
        What multiplies q·k.
    first : int
        Place of the first of the queries.
    """

    maps: FloatArray
    distances: FloatArray
    special: BoolArray
    keys: FloatArray
    scale: float
    first: int = 0


@dataclass(frozen=True)
class HeadStatistic:
    """One number that describes a head.

    Attributes
    ----------
    function : callable
        From :class:`Heads` to values ``(H,)``.
    reads : str
        What it needs: "maps" alone, "marks" (maps, and which tokens are special), or "keys" (maps,
        keys and the scale).
    own : bool
        Whether queries and keys must be the same tokens.
    """

    name: str
    function: Callable[[Heads], FloatArray]
    unit: str
    description: str
    source: str = ""
    reads: str = MAPS
    own: bool = False


def _effective_keys(heads: Heads) -> FloatArray:
    counts: FloatArray = (1 / row_products(heads.maps, heads.maps)).mean(axis=-1)
    return counts


def _expected(maps: FloatArray, of: FloatArray | BoolArray) -> FloatArray:
    """Mean over rows of Σ_j p_ij f_ij, for f of shape ``(n, m)``."""
    values: FloatArray = (
        maps.reshape(len(maps), -1) @ of.ravel().astype(float, copy=False) / maps.shape[-2]
    )
    return values


def _offset(heads: Heads, offset: int) -> FloatArray:
    """Mean weight of the key `offset` places after the query, over all n rows."""
    on_it = np.diagonal(heads.maps, offset=heads.first + offset, axis1=-2, axis2=-1)
    weight: FloatArray = on_it.sum(axis=-1) / heads.maps.shape[-2]
    return weight


def _special(heads: Heads) -> FloatArray:
    weight: FloatArray = (heads.maps @ heads.special.astype(float)).mean(axis=-1)
    return weight


STATISTICS = {
    row.name: row
    for row in (
        HeadStatistic(
            name="entropy",
            function=lambda heads: row_entropies(heads.maps).mean(axis=-1),
            unit="nats per row",
            description="entropy of a row",
            source="clark2019bert",
        ),
        HeadStatistic(
            name="effective_keys",
            function=_effective_keys,
            unit="keys",
            description=(
                "1 / Σ w² of a row: a kernel average of so many samples of equal weight has the "
                "same variance"
            ),
        ),
        HeadStatistic(
            name="distance",
            function=lambda heads: _expected(heads.maps, heads.distances),
            unit="tokens, or the unit of the positions",
            description="mean distance from query to key",
            own=True,
        ),
        HeadStatistic(
            name="local",
            function=lambda heads: _expected(heads.maps, heads.distances <= LOCAL),
            unit="share of the weight",
            description=f"weight on keys at most {LOCAL} away, the query's own place included",
            own=True,
        ),
        HeadStatistic(
            name="own_token",
            function=lambda heads: _offset(heads, 0),
            unit="share of the weight",
            description="weight on the query's own place",
            own=True,
        ),
        HeadStatistic(
            name="first_token",
            function=lambda heads: heads.maps[:, :, 0].mean(axis=-1),
            unit="share of the weight",
            description="weight on the first token",
        ),
        HeadStatistic(
            name="previous_token",
            function=lambda heads: _offset(heads, -1),
            unit="share of the weight",
            description="weight on the token before the query, over all rows",
            source="clark2019bert",
            own=True,
        ),
        HeadStatistic(
            name="next_token",
            function=lambda heads: _offset(heads, 1),
            unit="share of the weight",
            description="weight on the token after the query, over all rows",
            source="clark2019bert",
            own=True,
        ),
        HeadStatistic(
            name="special_tokens",
            function=_special,
            reads=MARKS,
            unit="share of the weight",
            description="weight on special tokens",
            source="clark2019bert",
        ),
        HeadStatistic(
            name="key_norm_spread",
            function=lambda heads: key_norm_spread(heads.keys),
            reads=KEYS,
            unit="standard deviation over mean",
            description="spread of the norms of the keys",
        ),
        HeadStatistic(
            name="centred_key_norm_spread",
            function=lambda heads: key_norm_spread(heads.keys, centred=True),
            reads=KEYS,
            unit="standard deviation over mean",
            description="the same, with the mean key subtracted first",
        ),
        HeadStatistic(
            name="gaussian_gap",
            function=lambda heads: gap_of_rows(heads.maps, heads.keys, scale=heads.scale),
            reads=KEYS,
            unit="share of the weight",
            description="weight that moves if the Gaussian kernel replaces softmax",
        ),
        HeadStatistic(
            name="centred_gaussian_gap",
            function=lambda heads: gap_of_rows(
                heads.maps, heads.keys, scale=heads.scale, centred=True
            ),
            reads=KEYS,
            unit="share of the weight",
            description="the same, with the mean key subtracted first",
        ),
    )
}

# Sets of statistics, by name. Those of maps cost little compared with running the network.
SETS: dict[str, Callable[[HeadStatistic], bool]] = {
    "all": lambda row: True,
    "maps": lambda row: row.reads != KEYS,
    "none": lambda row: False,
}


def check_statistics(names: Sequence[str] | str) -> list[str] | str:
    """Return the name of a set, a key of :data:`SETS`, or a list of keys of :data:`STATISTICS`.

    Raises
    ------
    ValueError
        For an unknown name, or for that of a set among several names.
    """
    given = [names] if isinstance(names, str) else list(names)
    if len(given) == 1 and given[0] in SETS:
        return given[0]
    known = list(STATISTICS) if len(given) > 1 else [*SETS, *STATISTICS]
    return [check_choice("statistic", name, known) for name in given]


def statistics_in(name: str) -> list[str]:
    """Return the names of the statistics in a set."""
    return [row.name for row in STATISTICS.values() if SETS[name](row)]
