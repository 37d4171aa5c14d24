"""The GLUE table of the FNet paper: encoders pre-trained, then fine-tuned on eight tasks.

[leethorp2021fnet]_, table 4. The pre-training is that of its table 2, the same runs if both tables
have one output folder. Of the three rates that appendix A.3 of [devlin2019bert]_ recommends (its
section 4.1 tries 4e-5 too) one is chosen for each encoder and task, with one seed, by the training
rows that are held out. The paper reports the best of three
trials at each rate, of its large encoders of six, by GLUE's validation rows themselves: the column
"largest" comes near to that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from fourierkernels.foundation.run_folder import find_run, read_results
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import Contender, Network, Part, Stage
from fourierkernels.studies.engine.data_sets import Need
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.glue.drawn_comparison import PRETRAINING, DrawnTasks, FineTuned
from fourierkernels.studies.glue.glue_measures import COLUMNS, TABLE_4
from fourierkernels.studies.glue.tasks import TASKS
from fourierkernels.studies.masked.comparison import NAMES, of_c4, of_documents, write_example
from fourierkernels.studies.masked.presets import PRESETS
from fourierkernels.studies.masked.study import is_paper_text

RATES = (5e-5, 3e-5, 2e-5)
ENCODERS = replace(of_c4("base"), name=PRETRAINING)
METRICS = ("test", "test, matched", "test, mismatched")


@dataclass(frozen=True)
class GlueTable(FineTuned, PaperTable):
    """Table 4.

    Attributes
    ----------
    encoders : Problem
        The pre-training, which a network of a task begins with.
    """

    encoders: Problem = ENCODERS

    def needs(self, folder: Path | None) -> list[Need]:
        """Return the tasks, and the text of the pre-training."""
        text = self.encoders.need(folder)
        return [*super().needs(folder), *([] if text is None else [text])]

    def located(self, folder: Path | None) -> Self:
        """Return the table of the data below a folder."""
        placed, text = super().located(folder), self.encoders.need(folder)
        return placed if text is None else replace(placed, encoders=self.encoders.at(text.place))

    def stages(self) -> tuple[Stage, ...]:
        """Return the pre-training of each seed, trials of rates, and the networks of the table."""
        return Stage((self.pretraining,), self.seeds), *super().stages()

    def pretraining_of(self, contender: Contender) -> Part:
        """Return the part that pre-trains all encoders."""
        return self.pretraining

    @property
    def pretraining(self) -> Part:
        """The encoders that are pre-trained."""
        preset, steps = self.encoders.preset, self.steps_of(self.encoders)
        return Part(self.contenders, preset, steps, PRETRAINING, name=PRETRAINING, study="masked")

    def hours_of(self, network: Network) -> float | None:
        """Return the hours of one core for a pre-training."""
        return self.encoders.hours if network.part.name == PRETRAINING else None

    def data_of(self, network: Network) -> str | None:
        """Return the place of a task, or of the text of the pre-training."""
        own = network.part.name == PRETRAINING
        return self.encoders.place if own else super().data_of(network)

    def measured(self, network: Network, result: Trained) -> Row:
        """Return the paper's measure of a task on each file of validation rows."""
        row = {
            name: value
            for name, value in super().measured(network, result).items()
            if not name.startswith("published ")
        }
        if not self._is_papers(network, result):
            return row
        printed = zip(COLUMNS, TABLE_4[self.encoders.preset][network.contender.mixer], strict=True)
        for column, value in printed:
            task, _, file = column.partition(", ")
            if task == network.part.problem and not math.isnan(value):
                row[f"published test{file and f', {file}'}"] = value
        return row

    def _is_papers(self, network: Network, result: Trained) -> bool:
        """Whether a network has learned a whole task of GLUE, as the paper's encoders have."""
        task, rows = TASKS.get(network.part.problem), result.facts.get("rows", {})
        whole = task is not None and rows.get("train", 0) + rows.get("valid", 0) == task.rows
        return whole and not self.quick_steps and self._has_papers_encoder(result)

    def _has_papers_encoder(self, result: Trained) -> bool:
        """Whether the encoder that a network began with was trained on the paper's text."""
        start = result.run.start
        home = None if start is None else find_run(Path(start.path))
        known = {} if home is None else read_results(home)
        spans = known.get("spans", {}).get("train", 0)
        preset = PRESETS[self.encoders.preset]
        return is_paper_text(str(known.get("corpus")), spans, preset)

    def numbers(self, result: Trained) -> Mapping[str, Measured]:
        """Return the first measure of each file of validation rows, which is the paper's."""
        found: dict[str, Measured] = {}
        for row in result.measured:
            if row.split in METRICS:
                found.setdefault(row.split, row)
        return {} if result.run.start is None else found

    def quick(self, folder: Path) -> Self:
        """Return the table of a few updates of small encoders."""
        small = super().quick(folder)
        return replace(small, encoders=of_documents(self.encoders, folder), rates=(1e-3, 5e-4))


def _titles(problem: Problem, folder: Path) -> Problem:
    """Return a few labelled sentences in the place of a task."""
    if not (folder / "titles").is_dir():
        write_example(folder)
    return replace(problem, preset="sentences", data="", place=str(folder / "titles"))


def _table(file: str, size: str) -> GlueTable:
    return GlueTable(
        file=file,
        shows=f"GLUE after pre-training, {size}: eight tasks and their mean",
        source="leethorp2021fnet, table 4",
        problems=tuple(
            Problem(task, "glue", task, "glue", file=TASKS[task].folder)
            for task in dict.fromkeys(column.partition(",")[0] for column in COLUMNS)
        ),
        contenders=tuple(Contender(NAMES[mixer], mixer) for mixer in TABLE_4[size]),
        metrics=METRICS,
        rates=RATES,
        average=True,
        stand_in=_titles,
        encoders=replace(of_c4(size), name=PRETRAINING),
    )


COMPARISONS: dict[str, Comparison] = {
    "fnet-4": _table("fnet_4", "base"),
    "fnet-4-large": _table("fnet_4_large", "large"),
    "glue-drawn": DrawnTasks(time="61 min"),
}
