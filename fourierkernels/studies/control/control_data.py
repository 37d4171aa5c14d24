"""Episodes ready to be learned: split by episode, with returns to go and normalised states.

As gym/experiment.py of github.com/kzl/decision-transformer prepares them: the return to go at a
step is the sum of the rewards from it on; states get mean 0 and variance 1. Not as there: a tenth
of the episodes is held out for validation and another for the test, the same for all runs, and the
states' statistics are those of the others alone. The authors train on all.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.control.environments import Environment
from fourierkernels.studies.control.episodes import Episodes, Floats
from fourierkernels.studies.control.sets import read_episodes

SPLITS = ("train", "valid", "test")
_HELD_OUT, _SPLIT_SEED = 10, 1337
_RULE = f"control 1, one episode in {_HELD_OUT} by {_SPLIT_SEED}"
_SLAB = 65_536  # steps
_LEAST = 1e-6  # is added to a deviation


@dataclass(frozen=True)
class ControlSplit:
    """Some of the episodes.

    Attributes
    ----------
    starts, lengths : ndarray, shape (m,)
        First step of each, and how many it has.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def steps(self) -> int:
        """Steps of all."""
        return int(self.lengths.sum())

    @property
    def members(self) -> NDArray[np.int64]:
        """Every step, by its place among those of all episodes, ``(steps,)``."""
        before = np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        return np.repeat(self.starts, self.lengths) + np.arange(self.steps) - before


@dataclass(frozen=True)
class ControlData:
    """Episodes, and how a network reads them.

    Attributes
    ----------
    episodes : Episodes
        What was recorded.
    digest : str
        SHA-256 of all numbers and of how they are split.
    to_go : ndarray, shape (n,)
        Sum of the rewards from each step to the end of its episode.
    mean, deviation : ndarray, shape (states,)
        By which states are normalised.
    action : ndarray, shape (actions,)
        Mean of the training actions.
    scale : float
        By which returns are divided.
    splits : mapping of str to ControlSplit
        By "train", "valid" and "test".
    """

    episodes: Episodes
    digest: str
    to_go: Floats
    mean: Floats
    deviation: Floats
    action: Floats
    scale: float
    splits: Mapping[str, ControlSplit]

    @property
    def corpus(self) -> str:
        """Name of the data set."""
        return self.episodes.corpus

    @property
    def source(self) -> str:
        """Where it lies."""
        return self.episodes.source

    @property
    def environment(self) -> Environment:
        """What is controlled."""
        return self.episodes.row

    @property
    def vocabulary(self) -> range:
        """The dimensions of an action, by the engine's name for what is predicted."""
        return range(self.environment.actions)

    @property
    def counts(self) -> dict[str, int]:
        """Steps of each split."""
        return {name: split.steps for name, split in self.splits.items()}

    @property
    def limit(self) -> int:
        """Steps of the longest episode."""
        return self.episodes.limit or self.environment.limit

    @property
    def targets(self) -> tuple[float, ...]:
        """Returns that are asked for."""
        return self.episodes.targets or self.environment.targets

    def normalised(self, states: NDArray[np.floating]) -> Floats:
        """Return states as a network reads them, ``(..., states)``."""
        own: Floats = ((states - self.mean) / self.deviation).astype(np.float32)
        return own

    def error_of_mean(self, split: str) -> float:
        """Return the mean squared error of the mean training action on a split."""
        mean, deviation = _statistics(self.episodes.actions, self.splits[split])
        squares = np.square(deviation - _LEAST) + np.square(mean - self.action)
        return float(squares.mean())


def read_control(data: str | Path, *, cache: Path | None = None) -> ControlData:
    """Read a data set; see :func:`~fourierkernels.studies.control.sets.read_episodes`.

    Raises
    ------
    ValueError
        If it cannot be read, or has fewer than three episodes.
    """
    return prepare(read_episodes(data, cache=cache))


def prepare(episodes: Episodes) -> ControlData:
    """Return episodes split and ready.

    Raises
    ------
    ValueError
        If there are fewer than three.
    """
    splits = _split(episodes)
    train = splits["train"]
    mean, deviation = _statistics(episodes.observations, train)
    action, _ = _statistics(episodes.actions, train)
    to_go = returns_to_go(episodes)
    largest = float(np.abs(to_go).max())
    return ControlData(
        episodes=episodes,
        digest=_digest(episodes),
        to_go=to_go,
        mean=mean.astype(np.float32),
        deviation=deviation.astype(np.float32),
        action=action.astype(np.float32),
        scale=(largest or 1.0) if episodes.generated else episodes.row.scale,
        splits=splits,
    )


def returns_to_go(episodes: Episodes) -> Floats:
    """Return the sum of the rewards from each step to the end of its episode, ``(n,)``."""
    sums = np.empty(len(episodes.rewards), dtype=np.float32)
    for start, end in zip(episodes.starts, episodes.ends, strict=True):
        rewards = episodes.rewards[start:end].astype(np.float64)
        sums[start:end] = rewards[::-1].cumsum()[::-1]
    return sums


def _split(episodes: Episodes) -> dict[str, ControlSplit]:
    """Return nine tenths less one for training, and a tenth each for validation and test."""
    count = len(episodes.ends)
    if count < len(SPLITS):
        raise ValueError(
            f"data must have an episode for each of {', '.join(SPLITS)}, "
            f"got {count} in {episodes.source}"
        )
    drawn = np.random.default_rng(_SPLIT_SEED).permutation(count)
    held = max(count // _HELD_OUT, 1)
    parts = dict(zip(SPLITS, np.split(drawn, [count - 2 * held, count - held]), strict=True))
    lengths = episodes.ends - episodes.starts
    return {
        name: ControlSplit(episodes.starts[np.sort(part)], lengths[np.sort(part)])
        for name, part in parts.items()
    }


def _statistics(values: Floats, split: ControlSplit) -> tuple[NDArray[np.float64], ...]:
    """Return mean and standard deviation of each column over the steps of a split."""
    parts = np.array_split(split.members, split.steps // _SLAB + 1)
    total = np.sum([values[rows].sum(axis=0, dtype=np.float64) for rows in parts], axis=0)
    mean = total / split.steps
    squares = np.sum([np.square(values[rows] - mean).sum(axis=0) for rows in parts], axis=0)
    return mean, np.sqrt(squares / split.steps) + _LEAST


def _digest(episodes: Episodes) -> str:
    digest = hashlib.sha256(f"{_RULE} {episodes.environment}".encode())
    for name in ("observations", "actions", "rewards", "ends"):
        own = np.ascontiguousarray(getattr(episodes, name))
        digest.update(f"{name} {own.shape} {own.dtype.str}".encode())
        digest.update(own.data)
    digest.update(f"{episodes.targets} {episodes.limit}".encode())
    return digest.hexdigest()
