"""Episodes end to end, checked once, and the .npz file of this package that has them."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.files import write_bytes
from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.studies.control.environments import ENVIRONMENTS, Environment

Floats = NDArray[np.float32]
_FIELDS = ("observations", "actions", "rewards")
_LARGEST = 1 + 1e-6  # of an action: rounding in float32


@dataclass(frozen=True)
class Episodes:
    """Recorded episodes.

    Attributes
    ----------
    environment : str
        A key of :data:`~fourierkernels.studies.control.environments.ENVIRONMENTS`.
    corpus, source : str
        The data set's name, and where it lies.
    observations : ndarray, shape (n, states)
        States of all steps, episode after episode.
    actions : ndarray, shape (n, actions)
        What was done in them.
    rewards : ndarray, shape (n,)
        What it brought.
    ends : ndarray, shape (m,)
        Where each episode ends, the last one at n.
    targets : tuple of float
        Returns that are asked for; those of the environment if empty.
    limit : int or None
        Steps of the longest episode; that of the environment if None.
    unfinished : int
        Steps behind the last end, which are left out.
    generated : bool
        Whether this package has made them.
    """

    environment: str
    corpus: str
    source: str
    observations: Floats
    actions: Floats
    rewards: Floats
    ends: NDArray[np.int64]
    targets: tuple[float, ...] = ()
    limit: int | None = None
    unfinished: int = 0
    generated: bool = False

    @property
    def row(self) -> Environment:
        """The environment."""
        row = ENVIRONMENTS[self.environment]
        return row.of_generated() if self.generated else row

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each episode begins, ``(m,)``."""
        return np.concatenate([[0], self.ends[:-1]]).astype(np.int64)

    @property
    def returns(self) -> NDArray[np.float64]:
        """Sum of the rewards of each episode, ``(m,)``."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.starts)


def checked(episodes: Episodes) -> Episodes:
    """Return episodes after a look at every number in them.

    Raises
    ------
    ValueError
        If the environment is unknown, a shape is not that of the environment, a number is not
        finite, an action is outside [-1, 1], all actions are alike, or there is no episode.
    """
    check_choice("environment", episodes.environment, list(ENVIRONMENTS))
    row, where = episodes.row, episodes.source
    if episodes.limit is not None:
        check_integer("limit", episodes.limit)
    n = len(episodes.observations)
    shapes = {"observations": (n, row.states), "actions": (n, row.actions), "rewards": (n,)}
    for name in _FIELDS:
        found = getattr(episodes, name)
        if found.shape != shapes[name]:
            raise ValueError(
                f"{name} must have shape {shapes[name]} for {episodes.environment}, "
                f"got {found.shape} in {where}"
            )
        check_numbers(name, found, where)
    _check_ends(episodes.ends, n, where)
    largest = float(np.abs(episodes.actions).max())
    if largest > _LARGEST:
        raise ValueError(f"actions must be in [-1, 1], got {largest:g} in {where}")
    if not np.ptp(episodes.actions, axis=0).any():
        raise ValueError(f"actions must not be all alike, got {episodes.actions[0]} in {where}")
    return episodes


def check_numbers(name: str, values: NDArray[Any], where: str, first: int = 0) -> None:
    """Refuse values that are not finite, by the step of the first one.

    Parameters
    ----------
    first : int
        Step of the first value.

    Raises
    ------
    ValueError
        If one is not.
    """
    if not np.isfinite(values).all():
        step = int(np.argwhere(~np.isfinite(values))[0][0])
        bad = values[step][~np.isfinite(values[step])].flat[0]
        raise ValueError(f"{name} must be finite, got {bad} at step {first + step} of {where}")


def join(parts: Mapping[str, list[NDArray[Any]]]) -> dict[str, Any]:
    """Return the observations, actions, rewards and ends of episodes given one by one."""
    lengths = [len(rewards) for rewards in parts["rewards"]]
    joined: dict[str, Any] = {
        name: np.concatenate(parts[name]).astype(np.float32) for name in _FIELDS
    }
    return joined | {"ends": np.cumsum(lengths).astype(np.int64)}


def _check_ends(ends: NDArray[np.int64], n: int, where: str) -> None:
    if not len(ends):
        raise ValueError(f"{where} must have an episode that ends, got none in {n} steps")
    if ends[-1] != n or (np.diff(ends, prepend=0) < 1).any():
        raise ValueError(
            f"ends must rise to the number of steps, {n}, got {ends[:3]}..{ends[-1]} in {where}"
        )


_ARRAYS = {"observations": "f", "actions": "f", "rewards": "f", "ends": "i", "targets": "f"}
_OTHERS = {"environment": "U", "corpus": "U", "limit": "i"}


def write_recorded(file: Path, episodes: Episodes) -> None:
    """Write episodes, the whole file or none."""
    content = io.BytesIO()
    names = (*_ARRAYS, *_OTHERS)
    arrays: dict[str, Any] = {name: np.asarray(getattr(episodes, name)) for name in names}
    arrays["limit"] = np.asarray(episodes.limit or episodes.row.limit)
    np.savez_compressed(content, **arrays)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, content.getvalue())


def open_recorded(file: Path) -> Episodes:
    """Return the episodes of a file that :func:`write_recorded` wrote.

    Raises
    ------
    ValueError
        If it is damaged, another file, or has what :func:`~.episodes.checked` refuses.
    """
    kinds = _ARRAYS | _OTHERS
    try:
        with file.open("rb") as stored, np.load(stored, allow_pickle=False) as content:
            if set(content.files) != set(kinds):
                raise ValueError(f"it has {', '.join(sorted(content.files)) or 'nothing'}")
            found = {name: content[name] for name in kinds}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{file} must have been written by experiments/data_control.py, got {error!s:.80}"
        ) from error
    wrong = [name for name, kind in kinds.items() if found[name].dtype.kind != kind]
    if wrong or any(found[name].ndim for name in _OTHERS) or found["ends"].ndim != 1:
        raise ValueError(f"{file} must have arrays of numbers, got others: {', '.join(wrong)}")
    return checked(
        Episodes(
            str(found["environment"]),
            str(found["corpus"]),
            str(file),
            observations=found["observations"].astype(np.float32),
            actions=found["actions"].astype(np.float32),
            rewards=found["rewards"].astype(np.float32),
            ends=found["ends"].astype(np.int64),
            targets=tuple(found["targets"].ravel().tolist()),
            limit=int(found["limit"]),
            generated=True,
        )
    )
