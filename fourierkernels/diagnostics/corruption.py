"""Inputs made worse by a known amount, and what that changes in maps and outputs. Arrays only.

A corruption draws everything that it may need before it looks at the rate. From generators in one
state the corruption at a larger rate therefore contains that at a smaller one: noise has the same
direction, and the places that are hit at the smaller rate are hit at the larger one, in the same
way. Networks that are compared at several rates are so compared on nested inputs.

To add one, write a function from an input, a rate, a generator and an alphabet (None for numbers)
to a :class:`Corrupted` and add a row to :data:`CORRUPTIONS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.maps import check_rows
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray
from fourierkernels.foundation.validation import as_real, check_choice, check_finite, check_integer

NUMBERS, TOKENS = "numbers", "tokens"  # what a corruption changes


class Alphabet(NamedTuple):
    """What the tokens of a text can be.

    Attributes
    ----------
    size : int
        Tokens are 0, …, size - 1; at least two.
    blank : int
        The one that stands for a word that is not known.
    """

    size: int
    blank: int


class Corrupted(NamedTuple):
    """A corrupted input.

    Attributes
    ----------
    values : ndarray
        What a network reads in place of the input.
    places : ndarray, shape (k,)
        Where in the input each of its rows or tokens comes from, in order.
    """

    values: NDArray[Any]
    places: NDArray[np.int64]


@dataclass(frozen=True)
class Corruption:
    """A way to corrupt an input.

    Attributes
    ----------
    of : str
        What it corrupts: "numbers", an array of any shape, or "tokens", ids ``(n,)``.
    function : callable
        From an input, a rate, a generator and an alphabet to a corrupted one.
    most : float
        Largest rate.
    """

    name: str
    of: str
    function: Callable[[NDArray[Any], float, np.random.Generator, Any], Corrupted]
    description: str
    most: float = 1.0


def _noise(x: NDArray[Any], rate: float, rng: np.random.Generator, _: Any) -> Corrupted:
    size = float(np.sqrt(np.mean(np.square(x))))
    return _whole(x + rate * size * rng.standard_normal(x.shape))


def _zeroed(x: NDArray[Any], rate: float, rng: np.random.Generator, _: Any) -> Corrupted:
    return _whole(np.where(_hit(x.shape, rate, rng), 0.0, x))


def _replaced(
    tokens: NDArray[Any], rate: float, rng: np.random.Generator, alphabet: Alphabet
) -> Corrupted:
    others = (tokens + rng.integers(1, alphabet.size, tokens.shape)) % alphabet.size
    return _whole(np.where(_hit(tokens.shape, rate, rng), others, tokens))


def _blanked(
    tokens: NDArray[Any], rate: float, rng: np.random.Generator, alphabet: Alphabet
) -> Corrupted:
    return _whole(np.where(_hit(tokens.shape, rate, rng), alphabet.blank, tokens))


def _deleted(tokens: NDArray[Any], rate: float, rng: np.random.Generator, _: Any) -> Corrupted:
    hit = _hit(tokens.shape, rate, rng)
    if hit.all():
        raise ValueError(f"rate must leave at least one of {len(tokens)} tokens, got {rate}")
    places = np.flatnonzero(~hit)
    return Corrupted(tokens[places], places)


CORRUPTIONS = {
    row.name: row
    for row in (
        Corruption("noise", NUMBERS, _noise, "noise, relative to the root mean square", np.inf),
        Corruption("zeroed", NUMBERS, _zeroed, "a share of the numbers set to zero"),
        Corruption("replaced", TOKENS, _replaced, "a share of the tokens replaced by others"),
        Corruption("blanked", TOKENS, _blanked, "a share of the tokens replaced by the blank"),
        Corruption("deleted", TOKENS, _deleted, "a share of the tokens left out"),
    )
}


def corrupt(
    values: ArrayLike,
    *,
    kind: str,
    rate: float,
    rng: np.random.Generator,
    alphabet: Alphabet | None = None,
) -> Corrupted:
    """Return a corrupted input.

    Parameters
    ----------
    values : array_like
        One input: numbers of any shape, or token ids ``(n,)``.
    kind : str
        A key of :data:`CORRUPTIONS`.
    rate : float
        The size of noise relative to the root mean square of the numbers, at least 0; of all
        others the share that is hit, in [0, 1], rounded to a whole number of places. At 0 nothing
        changes.
    rng : numpy.random.Generator
        Generators in one state give nested corruptions at different rates.
    alphabet : Alphabet
        Of tokens; not needed for numbers.

    Raises
    ------
    ValueError, TypeError
        For an unknown kind, another shape, a rate out of range, tokens out of the alphabet, or
        none of them left.

    Examples
    --------
    >>> draws = [np.random.default_rng(5) for _ in range(2)]
    >>> for rng, rate in zip(draws, (0.25, 0.5)):
    ...     print(corrupt([7, 7, 7, 7], kind="blanked", rate=rate, rng=rng, alphabet=(9, 0)).values)
    [7 7 7 0]
    [7 0 7 0]
    """
    row = CORRUPTIONS[check_choice("kind", kind, list(CORRUPTIONS))]
    if not 0 <= rate <= row.most or not np.isfinite(rate):
        raise ValueError(f"rate must be finite and in [0, {row.most:g}] for {kind}, got {rate}")
    if row.of == NUMBERS:
        return row.function(check_finite("values", as_real("values", values)), rate, rng, None)
    return row.function(*_tokens(values, alphabet, rate, rng))


def _tokens(
    values: ArrayLike, alphabet: Alphabet | None, rate: float, rng: np.random.Generator
) -> tuple[NDArray[Any], float, np.random.Generator, Alphabet]:
    """Return the arguments of a corruption of tokens, checked."""
    tokens = np.asarray(values)
    if tokens.ndim != 1 or not tokens.size or not np.issubdtype(tokens.dtype, np.integer):
        raise ValueError(
            f"values must be integer token ids (n,), got {tokens.dtype} of shape {tokens.shape}"
        )
    if alphabet is None:
        raise ValueError("alphabet must be given for tokens, got None")
    known = Alphabet(*alphabet)
    check_integer("size of the alphabet", known.size, least=2)
    largest = max(int(tokens.max()), check_integer("blank", known.blank, least=0))
    if tokens.min() < 0 or largest >= known.size:
        raise ValueError(
            f"values and blank must lie in 0, …, {known.size - 1}, got {tokens.min()} to {largest}"
        )
    return tokens, rate, rng, known


def _hit(shape: tuple[int, ...], rate: float, rng: np.random.Generator) -> BoolArray:
    """Return which places are hit: the first round(rate · n) of a random order."""
    order = rng.permutation(int(np.prod(shape)))
    hit: BoolArray = order.reshape(shape) < round(rate * order.size)
    return hit


def _whole(values: NDArray[Any]) -> Corrupted:
    """Return an input of which nothing is left out."""
    return Corrupted(values, np.arange(len(np.atleast_1d(values))))


def head_changes(
    before: ArrayLike,
    after: ArrayLike,
    *,
    metric: str = "total_variation",
    places: ArrayLike | None = None,
) -> FloatArray:
    """Return the distance of each head's map from its map on another input, ``(L, H)``.

    Parameters
    ----------
    before : array_like, shape (L, H, n, m)
        Maps of the input as it was.
    after : array_like, shape (L, H, n, m)
        Maps of the changed input; ``(L, H, k, k)`` if only k of its n = m tokens are left.
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS` that compares maps.
    places : array_like, shape (k,)
        Where the tokens that are left stood, increasing. Rows of the others are not compared, and
        to keys that are gone the changed map gives no weight.

    Raises
    ------
    ValueError
        For a metric of outputs, shapes that do not fit, or rows that are not probabilities where
        the metric needs them.

    Examples
    --------
    >>> one, other = np.eye(2), np.full((2, 2), 0.5)
    >>> head_changes([[one, one]], [[one, other]])
    array([[0. , 0.5]])
    """
    row = METRICS[check_choice("metric", metric, list(METRICS))]
    if row.of != MAPS:
        raise ValueError(f"metric must compare maps, got {metric}")
    old, new = (
        check_finite(name, as_real(name, maps))
        for name, maps in (("before", before), ("after", after))
    )
    if old.ndim != 4:
        raise ValueError(f"before must have shape (layers, heads, n, m), got {old.shape}")
    if places is not None:
        old, new = _in_place(old, new, _check_places(places, old, new))
    if old.shape != new.shape:
        raise ValueError(f"after must have the shape of before, {old.shape}, got {new.shape}")
    if row.probabilities:
        check_rows(np.concatenate([old, new]), row.name)
    pairs = np.stack([old, new], axis=2).reshape(-1, 2, *old.shape[2:])
    changes = np.array([row.function(pair)[0, 1] for pair in pairs])
    return changes.reshape(old.shape[:2])


def output_changes(before: ArrayLike, after: ArrayLike) -> FloatArray:
    """Return the total variation between predictions, given their logarithms ``(..., C)``.

    Half the sum of absolute differences of the probabilities of the C classes or words: the largest
    difference of the probabilities of any set of them, 0 to 1.

    Raises
    ------
    ValueError
        If shapes differ, or the values are no logarithms of probabilities.

    Examples
    --------
    >>> output_changes(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]]))
    array([0.25])
    """
    old, new = as_real("before", before), as_real("after", after)
    if old.shape != new.shape or old.ndim < 1:
        raise ValueError(f"after must have the shape of before, {old.shape}, got {new.shape}")
    one, other = np.exp(old), np.exp(new)
    for name, found in (("before", one), ("after", other)):
        worst = float(np.abs(found.sum(axis=-1) - 1).max())
        if not worst < 1e-3:
            raise ValueError(
                f"{name} must be log-probabilities, got sums of probabilities off by {worst:.3g}"
            )
    variation: FloatArray = np.abs(one - other).sum(axis=-1) / 2
    return variation


def _check_places(places: ArrayLike, old: FloatArray, new: FloatArray) -> IntArray:
    found = np.asarray(places)
    n = old.shape[-1]
    if old.shape[-2] != n or new.shape != (*old.shape[:2], found.size, found.size):
        raise ValueError(
            f"after must have maps of {found.size} of {n} tokens, as places has, got {new.shape}"
        )
    inside = found.size and found.min() >= 0 and found.max() < n and np.all(np.diff(found) > 0)
    if found.ndim != 1 or not inside:
        raise ValueError(f"places must increase within 0, …, {n - 1}, got {found.tolist()}")
    return found


def _in_place(old: FloatArray, new: FloatArray, places: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows that are left, and the new maps with zeros at keys that are gone."""
    wide = np.zeros((*new.shape[:-1], old.shape[-1]))
    wide[..., places] = new
    return old[..., places, :], wide
