"""From texts to windows of token ids, without any framework.

Here are the interface of a tokenizer, the tokenizers that need nothing but a list of tokens, and
the cutting of texts into windows. Tokenizers of transformers are loaded in
:mod:`fourierkernels.checkpoints.tokenizers`.

To split texts in another way, add a row to :data:`SPLITTERS`; the command line offers it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fourierkernels.foundation.words import WORD_SPLITTERS

MOST_UNKNOWN = 0.5  # with a larger share of unknown tokens, maps say nothing about the texts


# Name -> pattern, every match of which is one token of a plain list. Characters outside the
# published pattern become tokens of their own, so that they are counted as unknown; the published
# code drops them silently.
SPLITTERS = {
    **WORD_SPLITTERS,
    # Schwaller et al., Chem. Sci. 9 (2018) 6091; used by schwaller2021extraction
    "smiles": (
        r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?"
        r"|\*|\$|\%[0-9]{2}|[0-9]|\S"
    ),
    "characters": r"(?s:.)",  # white space too
}


def token_choices() -> list[str]:
    """Return the values of `tokens`: the checkpoint's own ("auto"), the splitters, and "ids"."""
    return ["auto", *SPLITTERS, "ids"]


@dataclass(frozen=True)
class Tokenizer:
    """A map from texts to ids, and the special tokens around every window.

    Attributes
    ----------
    encode : callable
        From a text to its ids, without special tokens.
    unknown : int or None
        Id of tokens that are not in the vocabulary.
    names : callable
        From ids to their tokens, for display.
    special : frozenset of int
        Ids of tokens that stand for no part of a text.
    mask : int or None
        Id of the token that hides another, in masked language models.
    limit : int or None
        Longest window, special tokens included, that the tokenizer's files allow.
    stream : bool
        Whether texts are pieces of one stream: without a context they are joined and cut into the
        longest windows, and not read separately.
    note : str
        Where it was found, if not where it was expected; empty otherwise.
    target : (tuple of int, tuple of int) or None
        Ids before and after the target of a pair; None if they depend on a language that is not
        known.
    """

    encode: Callable[[str], list[int]]
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    unknown: int | None = None
    limit: int | None = None
    names: Callable[[Sequence[int]], tuple[str, ...]] = lambda ids: tuple(map(str, ids))
    special: frozenset[int] = frozenset()
    mask: int | None = None
    stream: bool = False
    note: str = ""
    target: tuple[tuple[int, ...], tuple[int, ...]] | None = ((), ())


def ids_tokenizer() -> Tokenizer:
    """Return the tokenizer of texts that already are ids: integers separated by white space.

    Examples
    --------
    >>> ids_tokenizer().encode("3 1 2")
    [3, 1, 2]
    """
    return Tokenizer(encode=_parse_ids)


def _parse_ids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        raise ValueError(
            f"ids must be integers separated by white space, got {text[:40]!r}"
        ) from None


@dataclass
class InputCounts:
    """Counts of what has been read so far, updated by the functions that read.

    Attributes
    ----------
    notes : tuple of str
        What is to be said of how it was read.
    """

    texts: int = 0
    tokens: int = 0
    unknown: int = 0
    windows: int = 0
    notes: tuple[str, ...] = ()

    @property
    def unknown_share(self) -> float:
        """Share of unknown tokens; 0 before the first token."""
        return self.unknown / self.tokens if self.tokens else 0.0


def encode_texts(
    texts: Iterable[str], tokenizer: Tokenizer, *, vocabulary: int, counts: InputCounts
) -> Iterator[list[int]]:
    """Yield the ids of each text and update `counts`.

    Raises
    ------
    ValueError
        At the first id that is not in 0..vocabulary - 1.
    """
    for text in texts:
        ids = tokenizer.encode(text)
        wrong = [i for i in ids if not 0 <= i < vocabulary]
        if wrong:
            raise ValueError(
                f"token ids must lie in 0..{vocabulary - 1}, the checkpoint's vocabulary, "
                f"got {wrong[0]} in {text[:40]!r}"
            )
        counts.texts += 1
        counts.tokens += len(ids)
        if tokenizer.unknown is not None:
            counts.unknown += ids.count(tokenizer.unknown)
        yield ids


def cut_windows(
    encoded: Iterable[list[int]],
    tokenizer: Tokenizer,
    *,
    size: int | None,
    running: bool,
    counts: InputCounts,
) -> Iterator[list[int]]:
    """Yield windows of at most `size` ids, special tokens around each, and update `counts`.

    Parameters
    ----------
    encoded : iterable of list of int
        Ids of each text, without special tokens.
    size : int or None
        Number of ids in a window, special tokens included; None for no limit.
    running : bool
        Join the texts end to end and cut windows of exactly `size` ids; the remainder is dropped.
        Otherwise each text is cut separately, and its last window may be shorter.
    """
    specials = len(tokenizer.prefix) + len(tokenizer.suffix)
    if size is not None and size <= specials:
        raise ValueError(f"context must exceed the {specials} special tokens, got {size}")
    room = None if size is None else size - specials
    pieces = _running(encoded, room) if running and room else _separate(encoded, room)
    for piece in pieces:
        counts.windows += 1
        yield [*tokenizer.prefix, *piece, *tokenizer.suffix]


def _separate(encoded: Iterable[list[int]], room: int | None) -> Iterator[list[int]]:
    for ids in encoded:
        step = room or max(len(ids), 1)
        for start in range(0, len(ids), step):
            yield ids[start : start + step]


def _running(encoded: Iterable[list[int]], room: int) -> Iterator[list[int]]:
    kept: list[int] = []
    for ids in encoded:
        kept += ids
        whole = len(kept) - len(kept) % room
        for start in range(0, whole, room):
            yield kept[start : start + room]
        if whole:
            kept = kept[whole:]


def check_known(counts: InputCounts) -> None:
    """Refuse texts whose tokens are mostly unknown.

    Raises
    ------
    ValueError
        If more than half of the tokens are unknown.
    """
    if counts.unknown_share > MOST_UNKNOWN:
        raise ValueError(
            f"texts must fit the tokens of the checkpoint, got {counts.unknown_share:.0%} of "
            f"{counts.tokens} tokens unknown; try another tokenizer (tokens, --tokens): "
            f"{', '.join(token_choices())}"
        )
