"""Pairs as files of numbers, sorted by length class and mapped into memory.

As in :mod:`fourierkernels.studies.texts.token_files`, a folder is named by a digest of all that
decides its content, appears complete or not at all, and may be larger than memory. The pairs of a
length class lie together, a shard of the file of their split.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.words import Vocabulary
from fourierkernels.studies.texts.token_files import mapped, number_type, read_facts
from fourierkernels.studies.translation.bpe import Bpe
from fourierkernels.studies.translation.filters import filter_table
from fourierkernels.studies.translation.shards import INDEX

BPE = "bpe.json"
_NAMES = (
    *("corpus", "source", "languages", "digest", "counts", "unknown"),
    *("classes", "dropped", "crossing", "crossing_at_random"),
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
    counts, unknown : mapping of str to int
        Tokens of each split, both sides together, and how many of them are ``<unk>``.
    classes : mapping of str to list of int
        Pairs of each length class, by split.
    dropped : mapping of str to mapping of str to int
        What was left out of each split, and for which reason; "all" is before the split.
    crossing, crossing_at_random : int
        Held-out pairs that have a near-duplicate in another split, as they are here, and if pairs
        were drawn one by one.
    """

    folder: Path
    corpus: str
    source: str
    languages: list[str]
    digest: str
    counts: Mapping[str, int]
    unknown: Mapping[str, int]
    classes: Mapping[str, list[int]]
    dropped: Mapping[str, Mapping[str, int]]
    crossing: int
    crossing_at_random: int
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


def open_pair_files(folder: Path) -> PairFiles:
    """Return the files that lie in a folder.

    Raises
    ------
    ValueError
        If it is no folder of such files, or was damaged since.
    """
    known = read_facts(folder, _NAMES)
    return PairFiles(folder=folder, bpe=Bpe.load(folder / BPE), **known)
