"""Inputs made worse by a known amount: noise on numbers, tokens replaced or lost. Arrays only.

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

from fourierkernels.foundation.arrays import BoolArray
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
