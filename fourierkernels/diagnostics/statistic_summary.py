"""Statistics of heads on one text, and over many: mean, spread over texts and interval.

Over many it is one pass, in memory that does not depend on their number. Arrays only.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.diagnostics.moments import LEVEL, RunningMoments, State, t_interval
from fourierkernels.diagnostics.statistics import KEYS, STATISTICS, Heads
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import as_real, check_choice, check_finite


def head_statistics(
    maps: ArrayLike,
    *,
    names: Iterable[str] | None = None,
    positions: ArrayLike | None = None,
    special: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    scale: float = 1.0,
) -> dict[str, FloatArray]:
    """Return statistics of the heads of a layer, or of every layer.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Attention weights on one text, padding cut away.
    names : iterable of str, optional
        Keys of :data:`STATISTICS`; by default all that have a meaning for what is given.
    positions : array_like, shape (m,) or (m, dim), optional
        Where the tokens are, for an image say; by default 0, 1, 2, ...
    special : array_like of bool, shape (m,), optional
        Which keys are special; by default none is.
    keys : array_like, shape (H, m, d) or (L, H, m, d), optional
        Keys of the attention, after rotary positions.
    scale : float
        What multiplies q·k; used with keys.

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
    >>> head_statistics([[[0.5, 0.5], [0.0, 1.0]]], names=["effective_keys"])["effective_keys"]
    array([1.5])
    """
    array = check_probabilities(as_real("maps", maps))
    points = _keys(keys, array)
    chosen = _known(names, array, keys is not None)
    places, marks = check_tokens(array.shape[-1], positions, special)
    distances = token_distances(places)
    count = math.prod(array.shape[:-3])
    flat = [values.reshape(count, *values.shape[-3:]) for values in (array, points)]
    layers = [  # one at a time: its arrays stay in the cache
        Heads(weights, distances, marks, vectors, scale)
        for weights, vectors in zip(*flat, strict=True)
    ]
    values = [[STATISTICS[name].function(layer) for name in chosen] for layer in layers]
    by_name = np.array(values).swapaxes(0, 1).reshape(-1, *array.shape[:-2])
    return dict(zip(chosen, by_name, strict=True))


def _known(names: Iterable[str] | None, maps: FloatArray, keys: bool) -> list[str]:
    """Return the names asked for, or all that have a meaning, with or without keys."""
    n, m = maps.shape[-2:]
    known = [name for name, row in STATISTICS.items() if n == m or not row.own]
    if names is None:
        return [name for name in known if keys or STATISTICS[name].reads != KEYS]
    chosen = [check_choice("names", name, list(STATISTICS)) for name in names]
    if strange := [name for name in chosen if name not in known]:
        raise ValueError(
            f"names must have a meaning where queries and keys differ, got {strange[0]} for maps "
            f"of {n} queries and {m} keys"
        )
    if not keys and (without := [name for name in chosen if STATISTICS[name].reads == KEYS]):
        raise ValueError(f"keys must be given for the statistic {without[0]}, got none")
    return chosen


def _keys(keys: ArrayLike | None, maps: FloatArray) -> FloatArray:
    wanted = (*maps.shape[:-2], maps.shape[-1])
    points = np.zeros((*wanted, 0)) if keys is None else as_real("keys", keys)
    if points.shape[:-1] != wanted:
        raise ValueError(f"keys must have shape {(*wanted, 'features')}, got {points.shape}")
    return points


def check_tokens(
    n: int, positions: ArrayLike | None, special: ArrayLike | None
) -> tuple[FloatArray, BoolArray]:
    """Return where n tokens are, ``(n, dim)``, and which are special, ``(n,)``."""
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
    return places, marks


def token_distances(places: FloatArray, first: int = 0, stop: int | None = None) -> FloatArray:
    """Return the distances of tokens first, …, stop - 1 from all n tokens, ``(stop - first, n)``.

    Parameters
    ----------
    places : ndarray, shape (n, dim)
    """
    some = places[first:stop]
    if places.shape[1] == 1:
        line: FloatArray = np.abs(some - places[:, 0])
        return line
    squared = sum(np.square(a[:, None] - b) for a, b in zip(some.T, places.T, strict=True))
    distances: FloatArray = np.sqrt(squared)
    return distances


@dataclass(frozen=True, eq=False)
class StatisticSummary:
    """A statistic of each head over windows; a text that is not cut is one.

    Attributes
    ----------
    mean, std_texts : ndarray, shape (L, H)
        Mean and standard deviation (ddof = 1) over windows; the latter NaN from a single one.
    low, high : ndarray, shape (L, H)
        t interval of the mean over windows, level 0.95; NaN from fewer than three.
    """

    name: str
    mean: FloatArray
    std_texts: FloatArray
    low: FloatArray
    high: FloatArray
    n_texts: int


class StatisticAccumulator:
    """Takes in named values ``(L, H)`` of one text after another; a summary for each name."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._moments = RunningMoments()  # of (S, L, H)

    def add(self, statistics: Mapping[str, FloatArray]) -> None:
        """Take in the values of the next text."""
        values = np.stack([statistics[name] for name in self._names])
        if self._moments.count and values.shape != self._moments.mean.shape:
            raise ValueError(
                "maps must have the same layers and heads in every text, "
                f"got {values.shape[1:]} after {self._moments.mean.shape[1:]}"
            )
        self._moments.add(values)

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        return self._moments.state()

    def merge(self, state: State) -> None:
        """Take in what another one with the same names has taken in of other texts."""
        self._moments.merge(state)

    def summary(self, *, level: float = LEVEL) -> dict[str, StatisticSummary]:
        """Return what has been taken in so far, by name."""
        if not self._moments.count:
            raise ValueError("statistics need at least one text, got none")
        mean, std, n_texts = self._moments.mean, self._moments.std(), self._moments.count
        low, high = t_interval(mean, std, n_texts, level)
        return {
            name: StatisticSummary(name, mean[s], std[s], low[s], high[s], n_texts)
            for s, name in enumerate(self._names)
        }


def summarise_statistics(
    maps: Iterable[ArrayLike], *, names: Sequence[str] | None = None
) -> dict[str, StatisticSummary]:
    """Summarise the statistics of maps from any source, one text's ``(L, H, n, n)`` at a time.

    Examples
    --------
    >>> float(summarise_statistics([[[[[1.0]]]]], names=["entropy"])["entropy"].mean[0, 0])
    0.0
    """
    accumulator: StatisticAccumulator | None = None
    for layers in maps:
        statistics = head_statistics(layers, names=names)
        names = list(statistics)
        accumulator = accumulator or StatisticAccumulator(names)
        accumulator.add(statistics)
    if accumulator is None:
        raise ValueError("statistics need at least one text, got none")
    return accumulator.summary()
