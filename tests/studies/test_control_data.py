"""Windows of episodes are those of the decision transformer's code, and each run has the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_control import GLIDER, LIMIT, as_episodes, episodes
from training_runs import error_of

from fourierkernels.studies.control.control_data import ControlData, prepare
from fourierkernels.studies.control.d4rl import read_name
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.control.windows import collate, control_updates, one_pass
from fourierkernels.studies.engine.epochs import Epochs

K = 5


@pytest.fixture(autouse=True)
def _glider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "glider", GLIDER)


@pytest.fixture
def data() -> ControlData:
    return prepare(as_episodes(episodes(40)))


def updates(data: ControlData, seed: int = 0, **changes: Any) -> Epochs:
    return control_updates(data, **{"context": K, "steps": 50, "batch": 8} | changes, seed=seed)


def window_of_theirs(data: ControlData, first: int, end: int, start: int) -> dict[str, Any]:
    """A window step by step, as ``get_batch`` of gym/experiment.py makes it.

    Parameters
    ----------
    first, end : int
        Where the window and its episode begin and end.
    start : int
        Where the episode begins.
    """
    found, own = data.episodes, slice(first, min(first + K, end))
    length = own.stop - own.start
    missing = K - length
    states = (found.observations[own] - data.mean) / data.deviation
    steps = np.minimum(np.arange(first - start, first - start + length), data.limit - 1)
    to_go = [
        found.rewards[t:end].astype(float).sum() / data.scale for t in range(*own.indices(end))
    ]
    return {
        "states": np.concatenate([np.zeros((missing, 3)), states]),
        "actions": np.concatenate([np.zeros((missing, 2)), found.actions[own]]),
        "returns": np.concatenate([np.zeros(missing), to_go])[:, None],
        "steps": np.concatenate([np.zeros(missing), steps]),
        "padding": np.arange(K) < missing,
    }


def test_windows_are_those_of_the_published_code(data: ControlData) -> None:
    starts, ends = data.episodes.starts, data.episodes.ends
    for episode in (0, 7, 23):
        start, end = int(starts[episode]), int(ends[episode])
        for first in range(start, end):
            window = np.array([[first, min(K, end - first), first - start]])
            batch = collate(data, window, context=K)
            theirs = window_of_theirs(data, first, end, start)
            assert batch.keys() == theirs.keys()
            for name, values in theirs.items():
                np.testing.assert_allclose(batch[name][0].numpy(), values, atol=1e-6, err_msg=name)


def test_returns_to_go_fall_by_the_reward(data: ControlData) -> None:
    falls = data.to_go[:-1] - data.to_go[1:]
    inside = np.ones(len(falls), dtype=bool)
    inside[data.episodes.ends[:-1] - 1] = False
    np.testing.assert_allclose(falls[inside], data.episodes.rewards[:-1][inside], atol=1e-5)
    last = data.episodes.ends - 1
    np.testing.assert_allclose(data.to_go[last], data.episodes.rewards[last], atol=1e-6)
    np.testing.assert_allclose(data.to_go[data.episodes.starts], data.episodes.returns, rtol=1e-6)


def test_splits_are_of_whole_episodes_and_the_same_for_all(data: ControlData) -> None:
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 32, "valid": 4, "test": 4}
    starts = np.concatenate([split.starts for split in data.splits.values()])
    np.testing.assert_array_equal(np.sort(starts), data.episodes.starts)
    again = prepare(as_episodes(episodes(40)))
    for name, split in data.splits.items():
        np.testing.assert_array_equal(split.starts, again.splits[name].starts)
        assert np.isin(split.starts + split.lengths, data.episodes.ends).all()
    assert again.digest == data.digest


def test_states_are_normalised_by_the_training_episodes_alone(data: ControlData) -> None:
    members = data.splits["train"].members
    own = data.normalised(data.episodes.observations[members])
    np.testing.assert_allclose(own.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(own.std(axis=0), [1, 1, 0], atol=1e-4)  # the last is constant
    assert np.isfinite(own).all()
    other = as_episodes(episodes(40))
    held = data.splits["test"].members
    other.observations[held] += 5
    np.testing.assert_array_equal(prepare(other).mean, data.mean)
    assert prepare(other).digest != data.digest


def test_every_training_step_is_as_likely_to_begin_a_window(data: ControlData) -> None:
    """Then episodes are drawn in proportion to their length."""
    draws = 40 * data.splits["train"].steps
    source = updates(data, steps=draws // 8)
    counts = np.zeros(len(data.to_go))
    split = data.splits["train"]
    for index in range(len(source)):
        counts[split.members[source.order(index)]] += 1
    assert (counts[split.members] > 0).all()
    assert counts.sum() == counts[split.members].sum() == len(source)
    expected = len(source) / split.steps
    chi2 = ((counts[split.members] - expected) ** 2 / expected).sum()
    assert abs(chi2 - split.steps) < 5 * np.sqrt(2 * split.steps)


def test_runs_of_one_seed_have_the_same_windows_wherever_they_begin(data: ControlData) -> None:
    whole, other = updates(data), updates(data, seed=1)
    for first in (0, 56, 392):
        places = range(first, first + 8)
        ours, theirs = whole.__getitems__(places), updates(data).__getitems__(places)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert not torch.equal(ours["states"], other.__getitems__(places)["states"])
    assert len(whole) == 400
    assert whole.updates_per_epoch == pytest.approx(data.counts["train"] / 8)


def test_one_pass_has_each_step_once(data: ControlData) -> None:
    batches = list(one_pass(data, "test", context=K, batch=3))
    valid = torch.cat([batch["actions"][~batch["padding"]] for batch in batches])
    members = data.splits["test"].members
    np.testing.assert_array_equal(valid.numpy(), data.episodes.actions[members])
    parts = [
        batch["actions"][~batch["padding"]]
        for process in range(3)
        for batch in one_pass(data, "test", context=K, batch=2, part=(process, 3))
    ]
    assert torch.cat(parts).sum() == pytest.approx(float(valid.sum()), rel=1e-5)
    assert sum(len(part) for part in parts) == len(valid) == data.counts["test"]


def test_error_of_the_mean_action_is_the_variance(data: ControlData) -> None:
    actions = data.episodes.actions[data.splits["train"].members].astype(np.float64)
    assert data.error_of_mean("train") == pytest.approx(actions.var(axis=0).mean(), rel=1e-6)
    held = data.episodes.actions[data.splits["test"].members].astype(np.float64)
    expected = np.square(held - actions.mean(axis=0)).mean()
    assert data.error_of_mean("test") == pytest.approx(expected, rel=1e-6)


def test_steps_beyond_the_longest_episode_are_cut_off(data: ControlData) -> None:
    short = replace(data, episodes=replace(data.episodes, limit=4))
    assert short.limit == 4
    batch = next(one_pass(short, "train", context=LIMIT, batch=64))
    assert batch["steps"].max() == 3


def test_scale_and_targets_are_the_environments_but_for_generated_episodes() -> None:
    data = prepare(as_episodes(episodes(10)))
    assert (data.scale, data.targets, data.limit) == (10.0, (18.0, 6.0), LIMIT)
    made = prepare(as_episodes(episodes(10), generated=True, targets=(3.0, 1.5), limit=7))
    assert (made.targets, made.limit) == ((3.0, 1.5), 7)
    assert made.scale == pytest.approx(np.abs(made.to_go).max())


def test_too_few_episodes_are_refused() -> None:
    assert "must have an episode for each of train, valid, test, got 2" in error_of(
        lambda: prepare(as_episodes(episodes(2)))
    )


def test_parts_of_an_update_count_its_steps_alike(data: ControlData) -> None:
    source = updates(data)
    for first in range(0, 80, 8):
        whole = source.__getitems__(range(first, first + 8))
        parts = [source.__getitems__([place]) for place in range(first, first + 8)]
        assert whole["counted"].item() == (~whole["padding"]).sum()
        assert sum(part["counted"].item() for part in parts) == whole["counted"].item()
    with pytest.raises(ValueError, match="must be of one update, got those of 2"):
        source.__getitems__([7, 8])


def test_scores_are_those_of_d4rl() -> None:
    """Of d4rl/infos.py, REF_MIN_SCORE and REF_MAX_SCORE."""
    published = {
        "hopper": (-20.272305, 3234.3),
        "halfcheetah": (-280.178953, 12135.0),
        "walker2d": (1.629008, 4592.3),
    }
    for name, (random, expert) in published.items():
        row = ENVIRONMENTS[name]
        assert row.normalised(random) == 0
        assert row.normalised(expert) == 100
        assert row.normalised((random + expert) / 2) == pytest.approx(50)


def test_names_of_files_say_what_is_in_them() -> None:
    assert read_name(Path("halfcheetah-medium-expert-v2.pkl")).environment == "halfcheetah"
    assert read_name(Path("hopper_random.hdf5")).corpus == "hopper-random"
    for name in ("hopper.pkl", "hopper-v2.pkl", "hopperx-medium-v2.pkl", "ant-medium-v2.pkl"):
        assert "data must be in a file whose name" in error_of(
            lambda name=name: read_name(Path(name))
        )


@pytest.mark.parametrize("name", ["hopper", "halfcheetah", "walker2d"])
def test_environments_have_the_shapes_of_their_rows(name: str) -> None:
    pytest.importorskip("mujoco")
    row = ENVIRONMENTS[name]
    world = row.make()
    state, _ = world.reset(seed=0)
    assert state.shape == (row.states,)
    assert world.action_space.shape == (row.actions,)
    assert (world.action_space.low == -1).all()
    assert (world.action_space.high == 1).all()
    assert world.spec.max_episode_steps == row.limit
    world.close()


@pytest.mark.parametrize("name", ["hopper", "walker2d"])
def test_robots_and_rewards_are_those_of_the_recorded_episodes(name: str) -> None:
    """Version 2 of gym: feet of unlike friction (``assets/walker2d.xml``), and a reward of
    (x' - x)/dt + 1 - 0.001 |a|² for each step, that of the fall included (``walker2d.py``).
    """
    pytest.importorskip("mujoco")
    world = ENVIRONMENTS[name].make()
    model, data = world.unwrapped.model, world.unwrapped.data
    world.reset(seed=0)
    rng, fallen = np.random.default_rng(0), False
    while not fallen:
        before, action = data.qpos[0], rng.uniform(-1, 1, world.action_space.shape)
        _, reward, fallen, _, _ = world.step(action)
        forward = (data.qpos[0] - before) / world.unwrapped.dt
        assert reward == pytest.approx(forward + 1 - 1e-3 * (action**2).sum())
    if name == "walker2d":
        feet = [model.geom(foot).friction[0] for foot in ("foot_geom", "foot_left_geom")]
        assert feet == [0.9, 1.9]
    world.close()


def test_generated_episodes_are_played_where_they_were_recorded() -> None:
    pytest.importorskip("mujoco")
    world = ENVIRONMENTS["hopper"].of_generated().make()
    assert world.spec.id == "Hopper-v5"
    world.close()


def test_a_simulator_that_warns_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    world = ENVIRONMENTS["hopper"].make()
    world.reset(seed=0)
    world.unwrapped.data.qvel[:] = 1e300
    world.step(np.zeros(3))
    world.close()
    assert capsys.readouterr().err.startswith("warning: Nan, Inf or huge value in QVEL at DOF 0.")
    assert list(tmp_path.iterdir()) == []
