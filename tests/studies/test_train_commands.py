"""``fourierkernels train`` and ``evaluate``: from a text on disk to numbers, and clear errors."""

import csv
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from training_runs import Call, short_run, train_here

from fourierkernels.studies import STUDIES
from fourierkernels.studies.engine import train_command
from fourierkernels.studies.engine.mixers import ChosenMixer, read_options
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import is_of_preset, setup
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.language import study as language
from fourierkernels.studies.language.corpora import CORPORA
from fourierkernels.studies.registry import Studies


def test_list_of_a_study_tells_where_data_are_had_and_how_they_lie(call: Call) -> None:
    status, out, _ = call("train", "language", "--list")
    text = " ".join(out.split())
    assert status == 0
    for name, row in CORPORA.items():
        assert f"{name}: {row.title}" in text
        assert row.layout.split(",")[0] in text
    assert "wikitext-103-v1.zip" in text
    assert "language: Language modelling" in text


def test_text_becomes_a_measured_model_that_other_commands_take(
    call: Call, texts: Path, tmp_path: Path
) -> None:
    """Stopped after 4 updates, resumed until 8 without repeating the options, then measured."""
    output = tmp_path / "run"
    options = ("--data", texts, "--mixer", "fourier", "--mixer-option", "power=2", "--seed", 3)
    status, out, err = call("train", "language", *options, "--output", output, "--limit-steps", 4)
    assert (status, err.count("error")) == (0, 0), err
    assert "sliding perplexity" in out
    assert "written:" in out
    status, _, err = call("train", "language", "--resume", "--output", output, "--limit-steps", 8)
    assert status == 0, err
    assert {path.name for path in output.iterdir()} >= {
        "checkpoint-8",
        "curve.csv",
        "model.safetensors",
        "results.csv",
        "results.json",
        "study.json",
        "test.ids",
        "vocabulary.txt",
    }
    status, out, err = call(
        "evaluate", output, "--split", "test", "--positions", 20, "--output", tmp_path / "t.csv"
    )
    assert status == 0, err
    assert "valid" not in out
    assert (tmp_path / "t.csv").read_text().startswith("split,metric,value,positions,published\n")
    model = output / "model.safetensors"
    status, out, err = call(
        "heads", model, "--ids", output / "test.ids", "--context", 32, "--no-baseline"
    )
    assert status == 0, err
    assert "layer" in out


def test_plan_is_shown_before_anything_is_written(call: Call, texts: Path, tmp_path: Path) -> None:
    status, out, err = call(
        "train", "language", "--data", texts, "--plan", "--output", tmp_path / "run"
    )
    assert status == 0, err
    for name in ("parameters", "vocabulary", "training text", "memory", "time"):
        assert name in out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("speech",), f"study must be one of {', '.join(STUDIES)}, got 'speech'"),
        (
            ("language", "--seed", str(2**64)),
            "seed must be at most 4294967295, which all generators",
        ),
        (("language", "--seed", "-1"), "seed must be at least 0, got -1"),
        (("language", "--preset", "huge"), "preset must be one of mini, tiny"),
        (("language", "--mixer", "fnet"), "mixer must be one of softmax"),
        (
            ("language", "--mixer", "softmax", "--mixer-option", "mask=after"),
            "mask must be before where a study scores each prediction beside what comes later",
        ),
        (
            ("control", "--mixer", "softmax", "--mixer-option", "mask=after"),
            "mask must be before where a study scores each prediction beside what comes later",
        ),
        (("language", "--preset", "small"), "data must be named for this preset"),
        (("language", "--data", "/no/such/folder"), "data must be a folder or one of python"),
        (("language", "--mixer-option", "power"), "mixer-option must be NAME=VALUE, got 'power'"),
        (
            ("language", "--mixer-option", "power=2", "--mixer-option", "power=4"),
            "mixer-option must name each option once, got power twice",
        ),
        (("language", "--resume", "--output", "/no/such/run"), "must be the folder of a training"),
    ],
)
def test_bad_options_are_one_line(
    call: Call,
    arguments: tuple[str, ...],
    rule: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = call("train", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert rule in err
    assert err.count("\n") == 1


OF_FOURIER = (
    "allow_signed, bias, dropout, eps, learn_radius, power, radius, radius_parameter, "
    "radius_penalty, radius_shape"
)


@pytest.mark.parametrize(
    ("mixer", "option", "rule"),
    [
        ("fourier", "foo=2", f"option of mixer fourier must be one of {OF_FOURIER}, got 'foo'"),
        ("softmax", "power=2", "option of mixer softmax must be one of bias, "),
        ("none", "foo=2", "option of mixer none must be absent: it has none, got 'foo'"),
        ("fourier", "heads=2", f"must be one of {OF_FOURIER}, got 'heads'"),
        ("fourier", "bias=x", "bias of mixer fourier must be true or false, got 'x'"),
        ("fourier", "power=x", "power must be an integer, got 'x'"),
        ("fourier", "radius=-1", "radius must be finite and greater than 0, got -1"),
    ],
)
def test_bad_option_of_a_mixer_is_one_line(
    call: Call, mixer: str, option: str, rule: str, texts: Path, tmp_path: Path
) -> None:
    run = ("train", "language", "--data", texts, "--output", tmp_path / "r", "--mixer", mixer)
    status, _, err = call(*run, "--mixer-option", option)
    assert (status, err.count("\n")) == (2, 1)
    assert rule in err
    assert "__init__" not in err


@pytest.mark.parametrize(("given", "policy"), [("", "passive"), ("active", "active")])
def test_threads_of_a_training_sleep_while_they_wait(given: str, policy: str) -> None:
    """OpenMP reads the policy when PyTorch loads it; the command chooses it before."""
    environment = {n: value for n, value in os.environ.items() if n != "OMP_WAIT_POLICY"}
    program = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            print(os.environ['OMP_WAIT_POLICY'])\n"
        "            os._exit(0)\n"
        "sys.meta_path.insert(0, Watch())\n"
        "sys.argv = ['fourierkernels', 'train', 'language']\n"
        "from fourierkernels import cli\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", program],
        env=environment | ({"OMP_WAIT_POLICY": given} if given else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, policy), done.stderr


def test_tensorboard_that_is_not_installed_is_one_line(
    call: Call, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    status, _, err = call(
        "train", "language", "--data", texts, "--output", tmp_path / "r", "--tensorboard"
    )
    assert (status, err.count("\n")) == (2, 1)
    assert "--tensorboard needs tensorboard: pip install 'fourierkernels[tensorboard]'" in err


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard's own imports
def test_tensorboard_has_the_losses_of_the_curve(texts: Path, cache: Path, tmp_path: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is missing"
    )
    run = short_run(texts, steps=4, log_every=2)
    train_here(run, tmp_path, cache, limit=2, tensorboard=True)
    train_here(run, tmp_path, cache, resume=True, tensorboard=True)
    found: dict[tuple[str, int], float] = {}
    for folder in {path.parent for path in tmp_path.rglob("events.out.tfevents.*")}:
        board = events.EventAccumulator(str(folder)).Reload()
        for ours, theirs in {"loss": "train/loss", "valid_loss": "eval/loss"}.items():
            if theirs in board.Tags()["scalars"]:
                found |= {(ours, event.step): event.value for event in board.Scalars(theirs)}
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = {
        (name, int(row["step"])): float(row[name])
        for row in rows
        for name in ("loss", "valid_loss")
        if row[name]
    }
    assert sorted(found) == [("loss", 2), ("loss", 4), ("valid_loss", 4)]
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_run_in_the_background_says_how_far_it_is(
    texts: Path, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A line for each of the curve; its pace is over the steps since the line before."""
    train_here(short_run(texts, steps=4, log_every=2), tmp_path, cache)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("step ")]
    assert [line.split(":")[0] for line in lines] == ["step 2 of 4", "step 4 of 4", "step 4 of 4"]
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(rows[k]["loss"]) for k in (0, 1)] == pytest.approx(
        [float(line.split("loss ")[1].split(",")[0]) for line in lines[:2]], rel=1e-3
    )
    assert lines[0].endswith(" s a step")
    assert lines[2].split(": ")[1] == f"eval_loss {float(rows[1]['valid_loss']):.4g}"


@pytest.mark.parametrize("given", ["missing", "weights.bin"])
def test_evaluating_what_is_no_run_is_one_line(call: Call, given: str, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    status, _, err = call("evaluate", tmp_path / given)
    assert status == 2
    assert "checkpoint must be in the folder of a training run" in err


@pytest.mark.parametrize("name", ["evaluate", "translate"])
def test_a_run_that_is_not_finished_says_how_to_go_on(
    name: str, call: Call, finished: Path, tmp_path: Path
) -> None:
    shutil.copy(finished / "study.json", tmp_path)
    status, out, err = call(name, tmp_path)
    assert (status, out) == (2, "")
    assert err == (
        "error: checkpoint must have model.safetensors, the best model, which a run writes at its "
        f"end (train --resume goes on), got {tmp_path} without\n"
    )


def test_published_numbers_stand_beside_the_preset_trained_to_its_end(
    texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the study finds of data and metric."""
    measured = [Measured("test", "number", 1.0, 1, published=2.0)]
    monkeypatch.setattr(language.LanguageStudy, "measure", lambda *given, **options: measured)
    run, output = short_run(texts, steps=4), tmp_path / "run"
    [found] = train_here(run, tmp_path / "changed", cache)
    assert found.published is None
    preset = replace(language.PRESETS["tiny"], recipe=replace(run.recipe, seed=7))
    monkeypatch.setitem(language.PRESETS, "tiny", preset)
    run = short_run(texts, steps=4)
    [begun] = train_here(run, output, cache, limit=2)
    [ended] = train_here(run, output, cache, resume=True)
    assert (begun.published, ended.published) == (None, 2.0)
    [middle] = evaluate(output / "checkpoint-4", cache=cache)
    assert middle.published is None  # not the model that was measured for the table
    shutil.rmtree(output / "checkpoint-4")
    assert [row.published for row in evaluate(output, cache=cache)] == [2.0]
    wider = replace(preset, model={**preset.model, "dim": 128})  # as a later version may have it
    monkeypatch.setitem(language.PRESETS, "tiny", wider)
    assert [row.published for row in evaluate(output, cache=cache)] == [None]
    monkeypatch.setitem(language.PRESETS, "tiny", preset)
    others = (
        {"mixer": ChosenMixer("softmax", {"scale": 0.1})},
        {"recipe": replace(run.recipe, batch=8)},
    )
    assert [is_of_preset(replace(run, **other)) for other in others] == [False, False]


def test_run_in_more_parts_than_its_preset_has_sequences_is_of_another_recipe() -> None:
    usual = setup("translation", preset="tiny", mixer="attention")
    assert usual.recipe.batch == 1
    parts = setup("translation", preset="tiny", mixer="attention", batch=4, accumulation=4)
    assert [is_of_preset(run) for run in (usual, parts)] == [True, False]


def test_runs_of_other_settings_have_other_folders(texts: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(texts, other)
    asked: list[dict[str, Any]] = [
        {},
        {"seed": 1},
        {"seed": 1, "learning_rate": 1e-3},
        {"mixer": ChosenMixer("fourier", {"power": 2})},
        {"mixer": ChosenMixer("fourier", {"power": 2, "radius_shape": "head"})},
        {"data": texts},
        {"data": other},
        {"betas": (0.9, 0.901), "mixer": ChosenMixer("fourier", {"eps": 1e-3})},
        {"preset": "mini"},
    ]
    names = [train_command.folder_name(setup("language", **given)) for given in asked]
    assert names[:2] == ["language-tiny-fourier", "language-tiny-fourier-seed=1"]
    assert len(set(names)) == len(asked)
    assert all(re.fullmatch(r"[\w.=+-]+", name) for name in names)
    cut = [train_command.folder_name(setup("language", data="x" * 200 + end)) for end in "ab"]
    assert cut[0] != cut[1]
    assert max(map(len, cut)) < 140


def test_study_of_a_run_is_looked_up_once(
    texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, asked = Studies.__getitem__, []

    def counted(self: Studies, name: str) -> Any:
        asked.append(name)
        return whole(self, name)

    monkeypatch.setattr(Studies, "__getitem__", counted)
    named = {"data": str(texts), "mixer": "softmax", "mixer_options": ["scale=0.1"]}
    few = ["steps=2", "batch=2", "warmup=1", "evaluate_every=2", "save_every=2"]
    other = {"preset": "tiny", "resumed": None, "lesson": train_command.Lesson(), "settings": few}
    run = train_command.choose_run("language", **named, **other)
    assert (run.study.name, run.mixer.options, run.recipe.steps) == ("language", {"scale": 0.1}, 2)
    train_here(run, tmp_path / "run", cache)
    assert asked == ["language"]


def test_a_split_that_is_named_twice_is_measured_once() -> None:
    assert train_command.choose_splits(["test", "valid", "test"]) == ("test", "valid")


def test_values_of_options_are_json_or_words() -> None:
    given = ["power=2", "radius=0.5", "allow_signed=true", "radius_shape=head"]
    expected = {"power": 2, "radius": 0.5, "allow_signed": True, "radius_shape": "head"}
    assert read_options(given) == expected


@pytest.mark.slow
def test_quick_mode_trains_on_the_text_of_python(tmp_path: Path) -> None:
    """The command of the documentation, as a person starts it: one process, nothing prepared."""
    environment = {**os.environ, "FOURIERKERNELS_CACHE": str(tmp_path / "tokens")}
    done = subprocess.run(
        [sys.executable, "-m", "fourierkernels.cli", "train", "language", "--mixer", "softmax"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "written: language-tiny-softmax" in done.stdout
    assert (tmp_path / "language-tiny-softmax/model.safetensors").is_file()
