"""The tasks of GLUE [wang2019glue]_: columns of their files, labels, measures.

Adding a task is adding a row: presets, readers, the command line and the tests read the rows. Names
of files, labels, and where the columns of texts and labels stand are those that
``data/processors/glue.py`` of https://github.com/huggingface/transformers reads by their places;
the columns' names in the first lines of the files have not been compared with the files that
gluebenchmark.com distributes. The training rows are those of two catalogues that agree,
``docs/catalog/glue.md`` of https://github.com/tensorflow/datasets (00be590, GLUE 2.0.0) and
``datasets/glue/README.md`` of https://github.com/huggingface/datasets (040102f). QQP had 363,849 in
the catalogue's version 1.0.0, before GLUE replaced its file.

Tables of tabs as GLUE distributes them: no quotes, sometimes no header, sometimes broken rows.

A quotation mark is a character like any other, and a row ends where its line does. A row of another
number of fields than the header's is left out and counted; a file with many of them is refused. In
a file without labels its place stays, with empty texts: what is predicted is numbered by rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.studies.texts.source import text_lines


@dataclass(frozen=True)
class Task:
    """One row of :data:`TASKS`.

    Attributes
    ----------
    title : str
        What is asked.
    folder : str
        Its folder among the others, as they are distributed.
    texts : tuple of str
        The columns of its one or two texts.
    label : str
        The column of its label.
    labels : tuple of str or None
        All labels; () if they are numbers to be predicted, None for those in the training file.
    rows : int
        Training rows; 0 if they are not known.
    header : tuple of str or None
        Columns of labelled files that have no line of them; None if the first line names them.
    held : tuple of pairs of str
        What tells a file of GLUE's validation rows from the others, and its name.
    unlabelled : tuple of str
        Files whose labels are not given, which GLUE's server measures on.
    measures : tuple of str
        Keys of ``fourierkernels.studies.glue.glue_measures.MEASURES``; the first is that of the
        paper.
    """

    title: str
    folder: str
    texts: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] | None = ("0", "1")
    rows: int = 0
    header: tuple[str, ...] | None = None
    held: tuple[tuple[str, str], ...] = (("", "dev.tsv"),)
    unlabelled: tuple[str, ...] = ("test.tsv",)
    measures: tuple[str, ...] = ("accuracy (%)",)


_BOTH = ("sentence1", "sentence2")
_ENTAILS = ("entailment", "not_entailment")
_SHARED = ("accuracy-F1 mean (%)", "accuracy (%)", "F1 (%)")

TASKS: dict[str, Task] = {
    "cola": Task(
        "is a sentence acceptable English?",
        "CoLA",
        ("sentence",),
        rows=8_551,
        header=("source", "label", "mark", "sentence"),
        measures=("accuracy (%)", "Matthews correlation (%)"),
    ),
    "sst2": Task("is a review of a film positive?", "SST-2", ("sentence",), rows=67_349),
    "mrpc": Task(
        "do two sentences say the same?",
        "MRPC",
        ("#1 String", "#2 String"),
        label="Quality",
        rows=3_668,
        measures=_SHARED,
    ),
    "stsb": Task(
        "how alike are two sentences, from 0 to 5?",
        "STS-B",
        _BOTH,
        label="score",
        labels=(),
        rows=5_749,
        measures=("Spearman correlation (%)", "Pearson correlation (%)"),
    ),
    "qqp": Task(
        "do two questions ask the same?",
        "QQP",
        ("question1", "question2"),
        label="is_duplicate",
        rows=363_846,
        measures=_SHARED,
    ),
    "mnli": Task(
        "does a premise entail or contradict a hypothesis?",
        "MNLI",
        _BOTH,
        label="gold_label",
        labels=("contradiction", "entailment", "neutral"),
        rows=392_702,
        held=((", matched", "dev_matched.tsv"), (", mismatched", "dev_mismatched.tsv")),
        unlabelled=("test_matched.tsv", "test_mismatched.tsv"),
    ),
    "qnli": Task(
        "does a sentence answer a question?",
        "QNLI",
        ("question", "sentence"),
        labels=_ENTAILS,
        rows=104_743,
    ),
    "rte": Task("does a text entail another?", "RTE", _BOTH, labels=_ENTAILS, rows=2_490),
    "wnli": Task("does a pronoun mean what is put for it?", "WNLI", _BOTH, rows=635),
    "sentences": Task("any labels of single sentences", "", ("sentence",), labels=None),
    "pairs": Task("any labels of pairs of sentences", "", _BOTH, labels=None),
    "agrees": Task("do the values of a drawn line go with its names?", "", ("sentence",)),
    "which": Task(
        "of two drawn lines, is it the second whose values do not go with its names?", "", _BOTH
    ),
}


_BROKEN = 0.01  # share of broken rows that is taken for carelessness, and not for another file
_BYTE_ORDER_MARK = "\ufeff"
_NO_LABEL = "-1"


@dataclass(frozen=True)
class Row:
    """The texts of a row, and its label where it has one."""

    texts: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class Rows:
    """The rows of a file, and how many broken ones were left out, or have no texts."""

    rows: list[Row]
    broken: int


def read_rows(path: Path, task: Task, *, labelled: bool = True) -> Rows:
    """Return the rows of a file of a task.

    Parameters
    ----------
    labelled : bool
        Whether it has labels. A file that has none may lack their column, or have -1 in it, and
        always names its columns.

    Raises
    ------
    ValueError
        If a column is missing, a label is none of the task's, the file has no rows or many broken
        ones, or is no UTF-8.
    """
    lines = _fields(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path} must have rows, got an empty file")
    named = task.header is None or not labelled
    header = first if named or task.header is None else list(task.header)
    wanted = (*task.texts, *([task.label] if labelled else []))
    places = _places(path, header, wanted)
    found, broken, number = [], 0, int(named)
    rest = lines if named else _again(first, lines)
    for number, fields in enumerate(rest, start=1 + named):
        if len(fields) != len(header):
            broken += 1
            if any(fields) and not labelled:
                found.append(Row(("",) * len(task.texts), None))
            continue
        values = [fields[place].strip() for place in places]
        label = _label(path, number, task, values.pop()) if labelled else None
        found.append(Row(tuple(values), label))
    whole = number - named - broken
    if not whole or broken > max(_BROKEN * whole, 1):
        raise ValueError(
            f"{path} must have rows of {len(header)} fields ({', '.join(header)}), "
            f"got {whole} of them and {broken} of other lengths"
        )
    return Rows(found, broken)


def _fields(path: Path) -> Iterator[list[str]]:
    for line in text_lines(path):
        yield line.rstrip("\r\n").replace(_BYTE_ORDER_MARK, "").split("\t")


def _again(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _places(path: Path, header: Sequence[str], wanted: Sequence[str]) -> list[int]:
    missing = [name for name in wanted if name not in header]
    if missing:
        raise ValueError(
            f"{path} must have the columns {', '.join(wanted)}, got {', '.join(header)[:200]}"
        )
    return [list(header).index(name) for name in wanted]


def _label(path: Path, number: int, task: Task, label: str) -> str:
    """Return a label that the task has, or a number where it asks for one."""
    if task.labels == ():
        try:
            right = -1e6 < float(label) < 1e6
        except ValueError:
            right = False
        rule = "a number"
    elif task.labels is None:
        right, rule = label not in ("", _NO_LABEL), "given"
    else:
        right, rule = label in task.labels, f"one of {', '.join(task.labels)}"
    if not right:
        raise ValueError(f"{task.label} of {path} must be {rule}, got {label!r} in line {number}")
    return label
