"""Files of GLUE are read as they are distributed: no quotes, missing labels, broken rows.

The rows are made up for these tests, in the format of the files that gluebenchmark.com distributes.
"""

from pathlib import Path

import numpy as np
import pytest
from training_runs import error_of

from fourierkernels.studies.glue.labelled import LabelledTexts, is_task, open_task
from fourierkernels.studies.glue.tasks import TASKS, Row, Task, read_rows
from fourierkernels.studies.masked.pieces import FIRST, PADDING, SEPARATOR, learn_pieces

# Task -> name of the labelled file, its lines, and its rows as texts and labels.
LABELLED = {
    "cola": (
        'gj04\t1\t\tThe ship sank.\nks08\t0\t*\tHim saw "she.\n',
        [(("The ship sank.",), "1"), (('Him saw "she.',), "0")],
    ),
    "sst2": (
        'sentence\tlabel\na fine film \t1\nnot so "good\t0\n',
        [(("a fine film",), "1"), (('not so "good',), "0")],
    ),
    "mrpc": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\t"A said B\tB was said\r\n',
        [(('"A said B', "B was said"), "1")],
    ),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tcaptions\tMSRvid\t2012\t1\tnone\tnone\tA dog runs.\tA cat sits.\t1.250\n",
        [(("A dog runs.", "A cat sits."), "1.250")],
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        "5\t1\t2\tWhat is a sinc?\tWhat's sinc?\t1\n",
        [(("What is a sinc?", "What's sinc?"), "1")],
    ),
    "mnli": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
        "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
        "0\t1\t1n\tslate\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tIt rains.\tIt is dry.\tneutral\t"
        "contradiction\n",
        [(("It rains.", "It is dry."), "contradiction")],
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n0\tWho?\tHe did.\tentailment\n",
        [(("Who?", "He did."), "entailment")],
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n",
        [(("A.", "B."), "not_entailment")],
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel\n0\tIt fell.\tThe cup fell.\t1\n",
        [(("It fell.", "The cup fell."), "1")],
    ),
}
UNLABELLED = {
    "cola": ("index\tsentence\n0\tHe left.\n", ("He left.",)),
    "sst2": ("index\tsentence\n0\tso so\n", ("so so",)),
    "qqp": ("id\tquestion1\tquestion2\n0\tWhy?\tHow?\n", ("Why?", "How?")),
    "rte": ("index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t-1\n", ("A.", "B.")),
}


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / name


def task_folder(folder: Path, name: str = "rte", rows: int = 40) -> Path:
    """Write the files of a task whose second text is longer than its first."""
    text = "index\tsentence1\tsentence2\tlabel\n"
    labels = ("entailment", "not_entailment")
    lines = [f"{i}\tshort {i}\tsome longer text {i}\t{labels[i % 2]}\n" for i in range(rows)]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, "train.tsv", text + "".join(lines))
    write(folder, "dev.tsv", text + "".join(lines[:10]))
    write(folder, "test.tsv", text.replace("\tlabel", "") + "0\ta\tb\n1\tc\td\n")
    return folder


def opened(folder: Path, name: str = "rte", length: int = 24) -> LabelledTexts:
    pieces = learn_pieces([f"some longer text {i} short" for i in range(50)], 40)
    return open_task(folder, name, pieces, length=length)


@pytest.mark.parametrize("name", LABELLED)
def test_rows_are_read_as_they_are_distributed(name: str, tmp_path: Path) -> None:
    text, rows = LABELLED[name]
    found = read_rows(write(tmp_path, "train.tsv", text), TASKS[name])
    assert found.rows == [Row(texts, label) for texts, label in rows]
    assert found.broken == 0


def test_all_tasks_of_glue_are_tried() -> None:
    assert {name for name, task in TASKS.items() if task.rows} == set(LABELLED)


@pytest.mark.parametrize("name", UNLABELLED)
def test_labels_of_a_test_file_may_be_missing(name: str, tmp_path: Path) -> None:
    text, texts = UNLABELLED[name]
    found = read_rows(write(tmp_path, "test.tsv", text), TASKS[name], labelled=False)
    assert found.rows == [Row(texts, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have rows, got an empty file"),
        ("sentence\tlabel\n", "got 0 of them and 0 of other lengths"),
        ("text\tlabel\na\t1\n", "must have the columns sentence, label, got text, label"),
        ("sentence\tlabel\na\tpositive\n", "must be one of 0, 1, got 'positive' in line 2"),
        ("sentence\tlabel\na\t1\nb\t-1\n", "must be one of 0, 1, got '-1' in line 3"),
        ("sentence\tlabel\na\tb\t1\nc\td\t0\n", "got 0 of them and 2 of other lengths"),
    ],
)
def test_files_that_lie_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, "train.tsv", text)
    found = error_of(lambda: read_rows(file, TASKS["sst2"]))
    assert found.startswith("ValueError: ")
    assert message in found


def test_scores_have_to_be_numbers_and_texts_utf_8(tmp_path: Path) -> None:
    text, file = LABELLED["stsb"][0], tmp_path / "train.tsv"
    for bad in ("nan", "high", "1e9"):
        write(tmp_path, "train.tsv", text.replace("1.250", bad))
        assert "must be a number" in error_of(lambda: read_rows(file, TASKS["stsb"]))
    file.write_bytes(b"sentence\tlabel\ncaf\xe9\t1\n")
    assert "must be UTF-8 text, got line 2" in error_of(lambda: read_rows(file, TASKS["sst2"]))


def test_few_broken_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    good = "".join(f"text {i}\t{i % 2}\n" for i in range(300))
    text = f"sentence\tlabel\n{good}broken row\nanother\twith\t1\n"
    found = read_rows(write(tmp_path, "train.tsv", text), TASKS["sst2"])
    assert (len(found.rows), found.broken) == (300, 2)


def test_sequences_have_both_texts_between_marks(tmp_path: Path) -> None:
    data = opened(task_folder(tmp_path))
    batch = data.splits["test"].batch([0, 1], data.length)
    tokens, segments = batch["tokens"][0], batch["segments"][0]
    first, second = (tokens == SEPARATOR).nonzero().flatten().tolist()
    assert tokens[0] == FIRST
    assert data.pieces.decode(tokens[1:first].tolist()) == "short 0"
    assert data.pieces.decode(tokens[first + 1 : second].tolist()) == "some longer text 0"
    assert (segments == 1).nonzero().flatten().tolist() == list(range(first + 1, second + 1))
    assert (tokens[second + 1 :] == PADDING).all()
    assert batch["labels"].tolist() == [0.0, 1.0]


def test_long_texts_are_cut_and_counted(tmp_path: Path) -> None:
    data = opened(task_folder(tmp_path), length=8)
    assert data.splits["test"].cut == 10
    assert (data.splits["test"].batch([0], 8)["tokens"] != PADDING).all()
    assert {name: split.cut for name, split in data.splits.items()} == data.counts


def test_a_twentieth_is_held_out_and_no_row_is_lost(tmp_path: Path) -> None:
    data = opened(task_folder(tmp_path))
    assert data.counts == {"train": 38, "valid": 2, "test": 10}
    assert {name: len(rows) for name, rows in data.unlabelled.items()} == {"test.tsv": 2}
    texts = [
        tuple(split.batch([i], data.length)["tokens"][0].tolist())
        for split in (data.splits["train"], data.splits["valid"])
        for i in range(len(split))
    ]
    assert len(set(texts)) == 40
    assert np.isnan(data.unlabelled["test.tsv"].labels).all()


def test_broken_row_without_label_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    lines = ("index\tsentence", "0\tone", "1\ttwo\tand a half", "2\tthree")
    path.write_text("".join(f"{line}\n" for line in lines))
    found = read_rows(path, TASKS["sst2"], labelled=False)
    assert found.rows == [Row((text,), None) for text in ("one", "", "three")]
    assert found.broken == 1
    path.write_text("\n".join((*lines[:2], lines[3], "", "")))
    found = read_rows(path, TASKS["sst2"], labelled=False)
    assert found.rows == [Row((text,), None) for text in ("one", "three")]


def test_task_is_found_among_others(tmp_path: Path) -> None:
    task_folder(tmp_path / "RTE")
    assert is_task(tmp_path)
    assert opened(tmp_path).digest == opened(tmp_path / "RTE").digest
    assert opened(tmp_path).digest != opened(tmp_path, length=25).digest
    assert "must have train.tsv, dev.tsv of task sst2, got none" in error_of(
        lambda: opened(tmp_path, "sst2")
    )


def test_labels_that_the_training_file_lacks_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "sentence\tlabel\n" + "a\tx\nb\ty\n" * 5)
    write(tmp_path, "dev.tsv", "sentence\tlabel\nc\tz\n")
    assert "must be one of x, y, as in its train.tsv, got 'z' in its test rows" in error_of(
        lambda: opened(tmp_path, "sentences")
    )
    write(tmp_path, "dev.tsv", "sentence\tlabel\nc\ty\n")
    assert opened(tmp_path, "sentences").vocabulary.words == ("x", "y")
    write(tmp_path, "train.tsv", "sentence\tlabel\n" + "a\tx\n" * 5)
    write(tmp_path, "dev.tsv", "sentence\tlabel\na\tx\n")
    assert "must have two values at least, got 1" in error_of(lambda: opened(tmp_path, "sentences"))


def test_a_task_from_outside_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("mine", "", ("sentence2",), labels=("entailment", "not_entailment"))
    monkeypatch.setitem(TASKS, "mine", task)
    data = opened(task_folder(tmp_path), "mine")
    assert (data.corpus, data.counts["train"]) == ("mine", 38)
    assert data.splits["test"].batch([0], data.length)["segments"].sum() == 0
