"""Vocabularies: words of texts and their numbers, in training and in evaluation."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

END = "<eos>"
UNKNOWN = "<unk>"
MARKS = ("<pad>", "<s>", "</s>", UNKNOWN)  # the first subwords of a translation run
# The first subwords of masked pre-training.
PIECE_MARKS = (UNKNOWN, "<s>", "</s>", "<pad>", "[CLS]", "[SEP]", "[MASK]")

# One match is one word, a run of letters or digits, or one punctuation mark. ``<eos>`` in a text is
# punctuation and a word, since only the end of a line may be ``<eos>``.
WORD = rf"{re.escape(UNKNOWN)}|\w+|[^\w\s]"

# What splits a line into words -> pattern, every match of which is one word.
WORD_SPLITTERS = {"words": WORD, "whitespace": r"\S+"}


@dataclass(frozen=True)
class Vocabulary:
    """Words and their numbers: ``words[i]`` has number i.

    Attributes
    ----------
    words : tuple of str
        All different.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.words)) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"words must be different, got {twice!r} more than once")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def unknown(self) -> int | None:
        """The number of ``<unk>``; None if the vocabulary has no such word."""
        return self.numbers.get(UNKNOWN)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of words.

        Raises
        ------
        ValueError
            At a word that is not in the vocabulary, if ``<unk>`` is not in it either.
        """
        known, unknown = self.numbers, self.unknown
        if unknown is not None:
            return [known.get(word, unknown) for word in words]
        words = list(words)
        try:
            return [known[word] for word in words]
        except KeyError as error:
            raise ValueError(
                f"words must be in the vocabulary of the training text, got {error.args[0]!r}, "
                f"and no {UNKNOWN} stands for others"
            ) from None

    def check_same(self, other: "Vocabulary", place: Path) -> None:
        """Refuse another vocabulary than this one, of the run in a folder.

        Raises
        ------
        ValueError
            If it is; the message says from which word on.
        """
        if self.words != other.words:
            pairs = enumerate(zip(self.words, other.words, strict=False))
            first = next((i for i, (a, b) in pairs if a != b), min(len(self), len(other)))
            raise ValueError(
                f"data must have the vocabulary of {place}, {len(self)} words, got one of "
                f"{len(other)} words that differs from word {first} on"
            )

    def save(self, path: Path) -> None:
        """Write the words, one per line; a line's number, from 0, is the number of its word."""
        path.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Return the vocabulary that :meth:`save` wrote.

        Raises
        ------
        ValueError
            If there is no such file, it is not UTF-8, is empty, or its last line is cut off.
        """
        if not path.is_file():
            raise ValueError(f"vocabulary must be a file, got {path}")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"vocabulary {path} must be UTF-8, got {error}") from error
        if not text.endswith("\n"):
            raise ValueError(f"vocabulary {path} must end with a whole line, got a file cut off")
        return cls(tuple(text[:-1].split("\n")))
