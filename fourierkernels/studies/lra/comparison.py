"""Mixers on three tasks of the Long-Range Arena in very small, tuned alike.

[leethorp2021fnet]_ table 6 compares a Transformer, Linear and FNet on sequences of 1,000 to 16,000
tokens, the best of several runs. Here networks of one layer of 32 features are trained on short
stand-ins: ListOps of 9 to 63 tokens (preset "tiny"), 128 bytes of Python's manual or library
("text_tiny") and the 64 pixels of handwritten digits ("image_tiny"). Nothing here is long; it shows
what mixes and what does not, and the arena's harness at work.

Every mixer gets the same two trials: learning rates. The one with the least validation loss is
trained from six seeds, which decide first weights, order of the sequences and random features.
The classifier sees the class token alone: without mixing, "none", it sees nothing else, a control.

Differences from softmax are in points of test accuracy. They are over seeds alone: the test
sequences are always the same. A task counts as learnt where the test loss of each seed is a tenth
of a nat or more below that of an even guess.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table
from fourierkernels.studies.engine.contenders import Contender, Network, Part, Stage, grid, trials
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.lra.presets import ACCURACY, ARENA, PAPER, TASKS
from fourierkernels.studies.lra.study import LOSS

PRESETS = {"listops": "tiny", "text": "text_tiny", "image": "image_tiny"}
QUESTIONS = ("names", "lookup", "place")  # tasks that are drawn
DRAWN_TASKS = (*QUESTIONS, "before", "dictionary", "present")
PRESETS |= {task: task for task in DRAWN_TASKS}
CLASSES = {"listops": 10, "text": 2, "image": 10, **dict.fromkeys(DRAWN_TASKS, 2)}
BELOW = 0.1  # nats below chance in which a task counts as learnt


@dataclass(frozen=True)
class ArenaComparison(Comparison):
    """Budget; the same for all mixers."""

    steps: tuple[tuple[str, int], ...] = (("listops", 300), ("text", 80), ("image", 300))
    mixers: tuple[str, ...] = ("softmax", "fourier", "fnet", "linear", "performer", "none")
    rates: tuple[float, ...] = (2e-3, 8e-3)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    trial_seed: int = 2022

    study = "lra"
    packages = ("scikit-learn",)
    problem = "task"
    columns = "part task mixer rate steps seed"
    table = Table(index=("task", "mixer"), contender="mixer")
    decided_by = "accuracy"
    validations = log_lines = 4

    def stages(self) -> tuple[Stage, ...]:
        """Return trials of rates, and the best of them from several seeds."""
        mixers = tuple(Contender(name, name) for name in self.mixers)
        parts = tuple(Part(mixers, PRESETS[task], steps, task) for task, steps in self.steps)
        return trials(parts, grid(self.rates), self.trial_seed), Stage(parts, self.seeds)

    def measured(self, network: Network, result: Trained) -> Row:
        """Return losses, accuracy and size."""
        return {
            "valid_loss": result.least_loss,
            "test_sequences": result.number(ACCURACY).positions,
            "accuracy": result.number(ACCURACY).value,
            "loss": result.number(LOSS).value,
            "chance_loss": result.facts["chance_loss"],
            "largest_class": result.facts["largest_class_of_test"],
            "parameters": result.facts["parameters"],
            "seconds": result.seconds,
        }

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield accuracy and loss, with the paper's accuracy on the long task beside."""
        task, mixer = cell.index["task"], cell.index["mixer"]
        accuracy, loss, chance = cell.values("accuracy"), cell.values("loss"), CLASSES[task]
        paper = (PAPER | ARENA).get(mixer) if task in TASKS else None
        yield {
            "rate": cell.first("rate"),
            "seeds": len(cell.rows),
            "test_sequences": cell.first("test_sequences"),
            "accuracy": accuracy.mean(),
            "least": accuracy.min(),
            "largest": accuracy.max(),
            "largest_class": cell.first("largest_class"),
            "loss": loss.mean(),
            "chance_loss": math.log(chance),
            "learnt": bool((loss < math.log(chance) - BELOW).all()),
            **cell.compared("accuracy"),
            "paper_long_task": "" if paper is None else paper[TASKS.index(task)],
        }

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return the gain over softmax on the paper's long task."""
        known, task = PAPER | ARENA, cell.index["task"]
        names = cell.index["mixer"], cell.reference_name
        mine, theirs = map(known.get, names)
        if mine is None or theirs is None or task not in TASKS or names[0] == names[1]:
            return None
        ours, other = (row[TASKS.index(task)] for row in (mine, theirs))
        return None if ours is None or other is None else ours - other

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates on two tasks."""
        return replace(self, steps=(("listops", 3), ("text", 2)), rates=(2e-3,), seeds=(1, 2))


@dataclass(frozen=True)
class DrawnComparison(ArenaComparison):
    """Budget of the tasks that are drawn, in which order matters alone."""

    steps: tuple[tuple[str, int], ...] = (("place", 400), ("before", 800))
    rates: tuple[float, ...] = (4e-3, 8e-3)
    seeds: tuple[int, ...] = (1, 2, 3)

    names = ("lra_drawn_networks", "lra_drawn")

    @property
    def title(self) -> str:
        """What it compares, in a line."""
        return "Mixers on two drawn tasks, whose answer is in the order of tokens alone"

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates on two tasks."""
        few = (("place", 2), ("before", 2))
        return replace(self, steps=few, rates=(2e-3,), seeds=(1, 2))


@dataclass(frozen=True)
class QuestionsComparison(ArenaComparison):
    """Budget of three drawn tasks, of more sequences an update, more seeds and wider grids."""

    steps: tuple[tuple[str, int], ...] = (("names", 200), ("lookup", 600), ("place", 600))
    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    widen: int = 1
    batch: int = 128

    names = ("lra_questions_networks", "lra_questions")

    @property
    def title(self) -> str:
        """What it compares, in a line."""
        return "Mixers on three drawn tasks, of which counts of tokens tell nothing"

    def shortened(self, recipe: Recipe, steps: int) -> Recipe:
        """Return a recipe of so many updates, of more sequences each."""
        return replace(super().shortened(recipe, steps), batch=self.batch)

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates on two tasks."""
        few = tuple((task, 2) for task, _ in (self.steps[0], self.steps[-1]))
        return replace(self, steps=few, rates=(2e-3,), seeds=(1, 2), widen=0)


@dataclass(frozen=True)
class RecallComparison(QuestionsComparison):
    """Budget of two drawn tasks that fixed mixing did not learn when they were chosen.

    Of 21 variants of nine kinds of task these were chosen because softmax learned them in a trial
    and the linear mixer did not; of one variant of dictionary other mixers were seen, too. The
    seeds are not those of these trials. The deviation of the first five promised that 20 would show
    3.6 points, the paper's largest gain; in dictionary seeds of softmax differ more than that.
    """

    steps: tuple[tuple[str, int], ...] = (("dictionary", 600), ("present", 600))
    rates: tuple[float, ...] = (4e-3, 8e-3, 1.6e-2)
    seeds: tuple[int, ...] = tuple(range(11, 31))
    batch: int = 64

    names = ("lra_recall_networks", "lra_recall")

    @property
    def title(self) -> str:
        """What it compares, in a line."""
        return "Mixers on two drawn tasks of many symbols at random places, with controls"


_SETS = {  # rows of the data, what tells Pathfinder from Path-X, hours of one core with softmax
    "listops": ("listops", "", 430),
    "text": ("texts", "", 1_700),
    "retrieval": ("aan", "", 850),
    "image": ("cifar10", "", 64),
    "pathfinder": ("pathfinder", "pathfinder32", 860),
    "pathx": ("pathfinder", "pathfinder128", 190_000),
}


def _short(problem: Problem, folder: Path) -> Problem:
    """Return a few bytes of Python's manual in the place of a long task."""
    return replace(problem, preset=PRESETS["text"], data="")


TABLE_6 = PaperTable(
    file="fnet_6",
    shows="Long-Range Arena: accuracy on six tasks, and the mean without Path-X",
    source="leethorp2021fnet, table 6; Performer: README of google-research/long-range-arena",
    problems=tuple(
        Problem(task, "lra", task, data, file=file, averaged=task != "pathx", hours=hours)
        for task, (data, file, hours) in _SETS.items()
    ),
    contenders=tuple(
        Contender(name, name) for name in ("softmax", "linear", "fnet", "performer", "fourier")
    ),
    metrics=(f"test {ACCURACY}",),
    average=True,
    stand_in=_short,
)
COMPARISONS: dict[str, Comparison] = {
    "fnet-6": TABLE_6,
    "lra-small": ArenaComparison(time="8 min"),
    "lra-drawn": DrawnComparison(time="8 min"),
    "lra-questions": QuestionsComparison(time="17 min"),
    "lra-recall": RecallComparison(time="43 min"),
}
