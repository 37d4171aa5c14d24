"""By how much the heads of two networks differ in their redundancy. Arrays only."""

from dataclasses import dataclass

import numpy as np

from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.resampling import LEVEL, percentile_interval
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class HeadDifference:
    """Mean distance between heads in one network minus that in another, with intervals.

    Attributes
    ----------
    layers, layers_low, layers_high : ndarray, shape (L,)
        Of each layer; empty if the networks have different numbers of layers.
    average, low, high : float
        Of the layer average.
    paired : bool
        Whether the same windows are drawn for both networks in each replicate.
    level : float
        Of the percentile intervals.
    """

    metric: str
    layers: FloatArray
    layers_low: FloatArray
    layers_high: FloatArray
    average: float
    low: float
    high: float
    paired: bool
    level: float


def head_difference(
    first: HeadSummary, second: HeadSummary, *, level: float = LEVEL
) -> HeadDifference:
    """Compare two networks measured on the same texts in the same order.

    With as many windows in both, each replicate draws the same ones for both, and what the texts
    have in common cancels. Otherwise (tokenizers that cut the texts differently) the replicates of
    the second are moved by one place, so that those compared are independent.

    Parameters
    ----------
    first, second : HeadSummary
        By the same metric.
    level : float

    Raises
    ------
    ValueError
        If the metrics differ, or the lengths do and the metric grows with them.
    """
    _check_comparable(first, second)
    paired = first.n_windows == second.n_windows
    other = second.replicates if paired else np.roll(second.replicates, 1, axis=0)
    averages = second.average_replicates if paired else np.roll(second.average_replicates, 1)
    low, high = percentile_interval(first.average_replicates - averages, level)
    layers, replicates = np.zeros(0), np.zeros((len(other), 0))
    if len(first.mean) == len(second.mean):
        layers, replicates = first.mean - second.mean, first.replicates - other
    layers_low, layers_high = percentile_interval(replicates, level)
    return HeadDifference(
        metric=first.metric,
        layers=layers,
        layers_low=layers_low,
        layers_high=layers_high,
        average=first.layer_average - second.layer_average,
        low=float(low),
        high=float(high),
        paired=paired,
        level=level,
    )


def _check_comparable(first: HeadSummary, second: HeadSummary) -> None:
    if first.metric != second.metric:
        raise ValueError(f"metric must be the same, got {first.metric} and {second.metric}")
    lengths = {(one.n_min, one.n_max) for one in (first, second)}
    if len(lengths) > 1 and not METRICS[first.metric].any_length:
        raise ValueError(
            f"texts must have one length for metric {first.metric}, which grows with it, "
            f"got n = {first.n_max} and {second.n_max}"
        )
