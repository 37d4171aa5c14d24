"""Pairs of documents: whether one paper of the ACL Anthology cites the other, by their bytes.

The lines of a file are label, two names and two texts, apart by tabs and without quotes
(``lra_benchmarks/matching/input_pipeline.py`` of https://github.com/google-research/long-range-arena).
"""

from collections.abc import Callable
from pathlib import Path

from fourierkernels.studies.lra.examples import (
    BYTE_TOKENS,
    ArenaData,
    ArenaSplit,
    Tokens,
    byte_tokens,
    check_splits,
    digest_of,
)
from fourierkernels.studies.lra.lines import LineFile, index_lines

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
