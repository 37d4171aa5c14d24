"""Levers are pulled by what was seen before and by the return asked for, and by nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fourierkernels.studies.control.control_data import ControlData, read_control
from fourierkernels.studies.control.drawn_comparison import linear_rule, right_signs
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.control.levers import CUES, SIGNS, STEPS, Levers, drawn_round
from fourierkernels.studies.control.rollouts import play

FORCE = 0.5
DIGEST = "885a793b97e11e636a6df4d340ae3b63e577fae73a9daa33f7f9e9443cdff11d"


@pytest.fixture(scope="module")
def data() -> ControlData:
    return read_control("levers")


class Looker(torch.nn.Module):
    """Finds the cue among the steps before, and pulls by the return that is asked for per step."""

    config = type("Config", (), {"context": STEPS, "episode": STEPS})

    def __init__(self, data: ControlData) -> None:
        super().__init__()
        self.predict_action = torch.nn.Linear(1, 1)
        self.mean, self.deviation, self.scale = data.mean, data.deviation, data.scale

    def forward(self, returns, states, actions, steps, padding=None):
        seen = states.double().numpy() * self.deviation + self.mean
        codes = np.sign(seen[..., :SIGNS])
        same = (codes[:, :, None] == codes[:, None]).all(-1) & np.tri(seen.shape[1], dtype=bool)
        if padding is not None:
            same &= ~padding.numpy()[:, None]
        lever = (same * seen[:, None, :, SIGNS]).sum(-1)  # what is hidden is 0
        hidden = np.abs(seen[..., SIGNS]) < 0.5
        left = STEPS - steps.numpy()
        force = returns[..., 0].numpy() * self.scale / np.minimum(left, CUES)
        found = np.where(hidden, lever * force, 0.0)[..., None]
        return type("Predicted", (), {"actions": torch.from_numpy(found)})


def players_of(seed: int) -> tuple[Levers, NDArray[np.floating]]:
    """A simulator with its levers, which only players of recorded episodes know."""
    world = Levers()
    world.reset(seed=seed)
    return world, world._round.levers


def test_an_episode_shows_each_cue_with_its_lever_and_then_hides_it() -> None:
    own = drawn_round(np.random.default_rng(3))
    shown, hidden = own.states[:CUES], own.states[CUES:]
    levers = {tuple(state[:SIGNS]): state[SIGNS] for state in shown}
    assert len(levers) == CUES
    assert set(levers.values()) <= {-1.0, 1.0}
    assert [levers[tuple(state[:SIGNS])] for state in hidden] == own.levers[CUES:].tolist()
    assert not hidden[:, SIGNS].any()
    assert not own.levers[:CUES].any()


def test_pulling_pays_in_the_second_half_alone() -> None:
    world, levers = players_of(4)
    rewards, over = [], False
    while not over:
        step = len(rewards)
        pulled = 2.0 if step < CUES else 2 * levers[step]  # cut to 1
        _, reward, over, cut, _ = world.step(np.array([pulled], np.float32))
        rewards.append(reward)
    assert rewards == [0.0] * CUES + [1.0] * CUES
    assert not cut
    assert ENVIRONMENTS["levers"].normalised(sum(rewards)) == 100


def test_a_start_is_that_of_its_seed() -> None:
    states = [Levers().reset(seed=seed)[0] for seed in (7, 7, 8)]
    assert (states[0] == states[1]).all()
    assert (states[0] != states[2]).any()


def test_recorded_episodes_are_the_same_on_every_processor(data: ControlData) -> None:
    assert data.digest == DIGEST


def test_recorded_rewards_are_those_of_the_simulator(data: ControlData) -> None:
    episodes = data.episodes
    for start, end in zip(episodes.starts[:50], episodes.ends[:50], strict=True):
        states, actions = episodes.observations[start:end], episodes.actions[start:end, 0]
        known = {tuple(state[:SIGNS]): state[SIGNS] for state in states[:CUES]}
        levers = np.array([known[tuple(state[:SIGNS])] for state in states[CUES:]])
        assert not actions[:CUES].any()
        np.testing.assert_array_equal(episodes.rewards[start:end][CUES:], actions[CUES:] * levers)


def test_three_players_in_four_pull_upwards(data: ControlData) -> None:
    upwards = np.mean(data.episodes.returns > 0)
    assert abs(upwards - 0.75) < 4 * np.sqrt(0.75 * 0.25 / len(data.episodes.returns))


@pytest.mark.parametrize("asked", [6 * FORCE, -6 * FORCE])
def test_who_looks_back_gets_the_return_that_is_asked_for(data: ControlData, asked: float) -> None:
    played = play(Looker(data), data, target=asked, episodes=8)
    np.testing.assert_allclose(played.returns, asked, rtol=1e-5)
    assert (played.lengths == STEPS).all()


def test_the_signs_need_the_return_of_the_episode(data: ControlData) -> None:
    looker = Looker(data)
    assert right_signs(looker, data) == 100
    share = np.mean(data.episodes.returns > 0)  # of two episodes, both or neither above zero
    alike = 100 * (share**2 + (1 - share) ** 2)
    assert abs(right_signs(looker, data, others=True) - alike) < 4 * 50 / np.sqrt(400)


def test_a_linear_rule_finds_what_is_linear_in_the_steps_before(data: ControlData) -> None:
    states = data.episodes.observations.reshape(-1, STEPS, SIGNS + 1)
    planted = np.zeros(states.shape[:2], np.float32)
    planted[:, 2:] = states[:, :-2, 0]  # the first sign of the cue two steps before
    episodes = replace(data.episodes, actions=planted.reshape(-1, 1))
    assert linear_rule(replace(data, episodes=episodes)).value == 100


def test_products_with_the_return_find_a_sign_that_it_turns(data: ControlData) -> None:
    states = data.episodes.observations.reshape(-1, STEPS, SIGNS + 1)
    planted = np.zeros(states.shape[:2], np.float32)
    planted[:, 1:] = states[:, :-1, 1]
    turned = planted.reshape(-1, 1) * np.sign(data.to_go)[:, None]
    own = replace(data, episodes=replace(data.episodes, actions=turned))
    assert linear_rule(own, products=True).value > 90 > 80 > linear_rule(own).value


def test_no_linear_rule_reads_the_action_itself(data: ControlData) -> None:
    noise = np.random.default_rng(1).choice([-1.0, 1.0], size=data.episodes.actions.shape)
    own = replace(data, episodes=replace(data.episodes, actions=noise.astype(np.float32)))
    for products in (False, True):
        found = linear_rule(own, products=products)
        assert abs(found.value - 50) < 4 * 50 / np.sqrt(found.items)
