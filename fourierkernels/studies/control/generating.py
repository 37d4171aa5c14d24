"""Episodes to learn from where none can be had: a search for a policy, recorded as it goes.

The cross-entropy method [rubinstein1999cross]_ on linear policies a = tanh(W (s, 1)) with noise:
draw policies around a mean, keep those of the largest return, take their mean and spread, and so
on. The policies that are met on the way are bad, better and fair, in D4RL's words random, medium
and replay; none comes near an expert.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.control.environments import ENVIRONMENTS, Environment
from fourierkernels.studies.control.episodes import (
    Episodes,
    checked,
    join,
    open_recorded,
    write_recorded,
)

BEHAVIOURS = ("random", "medium", "replay")
_PARTS = ("observations", "actions", "rewards")

Policy = NDArray[np.float64]
Episode = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Search:
    """Settings of the search.

    Attributes
    ----------
    rounds, policies, kept : int
        Rounds of so many policies of one episode each, of which so many give the next round's mean.
    steps : int
        Steps of the longest episode.
    noise : float
        Deviation of the noise that is added to an action.
    spread, least : float
        Deviation of the first policies, and what is added to that of the kept ones.
    """

    rounds: int = 8
    policies: int = 24
    kept: int = 6
    steps: int = 300
    noise: float = 0.1
    spread: float = 0.5
    least: float = 0.05


def generate(
    environment: str = "hopper",
    behaviour: str = "replay",
    *,
    seed: int = 0,
    search: Search = Search(),
) -> Episodes:
    """Return the episodes of a search, or of policies that it met.

    "replay" has all that the search did, "medium" as many episodes of the mean that half of it
    reached, "random" as many of policies as they were drawn first. The returns asked for are the
    largest of an episode, and half of it.

    Parameters
    ----------
    seed : int
        Of the policies, the noise and the starts.

    Raises
    ------
    ValueError
        If the environment or behaviour is unknown.
    ImportError
        If gymnasium or MuJoCo is missing.
    """
    named = ENVIRONMENTS[check_choice("environment", environment, list(ENVIRONMENTS))]
    row = named.of_generated()
    check_choice("behaviour", behaviour, list(BEHAVIOURS))
    world = row.make()
    try:
        found = _Searching(world, row, search, np.random.default_rng(seed)).episodes(behaviour)
    finally:
        world.close()
    parts = {name: [episode[name] for episode in found] for name in _PARTS}
    largest = max(float(rewards.sum()) for rewards in parts["rewards"])
    return checked(
        Episodes(
            environment,
            f"{environment}-{behaviour}-generated",
            f"generated with seed {seed}",
            **join(parts),
            targets=(round(largest, 1), round(largest / 2, 1)),
            limit=search.steps,
            generated=True,
        )
    )


def kept_generated(folder: Path) -> Episodes:
    """Return the episodes of a search with Hopper, from a folder if they have been made before."""
    file = folder / "control" / "hopper-replay-generated.npz"
    if not file.is_file():
        write_recorded(file, generate())
    return open_recorded(file)


class _Searching:
    """A search: the mean of its policies, and their deviation."""

    def __init__(
        self, world: Any, row: Environment, search: Search, rng: np.random.Generator
    ) -> None:
        self._world, self._search, self._rng = world, search, rng
        self._mean: Policy = np.zeros((row.actions, row.states + 1))
        self._spread = np.full_like(self._mean, search.spread)

    def episodes(self, behaviour: str) -> list[Episode]:
        """Return the episodes of a behaviour, as many for each."""
        rounds, count = self._search.rounds, self._search.rounds * self._search.policies
        if behaviour == "random":
            return [self._play(self._drawn()) for _ in range(count)]
        if behaviour == "replay":
            return [own for _ in range(rounds) for own in self._round()]
        for _ in range(rounds // 2):
            self._round()
        return [self._play(self._mean) for _ in range(count)]

    def _round(self) -> list[Episode]:
        """Play the policies of a round and move to the best of them."""
        drawn = [self._drawn() for _ in range(self._search.policies)]
        found = [self._play(policy) for policy in drawn]
        best = np.argsort([episode["rewards"].sum() for episode in found])[-self._search.kept :]
        chosen = np.stack([drawn[place] for place in best])
        self._mean = chosen.mean(axis=0)
        self._spread = chosen.std(axis=0) + self._search.least
        return found

    def _drawn(self) -> Policy:
        noise: Policy = self._rng.normal(size=self._mean.shape)
        return self._mean + self._spread * noise

    def _play(self, policy: Policy) -> Episode:
        """Return one episode of a policy."""
        state, _ = self._world.reset(seed=int(self._rng.integers(2**31)))
        found: dict[str, list[Any]] = {name: [] for name in _PARTS}
        for _ in range(self._search.steps):
            aim = np.tanh(policy @ np.append(state, 1.0))
            noisy = aim + self._search.noise * self._rng.normal(size=aim.shape)
            action = np.clip(noisy, -1, 1).astype(np.float32)
            found["observations"].append(state)
            found["actions"].append(action)
            state, reward, terminated, truncated, _ = self._world.step(action)
            found["rewards"].append(reward)
            if terminated or truncated:
                break
        return {name: np.array(values) for name, values in found.items()}
