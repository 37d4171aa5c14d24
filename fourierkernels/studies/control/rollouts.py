"""Episodes that a decision transformer plays: asked for a return, it acts in the environment.

[chen2021decision]_ section 3 and ``evaluate_episodes.py`` of github.com/kzl/decision-transformer:
the network reads the last K steps, states normalised as in training, and the return that is still
to come, which each reward diminishes. Several episodes are played side by side, in one batch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.models import DecisionTransformer
from fourierkernels.studies.control.control_data import ControlData


@dataclass(frozen=True)
class Played:
    """Episodes that were played.

    Attributes
    ----------
    returns : ndarray, shape (m,)
        Sum of the rewards of each.
    lengths : ndarray, shape (m,)
        Its steps.
    to_go, states, actions : ndarray, shape (m, T, 1), (m, T, states), (m, T, actions)
        What the network read, and what it did, to the longest episode's end T; zero behind an end.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    to_go: NDArray[np.float32]
    states: NDArray[np.float32]
    actions: NDArray[np.float32]


class _History:
    """What has been read and done in episodes side by side."""

    def __init__(self, data: ControlData, count: int, target: float) -> None:
        row, limit = data.environment, data.limit
        self.to_go = np.zeros((count, limit, 1), np.float32)
        self.states = np.zeros((count, limit, row.states), np.float32)
        self.actions = np.zeros((count, limit, row.actions), np.float32)
        self.scale, self.left = data.scale, np.full(count, target)
        self.returns = np.zeros(count)
        self.lengths = np.zeros(count, np.int64)

    def read(self, playing: list[int], step: int, states: NDArray[np.float32]) -> None:
        """Take the states of a step, and the return that is left."""
        self.states[playing, step] = states
        self.to_go[playing, step, 0] = self.left[playing] / self.scale

    def take(self, place: int, step: int, reward: float) -> None:
        """Take the reward of a step."""
        self.returns[place] += reward
        self.left[place] -= reward
        self.lengths[place] = step + 1


def play(
    model: DecisionTransformer, data: ControlData, *, target: float, episodes: int, seed: int = 0
) -> Played:
    """Play episodes side by side.

    Parameters
    ----------
    target : float
        The return that is asked for.
    episodes : int
        How many are played.
    seed : int
        Of the first start; the others have the next ones.

    Raises
    ------
    ValueError, TypeError
        If the target is not finite, there is no episode, or a reward is not finite.
    ImportError
        If the environment needs a package that is missing.
    """
    check_number("target", target)
    worlds = [data.environment.make() for _ in range(check_integer("episodes", episodes))]
    history = _History(data, episodes, target)
    try:
        now = {i: world.reset(seed=seed + i)[0] for i, world in enumerate(worlds)}
        for step in range(data.limit):
            playing = sorted(now)
            states = np.stack([now[i] for i in playing])
            history.read(playing, step, data.normalised(states))
            chosen = act(model, history.to_go, history.states, history.actions, playing, step)
            history.actions[playing, step] = chosen
            for i, action in zip(playing, chosen, strict=True):
                now[i], reward, terminated, truncated, _ = worlds[i].step(action)
                history.take(i, step, check_number("reward", reward))
                if terminated or truncated:
                    del now[i]
            if not now:
                break
    finally:
        for world in worlds:
            world.close()
    longest = int(history.lengths.max())
    kept = (part[:, :longest] for part in (history.to_go, history.states, history.actions))
    return Played(history.returns, history.lengths, *kept)


@torch.inference_mode()
def act(
    model: DecisionTransformer,
    to_go: NDArray[np.float32],
    states: NDArray[np.float32],
    actions: NDArray[np.float32],
    playing: list[int],
    step: int,
) -> NDArray[np.float32]:
    """Return the actions of a step, from the last K steps; zeros to the left where there are fewer.

    Parameters
    ----------
    to_go, states, actions : ndarray, shape (m, T, ·)
        What was read until this step, and done before it.
    playing : list of int
        Episodes that go on.
    """
    weight, context = model.predict_action.weight, model.config.context
    first = max(step + 1 - context, 0)
    missing = context - (step + 1 - first)

    def window(part: NDArray[np.float32]) -> Tensor:
        own = torch.from_numpy(part[playing, first : step + 1]).to(weight)
        return torch.nn.functional.pad(own, (0, 0, missing, 0))

    steps = torch.arange(context, device=weight.device) - missing + first
    padding = (steps < first).expand(len(playing), -1)
    found = model.eval()(
        *(window(part) for part in (to_go, states, actions)),
        steps.clamp(first, model.config.episode - 1).expand(len(playing), -1),
        padding=padding if missing else None,
    )
    chosen: Any = found.actions[:, -1].float().cpu().numpy()
    return np.asarray(chosen, dtype=np.float32)
