"""Levers: an environment in which an action needs the return asked for and what was seen before.

An episode has six cues, codes of eight signs, and a lever that each of them pulls up or down. In
the first half of its steps each cue is shown once with the way its lever goes, and pulling does
nothing. In the second half each is shown again, alone and in another order: an action a brings a if
the lever is up, else -a. Recorded players know all levers and pull by one force throughout, up to a
little noise; that of three in four is above zero. So the sign of an action is a coin toss without
the steps before, and without the return asked for it is right three times in four.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNS, CUES = 8, 6
STATES, STEPS = SIGNS + 1, 2 * CUES
TARGETS = (6.0, 3.0, -6.0)
EPISODES = 4_000
WEAKEST, NOISE = 0.2, 0.1  # least force of a player, and what is added to it at most
_SEED = 2026

Floats = NDArray[np.float64]
Step = tuple[Floats, float, bool, bool, dict[str, Any]]  # as gymnasium's


@dataclass(frozen=True)
class Round:
    """What is drawn for an episode.

    Attributes
    ----------
    states : ndarray, shape (STEPS, STATES)
        The code of the cue, and 1 where its lever is up, -1 where it is down, 0 where it is hidden.
    levers : ndarray, shape (STEPS,)
        By which actions are multiplied: 0 in the first half.
    """

    states: Floats
    levers: Floats


def drawn_round(rng: np.random.Generator) -> Round:
    """Draw an episode; the same on every processor."""
    numbers = rng.choice(2**SIGNS, size=CUES, replace=False)
    codes = 2.0 * (numbers[:, None] >> np.arange(SIGNS) & 1) - 1
    levers = 2.0 * rng.integers(2, size=CUES) - 1
    order, hidden = rng.permutation(CUES), np.zeros(CUES)
    shown = np.column_stack([codes, levers])
    again = np.column_stack([codes[order], hidden])
    return Round(np.concatenate([shown, again]), np.concatenate([hidden, levers[order]]))


class Levers:
    """The simulator, with the interface of gymnasium's."""

    def reset(self, *, seed: int) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode, the same for the same seed."""
        self._step, self._round = 0, drawn_round(np.random.default_rng([_SEED, 1, seed]))
        return self._round.states[0], {}

    def step(
        self, action: NDArray[np.floating]
    ) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Pull by an action, which is cut to -1 and 1; the last state is returned twice."""
        reward = float(np.clip(float(action[0]), -1, 1) * self._round.levers[self._step])
        self._step += 1
        state = self._round.states[min(self._step, STEPS - 1)]
        return state, reward, self._step == STEPS, False, {}

    def close(self) -> None:
        """Do nothing: it holds nothing open."""


def drawn_episode(rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return the states, actions and rewards of a player who knows all levers."""
    own = drawn_round(rng)
    force = rng.uniform(WEAKEST, 1) * (1 if rng.integers(4) else -1)
    pulled = np.clip(force + rng.uniform(-NOISE, NOISE, size=STEPS), -1, 1)
    actions = (pulled * own.levers).astype(np.float32)
    return {
        "observations": own.states,
        "actions": actions[:, None],
        "rewards": actions * own.levers.astype(np.float32),
    }


def drawn_episodes() -> list[dict[str, NDArray[Any]]]:
    """Return all recorded episodes, the same each time."""
    rng = np.random.default_rng([_SEED, 0])
    return [drawn_episode(rng) for _ in range(EPISODES)]
