"""A comparison of networks that differ in their contender alone, tuned alike, as tables.

A study's ``comparison.py`` is a :class:`Comparison`: its fields are the budget, the same for all
contenders. Trials choose the hyperparameters of each contender, with one seed; the best by
validation is trained from several other seeds. Differences from the reference are paired by seed,
see :mod:`fourierkernels.studies.engine.comparison_table`. A comparison that was interrupted resumes
where it stopped.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from fourierkernels.foundation.workers import Work, one_thread, spread
from fourierkernels.studies.engine.comparison_table import LEVEL, Cell, Row, Table, same_columns
from fourierkernels.studies.engine.contenders import Choices, Network, Stage, Tuning
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.engine.trained import Trained, trained


class Finished:
    """One JSON line per finished network, so that an interrupted comparison can resume."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._path, self._rows = path, {e["key"]: e["row"] for e in map(json.loads, lines)}

    def __contains__(self, network: Network) -> bool:
        return network.key in self._rows

    def add(self, network: Network, row: Row) -> None:
        """Keep a row at once."""
        self._rows[network.key] = row
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": network.key, "row": row}) + "\n")

    def rows(self, networks: Iterable[Network]) -> list[Row]:
        """Return the rows of networks, in their order."""
        return [self._rows[network.key] for network in networks]


@dataclass(frozen=True)
class Comparison(ABC):
    """Budget; the same for all contenders.

    Attributes
    ----------
    data : str or None
        A folder, a file or the name of a corpus; that of the preset if None.
    seeds : tuple of int
        Of the compared networks.
    """

    data: str | None = None
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)

    study: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()  # whose versions matter besides those of training
    variant: ClassVar[str] = ""  # option of the command that chooses among several comparisons
    places: ClassVar[Mapping[str, str]] = {}  # fields that say where data are, for --help

    columns: ClassVar[str]  # that say which network a row is of
    problem: ClassVar[str] = "problem"  # the column of the task or data set
    table: ClassVar[Table]
    score: ClassVar[str] = "valid_loss"  # column, the least of which chooses
    divergence: ClassVar[bool] = False  # whether a network that diverges has a row
    validations: ClassVar[int] = 1  # of a run
    log_lines: ClassVar[int] = 10  # of a run

    @property
    def names(self) -> tuple[str, str]:
        """Files of the networks and of the table, without endings."""
        return f"{self.study}_networks", f"{self.study}_small"

    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """Return what is trained, one stage after the other."""

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

    def setup(self, network: Network) -> Setup:
        """Return the run of a network."""
        run = setup(
            self.study,
            preset=network.part.preset,
            mixer=network.contender.mixer,
            mixer_options=network.contender.options_at(network.tuning),
            data=self.data_of(network),
            seed=network.seed,
        )
        recipe, rate = self.shortened(run.recipe, network.part.steps), network.tuning.rate
        return replace(run, recipe=recipe if rate is None else replace(recipe, learning_rate=rate))

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
        """Train a network and return its row."""
        with one_thread(), trained(self.setup(network), divergence=self.divergence) as result:
            return {**self.labels(network), **self.measured(network, result)}

    def labels(self, network: Network) -> Row:
        """Return the columns that say which network a row is of."""
        other = {self.table.contender: "contender", self.problem: "problem"}
        return {name: network.facts[other.get(name, name)] for name in self.columns.split()}

    def run(
        self,
        finished: Finished,
        *,
        workers: int = 1,
        report: Callable[[str], object] = lambda line: None,
    ) -> tuple[list[Row], Choices]:
        """Train all networks, or those that are not yet trained; return their rows and choices.

        Parameters
        ----------
        workers : int
            Processes, each of which trains a network at a time.
        report : callable
            Takes a line on each network that has been trained.
        """
        networks: list[Network] = []
        chosen: Choices = {}
        for stage in self.stages():
            wanted = stage.networks(chosen)
            for line in self.finish(wanted, finished, workers=workers):
                report(line)
            if stage.chooses:
                chosen |= self.choose(wanted, finished.rows(wanted))
            networks += wanted
        return finished.rows(networks), chosen

    def finish(
        self, networks: Sequence[Network], finished: Finished, *, workers: int = 1
    ) -> Iterator[str]:
        """Train what is not yet trained, keep each row at once, and yield a line for each."""
        missing = [network for network in networks if network not in finished]
        work = Work(self.train, "network", "comparison")
        with spread(work, missing, workers=workers, scheduler=None) as results:
            for network, row in results:
                finished.add(network, row)
                yield str(network)

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

    def tables(self, rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
        """Return all tables by the names of their files: the networks first, then the main one."""
        networks, main = self.names
        cells = self.table.cells(rows, self.references())
        lines = [{**cell.index, **line} for cell in cells for line in self.summary(cell)]
        return {networks: same_columns(rows), main: lines, **self.further_tables(rows)}

    def config(self, chosen: Choices) -> dict[str, object]:
        """Return settings and facts for the provenance, without the places of the data."""
        places = {"data", *self.places}
        settings = {name: value for name, value in asdict(self).items() if name not in places}
        return {**settings, **self.facts(chosen), "level": LEVEL, "threads": 1}
