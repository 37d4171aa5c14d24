"""Sentences and their translations before they are numbered, and what is left out of them.

What is left out of a corpus of pairs, and the table of how much that was.

[chen_attention]_ section 4.1 drops pairs longer than 50 and pairs whose lengths differ by more than
20. Both are lengths of encoded sentences, the only lengths that the section has; the count of table
1, 1.73 of 1.9 million, shows that longer sentences were dropped, not shortened.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeVar

from fourierkernels.foundation.files import file_digest
from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.texts.source import single_blanks, text_lines
from fourierkernels.studies.texts.token_files import SPLITS

S = TypeVar("S")
T = TypeVar("T")
LONGEST_LINE = 10_000  # characters; more is no sentence
WHOLE = "all"


class Pair(NamedTuple):
    """A sentence, its translation, and the document that it is from.

    Attributes
    ----------
    source, target : str
        With single blanks.
    document : str
        Empty if it is not known: then the pair is a document of its own.
    """

    source: str
    target: str
    document: str = ""


@dataclass(frozen=True)
class PairSource:
    """The texts of a corpus of two languages.

    Attributes
    ----------
    name : str
        What is read, for messages and results.
    languages : tuple of str
        Source and target.
    digest : str
        SHA-256 of the texts and of how they are read.
    pairs : callable
        From a split and a counter, which is given what the reader itself leaves out, to the pairs.
    splits : tuple of str
        "train", "valid" and "test" as they are distributed, or "all", which is to be split.
    subwords : Path or None
        A file of subwords that the texts come with; None if they are to be learnt. The digest
        covers it.
    prepared : bool
        Whether the reader leaves out what a published preparation does: then nothing more is left
        out of the training text, but for lengths.
    """

    name: str
    languages: tuple[str, str]
    digest: str
    pairs: Callable[[str, Counter[str]], Iterator[Pair]]
    splits: tuple[str, ...] = (WHOLE,)
    subwords: Path | None = None
    prepared: bool = False


Sides = tuple[Path, Path]


def source_of_sides(
    name: str, languages: tuple[str, str], files: Mapping[str, Sequence[Sides]], reader: str
) -> tuple[str, tuple[str, str], str]:
    """Return the name, the languages and the digest of files of two languages.

    Parameters
    ----------
    files : mapping
        From a split to its files.
    reader : str
        Name of how they are read, for the digest.
    """
    digest = hashlib.sha256(f"{reader} {' '.join(languages)}".encode())
    for split, pairs in files.items():
        digest.update(split.encode())
        for sides in pairs:
            digest.update("".join(file_digest(path) for path in sides).encode())
    return name, languages, digest.hexdigest()


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text, cut off where they are longer than any sentence."""
    for line in text_lines(path, most=4 * LONGEST_LINE + 8):  # bytes: UTF-8 has at most 4 for each
        yield single_blanks(line)


def side_by_side(left: Iterable[S], right: Iterable[T], sides: Sides) -> Iterator[tuple[S, T]]:
    """Yield the lines of two texts together.

    Raises
    ------
    ValueError
        At the end, if one has more lines than the other.
    """
    counts = [0, 0]
    for pair in zip_longest(left, right):
        counts[0] += pair[0] is not None
        counts[1] += pair[1] is not None
        if counts[0] == counts[1]:
            yield pair
    if counts[0] != counts[1]:
        raise ValueError(
            f"{sides[1]} must have as many lines as {sides[0]}, {counts[0]}, got {counts[1]}"
        )


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Raise ValueError if files are missing from a folder, naming the first few it has."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
        raise ValueError(f"{folder} must have {', '.join(missing)}, got {there}")


def split_names(found: Iterable[str]) -> tuple[str, ...]:
    """Return the splits that are there, in their order."""
    known = set(found)
    return tuple(split for split in (*SPLITS, WHOLE) if split in known)


DUPLICATE = "an exact copy of another pair"
CROSSING = "nearly the same as a pair of a held-out split"


@dataclass(frozen=True)
class Filter:
    """One row of :data:`TEXT_FILTERS`.

    Attributes
    ----------
    name : str
        What it leaves out, for the table.
    drops : callable
        From a pair to whether it is left out.
    """

    name: str
    drops: Callable[[Pair], bool]


# The first filter that drops a pair counts it.
TEXT_FILTERS = (
    Filter("an empty side", lambda pair: not (pair.source and pair.target)),
    Filter(
        f"a side of more than {LONGEST_LINE:,} characters",
        lambda pair: max(len(pair.source), len(pair.target)) > LONGEST_LINE,
    ),
    Filter("two identical sides", lambda pair: pair.source == pair.target),
)


@dataclass(frozen=True)
class LengthRule:
    """Which lengths after BPE are kept.

    Attributes
    ----------
    longest : int
        Most tokens of either side, without the marks of start and end.
    difference : int
        Largest difference of the numbers of tokens.
    """

    longest: int = 50
    difference: int = 20

    def __post_init__(self) -> None:
        check_integer("longest", self.longest)
        check_integer("difference", self.difference, least=0)

    def reason(self, source: int, target: int) -> str | None:
        """Return why a pair of so many tokens is left out; None if it is not."""
        if max(source, target) > self.longest:
            return f"a side of more than {self.longest} tokens"
        if abs(source - target) > self.difference:
            return f"sides that differ by more than {self.difference} tokens"
        return None


def sieve(
    pairs: Iterable[Pair], dropped: Counter[str], filters: Sequence[Filter] = TEXT_FILTERS
) -> Iterator[Pair]:
    """Yield the pairs that no filter drops, and count the others."""
    for pair in pairs:
        reason = next((row.name for row in filters if row.drops(pair)), None)
        if reason is None:
            yield pair
        else:
            dropped[reason] += 1


def filter_table(dropped: Mapping[str, Mapping[str, int]], kept: Mapping[str, int]) -> str:
    """Return a table of what was left out of each split and of what was kept, a line per filter.

    Examples
    --------
    >>> print(filter_table({"train": {"an empty side": 2}}, {"train": 10, "test": 1}))
        train     test
            2        0  an empty side
           10        1  kept
    """
    splits = list(dict.fromkeys([*dropped, *kept]))
    reasons = list(dict.fromkeys(reason for counts in dropped.values() for reason in counts))
    lines = ["".join(f"{split:>9}" for split in splits)]
    for reason in reasons:
        numbers = (dropped.get(split, {}).get(reason, 0) for split in splits)
        lines.append("".join(f"{number:>9}" for number in numbers) + f"  {reason}")
    lines.append("".join(f"{kept.get(split, 0):>9}" for split in splits) + "  kept")
    return "\n".join(lines)
