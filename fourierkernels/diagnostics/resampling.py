"""Intervals of means over texts, and what heads with nothing in common would look like.

Arrays only, and memory that does not depend on the number of texts.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS, METRICS, head_distances
from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.diagnostics.moments import State
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_choice, check_integer

LEVEL = 0.95
_TOGETHER = 32  # texts whose values are added to the replicates at once


class PoissonBootstrap:
    """Bootstrap of means over a stream: each text counts Poisson(1) times in each replicate.

    The multinomial counts of the bootstrap tend to independent Poisson ones, which need no text
    to be kept [hanley2006poisson]_. The counts of a text follow from the seed and its number, so
    two networks measured on the same texts get the same counts, in whatever order texts come:
    differences of their replicates are those of a paired bootstrap.

    Parameters
    ----------
    replicates : int
    seed : int

    Examples
    --------
    >>> bootstrap = PoissonBootstrap(replicates=200)
    >>> for number, value in enumerate([1.0, 2.0, 3.0, 4.0]):
    ...     bootstrap.add(number, value)
    >>> low, high = bootstrap.interval()
    >>> bool(1 <= low < 2.5 < high <= 4)
    True
    """

    def __init__(self, *, replicates: int = 1000, seed: int = 0) -> None:
        self._seed = check_integer("seed", seed, least=0)
        self._counts = np.zeros(check_integer("replicates", replicates))  # (B,)
        self._sums: FloatArray = np.zeros((replicates, 0))  # of flat values
        self._shape: tuple[int, ...] = ()
        self._drawn: FloatArray = np.zeros((0, replicates))  # of texts that wait to be added
        self._values: FloatArray = np.zeros((0, 0))
        self.texts = 0

    def add(self, number: int, values: ArrayLike) -> None:
        """Take in the values of text `number`, an array of the same shape each time."""
        array = as_real("values", values)
        drawn = np.random.default_rng([self._seed, number]).poisson(1.0, len(self._counts))
        if self.texts == 0:
            self._begin(array.shape)
        place = self.texts % _TOGETHER
        self._drawn[place], self._values[place] = drawn, array.reshape(-1)
        self.texts += 1
        if place == _TOGETHER - 1:
            self._take_in()

    def _begin(self, shape: tuple[int, ...]) -> None:
        replicates, size = len(self._counts), math.prod(shape)
        self._shape, self._sums = shape, np.zeros((replicates, size))
        self._drawn = np.zeros((_TOGETHER, replicates))
        self._values = np.zeros((_TOGETHER, size))

    def _take_in(self) -> None:
        """Add what is waiting, as one product of matrices."""
        self._counts += self._drawn.sum(axis=0)
        self._sums += self._drawn.T @ self._values
        self._drawn[:] = 0.0

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        self._take_in()
        found = {"counts": self._counts, "sums": self._sums, "shape": self._shape}
        return {**found, "texts": self.texts}

    def merge(self, state: State) -> None:
        """Take in what another one with the same seed has taken in of other texts."""
        if state["texts"] == 0:
            return
        if self.texts == 0:
            self._begin(tuple(state["shape"]))
        self._take_in()
        self._counts = self._counts + state["counts"]
        self._sums = self._sums + state["sums"]
        self.texts += state["texts"]

    def means(self) -> FloatArray:
        """Return the mean of each replicate, ``(B, ...)``; NaN from fewer than two texts.

        A replicate without any text is NaN too: among n texts its probability is exp(-n).
        """
        self._take_in()
        if self.texts < 2:
            return np.full((len(self._counts), *self._shape), np.nan)
        counts = np.where(self._counts > 0, self._counts, np.nan)
        means: FloatArray = (self._sums / counts[:, None]).reshape(-1, *self._shape)
        return means

    def interval(self, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
        """Return the two ends of the percentile interval of the mean."""
        return percentile_interval(self.means(), level)


def percentile_interval(means: FloatArray, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
    """Return the percentiles of replicates ``(B, ...)`` that hold `level` between them.

    A replicate that is NaN throughout counts for nothing; a mean that is always NaN stays so.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    filled = means[~np.isnan(means).reshape(len(means), -1).all(axis=1)]
    if not len(filled):
        return np.full(means.shape[1:], np.nan), np.full(means.shape[1:], np.nan)
    low, high = np.quantile(filled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


@dataclass(frozen=True, eq=False)
class NullComparison:
    """Distances between the heads of each layer, compared with those under permutation.

    Attributes
    ----------
    observed : ndarray, shape (L,)
        Mean over pairs.
    null : ndarray, shape (R, L)
        The same of R permutations.
    p_value : ndarray, shape (L,)
        (1 + #{null <= observed}) / (1 + R): small if heads are more alike than by chance.
    """

    observed: FloatArray
    null: FloatArray
    p_value: FloatArray

    @property
    def low(self) -> FloatArray:
        """Least of the permutations, ``(L,)``."""
        least: FloatArray = self.null.min(axis=0)
        return least

    @property
    def high(self) -> FloatArray:
        """Greatest of the permutations, ``(L,)``."""
        greatest: FloatArray = self.null.max(axis=0)
        return greatest


def permuted_maps(maps: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return maps ``(..., H, n, m)`` with each row of each head permuted among its visible keys.

    A key is visible to a query if any head gives it weight. Each row keeps its weights, so each
    head keeps its entropy, but what it attends to is a matter of chance.
    """
    visible = np.broadcast_to((maps > 0).any(axis=-3, keepdims=True), maps.shape)
    places = np.argsort(~visible, axis=-1, kind="stable")  # visible keys first, in order
    drawn = np.argsort(np.where(visible, rng.random(maps.shape), 2.0), axis=-1)
    permuted = np.empty_like(maps)
    np.put_along_axis(permuted, places, np.take_along_axis(maps, drawn, axis=-1), axis=-1)
    return permuted


def permutation_null(
    maps: ArrayLike,
    *,
    metric: str = DEFAULT_METRIC,
    permutations: int = 199,
    rng: np.random.Generator,
) -> NullComparison:
    """Compare the heads of each layer with equally sharp heads that attend to unrelated keys.

    Parameters
    ----------
    maps : array_like, shape (L, H, n, m)
        Of one text.
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS` that compares maps.

    Raises
    ------
    ValueError
        For a metric of outputs, another shape, or rows that are not probabilities.
    """
    check_integer("permutations", permutations)
    observed, null = _against_chance(maps, metric, permutations, rng)
    return _compared(observed, null)


class NullAccumulator:
    """The same over many texts: distances are averaged, observed and permuted ones alike.

    Parameters
    ----------
    metric, permutations
        As in :func:`permutation_null`.
    seed : int
        Seed and number of a text give its permutations, in whatever order texts come.

    Raises
    ------
    ValueError
        As :func:`permutation_null`.
    """

    def __init__(
        self, *, metric: str = DEFAULT_METRIC, permutations: int = 99, seed: int = 0
    ) -> None:
        self._metric = _check_metric(metric)
        self._permutations = check_integer("permutations", permutations)
        self._seed = check_integer("seed", seed, least=0)
        self._observed: FloatArray = np.zeros(())
        self._null: FloatArray = np.zeros(())
        self._texts = 0

    def add(self, maps: ArrayLike, *, number: int | None = None) -> None:
        """Take in the maps ``(L, H, n, m)`` of text `number`, by default the next one."""
        rng = np.random.default_rng([self._seed, self._texts if number is None else number])
        observed, null = _against_chance(maps, self._metric, self._permutations, rng)
        self._observed, self._null = self._observed + observed, self._null + null
        self._texts += 1

    def summary(self) -> NullComparison:
        """Return the means over texts.

        Raises
        ------
        ValueError
            If nothing has been taken in.
        """
        if not self._texts:
            raise ValueError("maps must be those of at least one text, got none")
        return _compared(self._observed / self._texts, self._null / self._texts)

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        return {"observed": self._observed, "null": self._null, "texts": self._texts}

    def merge(self, state: State) -> None:
        """Take in what another one with the same seed has taken in of other texts."""
        self._observed = self._observed + state["observed"]
        self._null = self._null + state["null"]
        self._texts += state["texts"]


def _check_metric(metric: str) -> str:
    if METRICS[check_choice("metric", metric, list(METRICS))].of != MAPS:
        raise ValueError(f"metric must compare maps, got {metric}")
    return metric


def _against_chance(
    maps: ArrayLike, metric: str, permutations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return mean distances of the layers, ``(L,)``, and those of permutations, ``(R, L)``."""
    array = check_probabilities(as_real("maps", maps))
    if array.ndim != 4:
        raise ValueError(f"maps must have shape (layers, heads, n, m), got {array.shape}")
    _check_metric(metric)
    null = [_layer_means(permuted_maps(array, rng), metric) for _ in range(permutations)]
    return _layer_means(array, metric), np.stack(null)


def _compared(observed: FloatArray, null: FloatArray) -> NullComparison:
    p_value = (1 + (null <= observed).sum(axis=0)) / (1 + len(null))
    return NullComparison(observed, null, p_value)


def _layer_means(maps: FloatArray, metric: str) -> FloatArray:
    distances = head_distances(maps, metric=metric)
    first, second = np.triu_indices(distances.shape[-1], k=1)
    means: FloatArray = distances[:, first, second].mean(axis=-1)
    return means
