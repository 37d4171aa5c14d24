"""Texts as files of word numbers, built once and mapped into memory.

A corpus is larger than memory: texts are read line by line, twice for the training text (to count
its words and to number them), and the numbers are mapped from the disk while they are used. The
files of a corpus lie in one folder, whose name is a digest of the texts and of how they are read;
it appears complete or not at all.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.files import remove_unfinished, write_folder
from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.words import END, UNKNOWN, Vocabulary


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


SPLITS = ("train", "valid", "test")
FORMAT = 1
FACTS = "tokens.json"
_FLUSH = 1 << 18  # numbers kept before they are written
_CACHE = "FOURIERKERNELS_CACHE"

LineReader = Callable[[str], Iterable[Sequence[str]]]


@dataclass(frozen=True)
class TokenFiles:
    """A corpus as numbers of words.

    Attributes
    ----------
    folder : Path
        With ``train.bin``, ``valid.bin``, ``test.bin``, ``vocabulary.txt`` and ``tokens.json``.
    corpus : str
        The reader's name.
    source : str
        What was read, for messages and results.
    digest : str
        SHA-256 of the texts and of how they are read.
    counts, unknown : mapping of str to int
        Tokens of each split, and how many of them are ``<unk>``.
    """

    folder: Path
    corpus: str
    source: str
    digest: str
    counts: Mapping[str, int]
    unknown: Mapping[str, int]
    vocabulary: Vocabulary = field(repr=False)

    def tokens(self, split: str) -> NDArray[np.unsignedinteger[Any]]:
        """Return the numbers of a split, ``(n,)``, mapped from its file, which is not read.

        Raises
        ------
        ValueError
            If the file has been cut off or changed in size.
        """
        dtype = number_type(len(self.vocabulary))
        return mapped(self.folder / f"{split}.bin", dtype, self.counts[split])


def cache_folder() -> Path:
    """Return the folder of all token files: $FOURIERKERNELS_CACHE, or one in the user's cache."""
    named = os.environ.get(_CACHE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fourierkernels"


def build_token_files(
    corpus: str,
    source: str,
    lines: LineReader,
    *,
    digest: str,
    least_count: int = 1,
    most: int | None = None,
    folder: Path | None = None,
) -> TokenFiles:
    """Return the token files of a corpus, built if they do not exist yet.

    Parameters
    ----------
    corpus, source : str
        Names of the reader and of what it reads.
    lines : callable
        From a split to the words of each of its lines; called twice for "train".
    digest : str
        Of the texts and of all that decides how they are split into words.
    least_count, most : int
        Of the vocabulary; see :func:`~fourierkernels.studies.texts.token_files.count_words`.
    folder : Path, optional
        Folder of all token files, :func:`cache_folder` by default.

    Raises
    ------
    ValueError
        If a text is empty or has words that the vocabulary cannot stand for.
    """
    key = hashlib.sha256(f"{FORMAT} {digest} {least_count} {most}".encode()).hexdigest()
    home = (cache_folder() if folder is None else folder) / key[:32]
    if not home.is_dir():
        _build(home, {"corpus": corpus, "source": source, "digest": key}, lines, least_count, most)
    return open_token_files(home)


def open_token_files(folder: Path) -> TokenFiles:
    """Return the token files that lie in a folder.

    Raises
    ------
    ValueError
        If the folder was not written by :func:`build_token_files`, or was damaged since.
    """
    known = read_facts(folder, ("corpus", "source", "digest", "counts", "unknown"))
    vocabulary = Vocabulary.load(folder / "vocabulary.txt")
    return TokenFiles(folder=folder, vocabulary=vocabulary, **known)


def _build(
    home: Path, names: Mapping[str, str], lines: LineReader, least_count: int, most: int | None
) -> None:
    remove_unfinished(home.parent)
    vocabulary = count_words(lines("train"), least_count=least_count, most=most)

    def fill(folder: Path) -> None:
        counts, unknown = {}, {}
        for split in SPLITS:
            file = folder / f"{split}.bin"
            counts[split], unknown[split] = _number(file, lines(split), vocabulary)
            if counts[split] < 2:
                raise ValueError(f"{split} text must have at least two words, got {counts[split]}")
        vocabulary.save(folder / "vocabulary.txt")
        facts = json.dumps({**names, "counts": counts, "unknown": unknown}, indent=2)
        (folder / FACTS).write_text(facts + "\n", encoding="utf-8")

    write_folder(home, fill)  # another process may have been faster: its files are the same


def _number(file: Path, lines: Iterable[Sequence[str]], vocabulary: Vocabulary) -> tuple[int, int]:
    """Write the numbers of the words of a split; return how many, and how many are unknown."""
    dtype = number_type(len(vocabulary))
    written, unknown, mark = 0, 0, -1 if vocabulary.unknown is None else vocabulary.unknown
    with file.open("wb") as out:
        for chunk in _chunks(lines, vocabulary):
            numbers = np.asarray(chunk, dtype=np.int64)
            unknown += int((numbers == mark).sum())
            written += len(numbers)
            out.write(numbers.astype(dtype).tobytes())
    return written, unknown


def _chunks(lines: Iterable[Sequence[str]], vocabulary: Vocabulary) -> Iterator[list[int]]:
    """Yield the numbers of lines and of the ``<eos>`` after each, many at a time."""
    end = vocabulary.numbers[END]
    kept: list[int] = []
    for line in lines:
        kept += vocabulary.encode(line)
        kept.append(end)
        if len(kept) >= _FLUSH:
            yield kept
            kept = []
    yield kept


def number_type(vocabulary: int) -> np.dtype[Any]:
    """Return the type of the numbers of a vocabulary of so many words."""
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")


def mapped(file: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return the `count` numbers of a file, mapped and not read.

    Raises
    ------
    ValueError
        If the file has been cut off or changed in size.
    """
    size = file.stat().st_size if file.is_file() else 0
    if size != count * dtype.itemsize:
        raise ValueError(
            f"{file} must hold {count} numbers, got {size} bytes; "
            f"delete {file.parent} to have it built again"
        )
    return np.memmap(file, dtype=dtype, mode="r", shape=(count,))


def read_facts(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return what ``tokens.json`` of a folder says of these names.

    Raises
    ------
    ValueError
        If there is no such file, or it does not say all.
    """
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        return {name: facts[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder} must hold token files with their {FACTS}, got {error}; "
            "delete it to have it built again"
        ) from error
