"""Decision transformers of levers, where an action needs the return asked for and earlier steps.

On the generated episodes of Hopper no kernel's return depends on what is asked for. In
:mod:`fourierkernels.studies.control.levers` it has to: the lever of a cue is found in an earlier
step, and the force in the return. Kernels of [nguyen2022fourierformer]_, an encoder without mixing
and one that mixes regardless of the tokens get the same trials, three rates at 1,000 updates; the
best by validation is trained from five seeds, as long. Two rules on the raw input are
linear in the window of steps, and in its products with the return asked for.

The table decides by the signs of recorded actions, of which a step counts where a lever can be
pulled. Beside them are the same with the returns of other episodes, the score of 100 episodes of
which the most is asked for, as in the paper's table 4, and by how much their mean returns miss what
is asked for, the mean over three of these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.models import DecisionTransformer
from fourierkernels.studies.control.control_data import ControlData
from fourierkernels.studies.control.presets import PAPER
from fourierkernels.studies.control.study import ERROR, SHARE, predicted_actions
from fourierkernels.studies.control.windows import one_pass
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table
from fourierkernels.studies.engine.contenders import CONTROLS, Contender, Network
from fourierkernels.studies.engine.controls import CONTROL_MIXERS, Baseline
from fourierkernels.studies.engine.mixers import mixer_of_kernel
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.engine.tuned_rates import TunedRates

SIGNS, OTHERS = "signs of actions (%)", "signs with returns of other episodes (%)"
SCORE, MISSED = "score", "error of returns"
MEASURES = (SIGNS, SCORE, MISSED)
KERNELS = ("softmax", "gaussian", "l = 4")
_RIDGE = 1e-3  # per example
_BATCH = 64

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DrawnControl(TunedRates):
    """Budget; the same for all encoders."""

    data: str | None = "levers"
    encoders: tuple[str, ...] = (*KERNELS, *CONTROL_MIXERS)
    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3)
    steps: int = 1_000
    trial_steps: int = 1_000
    widen: int = 1
    preset: str = "drawn"

    study = "control"
    columns = "part encoder mixer rate steps seed"
    table = Table(index=("encoder",), contender="encoder", measures=len(MEASURES))
    decided_by = SIGNS
    unit = "points"
    divergence = True
    validations = 10
    names = ("control_drawn_networks", "control_drawn")

    def contenders(self) -> tuple[Contender, ...]:
        """Return the kernels, all as sharp as softmax to begin with, and the controls."""
        alike = {name: mixer_of_kernel(name, 1.0) for name in KERNELS}
        kernels = (Contender(name, mixer.name, mixer.options) for name, mixer in alike.items())
        return *kernels, *CONTROLS

    def baselines(self) -> dict[str, Sequence[Baseline]]:
        """Return what two linear rules get."""
        data: ControlData = read_data(self.first_setup())
        return {"": [linear_rule(data), linear_rule(data, products=True)]}

    def measured(self, network: Network, result: Trained) -> Row:
        """Return signs, errors and returns of a network, and its size."""
        return result.row(_numbers)

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield a row for each measure."""
        for measure in MEASURES:
            yield cell.line(measure)

    def measure_of(self, line: Row) -> str:
        """Return the measure of a line."""
        return str(line["measure"])

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return by how much l = 4 is ahead of softmax in the mean score of the paper's table 4."""
        if column != SCORE or cell.index["encoder"] != "l = 4":
            return None
        return float(np.mean([ours - theirs for theirs, ours in PAPER.values()]))

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates of a few encoders."""
        few = replace(self, encoders=("softmax", "l = 4", "none"), rates=(4e-3,), widen=0)
        return replace(few, seeds=(1, 2), steps=4, trial_steps=2)


def _numbers(result: Trained) -> Row:
    """Return the measures of a finished network."""
    data: ControlData = read_data(result.run)
    model = cast(DecisionTransformer, result.model())
    played = [row for row in result.measured if row.metric.startswith("return, ")]
    scores = [row for row in result.measured if row.metric.startswith("score, ")]
    missed = [abs(row.value - asked) for row, asked in zip(played, data.targets, strict=True)]
    return {
        SIGNS: right_signs(model, data),
        OTHERS: right_signs(model, data, others=True),
        ERROR: result.number(ERROR).value,
        SHARE: result.number(SHARE).value,
        **{row.metric: row.value for row in played},
        SCORE: scores[0].value,
        MISSED: float(np.mean(missed)),
        "radii": result.radii,
    }


@torch.inference_mode()
def right_signs(model: DecisionTransformer, data: ControlData, *, others: bool = False) -> float:
    """Return the percentage of test actions whose sign a network predicts.

    Parameters
    ----------
    others : bool
        Whether each episode is read with the returns of the one before it in its batch.
    """
    pairs = []
    for batch in one_pass(data, "test", context=model.config.context, batch=_BATCH):
        if others:
            batch["returns"] = batch["returns"].roll(1, dims=0)
        pairs.append([each.double().numpy() for each in predicted_actions(model.eval(), batch)])
    return _right_signs(*(np.concatenate(each) for each in zip(*pairs, strict=True)))


def _right_signs(predicted: Floats, wanted: Floats) -> float:
    counted = wanted != 0  # where a lever can be pulled
    return float(100 * np.mean(np.sign(predicted[counted]) == np.sign(wanted[counted])))


def linear_rule(data: ControlData, *, products: bool = False) -> Baseline:
    """Return what a ridge regression of the action on the steps before it gets.

    Parameters
    ----------
    products : bool
        Whether it also reads all of these multiplied by the return asked for.
    """
    train, wanted = _windows(data, "train", products)
    test, other = _windows(data, "test", products)
    square = train.T @ train + _RIDGE * len(train) * np.eye(train.shape[1])
    weights = np.linalg.solve(square, train.T @ wanted)
    name = "linear in the window and its products with the return" if products else "linear"
    return Baseline(name, _right_signs(test @ weights, other), int(np.count_nonzero(other)))


def _windows(data: ControlData, split: str, products: bool) -> tuple[Floats, Floats]:
    """Return what is known before each action of a split, episode by episode, and the action."""
    own = data.splits[split].members
    shape = -1, data.limit  # all episodes are as long
    states = data.normalised(data.episodes.observations[own]).reshape(*shape, len(data.mean))
    actions = data.episodes.actions[own].reshape(*shape, 1)
    to_go = (data.to_go[own] / data.scale).reshape(*shape, 1)
    before = np.concatenate([np.zeros_like(actions[:, :1]), actions[:, :-1]], axis=1)
    rows = _with_steps_before(np.concatenate([to_go, states, before], axis=-1))
    if products:
        rows = np.concatenate([rows, rows * to_go.reshape(-1, 1)], axis=1)
    ones = np.ones((len(rows), 1))
    return np.concatenate([ones, rows], axis=1), actions.reshape(-1, 1).astype(np.float64)


def _with_steps_before(known: NDArray[np.floating]) -> Floats:
    """Return each step of episodes ``(m, T, n)`` with those before it, ``(m T, T n)``.

    The step itself is first, then the one before it and so on; zeros where there is none.
    """
    count, steps, size = known.shape
    rows = np.zeros((count, steps, steps, size))
    for step in range(steps):
        rows[:, step, : step + 1] = known[:, : step + 1][:, ::-1]
    return rows.reshape(count * steps, steps * size)
