"""A body that glides along a line, as an environment; recorded episodes of it, and short runs."""

import json
import pickle  # noqa: TID251 (what the decision transformer's authors distribute)
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.studies.control.environments import Environment
from fourierkernels.studies.control.episodes import Episodes
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, setup

LIMIT = 12
Parts = dict[str, NDArray[Any]]


class Glider:
    """Position and speed; an action pushes, and the more it pushes the larger is the reward.

    It ends where the body leaves, and after twelve steps.
    """

    def reset(self, *, seed: int) -> tuple[NDArray[np.float64], dict[str, Any]]:
        rng = np.random.default_rng(seed)
        self.state, self.steps = np.array([*rng.uniform(-1, 1, 2), 1.0]), 0
        return self.state.copy(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        position, speed, one = self.state
        speed = 0.5 * speed + 0.2 * float(action[0]) + 0.1 * float(action[1])
        self.state = np.array([position + 0.5 * speed, speed, one])
        self.steps += 1
        left = abs(self.state[0]) > 1.6
        return self.state.copy(), 1.0 + float(action[0]), left, self.steps >= LIMIT, {}

    def close(self) -> None:
        self.state = np.full(3, np.nan)


GLIDER = Environment(
    Glider,
    states=3,
    actions=2,
    random=2.0,
    expert=22.0,
    targets=(18.0, 6.0),
    scale=10.0,
    limit=LIMIT,
)


def episodes(count: int = 40, seed: int = 0) -> list[Parts]:
    """Return episodes of policies that push to one side, more or less strongly."""
    rng, world = np.random.default_rng(seed), Glider()
    found = []
    for place in range(count):
        level, state = rng.uniform(-1, 1), world.reset(seed=1000 * seed + place)[0]
        own: dict[str, list[Any]] = {"observations": [], "actions": [], "rewards": []}
        over = False
        while not over:
            aim = level - 0.2 * state[0]
            action = np.tanh([aim, 0.2 * aim] + 0.05 * rng.normal(size=2)).astype(np.float32)
            own["observations"].append(state)
            own["actions"].append(action)
            state, reward, left, late, _ = world.step(action)
            own["rewards"].append(reward)
            over = left or late
        parts = {name: np.array(values, dtype=np.float32) for name, values in own.items()}
        parts["terminals"] = np.arange(1, len(own["rewards"]) + 1) == len(own["rewards"])
        parts["next_observations"] = np.roll(parts["observations"], -1, axis=0)
        found.append(parts)
    return found


def as_episodes(found: list[Parts], **changes: Any) -> Episodes:
    """Return recorded episodes as a reader does."""
    names = ("observations", "actions", "rewards")
    joined: dict[str, Any] = {name: np.concatenate([own[name] for own in found]) for name in names}
    ends = np.cumsum([len(own["rewards"]) for own in found])
    given = {"environment": "glider", "corpus": "glider-mixed", "source": "here"} | joined
    return Episodes(**given | {"ends": ends} | changes)


def write_pickle(folder: Path, found: Any, name: str = "glider-mixed-v2.pkl", **how: Any) -> Path:
    """Write episodes as the decision transformer's authors do."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(pickle.dumps(found, **how))
    return folder / name


def flat(found: list[Parts]) -> Parts:
    """Return the arrays of a D4RL file: those of all episodes end to end, the flags beside them."""
    names = ("observations", "actions", "rewards", "terminals")
    joined = {name: np.concatenate([own[name] for own in found]) for name in names}
    last = joined["terminals"]
    lengths = np.concatenate([np.full(len(own["rewards"]), len(own["rewards"])) for own in found])
    joined["timeouts"] = last & (lengths == LIMIT)
    return joined | {"terminals": last & (lengths < LIMIT)}


def write_hdf5(folder: Path, parts: Parts, name: str = "glider_mixed-v2.hdf5") -> Path:
    """Write a D4RL file."""
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / name, "w") as file:
        for key, values in parts.items():
            file.create_dataset(key, data=values)
        file.attrs["made"] = json.dumps("for a test")
    return folder / name


def control_run(data: Path, mixer: str = "fourier", **changes: Any) -> Setup:
    """Return a run that is over in a second or two."""
    few = {"steps": 12, "evaluate_every": 6, "save_every": 3, "log_every": 1, "warmup": 2}
    return setup("control", preset="tiny", mixer=mixer, data=data, **few | changes)


def train_control(run: Setup, output: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, **options)
