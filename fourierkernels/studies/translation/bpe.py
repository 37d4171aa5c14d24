"""One vocabulary of subwords for both languages, by byte-pair encoding [sennrich2016neural]_.

The library tokenizers learns and applies it. Words are split from punctuation marks before, and a
blank belongs to what follows it, as ``▁``; a text is its subwords joined. The file is JSON.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.words import MARKS, Vocabulary

with needed_for("a vocabulary of subwords"):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

PADDING, START, STOP, UNKNOWN = range(len(MARKS))
_LEAST_COUNT = 2  # a pair of subwords that comes once is not merged, as in subword-nmt
_PIECES = r"▁?\w+|▁?[^\w▁]|▁"


@dataclass(frozen=True)
class Bpe:
    """Subwords and their numbers, of which the first four are marks.

    Text that looks like a mark, such as ``</s>``, is text.
    """

    tokenizer: Tokenizer = field(repr=False)

    def __len__(self) -> int:
        size: int = self.tokenizer.get_vocab_size()
        return size

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The subwords."""
        numbers = self.tokenizer.get_vocab()
        return Vocabulary(tuple(sorted(numbers, key=lambda word: int(numbers[word]))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of each text, without marks of start and end."""
        found = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [each.ids for each in found]

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of numbers, without padding and marks of start and end."""
        kept = [int(number) for number in numbers if number not in (PADDING, START, STOP)]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False)
        return text

    def targets_first(self, targets: Iterable[Sequence[int]]) -> "tuple[Bpe, int]":
        """Return the same subwords, those of the targets numbered first, and how many these are.

        Two vocabularies then are one file: that of the targets is the beginning of the other.

        Parameters
        ----------
        targets : iterable of sequences of int
            The numbers of training targets; marks always belong to them.
        """
        used = set(range(len(MARKS))).union(*targets)
        order = sorted(range(len(self)), key=lambda number: (number not in used, number))
        numbers = {old: new for new, old in enumerate(order)}
        described = json.loads(self.tokenizer.to_str())
        words = described["model"]["vocab"]
        described["model"]["vocab"] = {word: numbers[old] for word, old in words.items()}
        return Bpe(_as_text(Tokenizer.from_str(json.dumps(described)))), len(used)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_text(path, self.tokenizer.to_str())

    @classmethod
    def load(cls, path: Path) -> "Bpe":
        """Return the subwords that :meth:`save` wrote; no code is run.

        Raises
        ------
        ValueError
            If there is no such file, or another one.
        """
        if not path.is_file():
            raise ValueError(f"subwords must be a file, got {path}")
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # tokenizers raises nothing more exact
            raise ValueError(f"{path} must be a file of subwords, got {error}") from error
        found = tuple(tokenizer.id_to_token(number) for number in range(len(MARKS)))
        if found != MARKS:
            raise ValueError(f"{path} must begin with {', '.join(MARKS)}, got {found}")
        return cls(_as_text(tokenizer))


def learn_bpe(lines: Iterable[str], size: int) -> Bpe:
    """Return the subwords of the lines of both languages.

    Parameters
    ----------
    size : int
        Largest vocabulary, marks included; a small text has fewer subwords that come twice.

    Raises
    ------
    ValueError
        If there is no text.

    Examples
    --------
    >>> bpe = learn_bpe(["the cat, the hat", "il gatto"], size=100)
    >>> bpe.decode(bpe.encode(["the gatto, the dog"])[0]), len(bpe) < 100
    ('the gatto, the <unk>og', True)
    """
    check_integer("size", size, least=len(MARKS) + 1)
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        raise ValueError("training text must have lines, got none")
    tokenizer = Tokenizer(models.BPE(unk_token=MARKS[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(split=False), pre_tokenizers.Split(Regex(_PIECES), "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=_LEAST_COUNT,
        special_tokens=list(MARKS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(chain([first], rest), trainer)
    return Bpe(_as_text(tokenizer))


def _as_text(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that takes marks in a text for text, which its file does not say."""
    tokenizer.encode_special_tokens = True
    return tokenizer
