"""IWSLT'14 as it is distributed, prepared as published results on it are.

The facts are those of ``examples/translation/prepare-iwslt14.sh`` of
https://github.com/facebookresearch/fairseq: lines of the tags url, talkid and keywords are dropped,
the tags title and description are taken off; pairs with a side of more than 175 words, or with more
than 1.5 times as many words on one side, are dropped; all is put into lower case; every 23rd pair
is for validation; the test set is dev2010, TEDX.dev2012, tst2010, tst2011 and tst2012 together.
There words are those of Moses' tokenizer; here they are words and punctuation marks, so the counts
may differ by a few pairs, and the subwords are learnt here.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from fourierkernels.studies.texts.plain import words_of
from fourierkernels.studies.texts.token_files import SPLITS
from fourierkernels.studies.translation.lines import pairs_of_segments
from fourierkernels.studies.translation.pairs import (
    TEXT_FILTERS,
    Filter,
    Pair,
    PairSource,
    Sides,
    check_files,
    lines_of,
    side_by_side,
    sieve,
    source_of_sides,
)

NAME = "de-en"
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
LONGEST, RATIO, EVERY = 175, 1.5, 23
_DROPPED = re.compile(r"<(?:url|talkid|keywords)>")
_TALK = re.compile(r"<talkid>\s*(\w+)")
_STRIPPED = re.compile(r"</?(?:title|description)>")


def _words(pair: Pair) -> tuple[int, int]:
    """Return the fewer and the more words of the two sides."""
    n, m = len(words_of(pair.source)), len(words_of(pair.target))
    return min(n, m), max(n, m)


def _unequal(pair: Pair) -> bool:
    few, many = _words(pair)
    return many > RATIO * few


FILTERS = (
    *TEXT_FILTERS[:2],
    Filter(f"a side of more than {LONGEST} words", lambda pair: _words(pair)[1] > LONGEST),
    Filter(f"more than {RATIO} times as many words on one side", _unequal),
)


def is_iwslt(folder: Path) -> bool:
    """Return whether a folder, or the one named de-en in it, is that of IWSLT'14."""
    return any(_home(folder).glob("train.tags.de-en.*")) or any(_home(folder).glob("IWSLT14.TED*"))


def open_iwslt(folder: Path, pair: tuple[str, str] | None) -> PairSource:
    """Return the texts of a folder de-en.

    Parameters
    ----------
    pair : tuple of str or None
        ``("de", "en")``, which is the default, or the reverse.

    Raises
    ------
    ValueError
        If a file is missing or the languages are others.
    """
    languages, home = pair or ("de", "en"), _home(folder)
    if sorted(languages) != ["de", "en"]:
        raise ValueError(f"pair must be de-en or en-de for IWSLT'14, got {'-'.join(languages)}")
    train = _sides(home, "train.tags.de-en.{}", languages)
    tests = [_sides(home, f"IWSLT14.{name}.de-en.{{}}.xml", languages) for name in TEST_SETS]
    facts = source_of_sides(
        "IWSLT'14 de-en", languages, {"train": [train], "test": tests}, "iwslt14 as published"
    )

    def pairs(split: str, dropped: Counter[str]) -> Iterator[Pair]:
        if split == "test":
            found = (pair for sides in tests for pair in pairs_of_segments(sides))
            return (lowered(pair, apostrophes=True) for pair in found)
        return _part(train, split, dropped)

    return PairSource(*facts, pairs, SPLITS, prepared=True)


def talks(sides: Sides) -> Iterator[Pair]:
    """Yield the pairs of the two tagged texts, with the number of their talk."""
    texts = side_by_side(lines_of(sides[0]), lines_of(sides[1]), sides)
    document = ""
    for source, target in texts:
        if talk := _TALK.search(source):
            document = f"talk {talk[1]}"
        tagged = _DROPPED.search(source), _DROPPED.search(target)
        if any(tagged):
            if not all(tagged):
                raise ValueError(
                    f"{sides[1]} must have the tags of {sides[0]}, {source[:60]!r}, "
                    f"got {target[:60]!r}"
                )
            continue
        yield Pair(_STRIPPED.sub("", source).strip(), _STRIPPED.sub("", target).strip(), document)


def lowered(pair: Pair, *, apostrophes: bool = False) -> Pair:
    """Return a pair in lower case, with straight apostrophes where the preparation has them."""
    sides = (side.replace("’", "'") if apostrophes else side for side in pair[:2])
    source, target = (side.lower() for side in sides)
    return Pair(source, target, pair.document)


def _part(train: Sides, split: str, dropped: Counter[str]) -> Iterator[Pair]:
    """Yield every 23rd pair, or the others; what is dropped counts for the training text."""
    counts = dropped if split == "train" else Counter[str]()
    kept: Iterable[Pair] = sieve(talks(train), counts, FILTERS)
    for number, pair in enumerate(kept, start=1):
        if (number % EVERY == 0) == (split == "valid"):
            yield lowered(pair)


def _home(folder: Path) -> Path:
    return folder / NAME if (folder / NAME).is_dir() else folder


def _sides(home: Path, name: str, languages: tuple[str, str]) -> Sides:
    check_files(home, [name.format(language) for language in languages])
    return home / name.format(languages[0]), home / name.format(languages[1])
