"""The arena's study is that of the papers, learns, resumes and measures what it says."""

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
from scipy.stats import binomtest
from tiny_arena import arena_run, listops, pairs, texts, train_arena
from training_runs import Call, error_of

from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import SCHEDULES
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.lra import study as lra
from fourierkernels.studies.lra.examples import ArenaData, collate
from fourierkernels.studies.lra.presets import (
    ACCURACY,
    ARENA,
    PAPER,
    PRESETS,
    PUBLISHED_COUNTS,
    TASKS,
)
from fourierkernels.studies.lra.sets import read_arena

# [leethorp2021fnet]_ table 6, as printed, with its averages without Path-X.
TABLE_6 = """
Transformer 36.06 61.54 59.67 41.51 80.38 FAIL 55.83
Linear 33.75 53.35 58.95 41.04 83.69 FAIL 54.16
FNet 35.33 65.11 59.61 38.67 77.80 FAIL 55.30
"""
NAMES = {"Transformer": "softmax", "Linear": "linear", "FNet": "fnet"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return listops(tmp_path_factory.mktemp("listops"))


@pytest.fixture(scope="module")
def data(folder: Path) -> ArenaData:
    return read_arena(folder)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run that was not interrupted, with features that are drawn anew."""
    output = tmp_path_factory.mktemp("arena") / "run"
    train_arena(performer_run(folder), output)
    return output


def performer_run(folder: Path) -> Setup:
    return arena_run(folder, ChosenMixer("performer", {"features": 8, "redraw": 2}))


def by_name(rows: list[Measured]) -> dict[tuple[str, str], Measured]:
    return {(row.split, row.metric): row for row in rows}


def test_presets_have_the_published_table() -> None:
    for line in TABLE_6.strip().splitlines():
        name, *numbers, average = line.split()
        found = PAPER[NAMES[name]]
        assert [str(v).ljust(5, "0") if v else "FAIL" for v in found] == numbers
        assert round(sum(found[:5]) / 5, 2) == pytest.approx(float(average), abs=0.011)
        for task, value in zip(TASKS, found, strict=True):
            published = PRESETS[task].published.get(NAMES[name], {}).get(ACCURACY)
            assert published == value
    assert PRESETS["text"].published["performer"] == {ACCURACY: ARENA["performer"][1]}
    assert not any(PRESETS[name].published for name in PRESETS if name not in TASKS)


def test_text_follows_the_paper_of_the_arena_and_its_code_is_offered() -> None:
    """Footnote 8 of the FNet paper puts that paper's configurations before those of its code."""

    def sizes(name: str) -> tuple[int, ...]:
        config = lra._config(PRESETS[name])
        return config.layers, config.dim, config.heads, config.hidden

    assert (sizes("text"), sizes("text_code")) == ((6, 512, 8, 2048), (4, 256, 4, 1024))
    assert PRESETS["text"].recipe == PRESETS["text_code"].recipe
    assert not lra._config(PRESETS["text"]).share_layers


def test_rates_are_those_of_the_published_code() -> None:
    """``create_learning_rate_scheduler`` of ``utils/train_utils.py`` at some updates."""
    for task, warmup in (("listops", 1000), ("text", 8000), ("retrieval", 8000)):
        recipe = PRESETS[task].recipe
        for done in (warmup // 2, warmup, 2 * warmup, 4 * warmup):
            step = done + 1
            published = 0.05 * min(1.0, step / warmup) / math.sqrt(max(step, warmup))
            ours = recipe.learning_rate * SCHEDULES[recipe.schedule](done, recipe.warmup, 10**6)
            assert ours == pytest.approx(published, rel=2e-3)
    for task, epoch in (("image", 175), ("pathfinder", 312), ("pathx", 2500)):
        recipe = PRESETS[task].recipe
        assert (recipe.steps, recipe.warmup, recipe.weight_decay) == (200 * epoch, epoch, 0.0)


@pytest.mark.parametrize("task", TASKS)
def test_lengths_are_the_published_ones(task: str) -> None:
    lengths = (2000, 4000, 4000, 32**2, 32**2, 128**2)
    assert lra._config(PRESETS[task]).length == dict(zip(TASKS, lengths, strict=True))[task]


def test_a_run_learns() -> None:
    """Some updates on expressions: better than the best answer that reads none of them.

    At this rate, a quarter of the one at which the loss begins to jump, rounding changes nothing.
    """
    torch.set_num_threads(1)
    data = read_arena("listops_small")
    preset = PRESETS["tiny"]
    recipe = replace(preset.recipe, steps=200)
    torch.manual_seed(0)
    model = lra.STUDY.build(preset, data, ChosenMixer("softmax"))
    goal, updates = (
        lra.STUDY.objective(preset, data, recipe),
        lra.STUDY.batches(preset, data, recipe),
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for number in range(200):
        optimiser.zero_grad()
        goal.loss(model, updates.__getitems__(range(32 * number, 32 * number + 32))).backward()
        optimiser.step()
    total, count, correct = goal.validate(model.eval(), 0, 1)
    assert goal.even == math.log(10)
    shares = np.bincount(data.splits["valid"].labels, minlength=10) / count
    assert total / count < -np.sum(shares * np.log(shares)) - 0.2  # the entropy of the labels
    surely = binomtest(int(correct), count).proportion_ci(method="wilson").low
    assert surely > shares.max() + 0.05


def test_results_are_found_again_and_say_what_was_read(run: Path) -> None:
    with (run / "results.csv").open() as file:
        found = {(r["split"], r["metric"]): float(r["value"]) for r in csv.DictReader(file)}
    assert {key: row.value for key, row in by_name(evaluate(run)).items()} == found
    config = json.loads((run / "results.json").read_text())["config"]
    assert config["sequences"] == {"train": 60, "valid": 13, "test": 20}
    assert (config["task"], config["classes"], config["length"]) == ("listops", 10, 64)
    assert config["sequences_cut_off"] == {"train": 0, "valid": 0, "test": 0}
    assert config["chance_loss"] == pytest.approx(math.log(10))
    first = read_tensors(run / "checkpoint-12/model.safetensors")
    assert int(next(value for key, value in first.items() if key.endswith("passes"))) == 12


def test_class_of_a_pair_does_not_depend_on_the_others(tmp_path: Path) -> None:
    data = read_arena(pairs(tmp_path))
    torch.manual_seed(1)
    for mixer in ("softmax", "fnet"):
        model = lra.STUDY.build(PRESETS["retrieval_small"], data, ChosenMixer(mixer))
        model = model.double().eval()
        split = data.splits["test"]
        with torch.no_grad():
            batch = lra.STUDY.logits(model, collate(split, range(4), length=128))
            alone = [lra.STUDY.logits(model, collate(split, [i], length=128)) for i in range(4)]
        assert batch.std() > 1e-3
        torch.testing.assert_close(batch, torch.cat(alone), rtol=1e-9, atol=1e-11)


def test_published_numbers_stand_beside_sets_of_the_published_size(
    data: ArenaData, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = replace(PRESETS["tiny"], published=PRESETS["listops"].published)
    torch.manual_seed(0)  # a network that is right once: its interval then has it inside
    model = lra.STUDY.build(preset, data, ChosenMixer("fnet"))
    assert not any(row.published for row in lra.STUDY.measure(preset, data, "fnet", model))
    monkeypatch.setitem(PUBLISHED_COUNTS, "listops", (60, 20))
    found = by_name(lra.STUDY.measure(preset, data, "fnet", model))
    assert [key for key, row in found.items() if row.published] == [("test", ACCURACY)]
    assert found["test", ACCURACY].published == 35.33
    low, high = found["test", lra.LOW].value, found["test", lra.HIGH].value
    assert low < found["test", ACCURACY].value < high
    correct = round(found["test", ACCURACY].value / 5)  # of 20
    wilson = binomtest(correct, 20).proportion_ci(0.95, "wilson")
    assert (low, high) == pytest.approx((100 * wilson.low, 100 * wilson.high), rel=1e-12)
    few = by_name(lra.STUDY.measure(preset, data, "fnet", model, positions=5))
    assert few["test", ACCURACY].positions == 5
    assert few["test", ACCURACY].published is None


def test_command_trains_plans_and_evaluates(folder: Path, tmp_path: Path, call: Call) -> None:
    output = tmp_path / "run"
    study = ("train", "lra", "--preset", "tiny", "--data", folder, "--mixer", "fnet")
    status, out, err = call(*study, "--plan")
    assert (status, err) == (0, "")
    assert re.search(r"labels +│ 10 classes", out)
    assert re.search(r"training sequences +│ 60 sequences", out)
    assert call(*study, "--output", output, "--limit-steps", 3)[0] == 0
    status, out, err = call("evaluate", output, "--split", "test")
    assert (status, err) == (0, "")
    assert re.search(r"test +│ accuracy \(%\) +│ [\d.]+ +│ 20 ", out)
    status, _, err = call("heads", output, folder / "basic_test.tsv")
    assert status == 2
    assert err.startswith("error: ")


def test_data_of_another_task_or_size_are_refused(tmp_path: Path) -> None:
    for preset, named, message in (
        ("listops", None, "data must be a folder for this preset"),
        ("text", "listops_small", "data must be of the task text, got listops"),
        ("image", "digit_pixels", "must have images of 1024 pixels, .* got 8 x 8"),
        ("pathx", "contours", "must have images of 16384 pixels, .* got 16 x 16"),
    ):
        with pytest.raises(ValueError, match=message):
            lra.STUDY.read(PRESETS[preset], named)


def test_another_set_can_be_measured_only_if_it_is_read_alike(run: Path, tmp_path: Path) -> None:
    other = listops(tmp_path / "other", seed=5)
    assert by_name(evaluate(run, data=other))["test", ACCURACY].positions == 20
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("study.json", "model.safetensors", "arena.json"):
        shutil.copy(run / name, copy)
    (copy / "arena.json").write_text("[]")
    assert "data must be read as those of the run" in error_of(lambda: evaluate(copy, data=other))
    (copy / "arena.json").unlink()
    assert "arena.json must say how sequences are read" in error_of(
        lambda: evaluate(copy, data=other)
    )


def test_longer_texts_are_cut_and_the_results_say_so(tmp_path: Path) -> None:
    output = tmp_path / "run"
    train_arena(arena_run(texts(tmp_path / "data"), preset="text_tiny"), output, limit=3)
    config = json.loads((output / "results.json").read_text())["config"]
    cut = config["sequences_cut_off"]
    assert cut == read_arena(tmp_path / "data").longer(128)
    assert cut["train"] > 0


def test_unsuitable_options_are_refused() -> None:
    with pytest.raises(TypeError, match="option of mixer performer must be one of"):
        setup("lra", mixer=ChosenMixer("performer", {"sigma": 1}))
