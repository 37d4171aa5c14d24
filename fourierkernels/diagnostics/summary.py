"""Distances between heads over many texts: means and the several spreads a "±" can stand for.

One pass, and memory that does not depend on the number of texts: mean and squared deviations of
each (layer, pair of heads) are updated in place (Welford). Arrays only.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.arrays import FloatArray
from fourierkernels.diagnostics.distances import (
    DEFAULT_METRIC,
    MAPS,
    METRICS,
    HeadMetric,
    head_distances,
)
from fourierkernels.diagnostics.moments import RunningMoments, State, standard_deviation
from fourierkernels.diagnostics.resampling import LEVEL, PoissonBootstrap, percentile_interval
from fourierkernels.validation import check_choice


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
        Mean over windows of the distance of each pair of heads.
    mean : ndarray, shape (L,)
        Mean over pairs and windows.
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
    replicates : ndarray, shape (B, L)
        Bootstrap replicates of `mean`, over windows; see ``PoissonBootstrap`` of
        ``diagnostics.resampling``.
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
    replicates: FloatArray
    unknown: float = math.nan

    @property
    def normaliser(self) -> str:
        """What the metric divides by."""
        return METRICS[self.metric].normaliser

    @property
    def layer_average(self) -> float:
        """Mean of the layers' means."""
        return float(self.mean.mean())

    def std(self, spread: str = DEFAULT_SPREAD) -> FloatArray:
        """Return each layer's standard deviation over a key of :data:`SPREADS`, ``(L,)``."""
        row = SPREADS[check_choice("spread", spread, list(SPREADS))]
        deviations: FloatArray = getattr(self, row.field)
        return deviations

    def layer_average_std(self, spread: str = DEFAULT_SPREAD) -> float:
        """Return the mean over layers of their standard deviations."""
        return float(self.std(spread).mean())

    def interval(self, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the bootstrap interval of `mean`, ``(L,)`` each; NaN from one text."""
        return percentile_interval(self.replicates, level)

    def layer_average_interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends of the bootstrap interval of the layer average."""
        low, high = percentile_interval(self.replicates.mean(axis=1), level)
        return float(low), float(high)


class HeadAccumulator:
    """Takes in the maps of one text after another and gives a :class:`HeadSummary`."""

    def __init__(self, *, metric: str = DEFAULT_METRIC, seed: int = 0) -> None:
        self._row: HeadMetric = METRICS[check_choice("metric", metric, list(METRICS))]
        self._pairs = RunningMoments()  # of (L, P), P = H (H - 1) / 2
        self._texts = RunningMoments()  # of (L,)
        self._bootstrap = PoissonBootstrap(seed=seed)  # of (L,)
        self._lengths: Counter[int] = Counter()
        self._shape: tuple[int, int] | None = None

    def add(self, maps: ArrayLike, *, number: int | None = None) -> None:
        """Take in the maps ``(L, H, n, m)`` of one text, or what else the metric compares.

        `number` is that of the text, by default the next one: networks that are to be compared
        must number the same texts alike.

        Raises
        ------
        ValueError
            If the number of layers or heads changes, or the length does and the metric may not be
            averaged over lengths.
        """
        array = np.asarray(maps)
        if array.ndim != 4:
            size = "n, m" if self._row.of == MAPS else "n, features"
            raise ValueError(
                f"{self._row.of} must have shape (layers, heads, {size}), got {array.shape}"
            )
        distances = head_distances(array, metric=self._row.name)
        self._check_shape(distances.shape[0], distances.shape[1])
        self._check_length(array.shape[-2])
        above = np.triu_indices(distances.shape[1], k=1)
        pairs = distances[:, above[0], above[1]]  # (L, P)
        self._bootstrap.add(self._pairs.count if number is None else number, pairs.mean(axis=1))
        self._pairs.add(pairs)
        self._texts.add(pairs.mean(axis=1))

    def _check_shape(self, layers: int, heads: int) -> None:
        self._shape = self._shape or (layers, heads)
        if (layers, heads) != self._shape:
            raise ValueError(
                "maps must have the same layers and heads in every text, "
                f"got {(layers, heads)} after {self._shape}"
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
        if self._shape is None:
            raise ValueError("texts must give at least one attention map, got none")
        mean = self._pairs.mean.mean(axis=1)
        return HeadSummary(
            metric=self._row.name,
            distances=_square(self._pairs.mean, self._shape[1]),
            mean=mean,
            std_pairs_texts=self._std_together(),
            std_pairs=standard_deviation(
                ((self._pairs.mean - mean[:, None]) ** 2).sum(axis=1), self._n_pairs
            ),
            std_texts=self._texts.std(),
            std_layers=float(
                standard_deviation(((mean - mean.mean()) ** 2).sum(keepdims=True), len(mean))[0]
            ),
            n_min=min(self._lengths),
            n_median=_median(self._lengths),
            n_max=max(self._lengths),
            n_windows=self._pairs.count,
            n_texts=self._pairs.count if n_texts is None else n_texts,
            replicates=self._bootstrap.means(),
            unknown=unknown,
        )

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        return {
            "pairs": self._pairs.state(),
            "texts": self._texts.state(),
            "bootstrap": self._bootstrap.state(),
            "lengths": sorted(self._lengths.items()),
            "shape": self._shape,
        }

    def merge(self, state: State) -> None:
        """Take in what another one with the same metric and seed has taken in of other texts.

        Raises
        ------
        ValueError
            As :meth:`add`.
        """
        if state["shape"] is None:
            return
        self._check_shape(*state["shape"])
        for n, times in state["lengths"]:
            self._check_length(n, times)
        self._pairs.merge(state["pairs"])
        self._texts.merge(state["texts"])
        self._bootstrap.merge(state["bootstrap"])

    @property
    def _n_pairs(self) -> int:
        return int(self._pairs.mean.shape[1])

    def _std_together(self) -> FloatArray:
        """Over pairs and texts: deviations within each pair, plus those between the pairs."""
        means = self._pairs.mean
        between = ((means - means.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        count = self._pairs.count
        return standard_deviation(
            self._pairs.scatter.sum(axis=1) + count * between, count * self._n_pairs
        )


def _square(pairs: FloatArray, heads: int) -> FloatArray:
    """Put values of pairs ``(L, P)`` back into symmetric matrices ``(L, H, H)``."""
    square = np.zeros((len(pairs), heads, heads))
    first, second = np.triu_indices(heads, k=1)
    square[:, first, second] = square[:, second, first] = pairs
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
    >>> summarise_maps([[[[[1.0]], [[1.0]]]]]).n_windows
    1
    """
    accumulator = HeadAccumulator(metric=metric)
    for one in maps:
        accumulator.add(one)
    return accumulator.summary()
