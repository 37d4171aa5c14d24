"""Statistics of maps over many texts: mean, spread over texts and interval of each head.

One pass, and memory that does not depend on the number of texts. Arrays only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.arrays import FloatArray
from fourierkernels.diagnostics.kernel_gap import KEY_STATISTICS
from fourierkernels.diagnostics.maps import STATISTICS, map_statistics
from fourierkernels.diagnostics.resampling import LEVEL, PoissonBootstrap
from fourierkernels.diagnostics.summary import RunningMoments
from fourierkernels.validation import check_choice

UNITS = {name: row.unit for name, row in STATISTICS.items()} | {
    name: row.unit for name, row in KEY_STATISTICS.items()
}


@dataclass(frozen=True, eq=False)
class StatisticSummary:
    """A statistic of each head over windows; a text that is not cut is one.

    Attributes
    ----------
    mean, std_texts : ndarray, shape (L, H)
        Mean and standard deviation (ddof = 1) over windows; the latter NaN from a single one.
    low, high : ndarray, shape (L, H)
        Bootstrap interval of the mean, level 0.95; NaN from one text.
    """

    name: str
    mean: FloatArray
    std_texts: FloatArray
    low: FloatArray
    high: FloatArray
    n_texts: int


class ValueAccumulator:
    """Takes in named values ``(L, H)`` of one text after another; a summary for each name."""

    def __init__(self, names: Sequence[str], *, replicates: int = 1000, seed: int = 0) -> None:
        self._names = list(names)
        self._moments = RunningMoments()  # of (S, L, H)
        self._bootstrap = PoissonBootstrap(replicates=replicates, seed=seed)

    def add(self, found: Mapping[str, FloatArray], *, number: int | None = None) -> None:
        """Take in the values of text `number`, by default the next one."""
        values = np.stack([found[name] for name in self._names])
        if self._moments.count and values.shape != self._moments.mean.shape:
            raise ValueError(
                "maps must have the same layers and heads in every text, "
                f"got {values.shape[1:]} after {self._moments.mean.shape[1:]}"
            )
        self._bootstrap.add(self._moments.count if number is None else number, values)
        self._moments.add(values)

    def summary(self, *, level: float = LEVEL) -> dict[str, StatisticSummary]:
        """Return what has been taken in so far, by name."""
        if not self._moments.count:
            raise ValueError("statistics need at least one text, got none")
        low, high = self._bootstrap.interval(level)
        mean, std, n_texts = self._moments.mean, self._moments.std(), self._moments.count
        return {
            name: StatisticSummary(name, mean[s], std[s], low[s], high[s], n_texts)
            for s, name in enumerate(self._names)
        }


class StatisticAccumulator(ValueAccumulator):
    """Takes in the maps of one text after another and gives a :class:`StatisticSummary` a name."""

    def __init__(
        self, *, names: Sequence[str] | None = None, replicates: int = 1000, seed: int = 0
    ) -> None:
        chosen = [check_choice("names", name, list(STATISTICS)) for name in names or STATISTICS]
        super().__init__(chosen, replicates=replicates, seed=seed)

    def add_maps(
        self, maps: ArrayLike, *, special: ArrayLike | None = None, number: int | None = None
    ) -> None:
        """Take in the maps ``(L, H, n, n)`` of text `number`, by default the next one."""
        self.add(map_statistics(maps, names=self._names, special=special), number=number)


def summarise_statistics(
    maps: Iterable[ArrayLike], *, names: Sequence[str] | None = None
) -> dict[str, StatisticSummary]:
    """Summarise the statistics of maps from any source, one text's ``(L, H, n, n)`` at a time.

    Examples
    --------
    >>> float(summarise_statistics([[[[[1.0]]]]], names=["entropy"])["entropy"].mean[0, 0])
    0.0
    """
    accumulator = StatisticAccumulator(names=names)
    for one in maps:
        accumulator.add_maps(one)
    return accumulator.summary()
