"""``--set``: settings of a recipe, those that a resumed run may change, and what each does."""

import csv
import json
import math
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_runs import STEPS, Call, error_of, same_results, short_run, train_here

from fourierkernels.models import load_model
from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies import ChosenMixer, evaluate, setup
from fourierkernels.studies.engine.checkpoints import checkpoint_steps, last_checkpoint
from fourierkernels.studies.engine.optimisers import is_overflow
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.prepared import prepared
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup, load_setup
from fourierkernels.studies.engine.settings import read_settings, shown_settings
from fourierkernels.studies.engine.teacher import Lesson
from fourierkernels.studies.engine.train_command import choose_run

RECIPE = Recipe(steps=7, batch=6, learning_rate=0.25)


def extended(folder: Path, *settings: str) -> Setup:
    """Return the run in a folder with other settings, as the command resumes it."""
    named = {"data": None, "mixer": None, "mixer_options": (), "preset": None}
    return choose_run("language", **named, resumed=folder, lesson=Lesson(), settings=settings)


def test_every_field_of_a_recipe_is_a_setting() -> None:
    shown = shown_settings(RECIPE).split()
    assert len(shown) == len(RECIPE.as_json())
    assert Recipe(**read_settings(shown).named) == RECIPE


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("rate=1", "set must name a setting, the nearest are learning_rate"),
        ("Steps=1", "set must name a setting, the nearest are steps"),
        ("clip", "set must be NAME=VALUE, got 'clip'"),
        ("clip=", "set must be NAME=VALUE, got 'clip='"),
        ("batch=1.5", "batch must be an integer, got '1.5'"),
        ("batch=true", "batch must be an integer, got 'true'"),
        ("clip=x", "clip must be a number, got 'x'"),
        ("clip=[1]", "clip must be a number, got '[1]'"),
        ("compile=1", "compile must be true or false, got '1'"),
        ("betas=0.9", "betas must be 2 numbers between commas, got '0.9'"),
        ("betas=0.9,1", "betas must be in [0, 1), got 1"),
        ("learning_rate=nan", "learning_rate must be a number, got 'nan'"),
        ("learning_rate=NaN", "learning_rate must be finite"),
        ("precision=half", "precision must be one of float32, tf32, bfloat16, float16, float64"),
        ("precision=tf32", "precision must be one of float32, bfloat16, float16, float64 on"),
        ("accumulation=5", "accumulation must divide batch = 16, got 5"),
        ("average=9", "average must be at most 4, the checkpoints of 400 steps saved every 100"),
        ("steps=10", "warmup must be at most steps = 10, got 40 of the preset"),
        ("seed=3", "seed must be given once, got 2 and 3"),
    ],
)
def test_bad_setting_is_one_line(
    given: str, rule: str, call: Call, texts: Path, tmp_path: Path
) -> None:
    options = ("--data", texts, "--output", tmp_path / "r", "--set", given, "--seed", 2)
    status, out, err = call("train", "language", *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert rule in err
    assert not (tmp_path / "r").exists()


def test_setting_named_twice_is_refused() -> None:
    message = error_of(lambda: read_settings(["clip=1", "clip=2"]))
    assert message == "ValueError: set must name each setting once, got clip twice"


def test_settings_are_planned_trained_and_written_down(
    call: Call, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    chosen = {"steps": 2, "batch": 2, "warmup": 1, "precision": "bfloat16", "clip": None}
    options = [f"--set={name}={str(value).lower()}" for name, value in chosen.items()]
    command = ("train", "language", "--preset", "mini", "--data", texts, *options)
    planned = call(*command, "--plan")
    assert planned[0] == 0, planned[2]
    assert "read 0.0" in planned[1]  # 4 of thousands of segments
    status, _, err = call(*command, "--output", output)
    assert status == 0, err
    for file, place in (("results.json", "config"), ("study.json", None)):
        facts = json.loads((output / file).read_text())
        recipe = (facts[place] if place else facts)["recipe"]
        assert {name: recipe[name] for name in chosen} == chosen


# What a resumed run may change


@pytest.fixture(scope="module")
def roots(texts: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of eight updates whose rates fall as a root."""
    output = tmp_path_factory.mktemp("roots") / "run"
    train_here(short_run(texts, schedule="inverse_root", steps=8), output, cache)
    return output


def test_longer_run_of_rates_without_an_end_is_the_same_to_the_bit(
    roots: Path, texts: Path, cache: Path, tmp_path: Path
) -> None:
    whole = short_run(texts, schedule="inverse_root")
    train_here(whole, tmp_path / "whole", cache)
    output = Path(shutil.copytree(roots, tmp_path / "parts"))
    longer = extended(output, f"steps={STEPS}")
    assert longer == whole
    train_here(longer, output, cache, resume=True)
    assert same_results(output, tmp_path / "whole") == []


def test_intervals_of_a_resumed_run_are_those_that_are_asked_for(
    roots: Path, cache: Path, tmp_path: Path
) -> None:
    output = Path(shutil.copytree(roots, tmp_path / "often"))
    longer = extended(output, f"steps={STEPS}", "evaluate_every=1", "save_every=1")
    train_here(longer, output, cache, resume=True)
    lines = [row.split(",") for row in (output / "curve.csv").read_text().splitlines()]
    place = lines[0].index("valid_loss")
    validated = [int(row[0]) for row in lines[1:] if row[place]]
    assert [step for step in validated if step > 8] == [9, 10, 11, 12]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (["schedule=cosine", "steps=9"], "schedule must be that of the run in"),
        (["learning_rate=0.1"], "(only steps, evaluate_every, save_every, log_every, patience"),
        (["steps=7"], "steps must be at least 8, those made already, got 7"),
    ],
)
def test_what_would_change_updates_made_is_refused(
    settings: list[str], rule: str, roots: Path, cache: Path
) -> None:
    run = extended(roots, *settings)
    message = error_of(lambda: train_here(run, roots, cache, resume=True))
    assert rule in message
    assert "\n" not in message


def test_rates_that_end_with_the_run_cannot_be_extended(finished: Path, cache: Path) -> None:
    run = extended(finished, "steps=20")
    message = error_of(lambda: train_here(run, finished, cache, resume=True))
    assert message.startswith(f"ValueError: steps must stay {STEPS} in the run in {finished}: the")
    assert "'cosine' depend on how many there are" in message
    assert load_setup(finished)[0].recipe.steps == STEPS


def test_run_without_progress_is_not_extended_in_silence(
    texts: Path, cache: Path, tmp_path: Path
) -> None:
    still = {"learning_rate": 1e-12, "schedule": "constant", "evaluate_every": 1, "patience": 1}
    train_here(short_run(texts, steps=6, **still), tmp_path, cache)
    made = last_checkpoint(tmp_path).step
    assert made < 6
    message = error_of(
        lambda: train_here(extended(tmp_path, "steps=7"), tmp_path, cache, resume=True)
    )
    assert "patience must be more than 1 (or none) to extend the run in" in message
    train_here(extended(tmp_path, "steps=7", "patience=none"), tmp_path, cache, resume=True)
    assert last_checkpoint(tmp_path).step == 7


# What settings do


def test_mean_of_the_last_checkpoints_is_kept_and_measured(
    texts: Path, cache: Path, tmp_path: Path
) -> None:
    """The checkpoint of an interruption is none of them."""
    run = short_run(texts, average=3)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    measured = train_here(run, whole, cache)
    with pytest.warns(UserWarning, match="average is of 2 checkpoints instead of 3"):
        train_here(run, parts, cache, limit=5)
    train_here(run, parts, cache, resume=True)
    assert same_results(parts, whole) == []
    assert set(checkpoint_steps(whole)) == {8, 10, 12}
    facts = json.loads((whole / "results.json").read_text())["config"]
    assert facts["averaged_steps"] == [8, 10, 12]
    files = [read_tensors(whole / f"checkpoint-{step}/model.safetensors") for step in (8, 10, 12)]
    for name, kept in read_tensors(whole / "model.safetensors").items():
        mean = torch.stack([file[name].double() for file in files]).mean(dim=0)
        torch.testing.assert_close(kept.double(), mean, rtol=1e-6, atol=1e-8)
    again = evaluate(whole, positions=run.chosen_preset.positions, cache=cache)
    assert [row.value for row in again] == [row.value for row in measured]


def test_blocks_computed_twice_train_to_the_same_bits(
    request_run: Setup, finished: Path, texts: Path, cache: Path, tmp_path: Path
) -> None:
    run = short_run(texts, gradient_checkpointing=True)
    train_here(run, tmp_path, cache)
    assert same_results(tmp_path, finished) == ["study.json"]
    assert plan(run, cache=cache).memory < 0.9 * plan(request_run, cache=cache).memory


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"gradient_checkpointing": True}, "gradient_checkpointing must be false for blocks"),
        ({"average": 2}, "average must be none for features that are drawn anew"),
    ],
)
def test_features_drawn_anew_are_neither_recomputed_nor_averaged(
    change: dict[str, Any], rule: str
) -> None:
    from fourierkernels.models import LanguageModel, language_config

    sizes = {"vocabulary": 9, "cutoffs": (), "dim": 8, "layers": 1, "hidden": 8}
    options = {"mixer": "performer", "mixer_options": {"features": 4, "redraw": 2}}
    model = LanguageModel(language_config("small", **sizes, **options))
    recipe = Recipe(steps=4, batch=2, learning_rate=0.1, save_every=1, **change)
    assert rule in error_of(lambda: prepared(model, recipe))


@pytest.mark.slow
def test_compiled_blocks_train_as_others_but_for_dropout(
    texts: Path, cache: Path, tmp_path: Path
) -> None:
    """The compiler draws other numbers for dropout, so gradients are compared without."""
    run = short_run(texts, compile=True, steps=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's compiler
        measured = train_here(run, tmp_path, cache)
        assert all(math.isfinite(row.value) for row in measured)
        gradients = []
        for recipe in (run.recipe, replace(run.recipe, compile=False)):
            model = prepared(load_model(tmp_path / "model.safetensors"), recipe)
            words = torch.arange(32)[None]
            model(words, words).mean().backward()
            gradients.append([p.grad for p in model.parameters()])
            assert (model.blocks[0]._compiled_call_impl is None) != recipe.compile
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_gradients_too_large_for_float16_are_left_out_and_the_scale_is_resumed(
    texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler = torch.amp.GradScaler
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device: scaler(device, init_scale=2.0**24))
    run = short_run(texts, precision="float16")
    train_here(run, tmp_path / "whole", cache)
    train_here(run, tmp_path / "parts", cache, limit=6)
    train_here(run, tmp_path / "parts", cache, resume=True)
    assert same_results(tmp_path / "parts", tmp_path / "whole") == []
    with (tmp_path / "whole/curve.csv").open() as file:
        norms = [float(row["grad_norm"]) for row in csv.DictReader(file)]
    left_out = sum(not math.isfinite(norm) for norm in norms)
    assert 0 < left_out < 8
    assert math.isfinite(norms[-1])
    head = last_checkpoint(tmp_path / "whole").texts("optimiser.safetensors")
    assert json.loads(head["scaler"])["scale"] == 2.0 ** (24 - left_out)


def test_gradient_that_no_scale_makes_finite_is_a_divergence() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1e-5)
    scaler.scale(torch.ones(1))  # before that it has none
    assert not is_overflow(math.inf, scaler)
    assert not is_overflow(1.0, torch.amp.GradScaler("cpu"))
    assert not is_overflow(math.inf, None)


def test_batches_of_workers_are_the_same_to_the_bit(
    request_run: Setup, finished: Path, cache: Path, tmp_path: Path
) -> None:
    train_here(request_run, tmp_path, cache, limit=5, workers=2)
    train_here(request_run, tmp_path, cache, resume=True, workers=1)
    assert same_results(tmp_path, finished) == []


def test_options_of_a_mixer_beside_it_warn_for_one_version() -> None:
    with pytest.warns(FutureWarning, match="mixer_options is now of the mixer"):
        run = setup("language", mixer="fourier", mixer_options={"power": 2})
    assert run == setup("language", mixer=ChosenMixer("fourier", {"power": 2}))
