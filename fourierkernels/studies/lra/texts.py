"""Texts as bytes: folders of classes, pairs of papers, and a stand-in from Python itself.

Pairs of documents: whether one paper of the ACL Anthology cites the other, by their bytes.

The lines of a file are label, two names and two texts, apart by tabs and without quotes
(``lra_benchmarks/matching/input_pipeline.py`` of https://github.com/google-research/long-range-arena).
"""

import hashlib
import platform
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

from fourierkernels.studies.engine.data_sets import held_out
from fourierkernels.studies.lra.examples import (
    BYTE_TOKENS,
    ArenaData,
    ArenaSplit,
    Labels,
    LineFile,
    Tokens,
    byte_tokens,
    check_splits,
    digest_of,
    index_lines,
    packed,
)

MOST_READ = 100_000  # bytes of a text: no model reads more
_PARTS = ("train", "test")
_UNLABELLED = "unsup"  # folder of IMDb's reviews without a class
_RULE = "texts 1"
WINDOW = 256  # bytes of a text of the stand-in, at most
_WINDOWS = {"train": 1400, "valid": 150, "test": 150}  # of each class
_KINDS = ("manual", "library")
_HELD_OUT = 5  # one document in so many is for validation and test


def has_texts(folder: Path) -> bool:
    """Return whether a folder has texts in a folder for each class, as IMDb's reviews."""
    return any(next(folder.glob(f"{part}/*/*.txt"), None) is not None for part in _PARTS)


def open_texts(folder: Path) -> ArenaData:
    """Return the texts of train/CLASS/*.txt and test/CLASS/*.txt, a tenth held out to validate by.

    Raises
    ------
    ValueError
        If train and test have other classes, there are fewer than two, or a file is empty.
    """
    names = {part: _classes(folder / part) for part in _PARTS}
    if names["train"] != names["test"] or len(names["train"]) < 2:
        raise ValueError(
            f"data must have the same two or more classes in train and test, got "
            f"{', '.join(names['train']) or 'none'} and {', '.join(names['test']) or 'none'} "
            f"in {folder}"
        )
    files = {part: _files(folder / part, names["train"]) for part in _PARTS}
    every = [file for part in _PARTS for file, _ in files[part]]
    rest, held = held_out(len(files["train"]))
    splits = {
        "train": _split([files["train"][place] for place in rest]),
        "valid": _split([files["train"][place] for place in held]),
        "test": _split(files["test"]),
    }
    check_splits(folder, splits)
    digest = digest_of(f"{_RULE} {names['train']}", every)
    classes = names["train"]
    return ArenaData("text", "texts", str(folder), digest, classes, BYTE_TOKENS, splits)


def open_python_bytes(folder: Path) -> ArenaData:
    """Return bytes of Python's manual for `help`, and of its library; `folder` is not used.

    A document is in one split with all its windows, of 128 to 256 bytes.
    """
    splits = {name: _windows(name, count) for name, count in _WINDOWS.items()}
    version = " ".join((platform.python_version(), *platform.python_build()))
    digest = hashlib.sha256(f"{_RULE} {version} {_WINDOWS} {WINDOW}".encode()).hexdigest()
    source = f"Python {platform.python_version()}"
    return ArenaData("text", "python_bytes", source, digest, _KINDS, BYTE_TOKENS, splits)


def _classes(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    names = (path.name for path in folder.iterdir() if path.is_dir())
    return tuple(sorted(name for name in names if name != _UNLABELLED))


def _files(folder: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    return [
        (file, label)
        for label, name in enumerate(classes)
        for file in sorted((folder / name).glob("*.txt"))
    ]


def _split(files: list[tuple[Path, int]]) -> ArenaSplit:
    """Return texts that are read when they are opened; their lengths are those of the files."""
    paths = [file for file, _ in files]
    lengths: Labels = np.array([file.stat().st_size for file in paths], dtype=np.int64)
    if empty := [file for file, length in zip(paths, lengths, strict=True) if not length]:
        raise ValueError(f"texts must have at least one byte, got {empty[0]}")

    def opened(place: int) -> tuple[Tokens, ...]:
        with paths[place].open("rb") as content:
            return (byte_tokens(content.read(MOST_READ)),)

    labels = np.array([label for _, label in files], dtype=np.int64)
    return ArenaSplit(labels, lengths, opened)


def _windows(split: str, count: int) -> ArenaSplit:
    """Return as many windows of each kind of text."""
    found, labels = [], []
    for label, kind in enumerate(_KINDS):
        own = _cut(_DOCUMENTS[kind](), split)
        windows = [text for text, _ in zip(own, range(count), strict=False)]
        found += [byte_tokens(text) for text in windows]
        labels += [label] * len(windows)
    return packed(found, labels)


def _cut(documents: Iterator[tuple[str, bytes]], split: str) -> Iterator[bytes]:
    """Yield the windows of the documents of a split; the number of each says how long it is."""
    number = 0
    for name, text in documents:
        if _split_of(name) != split:
            continue
        at = 0
        while at + WINDOW <= len(text):
            size = WINDOW // 2 + (number * 37) % (WINDOW // 2 + 1)
            yield text[at : at + size]
            at, number = at + size, number + 1


def _split_of(name: str) -> str:
    place = hashlib.sha256(name.encode()).digest()[0] % _HELD_OUT
    return ("test", "valid", "train", "train", "train")[place]


def _manual() -> Iterator[tuple[str, bytes]]:
    for name in sorted(topics):
        yield f"topic {name}", topics[name].encode()


def _library() -> Iterator[tuple[str, bytes]]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        yield f"module {path.name}", path.read_bytes()


_DOCUMENTS: dict[str, Callable[[], Iterator[tuple[str, bytes]]]] = {
    "manual": _manual,
    "library": _library,
}


FILES = {
    "train": "new_aan_pairs.train.tsv",
    "valid": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}
CLASSES = ("apart", "cites")
_LABELS = {b"0": 0, b"1": 1, b"0.0": 0, b"1.0": 1}
_COLUMNS = 5


def has_pairs(folder: Path) -> bool:
    """Return whether a folder has a file of pairs."""
    return any((folder / name).is_file() for name in FILES.values())


def open_pairs(folder: Path) -> ArenaData:
    """Return the pairs of three files of lines.

    Raises
    ------
    ValueError
        If a file is missing or empty, or a line has other columns, a label that is neither 0 nor
        1, or an empty text.
    """
    splits = {}
    for split, name in FILES.items():
        lines, labels, lengths = index_lines(folder / name, check_line)
        splits[split] = ArenaSplit(labels, lengths, _reader(lines))
    check_splits(folder, splits)
    digest = digest_of("retrieval 1", (folder / name for name in FILES.values()))
    return ArenaData(
        "retrieval", "aan", str(folder), digest, CLASSES, BYTE_TOKENS, splits, pairs=True
    )


def check_line(line: bytes, name: str) -> tuple[int, int]:
    """Return the label of a pair and the bytes of its longer text."""
    columns = line.split(b"\t")
    if len(columns) != _COLUMNS:
        raise ValueError(
            f"{name} must have {_COLUMNS} columns (label, id1, id2, text1, text2), "
            f"got {len(columns)}"
        )
    if columns[0] not in _LABELS:
        raise ValueError(f"{name} must begin with the label 0 or 1, got {columns[0][:20]!r}")
    if not (columns[3] and columns[4]):
        raise ValueError(f"{name} must have two texts, got an empty one")
    return _LABELS[columns[0]], max(len(columns[3]), len(columns[4]))


def _reader(lines: LineFile) -> Callable[[int], tuple[Tokens, ...]]:
    def opened(place: int) -> tuple[Tokens, ...]:
        texts = lines.line(place).split(b"\t")[3:_COLUMNS]
        if len(texts) != 2:
            raise ValueError(f"{lines.path} must be as it was when the run began, got other lines")
        return byte_tokens(texts[0]), byte_tokens(texts[1])

    return opened
