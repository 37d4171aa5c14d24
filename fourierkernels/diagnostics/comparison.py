"""Heads compared with a control, and two networks: differences, and which head matches which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS, METRICS, head_distances
from fourierkernels.diagnostics.moments import LEAST_TEXTS, LEVEL, mean_interval, t_quantile
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_kind

# Weights compared, over all pairs of heads: about a minute of the slowest metric.
_MOST_COMPARED = 2**32


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
        Whether both networks were measured on the same windows.
    level : float
        Of the t intervals.
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

    On the same windows the interval is that of their differences, and what the texts have in common
    cancels. Otherwise (tokenizers that cut the texts differently) it is that of two independent
    samples (Welch).

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
    paired = np.array_equal(first.numbers, second.numbers)
    between = _paired_interval if paired else _welch_interval
    low, high = between(first.average_texts, second.average_texts, level)
    layers = layers_low = layers_high = np.zeros(0)
    if len(first.mean) == len(second.mean):
        layers = first.mean - second.mean
        layers_low, layers_high = between(first.texts, second.texts, level)
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


def _paired_interval(
    first: FloatArray, second: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    return mean_interval(first - second, level)


def _welch_interval(
    first: FloatArray, second: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends for a difference of means of independent values ``(T, ...)``."""
    gap = np.asarray(first.mean(axis=0) - second.mean(axis=0))
    counts = len(first), len(second)
    if min(counts) < LEAST_TEXTS:
        return np.full_like(gap, np.nan), np.full_like(gap, np.nan)
    first_part, second_part = (
        sample.var(axis=0, ddof=1) / len(sample) for sample in (first, second)
    )
    total = np.asarray(first_part + second_part)
    even = np.full_like(total, 0.5)  # where nothing varies the interval is a point, by any share
    share = np.divide(first_part, total, out=even, where=total > 0)
    free = 1 / (share**2 / (counts[0] - 1) + (1 - share) ** 2 / (counts[1] - 1))
    half = t_quantile(free, level) * np.sqrt(total)
    return gap - half, gap + half


@dataclass(frozen=True, eq=False)
class HeadShare:
    """How much nearer heads are than under a control: 0 is chance, 1 that all are the same.

    One minus the ratio of the means, over texts and pairs of heads, of the distance to the metric's
    power. Where a part of the rows is the same in all heads and the others share nothing, the share
    is that part. Below zero, heads are farther apart than the control.

    Attributes
    ----------
    layers, layers_low, layers_high : ndarray, shape (L,)
        Of each layer; NaN where the control leaves no distance.
    average, low, high : float
        Of the layers together, the ratio of their averages.
    texts : ndarray, shape (T, L)
        What each text contributes, from the jackknife: their mean is the share of the layers.
    level : float
        Of the t intervals over texts.
    """

    layers: FloatArray
    layers_low: FloatArray
    layers_high: FloatArray
    average: float
    low: float
    high: float
    texts: FloatArray
    level: float


def head_share(first: HeadSummary, control: HeadSummary, *, level: float = LEVEL) -> HeadShare:
    """Compare heads with the control that was measured beside them, on the same texts.

    Raises
    ------
    ValueError
        If metrics, layers or texts differ.

    Examples
    --------
    >>> from fourierkernels.diagnostics.summary import summarise_maps
    >>> heads = [[[np.eye(3), np.eye(3)]]] * 3
    >>> chance = [[[np.eye(3), np.eye(3)[::-1]]]] * 3
    >>> head_share(summarise_maps(heads), summarise_maps(chance)).average
    1.0
    """
    if first.metric != control.metric or first.powers.shape[1:] != control.powers.shape[1:]:
        raise ValueError(
            "control must have the metric and the layers of the heads, got "
            f"{control.metric} of {len(control.mean)} layers for {first.metric} of "
            f"{len(first.mean)}"
        )
    if not np.array_equal(first.numbers, control.numbers):
        raise ValueError(
            f"control must be measured on the texts of the heads, got {control.n_windows} windows "
            f"for {first.n_windows}"
        )
    texts = _shares(first.powers, control.powers)
    paired = ~np.isnan(first.mean)
    both = (summary.powers[:, paired].mean(axis=1, keepdims=True) for summary in (first, control))
    together = _shares(*both)
    low, high = mean_interval(together[:, 0], level)
    layers_low, layers_high = mean_interval(texts, level)
    return HeadShare(
        layers=texts.mean(axis=0),
        layers_low=layers_low,
        layers_high=layers_high,
        average=float(together.mean()),
        low=float(low),
        high=float(high),
        texts=texts,
        level=level,
    )


def _shares(powers: FloatArray, chance: FloatArray) -> FloatArray:
    """Return 1 - (mean of own) / (mean of chance) as a mean over texts ``(T, ...)``.

    Texts differ by their jackknife pseudo-values: linearised at the mean of all texts, a text that
    weighs much would count for too little, and intervals of five texts of unequal sharpness would
    cover in 81 % of all cases, not 90 %.
    """
    means = chance.mean(axis=0)
    others = (len(chance) * means - chance) / max(len(chance) - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(means > 0, powers.mean(axis=0) / means, np.nan)
        apart = (powers - ratio * chance) / np.where(others > 0, others, means)
        shares: FloatArray = 1 - ratio - (apart - apart.mean(axis=0))
    return shares


def _check_comparable(first: HeadSummary, second: HeadSummary) -> None:
    if first.metric != second.metric:
        raise ValueError(f"metric must be the same, got {first.metric} and {second.metric}")
    lengths = {n for summary in (first, second) for n in (summary.n_min, summary.n_max)}
    _check_length(first.metric, lengths)


def _check_length(metric: str, lengths: set[int]) -> None:
    """Refuse several numbers of queries for a metric that may not be averaged over them."""
    if len(lengths) > 1 and not METRICS[metric].any_length:
        raise ValueError(
            f"texts must have one length for metric {metric}, which grows with it, "
            f"got n = {min(lengths)} and {max(lengths)}"
        )


@dataclass(frozen=True, eq=False)
class HeadMatches:
    """The nearest head of a second network for each head of a first one.

    Attributes
    ----------
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS`, of maps.
    distances : ndarray, shape (L, H)
        To the nearest head, averaged over the inputs.
    layers, heads : ndarray of int, shape (L, H)
        Where in the second network it is, counted from 0.
    n_texts : int
        Inputs averaged over.
    """

    metric: str
    distances: FloatArray
    layers: NDArray[np.int64]
    heads: NDArray[np.int64]
    n_texts: int


def match_heads(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], *, metric: str = DEFAULT_METRIC
) -> HeadMatches:
    """Find the nearest head, in any layer of another network, of each head of a network.

    Several heads may have the same nearest one. Distances are averaged over the inputs before they
    are compared; the last inputs are left out if all of them would be too many. Maps of one key are
    passed over: they are alike whatever the heads do.

    Parameters
    ----------
    first, second : sequence of array_like, shapes (L, H, n, m) and (L', H', n, m)
        Attention maps of the two networks on the same inputs, in the same order.
    metric : str
        One that compares maps.

    Raises
    ------
    ValueError
        For a metric of outputs, no inputs, maps that do not have the same queries and keys, or
        inputs of several lengths if the metric grows with them.

    Examples
    --------
    >>> to_first, to_last = [[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2
    >>> found = match_heads([[[to_first, to_last]]], [[[to_last, to_first]]])
    >>> found.heads.tolist(), found.distances.tolist()
    ([[1, 0]], [[0.0, 0.0]])
    """
    if METRICS[check_choice("metric", metric, list(METRICS))].of != MAPS:
        raise ValueError(f"metric must compare maps, got {metric}")
    pairs = [both for both in zip(first, second, strict=True) if np.shape(both[0])[-1:] != (1,)]
    shapes = [(np.shape(maps), np.shape(other)) for maps, other in pairs]
    _check_shapes(shapes)
    used = _within(shapes)
    _check_length(metric, {shape[2] for shape, _ in shapes[:used]})
    mean = np.mean([_between(*both, metric) for both in pairs[:used]], axis=0)  # (L H, L' H')
    nearest = mean.argmin(axis=1)
    grid, (_, heads) = shapes[0][0][:2], shapes[0][1][:2]
    return HeadMatches(
        metric=metric,
        distances=mean.min(axis=1).reshape(grid),
        layers=(nearest // heads).reshape(grid),
        heads=(nearest % heads).reshape(grid),
        n_texts=used,
    )


def _between(first: ArrayLike, second: ArrayLike, metric: str) -> FloatArray:
    """Distances of all heads of one network to all of the other, ``(L H, L' H')``."""
    flat = []
    for name, maps in (("first", first), ("second", second)):
        check_kind(name, maps)
        flat.append(np.asarray(maps).reshape(-1, *np.shape(maps)[2:]))
    between: FloatArray = head_distances(np.concatenate(flat), metric=metric)
    return between[: len(flat[0]), len(flat[0]) :]


def _check_shapes(shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    if not shapes:
        raise ValueError(
            "first and second must have maps of at least one input, got none of two keys or more"
        )
    grids = {(shape[:2], other[:2]) for shape, other in shapes}
    fit = all(len(shape) == len(other) == 4 and shape[2:] == other[2:] for shape, other in shapes)
    if len(grids) > 1 or not fit:
        raise ValueError(
            "first and second must have shapes (L, H, n, m) and (L', H', n, m), with the same "
            f"layers and heads in every input, got {shapes[0] if fit else shapes}"
        )


def _within(shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> int:
    """Return how many of the first inputs may be compared, at least one."""
    heads = sum(int(np.prod(shape[:2])) for shape in shapes[0])
    costs = np.cumsum([heads**2 // 2 * int(np.prod(shape[2:])) for shape, _ in shapes])
    return max(1, int(np.searchsorted(costs, _MOST_COMPARED, side="right")))
