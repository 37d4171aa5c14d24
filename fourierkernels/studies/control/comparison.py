"""The control table of the FourierFormer paper on a small scale: kernels on generated episodes.

[nguyen2022fourierformer]_, table 4, compares softmax with Fourier attention in decision
transformers on nine sets of D4RL. Here very small networks (preset "tiny": 1 layer of 2 heads of 16
features, 10 steps of context, 800 updates) learn Hopper from the replay mix that data_control.py
generates: 192 episodes of at most 300 steps, the best of which has about a tenth of the expert's
return. So no number here can be compared with one of the paper.

Every kernel gets the same three trials: initial radii (widths, scales) of equal sharpness, see
:mod:`fourierkernels.studies.engine.contenders`. The one with the least validation error is trained
from five seeds, beside a network that mixes nothing and one that mixes regardless of the tokens;
seeds decide first weights, windows and dropout. Each network is measured by the
error of its actions on the test episodes, and plays 20 episodes for each of two returns asked for,
from the same starts. The level of the intervals is corrected for rows times measures. The
episodes that a network learns from are always the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from fourierkernels.studies.control.control_data import read_control
from fourierkernels.studies.control.drawn_comparison import DrawnControl
from fourierkernels.studies.control.episodes import write_recorded
from fourierkernels.studies.control.generating import Search, generate
from fourierkernels.studies.control.presets import PAPER, VERSION
from fourierkernels.studies.control.study import BASELINE, ERROR
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table
from fourierkernels.studies.engine.contenders import (
    CONTROLS,
    Choices,
    Contender,
    Network,
    Part,
    Stage,
    grid,
    kernel_contenders,
    trials,
)
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.trained import Trained

SCORE = "test score"
MEASURES = ("test_error", "return_high", "return_low")


@dataclass(frozen=True)
class ControlComparison(Comparison):
    """Budget; the same for all kernels."""

    data: str | None = "generated"
    steps: int = 800
    kernels: tuple[str, ...] = ("softmax", "gaussian", "l = 4")
    sharpness: tuple[float, ...] = (0.2, 1.0, 5.0)
    trial_seed: int = 2022
    preset: str = "tiny"

    study = "control"
    packages = ("gymnasium", "mujoco")
    columns = "part kernel sharpness preset steps seed"
    table = Table(index=("kernel",), contender="kernel", measures=len(MEASURES))
    score = "valid_error"
    decided_by = "return_high"
    validations = 10

    def stages(self) -> tuple[Stage, ...]:
        """Return trials of sharpnesses, and the best of them and the controls from seeds."""
        kernels = Part(kernel_contenders(self.kernels), self.preset, self.steps)
        tried = trials([kernels], grid(sharpness=self.sharpness), self.trial_seed)
        return tried, Stage((kernels, replace(kernels, contenders=CONTROLS)), self.seeds)

    def measured(self, network: Network, result: Trained) -> Row:
        """Return errors of actions, and returns and scores for the higher and the lower target."""
        played = [row for row in result.measured if " asked for" in row.metric]
        high, high_score, low, low_score = (row.value for row in played)
        return {
            "best_step": result.best_step,
            "valid_error": result.number(ERROR, split="valid").value,
            "test_error": result.number(ERROR).value,
            "mean_action_error": result.number(BASELINE).value,
            "test_steps": result.number(ERROR).positions,
            "episodes": played[0].positions,
            "return_high": high,
            "score_high": high_score,
            "return_low": low,
            "score_low": low_score,
            "largest_gradient": result.largest_gradient,
            "radii": result.radii,
            "seconds": result.seconds,
        }

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield a row for each measure."""
        for measure in MEASURES:
            values = cell.values(measure)
            yield {
                "measure": measure,
                "sharpness": cell.first("sharpness"),
                "seeds": len(cell.rows),
                "mean": values.mean(),
                "deviation": values.std(ddof=1),
                **cell.compared(measure),
            }

    def measure_of(self, line: Row) -> str:
        """Return the measure of a line."""
        return str(line["measure"])

    def facts(self, chosen: Choices) -> Mapping[str, object]:
        """Return what the networks learn from."""
        read = read_control(self.data or "")
        returns = read.episodes.returns
        return {
            "data": {
                "corpus": read.corpus,
                "digest": read.digest,
                "episodes": len(returns),
                "steps": read.counts,
                "mean_return": float(returns.mean()),
                "largest_return": float(returns.max()),
                "targets": read.targets,
            }
        }

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates on a few steps."""
        file = _few_steps(folder)
        return replace(self, data=str(file), steps=2, sharpness=(0.2, 1.0), seeds=(1, 2))


@dataclass(frozen=True)
class ControlTable(PaperTable):
    """Table 4: the score for the higher return asked for."""

    def numbers(self, result: Trained) -> Mapping[str, Measured]:
        """Return the first score, whatever return it is for."""
        scores = [row for row in result.measured if row.metric.startswith("score, ")]
        return {SCORE: scores[0]} if scores else {}


def _hopper(problem: Problem, folder: Path) -> Problem:
    """Return a few steps of Hopper in the place of a set."""
    return replace(problem, preset="tiny", data="", place=str(_few_steps(folder)))


def _few_steps(folder: Path) -> Path:
    file = folder / "hopper-random-generated.npz"
    if not file.is_file():
        search = Search(rounds=2, policies=4, kept=2, steps=10)
        write_recorded(file, generate("hopper", "random", search=search))
    return file


def _file(name: str) -> str:
    """Return a pattern of the file of a set, as D4RL or the decision transformer's authors name it.

    >>> _file("hopper-medium-replay")
    'hopper[-_]medium[-_]replay-v2.*'
    """
    return f"{name.replace('-', '[-_]')}{VERSION}.*"


TABLE_4 = ControlTable(
    file="fourierformer_4",
    shows="Decision transformers on D4RL: scores on nine sets and their mean",
    source="nguyen2022fourierformer, table 4",
    problems=tuple(
        Problem(name, "control", "paper", "d4rl pickles", file=_file(name)) for name in PAPER
    ),
    contenders=(Contender("softmax", "softmax"), Contender("fourier", "fourier")),
    metrics=(SCORE,),
    average=True,
    stand_in=_hopper,
)
COMPARISONS: dict[str, Comparison] = {
    "fourierformer-4": TABLE_4,
    "control-small": ControlComparison(time="6 min"),
    "control-drawn": DrawnControl(time="43 min"),
}
