"""Roles of heads on one text, and over many: score, chance, and what is above it. Arrays only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.chance import visible_keys
from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.diagnostics.moments import LEAST_TEXTS, LEVEL, RunningMoments, State, t_interval
from fourierkernels.diagnostics.roles import ROLES, RoleTokens, check_roles, role_weights
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray
from fourierkernels.foundation.validation import as_real

# Rows of single precision add up to one to 1e-7: no excess, however little it varies.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class RoleScores:
    """Weight of each head on the targets of a role in one text, and what it would be by chance.

    Attributes
    ----------
    score, chance : ndarray, shape (H,) or (L, H)
        Means over the rows that have a choice; NaN if there is none.
    """

    score: FloatArray
    chance: FloatArray


def head_roles(
    maps: ArrayLike,
    *,
    names: Sequence[str] | str = "all",
    ids: ArrayLike | None = None,
    special: ArrayLike | None = None,
    delimiters: ArrayLike | None = None,
    image: ArrayLike | None = None,
) -> dict[str, RoleScores]:
    """Return how much weight heads give to the keys of each role, and how much by chance.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Attention weights on one text, padding cut away.
    names : sequence of str, or str
        Keys of :data:`ROLES`, "all" or "none". Where there are not as many keys as queries, "all"
        leaves out those whose targets are tokens of the queries.
    ids : array_like of int, shape (m,), optional
        Token ids, for ``same`` and ``induction``; floats are refused.
    special, delimiters : array_like of bool, shape (m,), optional
        Special tokens, which keep their weight by chance; what ``delimiter`` is about.
    image : array_like of bool, shape (m,), optional
        Tokens that stand for pieces of an image, for ``image``; none of them counts as special.

    Raises
    ------
    ValueError
        For a name that is not known or has no meaning for such maps, another shape, or rows that
        are not probabilities.
    TypeError
        If ids are no integers, or marks no booleans.

    Examples
    --------
    >>> even = np.tri(4) / np.arange(1, 5)[:, None]  # beside a head that is for one thing
    >>> previous = np.eye(4, k=-1) + np.diag([1.0, 0, 0, 0])
    >>> found = head_roles(np.stack([previous, even]), names=["previous"])["previous"]
    >>> found.score.round(3), found.chance.round(3)  # mean of 1/2, 1/3 and 1/4
    (array([1.   , 0.361]), array([0.361, 0.361]))
    """
    array = check_probabilities(as_real("maps", maps))
    m = array.shape[-1]
    tokens = RoleTokens(
        m,
        ids=None if ids is None else _check_ids(_of_keys("ids", ids, m)),
        special=_marks("special", special, m),
        delimiters=_marks("delimiters", delimiters, m),
        image=_marks("image", image, m),
    )
    n = array.shape[-2]
    chosen = _chosen(names, n, m)
    if not chosen:
        return {}
    by_layer = []
    for layer in array.reshape(-1, *array.shape[-3:]):
        weights = role_weights(chosen, np.arange(n), tokens, visible_keys(layer))
        with np.errstate(invalid="ignore"):
            by_layer.append(weights.sums(layer) / weights.rows[:, None])
    by_role = np.stack(by_layer, axis=2).reshape(2, len(chosen), *array.shape[:-2])
    return {name: RoleScores(*by_role[:, k]) for k, name in enumerate(chosen)}


def _chosen(names: Sequence[str] | str, n: int, m: int) -> list[str]:
    """Return the roles to measure on maps of n queries and m keys."""
    asked = check_roles(names)
    possible = [name for name in asked if n == m or not ROLES[name].own]
    if len(possible) < len(asked) and "all" not in (names, *names):
        refused = ", ".join(name for name in asked if name not in possible)
        raise ValueError(f"maps must have as many queries as keys for {refused}, got {n} and {m}")
    return possible


def _check_ids(ids: IntArray) -> IntArray:
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got {ids.dtype} data")
    return ids


def _marks(name: str, given: ArrayLike | None, count: int) -> BoolArray | None:
    if given is None:
        return None
    marks: BoolArray = np.asarray(_of_keys(name, given, count))
    if marks.dtype != bool:
        raise TypeError(f"{name} must be booleans, got {marks.dtype} data")
    return marks


def _of_keys(name: str, given: ArrayLike, count: int) -> IntArray:
    array: IntArray = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(f"{name} must have shape ({count},), as many as keys, got {array.shape}")
    return array


@dataclass(frozen=True, eq=False)
class RoleSummary:
    """The score of each head for a role over texts, beside chance.

    Attributes
    ----------
    score, chance : ndarray, shape (L, H)
        Means over the texts that have rows with a choice.
    low, high : ndarray, shape (L, H)
        t interval of the score over texts, level 0.95, within 0 and 1; NaN from fewer than three.
    share : ndarray, shape (L, H)
        Mean over texts of (score - chance) / (1 - chance): 0 by chance, 1 if all is on targets.
    above : ndarray of bool, shape (L, H)
        Whether the score is above chance: the interval of the share is, at 1 - 0.05 / K for K heads
        and roles measured together. False where that is not :attr:`tested`.
    n_texts : int
    """

    name: str
    score: FloatArray
    chance: FloatArray
    low: FloatArray
    high: FloatArray
    share: FloatArray
    above: BoolArray
    n_texts: int

    @property
    def tested(self) -> bool:
        """Whether there are texts enough for an interval, without which nothing is above chance."""
        return self.n_texts >= LEAST_TEXTS


class RoleAccumulator:
    """Takes in scores and chances of a role, one text after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._moments = RunningMoments()  # of (3, L, H): score, chance, share

    def add(self, score: FloatArray, chance: FloatArray) -> None:
        """Take in those of the next text, ``(L, H)``."""
        self._moments.add(np.stack([score, chance, (score - chance) / (1 - chance)]))

    def state(self) -> State:
        """Return what has been taken in, for :meth:`merge` of another one."""
        return self._moments.state()

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other texts."""
        self._moments.merge(state)

    def summary(self, *, together: int = 1) -> RoleSummary | None:
        """Return what has been taken in; None without a text that has a choice.

        Parameters
        ----------
        together : int
            Roles that are measured together.
        """
        count = self._moments.count
        if not count:
            return None
        mean, std = self._moments.mean, self._moments.std()
        low, high = (np.clip(end, 0, 1) for end in t_interval(mean[0], std[0], count))
        heads = max(1, int(np.isfinite(mean[0]).sum()))
        level = 1 - (1 - LEVEL) / (heads * together)
        least, _ = t_interval(mean[2], std[2], count, level)
        above = least > _ROUNDING
        return RoleSummary(self.name, mean[0], mean[1], low, high, mean[2], above, count)
