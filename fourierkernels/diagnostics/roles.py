"""What a head is for: how much weight it gives to keys of one kind, beside chance. Arrays only.

A role names target keys of each query: the previous token, the first one, delimiters, pieces of an
image that a word stands beside, other places of the same word, what followed it there. The score of
a head is the mean weight on its targets over the rows that have a choice: they may see a target,
and another key. By chance, with the head's own rows permuted among the keys they may see, a row
whose dealt weights add up to w gives w t / d to t targets among d dealt keys. Both numbers are
inner products of the map with a fixed matrix.

Special tokens keep their weight, as under the control ``rows``, unless a role has them as targets.

To add a role, write a function from places of queries and :class:`RoleTokens` to targets and add a
row to :data:`ROLES`.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray
from fourierkernels.foundation.validation import check_choices

_MARKS = "Ġ▁#Ċ "  # of the beginning or the inside of a word, in names of tokens
_PLAIN = "#"  # of these, what is punctuation if it is all of a token


@dataclass(frozen=True, eq=False)
class RoleTokens:
    """What is known of the m keys of a text.

    Attributes
    ----------
    ids : ndarray of int, shape (m,), or None
        Which keys are the same token; None if that is not known.
    special, delimiters, image : ndarray of bool, shape (m,), or None
        Special tokens; special tokens and punctuation; tokens that stand for pieces of an image.
    """

    count: int
    ids: IntArray | None = None
    special: BoolArray | None = None
    delimiters: BoolArray | None = None
    image: BoolArray | None = None

    @property
    def resting(self) -> BoolArray | None:
        """Keys that keep their weight: special tokens, but not those of an image."""
        if self.special is None or self.image is None:
            return self.special
        return self.special & ~self.image


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
    previous: BoolArray = np.arange(tokens.count) == places[:, None] - 1
    return previous


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
    equal: BoolArray = (tokens.ids == tokens.ids[places][:, None]) & elsewhere
    return equal


def _followers(places: IntArray, tokens: RoleTokens) -> BoolArray | None:
    same = _same(places, tokens)
    if same is None:
        return None
    after = np.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    return after


def _image(places: IntArray, tokens: RoleTokens) -> BoolArray | None:
    """Return pieces of an image as targets of words, not of each other."""
    return None if tokens.image is None else tokens.image & ~tokens.image[places][:, None]


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
        HeadRole("image", _image, "pieces of an image", own=True),
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
    return check_choices("role", names, ROLES, with_all=True)


def punctuation(names: Iterable[str]) -> BoolArray:
    """Return which names of tokens are punctuation and nothing else.

    Examples
    --------
    >>> punctuation(["Ġ,", "Ġcat", "...", "##s", "Ġ"]).tolist()
    [True, False, True, False, False]
    """
    bare = [name.strip(_MARKS) or name.strip(_MARKS.replace(_PLAIN, "")) for name in names]
    marks = [
        bool(token) and all(unicodedata.category(c)[0] == "P" for c in token) for token in bare
    ]
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
        sums = maps.reshape(len(maps), -1) @ self.matrix
        return sums.T.reshape(2, len(self.rows), len(maps))


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
    matrix = np.stack([array.ravel() for array in (*hits, *shares)], axis=1)
    return RoleWeights(matrix, np.array(rows, dtype=float))


def _weights(
    role: HeadRole, places: IntArray, tokens: RoleTokens, visible: BoolArray
) -> tuple[FloatArray, FloatArray, int]:
    targets = role.targets(places, tokens)
    if targets is None:
        nothing = np.zeros(visible.shape)
        return nothing, nothing, 0
    kept = None if role.marks else tokens.resting
    dealt = visible if kept is None else visible & ~kept
    hits = targets & dealt
    choice = hits.any(axis=1, keepdims=True) & (dealt & ~hits).any(axis=1, keepdims=True)
    count = np.maximum(dealt.sum(axis=1, keepdims=True), 1)
    share: FloatArray = np.where(choice, hits.sum(axis=1, keepdims=True) / count, 0.0)
    chosen: FloatArray = (hits & choice).astype(np.float64)
    return chosen, dealt.astype(np.float64) * share, int(choice.sum())
