"""What a head is for: how much weight it gives to keys of one kind, beside chance. Arrays only.

A role names target keys of each query: the previous token, the first one, delimiters, other places
of the same word, what followed it there. The score of a head is the mean weight on its targets over
the rows that have a choice: they may see a target, and another key. By chance, with the head's own
rows permuted among the keys they may see, a row whose dealt weights add up to w gives w t / d to t
targets among d dealt keys. Both numbers are inner products of the map with a fixed matrix.

Special tokens keep their weight, as under the control ``rows``, unless a role has them as targets.

To add a role, write a function from places of queries and :class:`RoleTokens` to targets and add a
row to :data:`ROLES`.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.chance import visible_keys
from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.diagnostics.moments import LEVEL, RunningMoments, State, t_interval
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray
from fourierkernels.foundation.validation import as_real, check_choice

# Rows of single precision add up to one to 1e-7: no excess, however little it varies.
_ROUNDING = 1e-6
_MARKS = "Ġ▁#Ċ "  # of the beginning or the inside of a word, in names of tokens
_PLAIN = "#"  # of these, what is punctuation if it is all of a token


@dataclass(frozen=True, eq=False)
class RoleTokens:
    """What is known of the m keys of a text.

    Attributes
    ----------
    ids : ndarray of int, shape (m,), or None
        Which keys are the same token; None if that is not known.
    special, delimiters : ndarray of bool, shape (m,), or None
        Special tokens; special tokens and punctuation.
    """

    count: int
    ids: IntArray | None = None
    special: BoolArray | None = None
    delimiters: BoolArray | None = None


@dataclass(frozen=True)
class HeadRole:
    """Keys of one kind that a head may be for.

    Attributes
    ----------
    targets : callable
        From places of s queries ``(s,)`` and the tokens to targets ``(s, m)``; None if they are not
        known.
    keys : str
        A phrase for the targets.
    own : bool
        Whether queries and keys must be the same tokens.
    repeated : bool
        Whether it is measured on random tokens that come twice, and not on the texts.
    marks : bool
        Whether special tokens are dealt out, since they may be targets.
    """

    name: str
    targets: Callable[[IntArray, RoleTokens], BoolArray | None]
    keys: str
    source: str = ""
    own: bool = False
    repeated: bool = False
    marks: bool = False


def _previous(places: IntArray, tokens: RoleTokens) -> BoolArray:
    found: BoolArray = np.arange(tokens.count) == places[:, None] - 1
    return found


def _first(places: IntArray, tokens: RoleTokens) -> BoolArray:
    return np.broadcast_to(np.arange(tokens.count) == 0, (len(places), tokens.count))


def _delimiters(places: IntArray, tokens: RoleTokens) -> BoolArray | None:
    if tokens.delimiters is None or not tokens.delimiters[1:].any():
        return None
    later = tokens.delimiters & (np.arange(tokens.count) > 0)
    return np.broadcast_to(later, (len(places), tokens.count))


def _same(places: IntArray, tokens: RoleTokens) -> BoolArray | None:
    if tokens.ids is None:
        return None
    elsewhere = np.arange(tokens.count) != places[:, None]
    found: BoolArray = (tokens.ids == tokens.ids[places][:, None]) & elsewhere
    return found


def _followers(places: IntArray, tokens: RoleTokens) -> BoolArray | None:
    same = _same(places, tokens)
    if same is None:
        return None
    after = np.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    return after


ROLES = {
    row.name: row
    for row in (
        HeadRole("previous", _previous, "the previous token", source="clark2019bert", own=True),
        HeadRole("first", _first, "the first token", marks=True),
        HeadRole(
            "delimiter",
            _delimiters,
            "punctuation and special tokens after the first",
            source="clark2019bert",
            marks=True,
        ),
        HeadRole("same", _same, "the same token elsewhere", own=True, repeated=True),
        HeadRole(
            "induction",
            _followers,
            "what followed the same token",
            source="olsson2022induction",
            own=True,
            repeated=True,
        ),
    )
}


def check_roles(names: Sequence[str] | str) -> tuple[str, ...]:
    """Return the roles asked for, each once; "all" for all, "none" for none.

    Raises
    ------
    ValueError
        For one that is not known.

    Examples
    --------
    >>> check_roles("none"), check_roles(["first"])
    ((), ('first',))
    """
    given = [names] if isinstance(names, str) else list(names)
    if given in (["all"], ["none"]):
        return tuple(ROLES) if given == ["all"] else ()
    return tuple(check_choice("role", name, list(ROLES)) for name in dict.fromkeys(given))


def punctuation(names: Iterable[str]) -> BoolArray:
    """Return which names of tokens are punctuation and nothing else.

    Examples
    --------
    >>> punctuation(["Ġ,", "Ġcat", "...", "##s", "Ġ"]).tolist()
    [True, False, True, False, False]
    """
    bare = [name.strip(_MARKS) or name.strip(_MARKS.replace(_PLAIN, "")) for name in names]
    marks = [bool(one) and all(unicodedata.category(c)[0] == "P" for c in one) for one in bare]
    return np.array(marks, dtype=bool)


@dataclass(frozen=True, eq=False)
class RoleWeights:
    """What the maps of a slab are multiplied with, for several roles R.

    Attributes
    ----------
    matrix : ndarray, shape (s * m, 2 R)
        Targets of each role, then what chance gives to them.
    rows : ndarray, shape (R,)
        Rows that have a choice.
    """

    matrix: FloatArray
    rows: FloatArray

    def sums(self, maps: FloatArray) -> FloatArray:
        """Return scores and chances of maps ``(H, s, m)``, added up over rows: ``(2, R, H)``."""
        found = maps.reshape(len(maps), -1) @ self.matrix
        return found.T.reshape(2, len(self.rows), len(maps))


def role_weights(
    names: Sequence[str], places: IntArray, tokens: RoleTokens, visible: BoolArray
) -> RoleWeights:
    """Return what scores and chances of roles are computed with.

    Parameters
    ----------
    places : ndarray of int, shape (s,)
        Of the queries.
    visible : ndarray of bool, shape (s, m)
        Which keys each may see.
    """
    both = [_weights(ROLES[name], places, tokens, visible) for name in names]
    hits, shares, rows = zip(*both, strict=True)
    matrix = np.stack([one.ravel() for one in (*hits, *shares)], axis=1)
    return RoleWeights(matrix, np.array(rows, dtype=float))


def _weights(
    role: HeadRole, places: IntArray, tokens: RoleTokens, visible: BoolArray
) -> tuple[FloatArray, FloatArray, int]:
    targets = role.targets(places, tokens)
    if targets is None:
        nothing = np.zeros(visible.shape)
        return nothing, nothing, 0
    kept = None if role.marks else tokens.special
    dealt = visible if kept is None else visible & ~kept
    hits = targets & dealt
    choice = hits.any(axis=1, keepdims=True) & (dealt & ~hits).any(axis=1, keepdims=True)
    count = np.maximum(dealt.sum(axis=1, keepdims=True), 1)
    share: FloatArray = np.where(choice, hits.sum(axis=1, keepdims=True) / count, 0.0)
    chosen: FloatArray = (hits & choice).astype(np.float64)
    return chosen, dealt.astype(np.float64) * share, int(choice.sum())


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
) -> dict[str, RoleScores]:
    """Return how much weight heads give to the keys of each role, and how much by chance.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Attention weights on one text, padding cut away.
    names : sequence of str, or str
        Keys of :data:`ROLES`, or "all".
    ids : array_like of int, shape (m,), optional
        Token ids, for ``same`` and ``induction``.
    special, delimiters : array_like of bool, shape (m,), optional
        Special tokens, which keep their weight by chance; what ``delimiter`` is about.

    Raises
    ------
    ValueError
        For a name that is not known, another shape, or rows that are not probabilities.

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
        ids=None if ids is None else _of_keys("ids", ids, m).astype(np.int64),
        special=None if special is None else _of_keys("special", special, m).astype(bool),
        delimiters=None if delimiters is None else _of_keys("delimiters", delimiters, m) != 0,
    )
    n = array.shape[-2]
    chosen = [name for name in check_roles(names) if n == m or not ROLES[name].own]
    found = []
    for layer in array.reshape(-1, *array.shape[-3:]):
        weights = role_weights(chosen, np.arange(n), tokens, visible_keys(layer))
        with np.errstate(invalid="ignore"):
            found.append(weights.sums(layer) / weights.rows[:, None])
    by_role = np.stack(found, axis=2).reshape(2, len(chosen), *array.shape[:-2])
    return {name: RoleScores(*by_role[:, k]) for k, name in enumerate(chosen)}


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
        and roles measured together.
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
