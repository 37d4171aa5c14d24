"""From what a user gives to the items that a checkpoint reads, counted as they are read.

To add another kind of input, write a function and add a row to :data:`READERS`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.tokens import (
    TOKENS,
    InputCounts,
    Tokenizer,
    cut_windows,
    encode_texts,
)
from fourierkernels.validation import check_integer

UNKNOWN_HINT = f"try another tokenizer (tokens, --tokens): {', '.join(TOKENS)}"


@dataclass(frozen=True)
class Way:
    """How inputs become items: a tokenizer, if there is one, and the length of windows."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer | None
    context: int | None
    counts: InputCounts

    def encode(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """Yield the ids of texts, counting them."""
        assert self.tokenizer is not None
        assert self.checkpoint.vocabulary is not None
        vocabulary = self.checkpoint.vocabulary
        return encode_texts(texts, self.tokenizer, vocabulary=vocabulary, counts=self.counts)

    def marked(self, ids: list[int]) -> list[int]:
        """Return ids between the special tokens of the tokenizer."""
        assert self.tokenizer is not None
        return [*self.tokenizer.prefix, *ids, *self.tokenizer.suffix]

    @property
    def longest(self) -> int | None:
        """Longest item in tokens, special ones included; None for no limit."""
        own = None if self.tokenizer is None else self.tokenizer.limit
        limits = [limit for limit in (self.checkpoint.limit, own) if limit is not None]
        return min(limits, default=None)


def _windows(texts: Iterable[Any], way: Way) -> Iterator[list[int]]:
    """Cut texts into windows; see :func:`~.tokens.cut_windows`."""
    longest, context = way.longest, way.context
    if context is not None and longest is not None and check_integer("context", context) > longest:
        raise ValueError(
            f"context must be at most {longest}, the longest text of this checkpoint, got {context}"
        )
    assert way.tokenizer is not None
    return cut_windows(
        way.encode(map(_text, texts)),
        way.tokenizer,
        size=longest if context is None else context,
        running=context is not None,
        counts=way.counts,
    )


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"texts must be strings, got {type(text).__name__}")
    return text


def _pairs(pairs: Iterable[Any], way: Way) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ids of a source and of what the decoder reads: its start, then the target."""
    _refuse_context(way)
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"texts must be pairs (source, target), got {pair!r:.40}")
        source, target = way.encode(map(_text, pair))
        item = way.marked(source), [*way.checkpoint.start, *target]
        longest = max(map(len, item))
        if way.longest is not None and longest > way.longest:
            raise ValueError(
                f"pairs must have at most {way.longest} tokens on each side, "
                f"got {longest} in pair {number}"
            )
        way.counts.texts -= 1  # two texts have been counted
        way.counts.windows += 1
        yield item


def _images(paths: Iterable[Any], way: Way) -> Iterator[Path]:
    _refuse_context(way)
    for path in paths:
        if not Path(path).is_file():
            raise ValueError(f"images must be paths of files, got {path!s:.60}")
        way.counts.texts += 1
        way.counts.windows += 1
        yield Path(path)


def _refuse_context(way: Way) -> None:
    if way.context is not None:
        raise ValueError(
            f"context must be left out for a network that reads {way.checkpoint.reads}, "
            f"got {way.context}"
        )


# What a checkpoint reads -> how inputs become its items.
READERS: dict[str, Callable[[Iterable[Any], Way], Iterator[Any]]] = {
    "tokens": _windows,
    "pairs": _pairs,
    "images": _images,
}


def read_items(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    *,
    tokenizer: Tokenizer | None = None,
    context: int | None = None,
    counts: InputCounts | None = None,
) -> Iterator[Any]:
    """Yield the items of a checkpoint, lazily.

    Parameters
    ----------
    inputs : iterable
        Texts; (source, target) pairs of texts for the decoder of an encoder-decoder; paths of
        images for a vision network.
    tokenizer : Tokenizer or None
        None for images.
    context : int or None
        Join the texts end to end and cut windows of exactly so many tokens, special tokens
        included; an incomplete last one is left out. Without it every text is taken by itself, and
        one that is too long for the checkpoint is cut into several windows.
    counts : InputCounts, optional
        What has been read is counted into it.

    Raises
    ------
    ValueError, TypeError
        For inputs of another kind, ids that the checkpoint does not have, and a context that it
        cannot read.
    """
    counts = InputCounts() if counts is None else counts
    return READERS[checkpoint.reads](inputs, Way(checkpoint, tokenizer, context, counts))
