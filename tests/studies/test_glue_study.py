"""Fine-tuning begins with a pre-trained run, learns, resumes, and measures as the paper does."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics
from study_modules import study_module
from tiny_documents import glue_run, masked_run, train_tiny, write_documents, write_task
from training_runs import Call, error_of

from fourierkernels.models import load_model
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import read_data, setup
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.glue import glue_measures
from fourierkernels.studies.glue import study as glue
from fourierkernels.studies.glue.glue_measures import COLUMNS, MEASURES, TABLE_4, glue_average
from fourierkernels.studies.glue.presets import PRESETS
from fourierkernels.studies.glue.tasks import TASKS

ACCURACY = "accuracy (%)"
# [leethorp2021fnet]_ table 4, as printed, with its average.
PRINTED = """
BERT-Base 84/81 87 91 93 73 89 83 69 83.3
Linear-Base 74/75 84 80 94 67 67 83 69 77.0
FNet-Base 72/73 83 80 95 69 79 76 63 76.7
Random-Base 51/50 70 61 76 67 4 73 57 56.6
FF-only-Base 34/35 31 52 48 67 FAIL 73 54 49.3
FNet-Hybrid-Base 78/79 85 88 94 76 86 79 60 80.6
BERT-Large 88/88 88 92 95 71 88 86 66 84.7
Linear-Large 35/36 84 80 79 67 24 73 60 59.8
FNet-Large 78/76 85 85 94 78 84 88 69 81.9
"""
NAMES = {"BERT": "softmax", "FF-only": "none", "FNet-Hybrid": "fnet_hybrid"}


@pytest.fixture(scope="module")
def start(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pre-trained run."""
    home = tmp_path_factory.mktemp("start")
    train_tiny(masked_run(write_documents(home / "documents")), home / "run", cache)
    return home / "run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_task(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def run(start: Path, folder: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("glue") / "run"
    train_tiny(glue_run(folder, start), output, cache)
    return output


def by_name(rows: list[Measured]) -> dict[tuple[str, str], Measured]:
    return {(row.split, row.metric): row for row in rows}


def test_table_has_the_printed_numbers_and_averages() -> None:
    rows = [line.split() for line in PRINTED.replace("/", " ").split("\n") if line]
    assert len(rows) == sum(map(len, TABLE_4.values()))
    for name, *printed, average in rows:
        kind, _, size = name.rpartition("-")
        found = TABLE_4[size.lower()][NAMES.get(kind, kind.lower())]
        values = [math.nan if x == "FAIL" else float(x) for x in printed]
        np.testing.assert_array_equal(found, values)
        scores = dict(zip(COLUMNS, found, strict=True))
        assert glue_average(scores) == pytest.approx(float(average), abs=0.0501)


def test_share_of_bert_is_that_of_the_averages() -> None:
    scores = dict(zip(COLUMNS, TABLE_4["base"]["fnet"], strict=True))
    assert glue_measures.share_of_bert(scores) == pytest.approx(100 * 690 / 750)
    del scores["rte"]
    assert "scores must have all of" in error_of(lambda: glue_average(scores))


def test_presets_of_tasks_have_the_paper_beside_and_three_epochs() -> None:
    assert PRESETS["cola"].published["fnet"] == {"test": 69}
    assert PRESETS["mnli"].published["fnet"] == {"test, matched": 72, "test, mismatched": 73}
    assert "none" not in PRESETS["stsb"].published
    assert PRESETS["wnli"].published == PRESETS["sentences"].published == {}
    for name, task in TASKS.items():
        recipe = PRESETS[name].recipe
        if task.rows:
            assert recipe.steps * recipe.batch / (0.95 * task.rows) == pytest.approx(3, rel=0.02)
        assert set(task.measures) <= set(MEASURES)


def test_training_rows_are_those_of_the_catalogues() -> None:
    """docs/catalog/glue.md of tensorflow/datasets, GLUE 2.0.0, and Hugging Face's agree."""
    rows = {name: task.rows for name, task in TASKS.items() if task.rows}
    assert rows == {
        "cola": 8_551,
        "sst2": 67_349,
        "mrpc": 3_668,
        "stsb": 5_749,
        "qqp": 363_846,
        "mnli": 392_702,
        "qnli": 104_743,
        "rte": 2_490,
        "wnli": 635,
    }


def test_measures_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(0)
    given, guessed = (rng.integers(0, 2, 200).astype(float) for _ in range(2))
    both = (guessed * given).sum()
    f1 = 2 * both / (guessed.sum() + given.sum())
    accuracy = (guessed == given).mean()
    assert MEASURES["F1 (%)"](guessed, given) == pytest.approx(100 * f1)
    assert MEASURES["accuracy-F1 mean (%)"](guessed, given) == pytest.approx(50 * (f1 + accuracy))
    correlation = np.corrcoef(guessed, given)[0, 1]  # Matthews' is Pearson's of 0 and 1
    assert MEASURES["Matthews correlation (%)"](guessed, given) == pytest.approx(100 * correlation)
    scores = given + rng.normal(size=200)
    ranks = np.corrcoef(stats.rankdata(scores), stats.rankdata(given))[0, 1]
    assert MEASURES["Spearman correlation (%)"](scores, given) == pytest.approx(100 * ranks)
    assert MEASURES["Pearson correlation (%)"](np.ones(200), given) == 0.0
    assert MEASURES["F1 (%)"](np.zeros(200), given) == 0.0
    assert metrics.matthews_corrcoef(given, np.zeros(200)) == 0.0


def test_model_begins_with_the_pre_trained_encoder(start: Path, folder: Path) -> None:
    asked = glue_run(folder, start)
    assert asked.mixer.name == "fnet"
    data = read_data(asked)
    model = glue.STUDY.build(PRESETS["sentences"], data, ChosenMixer("fnet"))
    theirs = load_model(start / "model.safetensors").encoder.state_dict()
    ours = model.encoder.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (data.length, data.vocabulary.words) == (64, ("cat", "other"))
    assert "mixer must be that of the start, fnet, got 'softmax'" in error_of(
        lambda: glue.STUDY.build(PRESETS["sentences"], data, ChosenMixer("softmax"))
    )


def test_fine_tuning_learns(start: Path, folder: Path, cache: Path, tmp_path: Path) -> None:
    few = {"steps": 60, "batch": 16, "evaluate_every": 30, "save_every": 30, "learning_rate": 5e-3}
    found = by_name(train_tiny(glue_run(folder, start, **few), tmp_path / "run", cache))
    text = (folder / "dev.tsv").read_text()
    largest = max(text.count("\tcat\n"), text.count("\tother\n")) / 20
    assert found["test", ACCURACY].value > 100 * largest + 5
    assert found["test", "loss"].value < math.log(2)
    assert found["test", ACCURACY].positions == 20


def test_results_are_found_again_without_the_start(
    run: Path, start: Path, cache: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    start.rename(moved)
    try:
        found = by_name(evaluate(run, cache=cache))
    finally:
        moved.rename(start)
    lines = (run / "results.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in lines} == {"valid", "test"}
    assert float(lines[2].split(",")[2]) == found["test", ACCURACY].value
    few = evaluate(run, cache=cache, splits=("test",), positions=5)
    assert {row.positions for row in few} == {5}
    assert json.loads((run / "results.json").read_text())["config"]["start"]["path"] == str(start)


def test_other_starts_and_classes_are_refused(
    run: Path, start: Path, folder: Path, cache: Path, tmp_path: Path
) -> None:
    asked = glue_run(folder, start)
    other = replace(asked, start=replace(asked.start, digest="0" * 64))
    assert "start must be the one that the run began with" in error_of(
        lambda: train_tiny(other, tmp_path / "x", cache)
    )
    assert not (tmp_path / "x").exists()
    assert "start must be a run of study masked: --from RUN" in error_of(
        lambda: read_data(setup("glue", data=folder))
    )
    assert "start must be a run of study masked, got a EncoderClassifier" in error_of(
        lambda: train_tiny(glue_run(folder, run), tmp_path / "y", cache)
    )
    assert "study must be one of glue for a start, got 'series'" in error_of(
        lambda: setup("series", start=start)
    )
    text = (folder / "train.tsv").read_text().replace("\tother", "\tdog")
    (tmp_path / "task").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "task" / name).write_text(text)
    assert "data must have the 2 classes of" in error_of(
        lambda: evaluate(run, data=tmp_path / "task", cache=cache)
    )


def test_scores_are_predicted_and_rows_without_labels_answered(
    start: Path, cache: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    header = "index\tgenre\tsentence1\tsentence2\tscore\n"
    rows = [f"{i}\tx\tthe cat\tthe {'cat' * (i % 6)}\t{i % 6}\n" for i in range(60)]
    home = tmp_path / "STS-B"
    home.mkdir()
    (home / "train.tsv").write_text(header + "".join(rng.permutation(rows)))
    (home / "dev.tsv").write_text(header + "".join(rows[:12]))
    (home / "test.tsv").write_text("index\tsentence1\tsentence2\n0\ta\tb\n1\ta dog\ta dog\n")
    asked = glue_run(tmp_path, start, preset="stsb")
    found = by_name(train_tiny(asked, tmp_path / "run", cache))
    assert ("test", "Spearman correlation (%)") in found
    assert found["test", "Spearman correlation (%)"].published is None
    lines = (tmp_path / "run" / "predicted_test.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1"]


@pytest.mark.parametrize(
    ("changed", "beside"),
    [
        ({}, True),
        ({"rows": 20}, False),
        ({"corpus": "text-documents"}, False),
        ({"preset": "small"}, False),
        ({"spans": {"train": 10**6}}, False),
    ],
)
def test_published_numbers_stand_beside_all_rows_and_the_encoder_of_the_paper(
    changed: dict[str, Any], beside: bool, tmp_path: Path
) -> None:
    (tmp_path / "study.json").write_text("{}")
    known = {"corpus": "c4", "preset": "base", "spans": {"train": 10**9}} | changed
    (tmp_path / "results.json").write_text(json.dumps({"config": known}))
    rows = changed.get("rows", TASKS["stsb"].rows)
    data: Any = SimpleNamespace(
        start=tmp_path / "model.safetensors",
        counts={"train": rows - 5, "valid": 5, "test": 7},
        task=TASKS["stsb"],
    )
    assert glue.is_of_the_paper(data) == beside


def test_command_begins_with_a_run(start: Path, folder: Path, tmp_path: Path, call: Call) -> None:
    study = ("train", "glue", "--data", folder, "--from", start)
    status, out, err = call(*study, "--plan")
    assert (status, err) == (0, "")
    assert re.search(r"training rows +│ 57 rows", out)
    assert call(*study, "--output", tmp_path / "run", "--limit-steps", 1)[0] == 0
    status, out, err = call("evaluate", tmp_path / "run")
    assert (status, err) == (0, "")
    assert re.search(r"test +│ accuracy \(%\) +│ [\d.]+ +│ 20 ", out)
    status, _, err = call("train", "glue", "--data", folder)
    assert (status, err.startswith("error: start must be a run of study masked")) == (2, True)
    status, _, err = call("train", "glue", "--from", start)
    assert (status, err.startswith("error: data must be a folder of GLUE's .tsv")) == (2, True)


def test_heads_of_a_fine_tuned_fnet_are_refused(
    run: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    status, _, err = call("heads", run)
    assert status == 2
    assert "checkpoint must have attention, got none in EncoderClassifier" in err


def test_written_stand_ins_can_be_read(tmp_path: Path, start: Path) -> None:
    with study_module("data_classification", threads=False) as fetching:
        fetching.write(tmp_path, fetching.titles(fetching.example()))
    data = read_data(glue_run(tmp_path, start))
    assert data.vocabulary.words == ("games", "science")
    assert sum(data.counts.values()) == 60
