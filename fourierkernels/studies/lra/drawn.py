"""Tasks that are drawn: questions about the order of symbols, and a sequence and its copy.

They are ours, in the manner of the arena: no weighted sum of counts of tokens is right more often
than by chance. In place, lookup, before and copies the same tokens, in another order, have another
class, so that no other rule on counts is either. In all but copies, what matters is found by what
tokens are: another one is asked for in each sequence. Copies can be told by comparing the same two
places in all sequences.

- place: eight symbols, and one that is asked for: is it among the first four?
- lookup: four zeros and four ones, and the number of a place: which of the two is there?
- before: six symbols, and two that are asked for: does the one come before the other?
- names: four of eight names, two with a zero and two with a one: which has the name at the end?
- dictionary: the same with 32 names, at random places among three blanks.
- present: three of 16 symbols, and one that is asked for, among four blanks: is it one of them?
- copies: twelve symbols, a mark, and either the same twelve or the same in another order.

Of lookup there are 560 different sequences, all of which the training set has: there, it is whether
a mixer can express the answer that is tested. Of before, more than a third of the test sequences
are in the training set, too; of the others, nearly none. In a longer sequence the rest are blank
tokens, anywhere among the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.lra.examples import ArenaData, Labels, Tokens, digest_of, packed

COUNTS = {"train": 10_000, "valid": 500, "test": 1_000}
CLASSES = ("0", "1")
LONG = 1_000  # tokens of the longer versions
_SEED = 2020
_SIZE, _VALUES, _FEW = 8, 2, 6  # symbols of a question; different ones of lookup; of before
_COPIED, _ALPHABET, _GIVEN = 12, 8, 4
_MANY, _SYMBOLS, _SHOWN = 32, 16, 3  # names of dictionary; symbols of present, and how many of them
_SPREAD = 8  # tokens of these two, with blanks
Rows = tuple[Tokens, Labels]  # tokens (n, length) and classes (n,)


def _place(count: int, rng: np.random.Generator) -> Rows:
    symbols, places = _orders(_SIZE, count, rng), rng.integers(_SIZE, size=(count, 1))
    asked = _SIZE + np.take_along_axis(symbols, places, 1)
    return np.concatenate([symbols, asked], axis=1), (places[:, 0] < _SIZE // 2).astype(np.int64)


def _lookup(count: int, rng: np.random.Generator) -> Rows:
    symbols, places = _orders(_SIZE, count, rng) % _VALUES, rng.integers(_SIZE, size=(count, 1))
    tokens = np.concatenate([symbols, _VALUES + places], axis=1)
    return tokens, np.take_along_axis(symbols, places, 1)[:, 0]


def _before(count: int, rng: np.random.Generator) -> Rows:
    symbols, asked = _orders(_FEW, count, rng), _orders(_FEW, count, rng)[:, :2]
    places = np.take_along_axis(np.argsort(symbols, axis=1), asked, 1)
    tokens = np.concatenate([symbols, asked + np.array([_FEW, 2 * _FEW])], axis=1)
    return tokens, (places[:, 0] < places[:, 1]).astype(np.int64)


def _names(count: int, rng: np.random.Generator, different: int = _SIZE) -> Rows:
    names = _orders(different, count, rng)[:, :_GIVEN]
    values = _orders(_GIVEN, count, rng) % _VALUES
    places = rng.integers(_GIVEN, size=(count, 1))
    asked, answer = (np.take_along_axis(own, places, 1) for own in (names, values))
    tokens = np.concatenate([_VALUES * names + values, _VALUES * different + asked], axis=1)
    return tokens, answer[:, 0]


def _present(count: int, rng: np.random.Generator) -> Rows:
    symbols, same = _orders(_SYMBOLS, count, rng), np.arange(count) % 2
    asked = np.where(same, symbols[:, 0], symbols[:, _SHOWN])
    shown = rng.permuted(symbols[:, :_SHOWN], axis=1)
    return np.concatenate([shown, _SYMBOLS + asked[:, None]], axis=1), same.astype(np.int64)


def _copies(count: int, rng: np.random.Generator) -> Rows:
    first = rng.integers(_ALPHABET, size=(count, _COPIED))
    other, mark = rng.permuted(first, axis=1), np.full((count, 1), _ALPHABET)
    second = np.where(np.arange(count)[:, None] % 2, first, other)
    same = (second == first).all(axis=1)
    return np.concatenate([first, mark, second], axis=1), same.astype(np.int64)


def _orders(size: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.permuted(np.tile(np.arange(size), (count, 1)), axis=1)


@dataclass(frozen=True)
class Drawn:
    """A task.

    Attributes
    ----------
    title : str
    draw : callable
        From a number of sequences and a generator to their tokens, from 0 on, and their classes.
    tokens : int
        Different tokens, without padding and blanks.
    size : int
        Tokens that are not blank.
    length : int
        All tokens; those that are not blank if 0.
    """

    title: str
    draw: Callable[[int, np.random.Generator], Rows]
    tokens: int
    size: int
    length: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", self.length or self.size)
        check_integer("length", self.length, least=self.size)

    def sequences(self, count: int, rng: np.random.Generator) -> Iterator[tuple[Tokens, int]]:
        """Yield sequences with their classes; the token 0 is left for padding."""
        tokens, labels = self.draw(count, rng)
        for row, label in zip(tokens, labels.tolist(), strict=True):
            places = np.sort(rng.permutation(self.length)[: self.size])
            whole = np.full(self.length, self.tokens + 1)  # blank
            whole[places] = row + 1
            yield whole, label

    def open(self, name: str, folder: Path) -> ArenaData:
        """Return the sequences of all splits, the same ones each time; `folder` is not used."""
        splits = {}
        for number, (split, count) in enumerate(COUNTS.items()):
            pairs = list(self.sequences(count, np.random.default_rng([_SEED, number])))
            splits[split] = packed([row for row, _ in pairs], (label for _, label in pairs))
        rule = digest_of(f"{name} 2 {self.length} {COUNTS} {_SEED}", ())
        task = name.partition("_")[0]
        return ArenaData(task, name, self.title, rule, CLASSES, self.tokens + 2, splits)


_SHORT = {
    "place": Drawn("is a symbol among the first four of eight", _place, 2 * _SIZE, _SIZE + 1),
    "lookup": Drawn("which of two symbols is at a place", _lookup, _VALUES + _SIZE, _SIZE + 1),
    "before": Drawn("does a symbol come before another", _before, 3 * _FEW, _FEW + 2),
    "names": Drawn("which value has a name", _names, 3 * _SIZE, _GIVEN + 1),
    "dictionary": Drawn(
        "which value has one of many names",
        partial(_names, different=_MANY),
        *(3 * _MANY, _GIVEN + 1, _SPREAD),
    ),
    "present": Drawn(
        "is a symbol among three of many", _present, 2 * _SYMBOLS, _SHOWN + 1, _SPREAD
    ),
    "copies": Drawn("is a sequence repeated in order", _copies, _ALPHABET + 1, 2 * _COPIED + 1),
}
_LONG = {f"{name}_{LONG}": replace(task, length=LONG) for name, task in _SHORT.items()}
DRAWN: dict[str, Drawn] = {**_SHORT, **_LONG}
DRAWN_SETS: dict[str, DataSet[ArenaData]] = {
    name: DataSet(
        title=f"{task.title}, {task.length} tokens, {sum(COUNTS.values()):,} sequences",
        source="drawn when they are read",
        layout="no folder",
        open=partial(task.open, name),
        needs_folder=False,
    )
    for name, task in DRAWN.items()
}
