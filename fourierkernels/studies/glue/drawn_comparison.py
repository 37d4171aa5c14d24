"""Drawn tasks in the manner of GLUE, for encoders that pre-training has taught what they need.

Encoders of the FNet paper, and Fourier attention (l = 4), are pre-trained on drawn documents as
``reproduce masked-recall`` has it, at the rates that its trials chose, from five seeds, and each is
fine-tuned on two tasks (:mod:`fourierkernels.studies.glue.drawn`). The rate there is one of three,
by the rows that are held out, from the encoder of the first seed. One more BERT begins after a
single update. A logistic regression on counts of words stands for a bag of them. The differences of
the paper are those of its table 4: CoLA for "agrees", RTE for "which".

Tasks and updates were chosen by trials of BERT from a seed that is in no table: it learns both in
600 updates, and in as many neither whether two lines name the same values in different orders nor
whether a line has a certain word, which pre-training does not ask for.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from fourierkernels.foundation.run_folder import BEST
from fourierkernels.studies.engine.classification import Examples, logistic_regression
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table
from fourierkernels.studies.engine.contenders import (
    COMPARED,
    Contender,
    Network,
    Part,
    Stage,
    Tuning,
    grid,
    trials,
)
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.engine.teacher import choose_start
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.glue.drawn import DRAWN, drawn_rows
from fourierkernels.studies.glue.glue_measures import COLUMNS, TABLE_4
from fourierkernels.studies.glue.labelled import HELD_OUT
from fourierkernels.studies.glue.tasks import Row as LabelledRow
from fourierkernels.studies.masked.drawn import NAMES, VALUES
from fourierkernels.studies.masked.presets import WORD_ACCURACY

PRETRAINING = "pretraining"
UNTRAINED = "BERT, not pre-trained"
ENCODERS = (
    Contender("BERT", "softmax"),
    Contender("Fourier", "fourier"),
    Contender("FNet", "fnet"),
    Contender("Linear", "linear"),
    Contender("FF-only", "none"),
    Contender(UNTRAINED, "softmax"),
)
RATES = {"Fourier": 2e-3, "FF-only": 2e-3}  # of pre-training, where masked_recall.csv has another
RATE = 4e-3
AS = {"agrees": "cola", "which": "rte"}  # tasks of the paper's table
ACCURACY = "accuracy (%)"


class FineTuned(Comparison):
    """A comparison whose networks begin with encoders that it has pre-trained itself."""

    @abstractmethod
    def pretraining_of(self, contender: Contender) -> Part:
        """Return the part that pre-trains an encoder, with one tuning."""

    def beginning(self, network: Network) -> Network | None:
        """Return the pre-training of a network's encoder, of a trial that of the first seed.

        None for a pre-training itself.
        """
        if network.part.name == PRETRAINING:
            return None
        part = self.pretraining_of(network.contender)
        seed = network.seed if network.seed in self.seeds else self.seeds[0]
        return Network(part, network.contender, part.tunings[0], seed)

    def setup(self, network: Network) -> Setup:
        """Return a run, which begins with the encoder of its seed.

        Raises
        ------
        ValueError
            If that encoder has not been trained.
        """
        run, first = super().setup(network), self.beginning(network)
        if first is None:
            return run
        start = super().setup(first)
        folder = self.run_folder(start)
        if folder is None or not (folder / BEST).is_file():
            raise ValueError(
                f"start must be pre-trained first, got no {start.mixer.name} of seed {first.seed}"
            )
        return replace(run, start=choose_start(folder))


@dataclass(frozen=True)
class DrawnTasks(FineTuned):
    """Budget; the same for all encoders.

    Attributes
    ----------
    encoders : tuple of str
        Names of those that are trained.
    tasks : tuple of str
        What they are fine-tuned on.
    pretraining_steps, steps, trial_steps : int
        Updates of a pre-training, of a task, and of a trial.
    rates : tuple of float
        Of the trials.
    """

    encoders: tuple[str, ...] = tuple(encoder.name for encoder in ENCODERS)
    tasks: tuple[str, ...] = ("agrees", "which")
    pretraining_steps: int = 1_500
    steps: int = 800
    trial_steps: int = 400
    rates: tuple[float, ...] = (5e-4, 1e-3, 2e-3)
    trial_seed: int = 2022
    widen: int = 1

    study = "glue"
    packages = ("sentencepiece",)
    columns = "part task encoder mixer rate steps seed"
    problem = "task"
    table = Table(index=("task", "encoder"), contender="encoder", parts=(COMPARED,))
    decided_by = ACCURACY
    divergence = True
    keeps_runs = True  # tasks begin with them
    names = ("glue_drawn_networks", "glue_drawn")

    def stages(self) -> tuple[Stage, ...]:
        """Return the pre-training of each seed, trials of rates, and the networks of the table."""
        own = tuple(encoder for encoder in ENCODERS if encoder.name in self.encoders)
        tried = [Part(own, task, self.trial_steps, task) for task in self.tasks]
        first = trials(tried, grid(self.rates), self.trial_seed)
        compared = tuple(replace(part, steps=self.steps) for part in tried)
        pretraining = Stage(tuple(map(self.pretraining_of, own)), self.seeds)
        return pretraining, first, Stage(compared, self.seeds)

    def pretraining_of(self, contender: Contender) -> Part:
        """Return the part that pre-trains an encoder, at the rate of its own."""
        return Part(
            (contender,),
            "recall",
            1 if contender.name == UNTRAINED else self.pretraining_steps,
            PRETRAINING,
            name=PRETRAINING,
            tunings=(Tuning(RATES.get(contender.name, RATE)),),
            study="masked",
        )

    def baselines(self) -> dict[str, Sequence[Baseline]]:
        """Return what a logistic regression gets on counts of the words of each line."""
        return {task: [bag_of_words(task)] for task in self.tasks}

    def measured(self, network: Network, result: Trained) -> Row:
        """Return the accuracy on a task, or on masked words."""
        name = WORD_ACCURACY if network.part.name == PRETRAINING else ACCURACY
        return result.row(lambda ended: {name: ended.number(name).value})

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield means and the difference from BERT in accuracy."""
        accuracy = cell.values(ACCURACY)
        yield {
            "rate": cell.first("rate"),
            "seeds": len(accuracy),
            "accuracy": accuracy.mean(),
            "least": accuracy.min(),
            "largest": accuracy.max(),
            **cell.compared(ACCURACY),
        }

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return how many points the paper's base model is ahead of BERT in the task alike."""
        if cell.index["encoder"] in (UNTRAINED, cell.reference_name):
            return None
        place = COLUMNS.index(AS[str(cell.index["task"])])
        mixer = next(e.mixer for e in ENCODERS if e.name == cell.index["encoder"])
        row, bert = TABLE_4["base"].get(mixer), TABLE_4["base"]["softmax"]
        return None if row is None else row[place] - bert[place]

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates of a few encoders."""
        few = replace(self, encoders=("BERT", "Linear", UNTRAINED), widen=0, rates=(1e-3,))
        return replace(few, seeds=(1, 2), pretraining_steps=4, steps=4, trial_steps=2)


def bag_of_words(task: str) -> Baseline:
    """Return what a logistic regression gets on the counts of the words of each line."""
    rows = {split: drawn_rows(task, split).rows for split in DRAWN}
    words = [str(value) for value in range(VALUES)]
    words += [f"{name}{value}" for name in NAMES for value in words]
    place = {word: k for k, word in enumerate(words)}

    def counted(own: Sequence[LabelledRow]) -> Examples:
        lines = [[place[word] for word in text.split()] for row in own for text in row.texts]
        counts = [np.bincount(line, minlength=len(place)) for line in lines]
        features = np.array(counts, dtype=float).reshape(len(own), -1)
        return Examples(features, np.array([int(row.label or 0) for row in own]))

    held = len(rows["train"]) // HELD_OUT
    splits = {"train": rows["train"][held:], "valid": rows["train"][:held], "test": rows["test"]}
    return logistic_regression("bag of words", {name: counted(own) for name, own in splits.items()})
