"""Building the files of a corpus of two languages: filtered, split, encoded, sorted by class.

Texts are read pair by pair, three times: to split them, to learn the subwords, and to number them.
What is split here is filtered before, as a whole. Where the data have a validation and a test text,
these are kept as they are, whatever their lengths: only the training text is filtered.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fourierkernels.foundation.files import remove_unfinished, write_folder
from fourierkernels.studies.texts.token_files import FACTS, SPLITS, cache_folder, number_type
from fourierkernels.studies.translation.bpe import UNKNOWN, Bpe, learn_bpe
from fourierkernels.studies.translation.classes import WIDTH, length_class
from fourierkernels.studies.translation.pair_files import BPE, PairFiles, Shards, open_pair_files
from fourierkernels.studies.translation.pairs import (
    CROSSING,
    DUPLICATE,
    WHOLE,
    LengthRule,
    Pair,
    PairSource,
    sieve,
)
from fourierkernels.studies.translation.splitting import (
    COPY,
    CROSSED,
    TRAIN,
    Parts,
    Survey,
    copied,
    copies,
    crossing,
    given_split,
    random_split,
    split_pairs,
    survey,
)

FORMAT = 1
_LAYOUT = 2  # of the folder; part of its name and not of the digest
_CHUNK = 1000  # pairs that are encoded together


def build_pair_files(
    corpus: str,
    source: PairSource,
    *,
    size: int,
    rule: LengthRule | None = None,
    shared: bool = True,
    folder: Path | None = None,
) -> PairFiles:
    """Return the files of a corpus, built if they do not exist yet.

    Parameters
    ----------
    corpus : str
        Name of the reader.
    size : int
        Largest vocabulary.
    rule : LengthRule, optional
        Lengths that are kept, of the training text where the splits are given; those of the report
        by default.
    shared : bool
        Whether both languages have one vocabulary. Else that of the targets has the subwords of the
        training targets alone, and any other one is unknown there.
    folder : Path, optional
        Folder of all token files,
        :func:`~fourierkernels.studies.texts.token_files.cache_folder` by default.

    Raises
    ------
    ValueError
        If a text cannot be read, a split has no pair, or the texts come with more subwords.
    """
    rule = rule or LengthRule()
    given = _given(source, size)
    known = hashlib.sha256(f"pairs {FORMAT} {source.digest} {size}".encode()).hexdigest()
    how = ("" if _splits_here(source) else " train") + ("" if shared else " apart")
    key = hashlib.sha256(f"{known} {rule} {WIDTH}{how}".encode()).hexdigest()
    parent = cache_folder() if folder is None else folder
    home = parent / hashlib.sha256(f"{key} {_LAYOUT}".encode()).hexdigest()[:32]
    if not home.is_dir():
        plan = _plan(source)
        place = parent / f"bpe-{known[:28]}"
        bpe = _learnt(place, source, plan.parts, size) if given is None else given
        words = None
        if not shared:
            bpe, words = bpe.targets_first(_training_targets(source, plan.parts, bpe))
        names = _Names(corpus, source.name, key, list(source.languages), words)
        _build(home, names, source, plan, bpe, rule)
    return open_pair_files(home)


def split_texts(source: PairSource) -> Iterator[tuple[str, Pair]]:
    """Yield the pairs of a corpus that are in a split, with its name; no length is filtered."""
    for chunk in _chunks(source, _plan(source).parts):
        yield from ((split, pair) for pair, split in chunk)


@dataclass(frozen=True)
class _Plan:
    """Where each pair goes, and what is left out before and by that."""

    parts: Parts
    dropped: dict[str, Counter[str]]
    crossing: int
    crossing_at_random: int
    copied: dict[str, int]


def _splits_here(source: PairSource) -> bool:
    return source.splits == (WHOLE,)


def _read(source: PairSource, split: str, dropped: Counter[str]) -> Iterator[Pair]:
    """Return the pairs of a text; those of a held-out text that is given are all kept."""
    pairs = source.pairs(split, dropped)
    sieved = split in (WHOLE, "train") and not source.prepared
    return sieve(pairs, dropped) if sieved else pairs


def _read_all(source: PairSource) -> Iterator[Pair]:
    """Yield the pairs in the order of the parts of a plan."""
    for split in source.splits:
        yield from _read(source, split, Counter())


def _plan(source: PairSource) -> _Plan:
    dropped = {split: Counter[str]() for split in source.splits}
    sizes: Counter[str] = Counter()

    def counted() -> Iterator[Pair]:
        for split in source.splits:
            for pair in _read(source, split, dropped[split]):
                sizes[split] += 1
                yield pair

    found = survey(counted())
    parts = _parts(found, source, sizes)
    _count(dropped.setdefault(WHOLE, Counter()), parts)
    at_random = random_split(len(parts))
    at_random[parts == COPY] = COPY
    shared = crossing(found, parts), crossing(found, at_random)
    return _Plan(parts, dropped, *shared, copied(found, parts))


def _parts(found: Survey, source: PairSource, sizes: Mapping[str, int]) -> Parts:
    """Return the split of each pair; splits that are given stay but for copies in the training."""
    if _splits_here(source):
        return split_pairs(found)
    parts = given_split((split, sizes[split]) for split in source.splits)
    if not source.prepared:
        parts[copies(found, parts == TRAIN)] = COPY
    return parts


def _count(dropped: Counter[str], parts: Parts) -> None:
    for reason, part in ((DUPLICATE, COPY), (CROSSING, CROSSED)):
        if count := int((parts == part).sum()):
            dropped[reason] += count


def _given(source: PairSource, size: int) -> Bpe | None:
    """Return the subwords that a corpus comes with, if it does."""
    if source.subwords is None:
        return None
    bpe = Bpe.load(source.subwords)
    if len(bpe) > size:
        raise ValueError(f"{source.subwords} must have at most {size} subwords, got {len(bpe)}")
    return bpe


def _learnt(home: Path, source: PairSource, parts: Parts, size: int) -> Bpe:
    """Return the subwords of the training text, learnt if they have not been."""

    def lines() -> Iterator[str]:
        for pair, part in zip(_read_all(source), parts, strict=True):
            if part == TRAIN:
                yield from pair[:2]

    if not home.is_dir():
        bpe = learn_bpe(lines(), size)
        write_folder(home, lambda folder: bpe.save(folder / BPE))
    return Bpe.load(home / BPE)


def _training_targets(source: PairSource, parts: Parts, bpe: Bpe) -> Iterator[list[int]]:
    for chunk in _chunks(source, parts):
        yield from bpe.encode([pair.target for pair, split in chunk if split == "train"])


class _Names(NamedTuple):
    """What the facts of the files say of them besides counts."""

    corpus: str
    source: str
    digest: str
    languages: list[str]
    target_words: int | None


def _build(
    home: Path,
    names: _Names,
    source: PairSource,
    plan: _Plan,
    bpe: Bpe,
    rule: LengthRule,
) -> None:
    remove_unfinished(home.parent)
    classes = length_class(rule.longest) + 1
    dropped = {**plan.dropped, **{split: plan.dropped.get(split, Counter()) for split in SPLITS}}
    filtered = SPLITS if _splits_here(source) else ("train",)

    def fill(folder: Path) -> None:
        shards = Shards(folder, classes, number_type(len(bpe)), UNKNOWN)
        for chunk in _chunks(source, plan.parts):
            sides = [bpe.encode([pair[side] for pair, _ in chunk]) for side in (0, 1)]
            sides[1] = _known(sides[1], names.target_words)
            for ours, theirs, (_, split) in zip(*sides, chunk, strict=True):
                reason = rule.reason(len(ours), len(theirs)) if split in filtered else None
                if reason:
                    dropped[split][reason] += 1
                else:
                    shards.add(split, length_class(len(ours)), ours, theirs)
        facts = shards.join() | {
            "dropped": {split: dict(counts) for split, counts in dropped.items()},
            "crossing": plan.crossing,
            "crossing_at_random": plan.crossing_at_random,
            "copied": plan.copied,
        }
        bpe.save(folder / BPE)
        text = json.dumps({**names._asdict(), **facts}, indent=2) + "\n"
        (folder / FACTS).write_text(text, encoding="utf-8")

    write_folder(home, fill)


def _known(targets: list[list[int]], words: int | None) -> list[list[int]]:
    """Return targets in which numbers beyond their vocabulary, if they have one, are unknown."""
    if words is None:
        return targets
    return [[number if number < words else UNKNOWN for number in each] for each in targets]


def _chunks(source: PairSource, parts: Parts) -> Iterator[list[tuple[Pair, str]]]:
    """Yield the pairs that are in a split, with its name, many at a time."""
    kept: list[tuple[Pair, str]] = []
    for pair, part in zip(_read_all(source), parts, strict=True):
        if part >= 0:
            kept.append((pair, SPLITS[part]))
        if len(kept) == _CHUNK:
            yield kept
            kept = []
    if kept:
        yield kept
