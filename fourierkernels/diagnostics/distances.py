"""Distances between the attention maps, or the outputs, of the heads of a layer. Arrays only.

A map is the n x m matrix of attention weights of one head on one text, padding cut away from keys
*and* queries; n = m but in cross-attention. The published table of distances between heads
(nguyen2022fourierformer) gives no formula; "frobenius" is this package's reading of it, not a
formula of its authors.

Outputs are n x d, before or after the output projection; see
:mod:`fourierkernels.diagnostics.outputs` for what may be compared.

To add a metric, write a function from maps (H, n, m) or outputs (H, n, d) to distances (H, H) and
add a row to :data:`METRICS`. Reports, the command line and the contract tests find it there. One of
maps that is a function of a sum over query rows is a
:class:`~fourierkernels.diagnostics.maps.RowSums`: it can be measured where whole maps would not fit
into memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.maps import (
    InapplicableError,
    RowSums,
    apart,
    check_rows,
    inner_products,
    mixed_entropies,
    moved_weights,
    squared_distances,
)
from fourierkernels.diagnostics.outputs import (
    cka,
    cosines,
    one_minus,
    projected_cosine,
    projected_distance,
    token_distance,
)
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_choice, check_finite

DEFAULT_METRIC = "frobenius_per_sqrt_n"
MAPS, OUTPUTS, PROJECTED = "maps", "outputs", "projected"  # what a metric compares


@dataclass(frozen=True)
class HeadMetric:
    """One way to compare two heads.

    Attributes
    ----------
    function : callable
        Maps ``(H, n, m)`` or outputs ``(H, n, d)`` to distances ``(H, H)``.
    any_length : bool
        Whether values at different n may be averaged.
    probabilities : bool
        Whether rows must be non-negative and sum to one.
    normaliser : str
        What the distance is divided by, or "none".
    unit : str
    description : str
        A phrase for the report.
    source : str
        Where it comes from, by keys of the bibliography; empty for what is this package's own.
    row : str
        The functional of a row that decides how far apart two heads on unrelated keys are; a
        control that fixes another one is no control for this metric.
    of : str
        What is compared: "maps", "outputs" (A V) or "projected" (A V W) of the heads.
    power : int
        The power of the distance whose mean over texts and pairs is compared with a control: 2
        where the square is a mean over rows, and is what can be expected by chance.
    """

    name: str
    function: Callable[[FloatArray], FloatArray]
    any_length: bool
    probabilities: bool
    normaliser: str
    unit: str
    description: str
    source: str
    row: str = ""
    of: str = MAPS
    power: int = 1

    def __post_init__(self) -> None:
        check_choice("of", self.of, [MAPS, OUTPUTS, PROJECTED])

    def between(self, heads: FloatArray) -> FloatArray:
        """Return the distances between the heads of a layer, ``(H, H)``."""
        distances, wanted = self.function(heads), (len(heads), len(heads))
        if np.shape(distances) != wanted:
            raise ValueError(
                f"function of {self.name} must return distances {wanted}, got {np.shape(distances)}"
            )
        return distances


# ‖A_a - A_b‖_F of every pair of maps.
frobenius = RowSums(squared_distances, lambda total, rows: np.sqrt(total), apart)
# The same over sqrt(n), n the number of query rows.
frobenius_per_sqrt_n = RowSums(squared_distances, lambda total, rows: np.sqrt(total / rows), apart)
# Mean over rows of H((p + q)/2) - (H(p) + H(q))/2 in nats.
jensen_shannon = RowSums(mixed_entropies, lambda total, rows: np.maximum(total / rows, 0.0))
# Mean over rows of Σ_j |p_j - q_j| / 2.
total_variation = RowSums(moved_weights, lambda total, rows: total / rows)
# 1 - ⟨A_a, A_b⟩ / (‖A_a‖ ‖A_b‖).
map_cosine = RowSums(inner_products, lambda total, rows: one_minus(cosines(total)), lambda own: own)


METRICS = {
    row.name: row
    for row in (
        HeadMetric(
            name="frobenius",
            function=frobenius,
            any_length=False,
            probabilities=False,
            normaliser="none",
            unit="weight",
            description="Frobenius distance of the maps; grows about as sqrt(n)",
            source="a reading of nguyen2022fourierformer (no formula given there), at n = 256",
            row="Σp², and the number of visible keys",
            power=2,
        ),
        HeadMetric(
            name="frobenius_per_sqrt_n",
            function=frobenius_per_sqrt_n,
            any_length=True,
            probabilities=False,
            normaliser="sqrt(n), n the number of query rows",
            unit="weight per sqrt(row)",
            description="Frobenius distance over sqrt(n): root mean square over query rows",
            source="a reading of nguyen2022fourierformer, divided so that lengths may be mixed",
            row="Σp², and the number of visible keys",
            power=2,
        ),
        HeadMetric(
            name="jensen_shannon",
            function=jensen_shannon,
            any_length=True,
            probabilities=True,
            normaliser="n, the number of query rows",
            unit="nats per row",
            description="Jensen-Shannon divergence of the rows, averaged over query rows",
            source="clark2019bert, there unsmoothed sums over rows instead of their mean",
            row="all weights in order of size; not their entropy alone",
        ),
        HeadMetric(
            name="total_variation",
            function=total_variation,
            any_length=True,
            probabilities=True,
            normaliser="n, the number of query rows",
            unit="share of the weight, per row",
            description="share of the weight of a row that lies elsewhere, averaged over rows",
            source="",
            row="all weights in order of size",
        ),
        HeadMetric(
            name="cosine",
            function=map_cosine,
            any_length=True,
            probabilities=False,
            normaliser="norms of the two maps",
            unit="1 - cosine",
            description="1 - cosine of the maps, as vectors of n² weights",
            source="",
            row="Σp², and the number of visible keys",
        ),
        HeadMetric(
            name="projected_distance",
            function=projected_distance,
            any_length=True,
            probabilities=False,
            normaliser="n, the number of tokens",
            unit="residual stream, per token",
            description="distance of the projected outputs less their means, averaged over tokens",
            source="",
            row="weights and values; no control of rows is one of outputs",
            of=PROJECTED,
        ),
        HeadMetric(
            name="projected_cosine",
            function=projected_cosine,
            any_length=True,
            probabilities=False,
            normaliser="norms of the two outputs at each token",
            unit="1 - cosine",
            description="1 - cosine of the projected outputs less their means, over tokens",
            source="",
            row="weights and values; no control of rows is one of outputs",
            of=PROJECTED,
        ),
        HeadMetric(
            name="projected_cka",
            function=cka,
            any_length=True,
            probabilities=False,
            normaliser="norms of the two centred Gram matrices",
            unit="1 - CKA",
            description="1 - linear CKA of the outputs after the output projection",
            source="kornblith2019similarity",
            row="weights and values; no control of rows is one of outputs",
            of=PROJECTED,
        ),
        HeadMetric(
            name="cka",
            function=cka,
            any_length=True,
            probabilities=False,
            normaliser="norms of the two centred Gram matrices",
            unit="1 - CKA",
            description="1 - linear CKA of the outputs before the output projection",
            source="kornblith2019similarity",
            row="weights and values; no control of rows is one of outputs",
            of=OUTPUTS,
        ),
        HeadMetric(
            name="output_distance",
            function=token_distance,
            any_length=True,
            probabilities=False,
            normaliser="n, the number of tokens",
            unit="values, per token",
            description="distance of the outputs before the projection: no property of the network",
            source="",
            row="weights and values; no control of rows is one of outputs",
            of=OUTPUTS,
        ),
    )
}


def head_distances(maps: ArrayLike, *, metric: str = DEFAULT_METRIC) -> FloatArray:
    """Return the distance between every two heads of a layer, or of every layer.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Attention weights of H heads (in L layers) on one text, padding cut away; for a metric of
        outputs their outputs, ``(H, n, d)`` or ``(L, H, n, d)``.
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
    layers = _check_heads(as_real(row.of, maps), row.of)
    if row.probabilities:
        check_rows(layers, row.name)
    heads = layers.shape[-3]
    with np.errstate(invalid="ignore", over="ignore"):
        distances = np.stack(
            [row.between(layer) for layer in layers.reshape(-1, *layers.shape[-3:])]
        )
    if not np.isfinite(distances).all():  # cheaper than to look at every weight beforehand
        check_finite(row.of, layers)
    return distances.reshape(*layers.shape[:-2], heads)


def _check_heads(values: FloatArray, of: str) -> FloatArray:
    """Return maps, or outputs, of at least two heads."""
    if values.ndim not in {3, 4} or values.size == 0:
        size = "n, m" if of == MAPS else "n, features"
        raise ValueError(
            f"{of} must have shape (heads, {size}) or (layers, heads, {size}), "
            f"got shape {values.shape}"
        )
    check_several(values.shape[-3], of)
    return values


def check_several(heads: int, of: str) -> None:
    """Refuse layers of one head, between whose heads there is no distance."""
    if heads < 2:
        raise InapplicableError(
            f"{of} must have at least 2 heads for a distance between heads, got {heads} "
            "(without metrics the rest can be measured: --metric none)"
        )
