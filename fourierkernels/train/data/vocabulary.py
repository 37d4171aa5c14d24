"""The words of a training text and their numbers, most frequent first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fourierkernels.validation import check_integer

END = "<eos>"
UNKNOWN = "<unk>"


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
            pairs = zip(self.words, other.words, strict=False)
            first = next(
                (i for i, (a, b) in enumerate(pairs) if a != b), min(len(self), len(other))
            )
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


def count_words(
    lines: Iterable[Sequence[str]], *, least_count: int = 1, most: int | None = None
) -> Vocabulary:
    """Return the vocabulary of a training text: ``<eos>``, then its words by falling frequency.

    Words of equal frequency keep the order in which they first come, as in the published code
    (``src/utils/vocabulary.py`` of https://github.com/IDSIA/lmtool-fwp). If words may be
    left out, by either limit, ``<unk>`` stands for them and comes second.

    Parameters
    ----------
    lines : iterable of sequences of str
        The words of each line, without ``<eos>``.
    least_count : int
        Rarer words are left out.
    most : int, optional
        Size of the vocabulary with ``<eos>`` and ``<unk>``.

    Raises
    ------
    ValueError
        If there are no words.

    Examples
    --------
    >>> count_words([["b", "a"], ["b"]]).words
    ('<eos>', 'b', 'a')
    >>> count_words([["b", "a"], ["b"]], least_count=2).words
    ('<eos>', '<unk>', 'b')
    """
    check_integer("least_count", least_count)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    if not counts:
        raise ValueError("training text must have words, got none")
    kept = [word for word, count in counts.most_common() if count >= least_count]
    kept = [word for word in kept if word != END]
    if least_count == 1 and most is None:
        return Vocabulary((END, *kept))
    room = None if most is None else check_integer("most", most, least=3) - 2
    kept = [word for word in kept if word != UNKNOWN][:room]
    return Vocabulary((END, UNKNOWN, *kept))
