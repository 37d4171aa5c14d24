"""The time-series study is that of the paper, learns, resumes and measures what it says."""

import csv
import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_series import series_run, train_series, write_problem
from training_runs import Call, error_of

from fourierkernels.models import load_model
from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.series import study as series
from fourierkernels.studies.series.presets import ACCURACY, PAPER, PRESETS, SeriesPreset
from fourierkernels.studies.series.problems import PROBLEMS, Problem
from fourierkernels.studies.series.series_data import ARCHIVES, SeriesData, read_series

# [nguyen2022fourierformer]_ table 3, as printed; the means of its last line beside it.
TABLE_3 = """
ETHANOLCONCENTRATION 32.08 36.12
FACEDETECTION 68.70 68.71
HANDWRITING 32.08 31.68
HEARTBEAT 75.77 76.42
JAPANESEVOWELS 99.46 99.37
PEMS-SF 82.66 86.70
SELFREGULATIONSCP1 91.46 91.70
SELFREGULATIONSCP2 54.72 55.37
SPOKENARABICDIGITS 99.33 99.00
UWAVEGESTURELIBRARY 84.45 86.66
"""
MEANS = (72.07, 73.17)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("waves"))


@pytest.fixture(scope="module")
def data(folder: Path) -> SeriesData:
    return read_series(folder)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run that was not interrupted, of a model with batch norm."""
    output = tmp_path_factory.mktemp("series") / "run"
    series.PRESETS["normed"] = with_batch_norm()
    train_series(series_run(folder, "softmax", preset="normed"), output)
    yield output
    del series.PRESETS["normed"]


def with_batch_norm() -> SeriesPreset:
    model = {"preset": "zerveas", "dim": 16, "layers": 1, "heads": 2, "hidden": 16}
    recipe = replace(PRESETS["tiny"].recipe, optimiser="radam")
    return replace(PRESETS["tiny"], model=model, recipe=recipe)


def by_name(rows: list[Measured]) -> dict[tuple[str, str], Measured]:
    return {(row.split, row.metric): row for row in rows}


def test_presets_have_the_published_table() -> None:
    rows = [line.split() for line in TABLE_3.split("\n") if line]
    names = {name.upper(): name for name in PAPER}
    assert len(rows) == len(names) == 10
    for name, softmax, fourier in rows:
        found = PRESETS[names[name]].published
        assert found["softmax"] == {ACCURACY: float(softmax)}
        assert found["fourier"] == {ACCURACY: float(fourier)}
    means = np.mean(list(PAPER.values()), axis=0)
    np.testing.assert_allclose(means, MEANS, atol=0.005)


def test_presets_follow_the_reference_that_the_paper_names() -> None:
    for name in PAPER:
        preset = PRESETS[name]
        assert preset.problem == name
        flowformer = name in {"PEMS-SF", "SelfRegulationSCP2", "UWaveGestureLibrary"}
        assert preset.model["preset"] == ("flowformer" if flowformer else "zerveas")
        assert preset.recipe.batch == (16 if flowformer else 64)
        epochs = preset.recipe.steps * preset.recipe.batch / (0.8 * PROBLEMS[name].train)
        assert epochs == pytest.approx(100 if flowformer and name != "PEMS-SF" else 400, abs=0.5)
        size = preset.model["dim"] // preset.model["heads"]
        radius = preset.mixer_options["fourier"]["radius"]
        assert 4 * radius**2 / 6 == pytest.approx(1 / (2 * math.sqrt(size)))  # softmax's curvature


def test_sizes_that_no_script_names_are_those_of_the_reference() -> None:
    """``src/options.py`` of mvts_transformer, lines 149 to 155: 64 features, 8 heads, 3 layers."""
    for name in ("Handwriting", "Heartbeat"):
        assert PRESETS[name].model["layers"] == 3
        assert "3 layers" in PRESETS[name].summary
    assert PRESETS["EthanolConcentration"].model["layers"] == 1  # named by its script


def test_small_model_learns_in_seconds(folder: Path, tmp_path: Path) -> None:
    few = {"steps": 60, "evaluate_every": 30, "save_every": 30, "learning_rate": 5e-3}
    found = by_name(train_series(series_run(folder, **few), tmp_path / "run"))
    accuracy = found["test", ACCURACY]
    assert accuracy.value > 80  # a third by chance
    assert (accuracy.positions, accuracy.published) == (30, None)
    assert found["test", series.CORRECT].value == pytest.approx(0.3 * accuracy.value)
    assert found["valid", ACCURACY].positions == 12
    assert found["test", series.BEST].value >= found["test", series.LAST].value


def test_results_are_found_again_and_say_what_was_read(run: Path, data: SeriesData) -> None:
    with (run / "results.csv").open() as file:
        found = {(r["split"], r["metric"]): float(r["value"]) for r in csv.DictReader(file)}
    again = {key: row.value for key, row in by_name(evaluate(run)).items()}
    assert again.items() <= found.items()
    assert set(found) - set(again) == {("test", series.LAST), ("test", series.BEST)}
    config = json.loads((run / "results.json").read_text())["config"]
    assert config["series"] == {"train": 48, "valid": 12, "test": 30}
    assert (config["classes"], config["channels"], config["longest"]) == (3, 2, data.length)
    assert config["missing_values"] == {"train": 0, "test": 0}
    assert config["series_cut_off"] == dict(data.cut)
    with (run / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["test_accuracy"]]
    accuracies = [100 * float(row["test_accuracy"]) for row in rows]
    assert found["test", series.LAST] == pytest.approx(accuracies[-1])
    assert found["test", series.BEST] == pytest.approx(max(accuracies))


def test_test_series_decide_nothing(folder: Path, tmp_path: Path, run: Path) -> None:
    """Other test series: the same weights, the same best update."""
    shutil.copytree(folder, tmp_path / "other")
    file = tmp_path / "other" / "Waves_TEST.ts"
    header, lines = file.read_text().split("@data\n")
    file.write_text(f"{header}@data\n{lines.splitlines()[1]}\n")
    train_series(series_run(tmp_path / "other", "softmax", preset="normed"), tmp_path / "run")
    ours, theirs = (read_tensors(place / "model.safetensors") for place in (tmp_path / "run", run))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert by_name(evaluate(run, data=tmp_path / "other"))["test", ACCURACY].positions == 1


def test_other_training_series_are_refused(run: Path, tmp_path: Path) -> None:
    other = write_problem(tmp_path / "other", train=66)
    message = error_of(lambda: evaluate(run, data=other))
    assert f"data must be read as those of the run in {run}" in message
    assert message.endswith("got others: mean, deviation")


def test_published_numbers_stand_beside_what_they_were_measured_as(
    data: SeriesData, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Problem(60, 30, channels=data.channels, classes=len(data.classes))
    monkeypatch.setitem(PROBLEMS, "Waves", whole)
    published = PRESETS["JapaneseVowels"].published
    preset = replace(PRESETS["tiny"], published=published, problem="Waves")
    model = series.STUDY.build(preset, data, ChosenMixer("fourier"))
    found = by_name(series.STUDY.measure(preset, data, "fourier", model))
    assert [key for key, row in found.items() if row.published] == [("test", ACCURACY)]
    assert found["test", ACCURACY].published == 99.37
    few = by_name(series.STUDY.measure(preset, data, "fourier", model, positions=5))
    assert few["test", ACCURACY].positions == 5
    assert few["test", ACCURACY].published is None
    monkeypatch.setitem(PROBLEMS, "Waves", replace(whole, train=61))
    cut = by_name(series.STUDY.measure(preset, data, "fourier", model))
    assert cut["test", ACCURACY].published is None
    other = series.STUDY.measure(
        preset, data, "gaussian", series.STUDY.build(preset, data, ChosenMixer("gaussian"))
    )
    assert not any(row.published for row in other)


def test_command_trains_plans_and_evaluates(folder: Path, tmp_path: Path, call: Call) -> None:
    output = tmp_path / "run"
    study = ("train", "series", "--data", folder, "--mixer", "softmax")
    status, out, err = call(*study, "--plan")
    assert (status, err) == (0, "")
    assert re.search(r"labels +│ 3 classes", out)
    assert re.search(r"training series +│ 48 series, read 27 times", out)
    assert call(*study, "--output", output, "--limit-steps", 4)[0] == 0
    status, out, err = call("evaluate", output, "--split", "test")
    assert (status, err) == (0, "")
    assert re.search(r"test +│ accuracy \(%\) +│ [\d.]+ +│ 30 ", out)
    status, _, err = call("train", "series", "--preset", "JapaneseVowels")
    assert (status, err.startswith("error: data must be a folder of .ts files")) == (2, True)


def test_list_names_the_presets_and_where_data_are_had(call: Call) -> None:
    out = call("train", "series", "--list")[1]
    flat = re.sub(r"\s+", " ", out)
    assert "timeseriesclassification.com" in flat
    assert all(name in flat for name in PAPER)


def test_unsuitable_options_are_refused() -> None:
    with pytest.raises(TypeError, match="option of mixer fourier must be one of"):
        setup("series", mixer=ChosenMixer("fourier", {"sigma": 1}))


def test_damaged_description_of_the_series_is_told(run: Path, tmp_path: Path) -> None:
    other = write_problem(tmp_path / "other", train=66)
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("study.json", "model.safetensors"):
        shutil.copy(run / name, copy)
    assert "series.json must say how series are read" in error_of(
        lambda: evaluate(copy, data=other)
    )
    (copy / "series.json").write_text("[]")
    assert "data must be read as those" in error_of(lambda: evaluate(copy, data=other))


def test_model_keeps_its_running_statistics(run: Path, data: SeriesData) -> None:
    model = load_model(run / "model.safetensors")
    norm = model.blocks[0].around_mixer.norm
    assert not torch.equal(norm.running_var, torch.ones_like(norm.running_var))


def test_a_network_that_gives_no_numbers_is_right_of_nothing(
    folder: Path, data: SeriesData
) -> None:
    """Once it was right of every series of the first class, the place that argmax has for NaN."""
    run = setup("series", preset="tiny", mixer="softmax", data=folder)
    model = series.STUDY.build(run.chosen_preset, data, ChosenMixer("softmax")).eval()
    with torch.no_grad():
        model.projection.weight.fill_(math.nan)
    places = range(data.counts["test"])
    assert (data.splits["test"].labels == 0).any()
    loss, right = series.STUDY.sums(model, run.chosen_preset, data, "test", places)
    assert math.isnan(loss)
    assert right == 0


def test_archive_can_be_added_from_outside(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = replace(read_series(folder), corpus="mine")
    row = DataSet(
        title="t", source="h", layout="l", recognises=lambda place: True, open=lambda *given: mine
    )
    monkeypatch.setattr(series, "ARCHIVES", {"mine": row, **ARCHIVES})
    assert series.STUDY.read(PRESETS["tiny"], tmp_path) is mine
