"""A comparison of networks that differ in their contender alone, tuned alike, as tables.

A study's ``comparison.py`` is a :class:`Comparison`: its fields are the budget, the same for all
contenders. Trials choose the hyperparameters of each contender, with one seed; the best by
validation is trained from several other seeds. Differences from the reference are paired by seed,
see :mod:`fourierkernels.studies.engine.comparison_table`. How a comparison is run, and resumed
where it stopped: :mod:`fourierkernels.studies.engine.reproduction`.
"""

import hashlib
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from fourierkernels.foundation.workers import one_thread
from fourierkernels.studies.engine.comparison_table import LEVEL, Cell, Row, Table, same_columns
from fourierkernels.studies.engine.contenders import PILOT, Choices, Network, Stage, Tuning
from fourierkernels.studies.engine.controls import CONTROL_MIXERS, NO_EVIDENCE, Baseline, Evidence
from fourierkernels.studies.engine.data_sets import Need, refuse_missing
from fourierkernels.studies.engine.judge import Judge
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup, read_data, setup
from fourierkernels.studies.engine.settings import NO_SETTINGS, Settings
from fourierkernels.studies.engine.trained import Trained, trained
from fourierkernels.studies.registry import STUDIES


@dataclass(frozen=True)
class Comparison(ABC):
    """Budget; the same for all contenders.

    Attributes
    ----------
    data : str or None
        A folder, a file or the name of a corpus; that of the preset if None.
    seeds : tuple of int
        Of the compared networks.
    runs : str or None
        Where each network has the folder of its run, to go on from; none is kept if None.
    together : int
        Processes that train a network together.
    settings : tuple of (str, object)
        Of all recipes, such as the precision.
    pilot : tuple of int
        Seeds of further networks, which are trained before the compared ones and are in no table:
        their deviation tells the smallest gain that the table will show.
    widen : int
        Further trials of a contender at most, as long as the best one lies at an edge of its grid.
    time : str
        That all takes on one core, where it has been measured.
    """

    data: str | None = None
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    runs: str | None = None
    together: int = 1
    settings: Settings = NO_SETTINGS
    pilot: tuple[int, ...] = ()
    widen: int = 0
    time: str = ""

    study: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()  # whose versions matter besides those of training
    places: ClassVar[Mapping[str, str]] = {}  # fields of folders -> scripts that write them

    columns: ClassVar[str]  # that say which network a row is of
    problem: ClassVar[str] = "problem"  # the column of the task or data set
    table: ClassVar[Table]
    score: ClassVar[str] = "valid_loss"  # column, the least of which chooses
    decided_by: ClassVar[str]  # column by which contenders are compared with controls
    unit: ClassVar[str] = ""  # of its differences, where the column does not say it
    divergence: ClassVar[bool] = False  # whether a network that diverges has a row
    validations: ClassVar[int] = 1  # of a run
    log_lines: ClassVar[int] = 10  # of a run
    keeps_runs: ClassVar[bool] = False  # whether they are of use when a network has its row
    partial: ClassVar[bool] = False  # whether tables can be made while networks are missing

    @property
    def names(self) -> tuple[str, str]:
        """Files of the networks and of the table, without endings."""
        return f"{self.study}_networks", f"{self.study}_small"

    @property
    def title(self) -> str:
        """What it compares, in a line."""
        return (sys.modules[type(self).__module__].__doc__ or "").partition("\n")[0].rstrip(".")

    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """Return what is trained, one stage after the other."""

    def planned(self) -> tuple[Stage, ...]:
        """Return all stages, with the pilot before the first compared networks."""
        stages = self.stages()
        if not self.pilot:
            return stages
        place = next(i for i, stage in enumerate(stages) if self._is_compared(stage))
        parts = tuple(replace(part, name=PILOT) for part in stages[place].parts)
        return *stages[:place], Stage(parts, self.pilot), *stages[place:]

    def _is_compared(self, stage: Stage) -> bool:
        return any(part.name in self.table.parts for part in stage.parts)

    @abstractmethod
    def measured(self, network: Network, result: Trained) -> Row:
        """Return the columns that say what was measured of a network."""

    @abstractmethod
    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield the columns of one or several rows of the table."""

    @abstractmethod
    def quick(self, folder: Path) -> Self:
        """Return a comparison that takes seconds; it may write data of its own into a folder."""

    def facts(self, chosen: Choices) -> Mapping[str, object]:
        """Return what the provenance says besides the settings."""
        return {}

    def further_tables(self, rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
        """Return tables beside the main one, by the names of their files."""
        return {}

    def needs(self, folder: Path | None) -> list[Need]:
        """Return the data that have to be on disk, with their places below a folder, or here."""
        rows = STUDIES[self.study].data_sets()
        found = []
        for field, script in self.places.items():
            name = getattr(self, field)
            if name is None or (name in rows and not rows[name].needs_folder):
                continue
            places = [Path(name)]
            if folder is not None:
                places = [folder / name, folder / Path(name).name]
                places += [folder] * any(row.recognises(folder) for row in rows.values())
            place = next((str(place) for place in places if place.exists()), None)
            found.append(
                Need(name, "", f"folder that {script} writes", f"experiments/{script}", place)
            )
        return found

    def located(self, folder: Path | None) -> Self:
        """Return the comparison of the data below a folder, or here.

        Raises
        ------
        ValueError
            Naming the data that are missing.
        """
        needs = self.needs(folder)
        refuse_missing(needs, folder)
        found = {need.name: need.place for need in needs}
        named = {field: getattr(self, field) for field in self.places}
        return replace(self, **{field: found.get(name, name) for field, name in named.items()})

    def setup(self, network: Network) -> Setup:
        """Return the run of a network."""
        run = setup(
            network.part.study or self.study,
            preset=network.part.preset,
            mixer=network.contender.at(network.tuning),
            data=self.data_of(network),
            seed=network.seed,
        )
        recipe, rate = self.shortened(run.recipe, network.part.steps), network.tuning.rate
        recipe = recipe if rate is None else replace(recipe, learning_rate=rate)
        return replace(run, recipe=self.settings.over(recipe))

    def hours_of(self, network: Network) -> float | None:
        """Return the hours of one core for a network, if they are known."""
        return None

    def data_of(self, network: Network) -> str | None:
        """Return what a network is trained on."""
        return self.data

    def shortened(self, recipe: Recipe, steps: int) -> Recipe:
        """Return a recipe of so many updates, with the validations and lines of a comparison."""
        every = max(steps // self.validations, 1)
        return replace(
            recipe,
            steps=steps,
            warmup=steps // 10,
            evaluate_every=every,
            save_every=every,
            log_every=max(steps // self.log_lines, 1),
        )

    def train(self, network: Network) -> Row:
        """Train a network, or go on with it, and return its row."""
        run = self.setup(network)
        folder, together = self.run_folder(run), self.together
        with (
            one_thread(),
            trained(run, folder, divergence=self.divergence, together=together) as result,
        ):
            return {**self.labels(network), **self.measured(network, result)}

    def run_folder(self, run: Setup) -> Path | None:
        """Return the folder of a run, the same for all comparisons that have this run."""
        if self.runs is None:
            return None
        place = None if run.data is None else Path(run.data).name  # whose folder may be moved
        asked = {**run.asked(), "data": place, "start": run.start and run.start.digest}
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        name = f"{run.study.name}-{run.preset}-{run.mixer.name}-{run.recipe.seed}-{digest[:12]}"
        return Path(self.runs) / name

    def labels(self, network: Network) -> Row:
        """Return the columns that say which network a row is of."""
        other = {self.table.contender: "contender", self.problem: "problem"}
        pilot = {"part": PILOT} if network.part.name == PILOT else {}
        own = {name: network.facts[other.get(name, name)] for name in self.columns.split()}
        return {**pilot, **own}

    def choose(self, networks: Iterable[Network], rows: Iterable[Row]) -> Choices:
        """Return the hyperparameters with the least score for each contender and problem.

        Raises
        ------
        ValueError
            If all trials of a contender diverged.
        """
        best: dict[tuple[str, str], tuple[float, Tuning]] = {}
        for network, row in zip(networks, rows, strict=True):
            key = network.part.problem, network.contender.name
            score = float(row.get(self.score, math.nan))
            least, _ = best.setdefault(key, (math.inf, network.tuning))
            if score < least:
                best[key] = score, network.tuning
        lost = [
            " ".join(filter(None, key)) for key, (least, _) in best.items() if least == math.inf
        ]
        if lost:
            raise ValueError(
                f"one trial of each contender must finish, got none of {', '.join(lost)}"
            )
        return {key: tuning for key, (_, tuning) in best.items()}

    def references(self) -> dict[str, str]:
        """Return what each contender is compared with; the first one is the baseline."""
        parts = (part for stage in self.stages() for part in stage.parts)
        contenders = {each.name: each for part in parts for each in part.contenders}
        first = next(iter(contenders))
        return {name: each.reference or first for name, each in contenders.items()}

    def controls(self) -> tuple[str, ...]:
        """Return the contenders that mix nothing, or without regard to what the tokens are."""
        parts = (part for stage in self.stages() for part in stage.parts)
        contenders = {each.name: each for part in parts for each in part.contenders}
        return tuple(name for name, each in contenders.items() if each.mixer in CONTROL_MIXERS)

    def baselines(self) -> dict[str, Sequence[Baseline]]:
        """Return what rules on the raw input get, by problem; of located data."""
        runs = {problem: self.setup(network) for problem, network in self.with_baselines().items()}
        return {
            problem: run.study.baselines(run.chosen_preset, read_data(run))
            for problem, run in runs.items()
        }

    def with_baselines(self) -> dict[str, Network]:
        """Return a network of each problem whose study has rules on the raw input."""
        compared = (stage for stage in self.stages() if self._is_compared(stage))
        first = {n.part.problem: n for stage in compared for n in stage.networks({})[::-1]}
        metrics = {p: STUDIES[n.part.study or self.study].baseline_metric for p, n in first.items()}
        return {p: n for p, n in first.items() if metrics[p] and metrics[p] in self.decided_by}

    def wanted_controls(self) -> list[Row]:
        """Return the columns of the index of each control that the table has once it is done."""
        stages = (stage for stage in self.stages() if self._is_compared(stage))
        networks = (n for stage in stages for n in replace(stage, seeds=(0,)).networks({}))
        rows = [self.labels(network) for network in networks]
        controls = [row for row in rows if row[self.table.contender] in self.controls()]
        return [{name: row[name] for name in self.table.index} for row in controls]

    def measure_of(self, line: Row) -> str:
        """Return the column of networks that a line of the table is about."""
        return self.decided_by

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return by how much a contender is better than its reference in the paper, if it says."""
        return None

    def judge(self, rows: Sequence[Row], evidence: Evidence) -> Judge:
        """Return what says how the cells of the table stand to the controls."""
        cells = tuple(self.table.cells(rows, self.references()))
        known = {_as_text(cell.index) for cell in cells}
        wanted = {_as_text(index): index for index in self.wanted_controls()}
        absent = [Cell(index, ()) for text, index in wanted.items() if text not in known]
        return Judge(
            self.table,
            cells,
            self.controls(),
            self.decided_by,
            self.problem,
            evidence,
            pilot=[row for row in rows if row.get("part") == PILOT],
            absent=absent,
            unit=self.unit,
            seeds=len(self.seeds),
        )

    def tables(
        self, rows: Sequence[Row], evidence: Evidence = NO_EVIDENCE
    ) -> dict[str, Sequence[Row]]:
        """Return all tables by the names of their files: the networks first, then the main one."""
        networks, main = self.names
        judge = self.judge(rows, evidence)
        lines = [
            {**cell.index, **line, **judge.columns(cell, column, self.paper_gain(cell, column))}
            for cell in judge.cells
            for line in self.summary(cell)
            for column in (self.measure_of(line),)
        ]
        return {networks: same_columns(rows), main: lines, **self.further_tables(rows)}

    def config(self, chosen: Choices) -> dict[str, object]:
        """Return settings and facts for the provenance, without the places of the data."""
        places = {"data", "runs", "together", "time", *self.places}
        places |= {name for name in ("settings", "pilot", "widen") if not getattr(self, name)}
        settings = {name: value for name, value in asdict(self).items() if name not in places}
        return {**settings, **self.facts(chosen), "level": LEVEL, "threads": 1}


def _as_text(index: Row) -> tuple[str, ...]:
    """Return an index as the file of the networks has it."""
    return tuple(str(value) for value in index.values())
