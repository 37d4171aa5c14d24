"""The environments that are controlled, with the scores by which returns are normalised.

Adding an environment is adding a row: readers, rollouts and tests read the rows.

The published data and scores are of version 2 of gym, with MuJoCo 2.0: ``d4rl/gym_mujoco`` of
https://github.com/Farama-Foundation/D4RL takes Hopper, HalfCheetah and Walker2d from
``gym/envs/mujoco``. gymnasium's version 4 is these robots, observations and rewards on today's
MuJoCo. Version 5 is not: its Walker2d has another foot, with a friction of 1.9 in place of 0.9, and
Hopper and Walker2d get no reward for the step at which they fall (``hopper_v5.py`` and
``walker2d_v5.py`` of gymnasium, version history). What this package has generated was recorded in
version 5, and is played there. "levers" is ours and needs no package.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fourierkernels.foundation.extras import needed_for
from fourierkernels.studies.control import levers


@dataclass(frozen=True)
class Environment:
    """One row of :data:`ENVIRONMENTS`.

    Attributes
    ----------
    make : callable
        Returns a new simulator with the interface of gymnasium.
    make_generated : callable or None
        The same for episodes that this package has generated, where they are of another one.
    states, actions : int
        Dimensions of a state and of an action; actions are in [-1, 1].
    random, expert : float
        Returns of an episode of random actions and of an expert.
    targets : tuple of float
        Returns that are asked for.
    scale : float
        By which returns are divided before a network reads them.
    limit : int
        Steps of the longest episode.
    """

    make: Callable[[], Any]
    states: int
    actions: int
    random: float
    expert: float
    targets: tuple[float, ...]
    scale: float = 1000.0
    limit: int = 1000
    make_generated: Callable[[], Any] | None = None

    def of_generated(self) -> "Environment":
        """Return the environment in which this package generates episodes."""
        return replace(self, make=self.make_generated or self.make)

    def normalised(self, value: float) -> float:
        """Return the score of a return: 0 for random actions, 100 for the expert.

        [fu2020d4rl]_; ``get_normalized_score`` in its ``d4rl/offline_env.py``.

        Examples
        --------
        >>> ENVIRONMENTS["hopper"].normalised(3234.3)
        100.0
        """
        return 100 * (value - self.random) / (self.expert - self.random)


def simulator(name: str) -> Any:
    """Return a simulator of gymnasium by its name there; its warnings go to standard error.

    Raises
    ------
    ImportError
        If gymnasium or MuJoCo is missing; the message says what to install.
    """
    with needed_for("running an environment"):
        import gymnasium
        import mujoco  # without it, gymnasium's own message names another extra
    mujoco.set_mju_user_warning(_warn)  # else it writes MUJOCO_LOG.TXT wherever it runs
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is out of date", DeprecationWarning)  # on purpose
        return gymnasium.make(name)


def _warn(message: str) -> None:
    """Write what MuJoCo warns of on standard error; an exception could not leave its C code."""
    sys.stderr.write(f"warning: {message}\n")


# Scores: REF_MIN_SCORE and REF_MAX_SCORE of d4rl/infos.py, github.com/Farama-Foundation/D4RL.
# Targets, scale and limit: gym/experiment.py of github.com/kzl/decision-transformer.
ENVIRONMENTS: dict[str, Environment] = {
    "hopper": Environment(
        lambda: simulator("Hopper-v4"),
        states=11,
        actions=3,
        random=-20.272305,
        expert=3234.3,
        targets=(3600.0, 1800.0),
        make_generated=lambda: simulator("Hopper-v5"),
    ),
    "halfcheetah": Environment(
        lambda: simulator("HalfCheetah-v4"),
        states=17,
        actions=6,
        random=-280.178953,
        expert=12135.0,
        targets=(12000.0, 6000.0),
        make_generated=lambda: simulator("HalfCheetah-v5"),
    ),
    "walker2d": Environment(
        lambda: simulator("Walker2d-v4"),
        states=17,
        actions=6,
        random=1.629008,
        expert=4592.3,
        targets=(5000.0, 2500.0),
        make_generated=lambda: simulator("Walker2d-v5"),
    ),
    "levers": Environment(
        levers.Levers,
        states=levers.STATES,
        actions=1,
        random=0.0,
        expert=float(levers.CUES),
        targets=levers.TARGETS,
        scale=float(levers.CUES),
        limit=levers.STEPS,
    ),
}
