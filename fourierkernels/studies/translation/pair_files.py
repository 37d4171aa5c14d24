"""Pairs as files of numbers, sorted by length class and mapped into memory.

As in :mod:`fourierkernels.studies.texts.token_files`, a folder is named by a digest of all that
decides its content, appears complete or not at all, and may be larger than memory. The pairs of a
length class lie together, a shard of the file of their split.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.words import Vocabulary
from fourierkernels.studies.texts.token_files import SPLITS, mapped, number_type, read_facts
from fourierkernels.studies.translation.bpe import Bpe
from fourierkernels.studies.translation.pairs import filter_table

INDEX = np.dtype([("start", "<i8"), ("source", "<u4"), ("target", "<u4")])
_FLUSH = 1 << 16  # numbers of a shard that are kept before they are written
_COPIED = 1 << 20


class Shards:
    """The pairs of each split and length class, in files of their own until they are joined.

    Parameters
    ----------
    folder : Path
        Where the files are.
    classes : int
        How many classes there are at least; longer pairs make more.
    dtype : dtype
        Of the numbers.
    unknown : int
        The number that stands for what the vocabulary does not have.
    """

    def __init__(self, folder: Path, classes: int, dtype: np.dtype[Any], unknown: int) -> None:
        self._folder, self._dtype, self._mark = folder, dtype, unknown
        self.shards: dict[str, list[_Shard]] = {split: [] for split in SPLITS}
        self._unknown = dict.fromkeys(SPLITS, 0)
        for split in SPLITS:
            self._grow(split, classes)

    def add(self, split: str, place: int, source: Sequence[int], target: Sequence[int]) -> None:
        """Add a pair to a class."""
        self._grow(split, place + 1)
        self.shards[split][place].add(source, target)
        self._unknown[split] += source.count(self._mark) + target.count(self._mark)

    def _grow(self, split: str, classes: int) -> None:
        for place in range(len(self.shards[split]), classes):
            self.shards[split].append(_Shard(self._folder / f"{split}-{place}", self._dtype))

    def join(self) -> dict[str, dict[str, Any]]:
        """Write one file of numbers and one of places for each split; return what is in them.

        Raises
        ------
        ValueError
            If a split has no pair.
        """
        counts, classes = {}, {}
        for split, shards in self.shards.items():
            classes[split] = [shard.pairs for shard in shards]
            if not sum(classes[split]):
                every = sum(shard.pairs for each in self.shards.values() for shard in each)
                raise ValueError(
                    f"{split} text must have at least one pair, got 0 of {every} pairs; texts that "
                    "are split here need several documents"
                )
            counts[split] = self._join(split, shards)
        return {"counts": counts, "classes": classes, "unknown": self._unknown}

    def _join(self, split: str, shards: Sequence["_Shard"]) -> int:
        start = 0
        numbers, places = self._folder / f"{split}.bin", self._folder / f"{split}.index"
        with numbers.open("wb") as out, places.open("wb") as index:
            for shard in shards:
                shard.flush()
                for lengths in shard.lengths():
                    rows = np.empty(len(lengths), dtype=INDEX)
                    rows["source"], rows["target"] = lengths.T
                    ends = start + np.cumsum(lengths.sum(axis=1, dtype=np.int64))
                    rows["start"] = np.concatenate(([start], ends[:-1]))
                    start = int(ends[-1])
                    index.write(rows.tobytes())
                with shard.numbers.open("rb") as content:
                    while block := content.read(_COPIED):
                        out.write(block)
                shard.remove()
        return start


class _Shard:
    """The pairs of one class, of which few are in memory."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.numbers, self._lengths = path.with_suffix(".numbers"), path.with_suffix(".lengths")
        self._dtype, self.pairs = dtype, 0
        self._kept, self._sides = array("L"), array("L")

    def add(self, source: Sequence[int], target: Sequence[int]) -> None:
        self._kept.extend(source)
        self._kept.extend(target)
        self._sides.extend((len(source), len(target)))
        self.pairs += 1
        if len(self._kept) >= _FLUSH:
            self.flush()

    def flush(self) -> None:
        for path, kept, dtype in (
            (self.numbers, self._kept, self._dtype),
            (self._lengths, self._sides, np.dtype("<u4")),
        ):
            with path.open("ab") as out:
                out.write(np.array(kept, dtype=dtype).tobytes())
        self._kept, self._sides = array("L"), array("L")

    def lengths(self) -> Iterator[np.ndarray[Any, np.dtype[np.uint32]]]:
        """Yield the lengths of both sides, ``(n, 2)``, many pairs at a time."""
        with self._lengths.open("rb") as content:
            while block := content.read(_COPIED):
                yield np.frombuffer(block, dtype="<u4").reshape(-1, 2)

    def remove(self) -> None:
        self.numbers.unlink()
        self._lengths.unlink()


BPE = "bpe.json"
_NAMES = (
    *("corpus", "source", "languages", "digest", "counts", "unknown", "target_words"),
    *("classes", "dropped", "crossing", "crossing_at_random", "copied"),
)


@dataclass(frozen=True)
class PairFiles:
    """A corpus of two languages as numbers of subwords.

    Attributes
    ----------
    folder : Path
        With ``train.bin`` and ``train.index``, the same of valid and test, ``bpe.json`` and
        ``tokens.json``.
    corpus : str
        The reader's name.
    source : str
        What was read, for messages and results.
    languages : list of str
        Source and target.
    digest : str
        SHA-256 of the texts and of how they are read, filtered, split and encoded.
    target_words : int or None
        How many subwords, the first ones, the vocabulary of the targets has; None if both languages
        have one.
    counts, unknown : mapping of str to int
        Tokens of each split, both sides together, and how many of them are ``<unk>``.
    classes : mapping of str to list of int
        Pairs of each length class, by split.
    dropped : mapping of str to mapping of str to int
        What was left out of each split, and for which reason; "all" is before the split. Nothing is
        left out of a validation or test text that the data set gives.
    crossing, crossing_at_random : int
        Held-out pairs that have a near-duplicate in another split, as they are here, and if pairs
        were drawn one by one.
    copied : mapping of str to int
        Pairs of each held-out split that are exact copies of training pairs.
    """

    folder: Path
    corpus: str
    source: str
    languages: list[str]
    digest: str
    target_words: int | None
    counts: Mapping[str, int]
    unknown: Mapping[str, int]
    classes: Mapping[str, list[int]]
    dropped: Mapping[str, Mapping[str, int]]
    crossing: int
    crossing_at_random: int
    copied: Mapping[str, int]
    bpe: Bpe = field(repr=False)

    @property
    def length_ratio(self) -> float:
        """Subwords of the sources over those of the targets, in the training pairs."""
        index = self.index("train")
        return float(index["source"].sum() / index["target"].sum())

    @property
    def vocabulary(self) -> Vocabulary:
        """The subwords by their numbers."""
        return self.bpe.vocabulary

    @property
    def outputs(self) -> int:
        """Subwords that a target can have."""
        return len(self.vocabulary) if self.target_words is None else self.target_words

    @property
    def pairs(self) -> dict[str, int]:
        """Pairs of each split."""
        return {split: sum(classes) for split, classes in self.classes.items()}

    def tokens(self, split: str) -> NDArray[np.unsignedinteger[Any]]:
        """Return the numbers of a split, ``(n,)``, pair by pair, sources before targets.

        Raises
        ------
        ValueError
            If the file has been cut off or changed in size.
        """
        dtype = number_type(len(self.bpe))
        return mapped(self.folder / f"{split}.bin", dtype, self.counts[split])

    def index(self, split: str) -> NDArray[np.void]:
        """Return where each pair starts and how long its sides are: type :data:`INDEX`."""
        return mapped(self.folder / f"{split}.index", INDEX, self.pairs[split])

    def table(self) -> str:
        """Return what each filter left out, as a table."""
        return filter_table(self.dropped, self.pairs)

    def longer(self, tokens: int) -> dict[str, int]:
        """Return how many pairs of each split have a side of more tokens than that."""
        sides = {split: self.index(split) for split in SPLITS}
        return {
            split: int((np.maximum(index["source"], index["target"]) > tokens).sum())
            for split, index in sides.items()
        }


def open_pair_files(folder: Path) -> PairFiles:
    """Return the files that lie in a folder.

    Raises
    ------
    ValueError
        If it is no folder of such files, or was damaged since.
    """
    known = read_facts(folder, _NAMES)
    return PairFiles(folder=folder, bpe=Bpe.load(folder / BPE), **known)
