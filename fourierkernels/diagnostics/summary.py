"""Distances between heads over many texts: means and the several spreads a "±" can stand for.

One pass: mean and squared deviations of each (layer, pair of heads) are updated in place (Welford).
Of each text the means of its layers are kept, 16 bytes a layer, for intervals and for differences
on the same texts. Arrays only.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.distances import (
    DEFAULT_METRIC,
    MAPS,
    METRICS,
    HeadMetric,
    head_distances,
)
from fourierkernels.diagnostics.moments import (
    LEVEL,
    RunningMoments,
    State,
    mean_interval,
    standard_deviation,
)
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray
from fourierkernels.foundation.validation import as_real, check_choice


@dataclass(frozen=True)
class Spread:
    """One meaning of "±": the name of the field that holds it, and what it runs over."""

    name: str
    field: str
    description: str


SPREADS = {
    row.name: row
    for row in (
        Spread("pairs-texts", "std_pairs_texts", "pairs of heads and windows together"),
        Spread("pairs", "std_pairs", "pairs of heads, each averaged over the windows first"),
        Spread("texts", "std_texts", "windows, each averaged over the pairs of heads first"),
    )
}
DEFAULT_SPREAD = "pairs-texts"


@dataclass(frozen=True, eq=False)
class HeadSummary:
    """Distances between the heads of one network, averaged over windows.

    A text that is not cut is one window. All standard deviations use ddof = 1; one that would run
    over a single value is NaN.

    Attributes
    ----------
    distances : ndarray, shape (L, H, H)
        Mean over windows of the distance of each pair of heads. H is the largest number of heads of
        a layer; a layer with fewer has NaN in the places of the others.
    mean : ndarray, shape (L,)
        Mean over pairs and windows; NaN for a layer of one head.
    std_pairs_texts : ndarray, shape (L,)
        Standard deviation over pairs and windows together.
    std_pairs : ndarray, shape (L,)
        Standard deviation over pairs, after averaging over windows.
    std_texts : ndarray, shape (L,)
        Standard deviation over windows, after averaging over pairs.
    std_layers : float
        Standard deviation of the layers' means.
    n_windows : int
        Number of maps measured; a long text gives several.
    n_texts : int
        Number of texts read.
    unknown : float
        Share of the tokens that the vocabulary does not hold; NaN if that cannot be known.
    numbers : ndarray of int, shape (T,)
        Of the windows, increasing; windows of two networks are the same if their numbers are.
    texts : ndarray, shape (T, L)
        Mean over pairs, of each window.
    powers : ndarray, shape (T, L)
        The same of the distance to the metric's `power`: the quantity that a control knows.
    """

    metric: str
    distances: FloatArray
    mean: FloatArray
    std_pairs_texts: FloatArray
    std_pairs: FloatArray
    std_texts: FloatArray
    std_layers: float
    n_min: int
    n_median: float
    n_max: int
    n_windows: int
    n_texts: int
    numbers: IntArray
    texts: FloatArray
    powers: FloatArray
    unknown: float = math.nan

    @property
    def normaliser(self) -> str:
        """What the metric divides by."""
        return METRICS[self.metric].normaliser

    @property
    def layer_average(self) -> float:
        """Mean of the layers' means, those of one head left out."""
        return float(np.nanmean(self.mean))

    @property
    def heads(self) -> list[int]:
        """Number of heads of each layer."""
        return [int((~np.isnan(np.diagonal(layer))).sum()) for layer in self.distances]

    @property
    def by_layer(self) -> list[FloatArray]:
        """Distances of each layer, ``(H, H)`` with its own number of heads."""
        pairs = zip(self.distances, self.heads, strict=True)
        return [layer[:heads, :heads] for layer, heads in pairs]

    @property
    def _paired(self) -> BoolArray:
        """Which layers have pairs of heads."""
        return ~np.isnan(self.mean)

    def std(self, spread: str = DEFAULT_SPREAD) -> FloatArray:
        """Return each layer's standard deviation over a key of :data:`SPREADS`, ``(L,)``."""
        row = SPREADS[check_choice("spread", spread, list(SPREADS))]
        deviations: FloatArray = getattr(self, row.field)
        return deviations

    def layer_average_std(self, spread: str = DEFAULT_SPREAD) -> float:
        """Return the mean over layers of their standard deviations."""
        return float(self.std(spread)[self._paired].mean())

    def interval(self, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the t interval of `mean`, ``(L,)``; NaN from fewer than 3 windows."""
        return mean_interval(self.texts, level)

    def layer_average_interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends of the t interval of the layer average."""
        low, high = mean_interval(self.average_texts, level)
        return float(low), float(high)

    @property
    def average_texts(self) -> FloatArray:
        """Layer average of each window, ``(T,)``."""
        average: FloatArray = self.texts[:, self._paired].mean(axis=1)
        return average


class HeadAccumulator:
    """Takes in the maps of one text after another and gives a :class:`HeadSummary`."""

    def __init__(self, *, metric: str = DEFAULT_METRIC) -> None:
        self._row: HeadMetric = METRICS[check_choice("metric", metric, list(METRICS))]
        self._pairs = RunningMoments()  # of (P,), the pairs of all layers in turn
        self._numbers = array("q")  # of each text
        self._texts = array("d")  # of each text, means of L layers and of their powers
        self._lengths: Counter[int] = Counter()
        self._heads: tuple[int, ...] = ()  # of each layer

    def add(self, maps: ArrayLike, *, number: int | None = None) -> None:
        """Take in the maps ``(L, H, n, m)`` of one text, or what else the metric compares.

        Maps of one key are passed over: they are alike whatever the heads do. `number` is that of
        the text, by default the next one: networks that are to be compared must number the same
        texts alike.

        Raises
        ------
        ValueError
            If the number of layers or heads changes, or the length does and the metric may not be
            averaged over lengths; for masked entries.
        """
        array = as_real(self._row.of, maps)
        if array.ndim != 4:
            size = "n, m" if self._row.of == MAPS else "n, features"
            raise ValueError(
                f"{self._row.of} must have shape (layers, heads, {size}), got {array.shape}"
            )
        distances = head_distances(array, metric=self._row.name)
        if self._row.of == MAPS and array.shape[-1] == 1:
            return
        self.add_distances(list(distances), array.shape[-2], number=number)

    def add_distances(
        self, layers: Sequence[FloatArray], n: int, *, number: int | None = None
    ) -> None:
        """Take in the distances ``(H, H)`` of each layer on one text of n query tokens.

        Layers may have different numbers of heads. Raises as :meth:`add`.
        """
        self._check_heads(tuple(map(len, layers)))
        self._check_length(n)
        pairs = [layer[np.triu_indices(len(layer), k=1)] for layer in layers]
        self._numbers.append(self._pairs.count if number is None else number)
        self._texts.extend(_mean(layer) for layer in pairs)
        self._texts.extend(_mean(layer**self._row.power) for layer in pairs)
        self._pairs.add(np.concatenate(pairs))

    def _check_heads(self, heads: tuple[int, ...]) -> None:
        self._heads = self._heads or heads
        if heads != self._heads:
            raise ValueError(
                "maps must have the same layers and heads in every text, "
                f"got {_counted(heads)} after {_counted(self._heads)}"
            )

    def _check_length(self, n: int, times: int = 1) -> None:
        self._lengths[n] += times
        if len(self._lengths) > 1 and not self._row.any_length:
            raise ValueError(
                f"texts must have one length for metric {self._row.name}, which grows with it, "
                f"got n = {min(self._lengths)} and {max(self._lengths)}; fix the length "
                f"(of texts, --context N cuts windows of exactly N tokens) or use {DEFAULT_METRIC}"
            )

    def summary(self, *, n_texts: int | None = None, unknown: float = math.nan) -> HeadSummary:
        """Return what has been taken in so far; `n_texts` if one text gave several maps.

        Raises
        ------
        ValueError
            If nothing has been taken in.
        """
        if not self._heads:
            raise ValueError(
                "texts must give at least one attention map, got none of two keys or more"
            )
        pairs = self._by_layer(self._pairs.mean)
        mean = np.array([_mean(layer) for layer in pairs])
        some = mean[~np.isnan(mean)]
        numbers, texts = self._by_text()
        return HeadSummary(
            metric=self._row.name,
            distances=_square(pairs, self._heads),
            mean=mean,
            std_pairs_texts=self._std_together(),
            std_pairs=np.concatenate(
                [standard_deviation(_scatter(layer), layer.size) for layer in pairs]
            ),
            std_texts=standard_deviation(_scatters(texts[:, 0]), len(texts)),
            std_layers=float(standard_deviation(_scatter(some), len(some))[0]),
            n_min=min(self._lengths),
            n_median=_median(self._lengths),
            n_max=max(self._lengths),
            n_windows=self._pairs.count,
            n_texts=self._pairs.count if n_texts is None else n_texts,
            numbers=numbers,
            texts=texts[:, 0],
            powers=texts[:, 1],
            unknown=unknown,
        )

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        return {
            "pairs": self._pairs.state(),
            "numbers": np.array(self._numbers, dtype=np.int64),
            "texts": np.array(self._texts),
            "lengths": sorted(self._lengths.items()),
            "heads": self._heads,
        }

    def merge(self, state: State) -> None:
        """Take in what another one with the same metric and seed has taken in of other texts.

        Raises
        ------
        ValueError
            As :meth:`add`.
        """
        if not state["heads"]:
            return
        self._check_heads(tuple(state["heads"]))
        for n, times in state["lengths"]:
            self._check_length(n, times)
        self._pairs.merge(state["pairs"])
        self._numbers.extend(map(int, state["numbers"]))
        self._texts.extend(map(float, state["texts"]))

    def _by_text(self) -> tuple[IntArray, FloatArray]:
        """Return the numbers of the texts in order, and their values ``(T, 2, L)``."""
        numbers = np.array(self._numbers, dtype=np.int64)
        texts = np.array(self._texts).reshape(len(numbers), 2, len(self._heads))
        order = np.argsort(numbers, kind="stable")
        return numbers[order], texts[order]

    def _by_layer(self, pairs: FloatArray) -> list[FloatArray]:
        """Return values of the pairs of all layers ``(P,)``, layer by layer."""
        ends = np.cumsum([heads * (heads - 1) // 2 for heads in self._heads])
        return list(np.split(pairs, ends[:-1]))

    def _std_together(self) -> FloatArray:
        """Over pairs and texts: deviations within each pair, plus those between the pairs."""
        count, deviations = self._pairs.count, []
        both = zip(*map(self._by_layer, (self._pairs.mean, self._pairs.scatter)), strict=True)
        for means, scatter in both:
            total = scatter.sum(keepdims=True) + count * _scatter(means)
            deviations.append(standard_deviation(total, count * means.size))
        return np.concatenate(deviations)


def _mean(values: FloatArray) -> float:
    """Mean of the pairs of a layer; NaN of none."""
    return float(values.mean()) if values.size else math.nan


def _scatter(values: FloatArray) -> FloatArray:
    """Σ (x - mean)², ``(1,)``."""
    scatter: FloatArray = np.square(values - _mean(values)).sum(keepdims=True)
    return scatter


def _scatters(texts: FloatArray) -> FloatArray:
    """Σ (x - mean)² over texts, of each layer."""
    scatters: FloatArray = np.square(texts - texts.mean(axis=0)).sum(axis=0)
    return scatters


def _counted(heads: tuple[int, ...]) -> tuple[int, object]:
    """Return the number of layers, and that of heads: one for each layer where they differ."""
    return len(heads), heads[0] if len(set(heads)) == 1 else heads


def _square(pairs: Sequence[FloatArray], heads: Sequence[int]) -> FloatArray:
    """Put values of pairs back into symmetric matrices ``(L, H, H)``, H the most heads."""
    square = np.full((len(heads), max(heads), max(heads)), np.nan)
    for layer, values, count in zip(square, pairs, heads, strict=True):
        layer[np.arange(count), np.arange(count)] = 0.0
        first, second = np.triu_indices(count, k=1)
        layer[first, second] = layer[second, first] = values
    return square


def _median(lengths: Counter[int]) -> float:
    """Median of the counted lengths; the counts are bounded by the context, not by the texts."""
    values = sorted(lengths)
    cumulated = np.cumsum([lengths[value] for value in values])
    low, high = (int(cumulated[-1]) - 1) // 2, int(cumulated[-1]) // 2
    places = np.searchsorted(cumulated, [low, high], side="right")
    return float(values[places[0]] + values[places[1]]) / 2


def summarise_maps(maps: Iterable[ArrayLike], *, metric: str = DEFAULT_METRIC) -> HeadSummary:
    """Summarise attention maps from any source, one text's ``(L, H, n, m)`` at a time.

    Examples
    --------
    >>> summarise_maps([[[[[0.5, 0.5]], [[1.0, 0.0]]]]]).n_windows
    1
    """
    accumulator = HeadAccumulator(metric=metric)
    for layers in maps:
        accumulator.add(layers)
    return accumulator.summary()
