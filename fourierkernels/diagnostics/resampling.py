"""Whether heads are more alike than heads that attend to unrelated keys: p-values by permutation.

Arrays only, and memory that does not depend on the number of texts. What the distances of such
heads are expected to be needs no permutation: see :mod:`fourierkernels.diagnostics.chance`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.chance import permuted_maps
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS, METRICS, head_distances
from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.diagnostics.moments import State
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_choice, check_integer

_ROUNDING = 1e-12  # distances that differ by less are equal


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
    # Permutations of few keys often are the heads as they were, but for the order of additions.
    equal = np.isclose(null, observed, rtol=_ROUNDING, atol=_ROUNDING)
    p_value = (1 + ((null <= observed) | equal).sum(axis=0)) / (1 + len(null))
    return NullComparison(observed, null, p_value)


def _layer_means(maps: FloatArray, metric: str) -> FloatArray:
    distances = head_distances(maps, metric=metric)
    first, second = np.triu_indices(distances.shape[-1], k=1)
    means: FloatArray = distances[:, first, second].mean(axis=-1)
    return means
