"""Subwords by a unigram model, learnt and applied by SentencePiece [kudo2018sentencepiece]_.

The first seven numbers are marks, in the order of those of the published FNet as transformers has
them; a text never becomes a mark, whatever it looks like. The learning is deterministic: the same
lines give the same file.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.words import PIECE_MARKS, Vocabulary

MARKS = PIECE_MARKS
UNKNOWN, _, _, PADDING, FIRST, SEPARATOR, MASK = range(len(MARKS))
SENTENCES = 1_000_000  # that are learnt from, as in [leethorp2021fnet]_ section 4.1.1
_QUIET = 2  # no message below an error


@dataclass(frozen=True)
class Pieces:
    """Subwords and their numbers.

    Attributes
    ----------
    model : bytes
        The file of SentencePiece, ``spiece.model``.
    """

    model: bytes = field(repr=False)

    def __len__(self) -> int:
        size: int = self._processor.get_piece_size()
        return size

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The subwords by their numbers."""
        return Vocabulary(tuple(self._processor.id_to_piece(list(range(len(self))))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of each text, without marks."""
        found: list[list[int]] = self._processor.encode(list(texts), num_threads=1)
        return found

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of numbers; marks but ``<unk>`` leave nothing."""
        text: str = self._processor.decode([int(number) for number in numbers])
        return text

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_bytes(self.model)

    @classmethod
    def load(cls, path: Path) -> "Pieces":
        """Return the subwords of a file; no code is run.

        Raises
        ------
        ValueError
            If there is no such file, or one of another kind or with other marks.
        """
        if not path.is_file():
            raise ValueError(f"subwords must be a file of SentencePiece, got {path}")
        found = cls(path.read_bytes())
        try:
            size = len(found)
        except RuntimeError as error:
            raise ValueError(f"{path} must be a file of SentencePiece, got {error}") from error
        first = found.vocabulary.words[: len(MARKS)]
        if first != MARKS:
            raise ValueError(
                f"{path} must begin with {', '.join(MARKS)}, got {', '.join(first)} of {size}"
            )
        return found

    @cached_property
    def _processor(self) -> Any:
        return _sentencepiece().SentencePieceProcessor(model_proto=self.model)


def learn_pieces(lines: Iterable[str], size: int, *, whole: bool = False) -> Pieces:
    """Return the subwords of a training text, learnt from its first million lines.

    Parameters
    ----------
    size : int
        Largest vocabulary, marks included; a small text has fewer.
    whole : bool
        Whether words are kept whole, the most frequent ones.

    Raises
    ------
    ValueError
        If there is no text, or it has more characters than the vocabulary has room for.

    Examples
    --------
    >>> pieces = learn_pieces(["the cat, the hat", "the mat, that cat"], size=30)
    >>> pieces.decode(pieces.encode(["that hat"])[0])
    'that hat'
    """
    check_integer("size", size, least=len(MARKS) + 1)
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        raise ValueError("training text must have lines, got none")
    written = io.BytesIO()
    try:
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=islice(chain([first], rest), SENTENCES),
            model_writer=written,
            model_type="word" if whole else "unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            unk_id=MARKS.index("<unk>"),
            bos_id=MARKS.index("<s>"),
            eos_id=MARKS.index("</s>"),
            pad_id=PADDING,
            control_symbols=list(MARKS[FIRST:]),
            num_threads=1,
            minloglevel=_QUIET,
        )
    except RuntimeError as error:
        raise ValueError(
            f"vocabulary must have room for the characters of the text, got {size}: {error}"
        ) from error
    return Pieces(written.getvalue())


def _sentencepiece() -> Any:
    with needed_for("a vocabulary of subwords"):
        import sentencepiece
    return sentencepiece
