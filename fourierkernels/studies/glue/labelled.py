"""Labelled texts as numbers of subwords, in memory: the largest task has 400,000 rows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.foundation.files import file_digest
from fourierkernels.foundation.validation import check_choice
from fourierkernels.foundation.words import Vocabulary
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.glue.drawn import DRAWN, TEXTS, drawn_rows, rule
from fourierkernels.studies.glue.tasks import TASKS, Row, Rows, Task, read_rows
from fourierkernels.studies.masked.pieces import FIRST, PADDING, SEPARATOR, Pieces

HELD_OUT = 20  # one training row in so many chooses the update that is kept
_MOST_HELD = 2_000
_CHUNK = 1_000


@dataclass(frozen=True)
class Encoded:
    """Sequences of a file, and their labels.

    Attributes
    ----------
    numbers : ndarray
        Those of all sequences, one after the other.
    ends, firsts : ndarray, shape (n,)
        Where each ends, and how many numbers its first segment has, marks included.
    labels : ndarray, shape (n,)
        Numbers of classes, or what is to be predicted; NaN if not given.
    long : ndarray, shape (n,)
        Which were too long, and are cut.
    """

    numbers: NDArray[np.int32]
    ends: NDArray[np.int64]
    firsts: NDArray[np.int64]
    labels: NDArray[np.float64]
    long: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def cut(self) -> int:
        """Sequences that were too long."""
        return int(self.long.sum())

    def batch(self, members: Sequence[int], length: int) -> Batch:
        """Return sequences as one batch, all of one length.

        Returns
        -------
        dict
            "tokens", "segments" ``(B, length)`` and "labels" ``(B,)``, float64.
        """
        tokens = np.full((len(members), length), PADDING, dtype=np.int64)
        segments = np.zeros_like(tokens)
        for row, member in enumerate(members):
            start, end = int(self.ends[member - 1]) if member else 0, int(self.ends[member])
            tokens[row, : end - start] = self.numbers[start:end]
            segments[row, int(self.firsts[member]) : end - start] = 1
        labels = torch.from_numpy(self.labels[list(members)])
        return {
            "tokens": torch.from_numpy(tokens),
            "segments": torch.from_numpy(segments),
            "labels": labels,
        }

    def of(self, members: NDArray[np.int64]) -> "Encoded":
        """Return some of the sequences."""
        starts = np.concatenate([[0], self.ends[:-1]])
        rows = [self.numbers[starts[m] : self.ends[m]] for m in members]
        ends = np.cumsum([len(row) for row in rows])
        numbers = np.concatenate(rows)
        firsts, labels, long = self.firsts[members], self.labels[members], self.long[members]
        return Encoded(numbers, ends, firsts, labels, long)


@dataclass(frozen=True)
class LabelledTexts:
    """A task, read for a model.

    Attributes
    ----------
    corpus, source, digest : str
        Name of the task, what was read, and a SHA-256 of it and of how it is read.
    task : Task
        Its row.
    vocabulary : Vocabulary
        Its classes; "score" alone where numbers are predicted.
    splits : mapping of str to Encoded
        "train", "valid", of the training rows, and one split for each file of GLUE's validation
        rows: "test", or "test, matched" and "test, mismatched".
    unlabelled : mapping of str to Encoded
        Files without labels, by name.
    broken : int
        Rows of labelled files that were left out.
    length : int
        Places of a sequence.
    start : Path or None
        The weights that a model begins with.
    """

    corpus: str
    source: str
    digest: str
    task: Task
    vocabulary: Vocabulary
    splits: Mapping[str, Encoded]
    unlabelled: Mapping[str, Encoded]
    broken: int
    length: int
    start: Path | None
    pieces: Pieces = field(repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each split."""
        return {name: len(split) for name, split in self.splits.items()}

    @property
    def scored(self) -> bool:
        """Whether numbers are predicted, not classes."""
        return self.task.labels == ()

    @property
    def outputs(self) -> int:
        """Numbers that a model returns."""
        return len(self.vocabulary)


def is_task(folder: Path) -> bool:
    """Return whether a folder has a task's training file, or folders of tasks."""
    places = (folder, *(folder / task.folder for task in TASKS.values() if task.folder))
    return any((place / "train.tsv").is_file() for place in places)


def open_task(
    folder: Path, name: str, pieces: Pieces, *, length: int, start: Path | None = None
) -> LabelledTexts:
    """Return a task from its folder, or from its folder among others.

    Raises
    ------
    ValueError
        If a file is missing, or its rows are not those of the task.
    """
    task = TASKS[check_choice("task", name, list(TASKS))]
    inside = bool(task.folder) and (folder / task.folder / "train.tsv").is_file()
    home = folder / task.folder if inside else folder
    held = {f"test{suffix}": home / file for suffix, file in task.held}
    paths = {"train": home / "train.tsv", **held}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise ValueError(f"{home} must have {', '.join(missing)} of task {name}, got none")
    tables = {split: read_rows(path, task) for split, path in paths.items()}
    classes = _classes(home, task, {split: table.rows for split, table in tables.items()})
    free = {file: home / file for file in task.unlabelled if (home / file).is_file()}
    files = "".join(file_digest(path) for path in (*paths.values(), *free.values()))
    found = _labelled(name, tables, classes, pieces, length=length, start=start, content=files)
    encoded = partial(_encode, pieces=pieces, classes=classes, length=length)
    rows = {file: read_rows(path, task, labelled=False).rows for file, path in free.items()}
    unlabelled = {file: encoded(labelled) for file, labelled in rows.items()}
    return replace(found, source=home.resolve().name, unlabelled=unlabelled)


def open_drawn(
    folder: Path, name: str, pieces: Pieces, *, length: int, start: Path | None = None
) -> LabelledTexts:
    """Return a drawn task.

    Parameters
    ----------
    folder : Path
        Not used: the rows are drawn when they are read.

    Raises
    ------
    ValueError
        If the task is not drawn.
    """
    tables = {split: drawn_rows(check_choice("task", name, list(TEXTS)), split) for split in DRAWN}
    classes, content = TASKS[name].labels or (), rule(name)
    return _labelled(name, tables, classes, pieces, length=length, start=start, content=content)


def _labelled(
    name: str,
    tables: Mapping[str, Rows],
    classes: tuple[str, ...],
    pieces: Pieces,
    *,
    length: int,
    start: Path | None,
    content: str,
) -> LabelledTexts:
    """Return labelled rows for a model; `content` is all that they depend on."""
    whole, *held = (_encode(table.rows, pieces, classes, length) for table in tables.values())
    kept, chosen = _hold_out(len(whole))
    digest = hashlib.sha256(f"{name} {length} {content}".encode() + pieces.model)
    return LabelledTexts(
        corpus=name,
        source=name,
        digest=digest.hexdigest(),
        task=TASKS[name],
        vocabulary=Vocabulary(classes or ("score",)),
        splits={
            "train": whole.of(kept),
            "valid": whole.of(chosen),
            **dict(zip(list(tables)[1:], held, strict=True)),
        },
        unlabelled={},
        broken=sum(table.broken for table in tables.values()),
        length=length,
        start=start,
        pieces=pieces,
    )


def _classes(home: Path, task: Task, tables: Mapping[str, Sequence[Row]]) -> tuple[str, ...]:
    """Return the classes: those of the task, or those that the training file has."""
    if task.labels is not None:
        return task.labels
    known = {str(row.label) for row in tables["train"]}
    for split, rows in tables.items():
        strange = sorted({str(row.label) for row in rows} - known)
        if strange:
            raise ValueError(
                f"{task.label} of {home} must be one of {', '.join(sorted(known))}, as in its "
                f"train.tsv, got {strange[0]!r} in its {split} rows"
            )
    if len(known) < 2:
        raise ValueError(f"{task.label} of {home} must have two values at least, got {len(known)}")
    return tuple(sorted(known))


def _encode(rows: Sequence[Row], pieces: Pieces, classes: Sequence[str], length: int) -> Encoded:
    numbers: list[NDArray[np.int32]] = []
    firsts: list[int] = []
    long: list[bool] = []
    for first in range(0, len(rows), _CHUNK):
        chunk = rows[first : first + _CHUNK]
        sides = [
            pieces.encode(list(texts)) for texts in zip(*(r.texts for r in chunk), strict=True)
        ]
        for parts in zip(*sides, strict=True):
            own = [FIRST, *(number for part in parts for number in (*part, SEPARATOR))]
            long.append(len(own) > length)
            numbers.append(np.array(own[:length], dtype=np.int32))
            firsts.append(min(len(parts[0]) + 2, length))
    return Encoded(
        np.concatenate(numbers),
        np.cumsum([len(tokens) for tokens in numbers]),
        np.array(firsts),
        np.array([_number(row.label, classes) for row in rows]),
        np.array(long),
    )


def _number(label: str | None, classes: Sequence[str]) -> float:
    if label is None:
        return float("nan")
    return float(classes.index(label)) if classes else float(label)


def _hold_out(count: int) -> tuple[Any, Any]:
    """Return the rows that are trained on, and those that choose the update; always the same."""
    held = min(max(count // HELD_OUT, 1), _MOST_HELD)
    if count <= held:
        raise ValueError(f"training file must have two rows at least, got {count}")
    order = np.random.default_rng(0).permutation(count)
    return np.sort(order[held:]), np.sort(order[:held])


GLUE: dict[str, DataSet[LabelledTexts]] = {
    "glue": DataSet(
        title="the tasks of GLUE, or other labelled sentences in the layout of SST-2",
        source="https://gluebenchmark.com/tasks; experiments/data_classification.py has two others",
        layout="train.tsv, dev.tsv and, if there is one, test.tsv, or such folders (CoLA, SST-2, "
        "MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI)",
        recognises=is_task,
        open=open_task,
    ),
    "drawn-lines": DataSet(
        title="drawn lines of names and values, whose labels no count of words tells",
        source="drawn when they are read",
        layout="no folder",
        open=open_drawn,
        needs_folder=False,
    ),
}
