"""From the inputs that a user gives to the items that a checkpoint reads.

To add another kind of input, write a function and add a row to :data:`INPUT_KINDS`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.tokens import InputCounts, Tokenizer, cut_windows, encode_texts
from fourierkernels.foundation.validation import check_integer


@dataclass(frozen=True)
class ItemReader:
    """Everything needed to turn inputs into the items of a checkpoint, and to count them."""

    checkpoint: Checkpoint
    given: Tokenizer | None
    context: int | None
    counts: InputCounts

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises
        ------
        ValueError
            If none was given.
        """
        if self.given is None:
            raise ValueError(
                f"tokenizer must be given for a network that reads {self.checkpoint.reads}, "
                "got None"
            )
        return self.given

    def encode(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """Yield the ids of texts, counting them."""
        vocabulary = self.checkpoint.vocabulary or 0
        return encode_texts(texts, self.tokenizer, vocabulary=vocabulary, counts=self.counts)

    def framed(self, ids: list[int]) -> list[int]:
        """Return ids between the special tokens of the tokenizer."""
        return [*self.tokenizer.prefix, *ids, *self.tokenizer.suffix]

    def decoded(self, ids: list[int]) -> list[int]:
        """Return ids of a target as a decoder reads them: labels, one place to the right.

        A network that names no first id begins with the last one of the labels, as mBART does with
        the code of the language.
        """
        prefix, suffix = self.tokenizer.target or ((), ())
        first, forced = self.checkpoint.start[:1], self.checkpoint.start[1:]
        return [*(first or suffix[-1:]), *(forced or prefix), *ids]

    @property
    def longest(self) -> int | None:
        """Longest item in tokens, special ones included; None for no limit."""
        limits = (self.checkpoint.limit, self.tokenizer.limit)
        return min((limit for limit in limits if limit is not None), default=None)

    def refuse_context(self) -> None:
        """Refuse a context for items that are not windows of texts."""
        if self.context is not None:
            raise ValueError(
                f"context must be left out for a network that reads {self.checkpoint.reads}, "
                f"got {self.context}"
            )


def _windows(texts: Iterable[Any], reader: ItemReader) -> Iterator[list[int]]:
    """Cut texts into windows; see :func:`~.tokens.cut_windows`."""
    longest, context = reader.longest, reader.context
    if context is not None and longest is not None and check_integer("context", context) > longest:
        raise ValueError(
            f"context must be at most {longest}, the longest text of this checkpoint, got {context}"
        )
    return cut_windows(
        reader.encode(map(_text, texts)),
        reader.tokenizer,
        size=longest if context is None else context,
        running=context is not None or reader.tokenizer.stream,
        counts=reader.counts,
    )


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"texts must be strings, got {type(text).__name__}")
    return text


def _pairs(pairs: Iterable[Any], reader: ItemReader) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ids of a source, and those the decoder reads: its start ids, then the target."""
    reader.refuse_context()
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"texts must be pairs (source, target), got {pair!r:.40}")
        source, target = reader.encode(map(_text, pair))
        item = reader.framed(source), reader.decoded(target)
        longest = max(map(len, item))
        if reader.longest is not None and longest > reader.longest:
            raise ValueError(
                f"pairs must have at most {reader.longest} tokens on each side, "
                f"got {longest} in pair {number}"
            )
        reader.counts.texts -= 1  # two texts have been counted
        reader.counts.windows += 1
        yield item


def _files(paths: Iterable[Any], reader: ItemReader) -> Iterator[Path]:
    reader.refuse_context()
    for path in paths:
        if not Path(path).is_file():
            kind = reader.checkpoint.reads
            raise ValueError(f"{kind} must be paths of files, got {path!s:.60}")
        reader.counts.texts += 1
        reader.counts.windows += 1
        yield Path(path)


def _rows(batches: Iterable[Any], reader: ItemReader) -> Iterator[Any]:
    from fourierkernels.checkpoints.batches import batch_rows  # needs torch

    reader.refuse_context()
    for row in batch_rows(batches):
        reader.counts.texts += 1
        reader.counts.windows += 1
        yield row


# What a checkpoint reads -> from inputs to its items.
INPUT_KINDS: dict[str, Callable[[Iterable[Any], ItemReader], Iterator[Any]]] = {
    "tokens": _windows,
    "pairs": _pairs,
    "images": _files,
    "sounds": _files,
    "batches": _rows,
}


def read_items(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    *,
    tokenizer: Tokenizer | None = None,
    context: int | None = None,
    counts: InputCounts | None = None,
) -> Iterator[Any]:
    """Yield the items of a checkpoint; inputs are read lazily.

    Parameters
    ----------
    inputs : iterable
        Texts; (source, target) pairs of texts for the decoder of an encoder-decoder; paths of
        images for a vision network, of WAV files for one that hears.
    tokenizer : Tokenizer, optional
        For networks that read texts; see
        :func:`~fourierkernels.checkpoints.tokenizers.load_tokenizer`.
    context : int, optional
        Number of tokens, special ones included: the texts are joined end to end and cut into
        windows of exactly this size; the remainder is dropped. By default each text is read
        separately, and one that is too long for the checkpoint is cut into several windows; but
        lines for a language model of words are joined, and windows have its length.
    counts : InputCounts, optional
        Updated with what has been read.

    Raises
    ------
    ValueError, TypeError
        For inputs of another kind, ids outside the vocabulary, and a context that is too long or
        does not apply.
    """
    counts = InputCounts() if counts is None else counts
    return INPUT_KINDS[checkpoint.reads](inputs, ItemReader(checkpoint, tokenizer, context, counts))
