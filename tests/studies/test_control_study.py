"""The control study is that of the paper, learns, resumes, and plays as it was trained."""

import csv
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_control import (
    GLIDER,
    LIMIT,
    as_episodes,
    control_run,
    episodes,
    train_control,
    write_pickle,
)
from training_runs import Call, error_of

from fourierkernels.mixing import mixer_names
from fourierkernels.mixing.mixer import PaddingIgnoredWarning
from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.control import study as control
from fourierkernels.studies.control.control_data import ControlData, prepare
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.control.presets import PAPER, PRESETS
from fourierkernels.studies.control.rollouts import play
from fourierkernels.studies.control.windows import collate
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import load_setup, setup
from fourierkernels.studies.engine.study import Measured

# [nguyen2022fourierformer]_ table 4, as printed without the numbers in parentheses.
TABLE_4 = """
Medium-Expert
HALFCHEETAH 91.03 92.27
HOPPER 110.30 111.10
WALKER 108.70 108.90
MEDIUM-REPLAY
HALFCHEETAH 35.31 38.47
HOPPER 85.61 89.70
WALKER 66.11 63.19
Medium
HALFCHEETAH 42.28 42.38
HOPPER 61.47 64.77
WALKER 68.68 70.42
"""
MEANS = (74.39, 75.69)


@pytest.fixture(autouse=True, scope="module")
def _glider() -> Iterator[None]:
    ENVIRONMENTS["glider"] = GLIDER
    yield
    del ENVIRONMENTS["glider"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pickle(tmp_path_factory.mktemp("glider"), episodes(60))


@pytest.fixture(scope="module")
def data() -> ControlData:
    return prepare(as_episodes(episodes(60)))


@pytest.fixture(scope="module")
def run(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was not interrupted; not to be changed."""
    output = tmp_path_factory.mktemp("control") / "run"
    train_control(control_run(file, "softmax"), output)
    return output


def by_name(rows: list[Measured]) -> dict[tuple[str, str], Measured]:
    return {(row.split, row.metric): row for row in rows}


def test_presets_have_the_published_table() -> None:
    rows, found = [line.split() for line in TABLE_4.split("\n") if line], {}
    behaviour = ""
    for name, *numbers in rows:
        if not numbers:
            behaviour = name.lower()
            continue
        environment = {"WALKER": "walker2d"}.get(name, name.lower())
        found[f"{environment}-{behaviour}"] = tuple(map(float, numbers))
    assert found == PAPER
    means = np.mean(list(PAPER.values()), axis=0)
    np.testing.assert_allclose(means, MEANS, atol=0.005)
    published = PRESETS["paper"].published
    assert published["softmax"]["hopper-medium-v2"] == 61.47
    assert published["fourier"]["walker2d-medium-replay-v2"] == 63.19
    assert not PRESETS["chen"].published


def test_presets_are_the_scripts_of_the_two_codes(data: ControlData) -> None:
    sizes = {"paper": (256, 4, 1e-3), "chen": (128, 1, 1e-4)}
    for name, (dim, heads, rate) in sizes.items():
        preset = PRESETS[name]
        model = control.STUDY.build(preset, data, ChosenMixer("softmax"))
        config, recipe = model.config, preset.recipe
        assert (config.dim, config.heads, config.layers, config.context) == (dim, heads, 3, 20)
        assert (config.dropout, config.attention_dropout, config.bounded) == (0.1, None, True)
        assert model.blocks[0].mixer.dropout == 0.1
        assert (recipe.learning_rate, recipe.batch, recipe.steps) == (rate, 64, 100_000)
        assert (recipe.weight_decay, recipe.clip, recipe.warmup) == (1e-4, 0.25, 10_000)
        assert (recipe.optimiser, recipe.schedule, preset.episodes) == ("adamw", "constant", 100)
    others = "glider", "levers"
    targets = {name: ENVIRONMENTS[name].targets for name in ENVIRONMENTS if name not in others}
    assert targets == {
        "hopper": (3600, 1800),
        "halfcheetah": (12000, 6000),
        "walker2d": (5000, 2500),
    }


def test_small_model_learns_and_plays_in_seconds(file: Path, tmp_path: Path) -> None:
    few = {"steps": 80, "evaluate_every": 40, "save_every": 40, "learning_rate": 1e-2}
    found = by_name(train_control(control_run(file, **few), tmp_path / "run"))
    error = found["test", control.ERROR]
    assert error.value < 0.5 * found["test", control.BASELINE].value
    share = found["test", control.SHARE]
    assert share.value == pytest.approx(100 * error.value / found["test", control.BASELINE].value)
    assert found["valid", control.ERROR].value < 0.5 * found["valid", control.BASELINE].value
    played = found["test", "return, 18 asked for"]
    assert played.positions == PRESETS["tiny"].episodes == 20
    score = found["test", "score, 18 asked for"].value
    assert score == pytest.approx(GLIDER.normalised(played.value))
    assert played.value > found["test", "return, 6 asked for"].value + 3


def test_results_are_found_again_and_say_what_was_read(run: Path, data: ControlData) -> None:
    with (run / "results.csv").open() as table:
        found = {(r["split"], r["metric"]): float(r["value"]) for r in csv.DictReader(table)}
    assert {key: row.value for key, row in by_name(evaluate(run)).items()} == found
    config = json.loads((run / "results.json").read_text())["config"]
    assert config["transitions"] == data.counts
    assert (config["dimensions"], config["steps"], config["environment"]) == (2, 12, "glider")
    assert config["episodes"] == {"train": 48, "valid": 6, "test": 6}
    assert (config["targets"], config["scale"], config["generated"]) == ([18.0, 6.0], 10.0, False)
    assert config["steps_left_out"] == 0


def test_test_episodes_decide_nothing(run: Path, data: ControlData, tmp_path: Path) -> None:
    """Other test episodes: the same weights, the same best update."""
    found = episodes(60)
    for place in range(60):
        if data.episodes.starts[place] in data.splits["test"].starts:
            found[place]["actions"] = -found[place]["actions"]
    other = write_pickle(tmp_path, found)
    train_control(control_run(other, "softmax"), tmp_path / "run")
    ours, theirs = (read_tensors(p / "model.safetensors") for p in (tmp_path / "run", run))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_evaluation_wants_episodes_read_alike(run: Path, file: Path, tmp_path: Path) -> None:
    moved = write_pickle(tmp_path / "moved", episodes(60))
    rows = evaluate(run, data=moved, splits=("valid",))
    assert {row.split for row in rows} == {"valid"}
    assert not any("asked for" in row.metric for row in rows)
    other = write_pickle(tmp_path / "other", episodes(61))
    message = error_of(lambda: evaluate(run, data=other))
    assert "data must be read as those of the run in" in message
    assert message.endswith("got others: mean, deviation")
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("study.json", "model.safetensors"):
        shutil.copy(run / name, copy)
    assert "control.json must say how episodes are read" in error_of(
        lambda: evaluate(copy, data=other)
    )


@pytest.mark.parametrize("mixer", mixer_names(causal=True))
@pytest.mark.filterwarnings("error::fourierkernels.mixing.mixer.PaddingIgnoredWarning")
def test_loss_and_its_gradient_depend_on_valid_steps_alone(mixer: str, data: ControlData) -> None:
    assert issubclass(PaddingIgnoredWarning, UserWarning)
    torch.manual_seed(0)
    preset = PRESETS["tiny"]
    model = control.STUDY.build(preset, data, ChosenMixer(mixer)).double().eval()
    batch = control.STUDY.batches(preset, data, preset.recipe).__getitems__(range(6))
    assert int(batch["padding"].sum()) > 0
    goal = control.STUDY.objective(preset, data, preset.recipe)
    first = goal.loss(model, batch)
    first.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    model.zero_grad()
    for name in ("returns", "states", "actions"):
        batch[name] = batch[name] + 7.0 * batch["padding"][..., None]
    second = goal.loss(model, batch)
    second.backward()
    assert second.item() == pytest.approx(first.item(), rel=1e-12)
    again = [p.grad for p in model.parameters() if p.grad is not None]
    for one, other in zip(gradients, again, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-9, atol=1e-12)


def test_loss_is_the_mean_square_over_valid_steps(data: ControlData) -> None:
    preset = PRESETS["tiny"]
    model = control.STUDY.build(preset, data, ChosenMixer("softmax")).eval()
    whole = range(preset.recipe.batch)
    batch = control.STUDY.batches(preset, data, preset.recipe).__getitems__(whole)
    keys = ("returns", "states", "actions", "steps")
    found = model(*(batch[key] for key in keys), padding=batch["padding"]).actions
    total, count = 0.0, 0
    for row, step in np.argwhere(~batch["padding"].numpy()):
        total += (found[row, step] - batch["actions"][row, step]).square().sum().item()
        count += 2
    goal = control.STUDY.objective(preset, data, preset.recipe)
    assert goal.loss(model, batch).item() == pytest.approx(total / count, rel=1e-5)
    assert goal.even == data.error_of_mean("train")


@pytest.mark.parametrize("mixer", ["softmax", "gaussian", "fourier", "hard_gaussian"])
@pytest.mark.parametrize("context", [4, LIMIT])
def test_playing_step_by_step_is_one_pass_over_what_was_read(
    mixer: str, context: int, data: ControlData
) -> None:
    """Each action is the one that a pass over the K steps before it predicts at its end."""
    torch.manual_seed(1)
    preset = replace(PRESETS["tiny"], model={**PRESETS["tiny"].model, "context": context})
    model = control.STUDY.build(preset, data, ChosenMixer(mixer)).double().eval()
    played = play(model, data, target=9.0, episodes=5, seed=3)
    parts = [torch.from_numpy(p).double() for p in (played.to_go, played.states, played.actions)]
    steps = torch.arange(parts[0].shape[1])
    for episode, length in enumerate(played.lengths):
        for end in range(1, length + 1) if context < length else [int(length)]:
            own = slice(max(end - context, 0), end)
            with torch.no_grad():
                found = model(*(p[episode : episode + 1, own] for p in parts), steps[None, own])
            ours = parts[2][episode, own]
            first = 0 if own.start == 0 else -1  # inside a window, earlier actions saw other steps
            torch.testing.assert_close(found.actions[0, first:], ours[first:], rtol=0, atol=1e-6)


def test_episodes_side_by_side_are_those_alone(data: ControlData) -> None:
    torch.manual_seed(1)
    model = control.STUDY.build(PRESETS["tiny"], data, ChosenMixer("fourier")).double().eval()
    torch.nn.init.constant_(model.predict_action.bias, 1.0)  # pushes until some have left
    together = play(model, data, target=9.0, episodes=6, seed=0)
    assert len(set(together.lengths.tolist())) > 1  # they do not end together
    for place in range(6):
        alone = play(model, data, target=9.0, episodes=1, seed=place)
        assert alone.lengths[0] == together.lengths[place]
        assert alone.returns[0] == pytest.approx(together.returns[place], abs=1e-5)
        own = slice(0, int(alone.lengths[0]))
        np.testing.assert_allclose(alone.actions[0], together.actions[place, own], atol=1e-6)


def test_what_is_played_is_read_as_what_was_recorded(data: ControlData) -> None:
    """The states are the simulator's, normalised; the target falls by each reward."""
    torch.manual_seed(1)
    model = control.STUDY.build(PRESETS["tiny"], data, ChosenMixer("softmax")).eval()
    played = play(model, data, target=9.0, episodes=2, seed=5)
    for place in range(2):
        world = GLIDER.make()
        state, left = world.reset(seed=5 + place)[0], 9.0
        for step in range(int(played.lengths[place])):
            np.testing.assert_allclose(
                played.states[place, step], data.normalised(state), atol=1e-6
            )
            assert played.to_go[place, step, 0] == pytest.approx(left / data.scale, abs=1e-6)
            state, reward, *_ = world.step(played.actions[place, step])
            left -= reward
        assert 9.0 - left == pytest.approx(played.returns[place])


def test_context_of_training_and_of_playing_are_one(data: ControlData) -> None:
    """Replaying a recorded episode by windows of a batch predicts what `act` predicts."""
    from fourierkernels.studies.control.rollouts import act

    torch.manual_seed(2)
    model = control.STUDY.build(PRESETS["tiny"], data, ChosenMixer("fourier")).eval()
    start, end = int(data.episodes.starts[4]), int(data.episodes.ends[4])
    own = slice(start, end)
    states = data.normalised(data.episodes.observations[own])[None]
    to_go = (data.to_go[own] / data.scale)[None, :, None].astype(np.float32)
    actions, context = data.episodes.actions[own][None], model.config.context
    for step in range(end - start):
        first = max(step + 1 - context, 0)
        window = np.array([[start + first, step + 1 - first, first]])
        batch = collate(data, window, context=context)
        with torch.no_grad():
            theirs = model(
                *(batch[key] for key in ("returns", "states", "actions", "steps")),
                padding=batch["padding"],
            )
        found = act(model, to_go, states, actions, [0], step)
        np.testing.assert_allclose(found[0], theirs.actions[0, -1].numpy(), atol=1e-6)


def test_returns_that_cannot_be_asked_for_are_refused(data: ControlData) -> None:
    model = control.STUDY.build(PRESETS["tiny"], data, ChosenMixer("softmax"))
    assert "target must be finite" in error_of(
        lambda: play(model, data, target=float("nan"), episodes=1)
    )
    assert "episodes must be at least 1, got 0" in error_of(
        lambda: play(model, data, target=1.0, episodes=0)
    )


def test_published_numbers_stand_beside_what_they_were_measured_as(data: ControlData) -> None:
    published = {"fourier": {data.corpus: 89.7}, "softmax": {"hopper-medium-v2": 61.47}}
    preset = replace(PRESETS["tiny"], published=published, episodes=2)
    model = control.STUDY.build(preset, data, ChosenMixer("fourier"))
    found = by_name(control.STUDY.measure(preset, data, "fourier", model))
    assert [key for key, row in found.items() if row.published] == [("test", "score, 18 asked for")]
    few = by_name(control.STUDY.measure(preset, data, "fourier", model, positions=3))
    assert few["test", "return, 6 asked for"].positions == 3
    assert not any(row.published for row in few.values())
    assert not any(r.published for r in control.STUDY.measure(preset, data, "softmax", model))


def test_command_trains_plans_and_evaluates(file: Path, tmp_path: Path, call: Call) -> None:
    output = tmp_path / "run"
    study = ("train", "control", "--data", file, "--mixer", "softmax")
    status, out, err = call(*study, "--plan")
    assert (status, err) == (0, "")
    assert re.search(r"actions +│ 2 dimensions", out)
    assert re.search(r"training episodes +│ [\d,]+ transitions, read [\d.e+]+ times", out)
    assert call(*study, "--output", output, "--limit-steps", 2)[0] == 0
    status, out, err = call("evaluate", output, "--split", "test", "--positions", 3)
    assert (status, err) == (0, "")
    assert re.search(r"test +│ return, 18 asked for +│ [\d.]+ +│ 3 ", out)
    assert load_setup(output)[0].data == str(file.resolve())
    status, _, err = call("train", "control", "--preset", "paper")
    assert (status, err.startswith("error: data must be a file or folder of episodes")) == (2, True)


def test_heads_of_a_run_are_refused_in_one_line(run: Path, tmp_path: Path, call: Call) -> None:
    """They read texts and images, and no episodes."""
    (tmp_path / "ids").write_text("1 2 3\n")
    for given in ((), ("--ids", tmp_path / "ids")):
        status, out, err = call("heads", run, *given)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "got 'DecisionTransformer', which heads does not read" in err


def test_list_names_the_presets_and_where_data_are_had(call: Call) -> None:
    flat = re.sub(r"\s+", " ", call("train", "control", "--list")[1])
    assert "experiments/data_control.py" in flat
    assert "rail.eecs.berkeley.edu" in flat


def test_a_missing_simulator_is_told_before_training(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.setitem(ENVIRONMENTS, "glider", replace(GLIDER, make=ENVIRONMENTS["hopper"].make))
    message = error_of(lambda: train_control(control_run(file), tmp_path / "run"))
    assert message.startswith("MissingExtra: running an environment needs mujoco: ")
    assert not (tmp_path / "run").exists()


def test_unsuitable_recipes_and_options_are_refused(data: ControlData) -> None:
    tiny = PRESETS["tiny"]
    recipe = replace(tiny.recipe, label_smoothing=0.1)
    assert "label_smoothing must be 0 for actions, got 0.1" in error_of(
        lambda: control.STUDY.objective(tiny, data, recipe)
    )
    with pytest.raises(TypeError, match="option of mixer fourier must be one of"):
        setup("control", mixer=ChosenMixer("fourier", {"sigma": 1}))
