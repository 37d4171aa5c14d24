"""A table of a paper: its mixers on its problems, over seeds, beside the published numbers.

A study's ``comparison.py`` lists its tables beside the small comparison; each is data. A network
is a run by the preset that follows the paper, and keeps its folder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, grouped_rows, interval
from fourierkernels.studies.engine.contenders import (
    COMPARED,
    Contender,
    Network,
    Part,
    Stage,
    grid,
    trials,
)
from fourierkernels.studies.engine.controls import NO_EVIDENCE, Evidence, is_loss
from fourierkernels.studies.engine.data_sets import Need, below, refuse_missing
from fourierkernels.studies.engine.judge import Judge
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.trained import FINISHED, Trained
from fourierkernels.studies.registry import STUDIES

AVERAGE = "average"
QUICK_STEPS, QUICK_SEEDS = 2, (1, 2)


@dataclass(frozen=True)
class Problem:
    """A model and the data that it learns.

    Attributes
    ----------
    name : str
        What the table calls it.
    study, preset : str
        Which model it is.
    data : str
        Rows of the study's data sets that it can be read from, separated by spaces; empty for what
        the preset names.
    file : str
        A file, or a pattern of one, that tells the data from others of the same row.
    averaged : bool
        Whether the paper's average has it.
    hours : float or None
        Of one core for a network of the first contender, by timed passes of random input (AMD EPYC,
        processor time, without loading and measuring), where they have been timed.
    place : str or None
        Where the data lie.
    """

    name: str
    study: str
    preset: str
    data: str = ""
    file: str = ""
    averaged: bool = True
    hours: float | None = None
    place: str | None = None

    def at(self, place: str | None) -> "Problem":
        """Return the problem with its data in a place."""
        return replace(self, place=place)

    def need(self, folder: Path | None) -> Need | None:
        """Return what has to be on disk, with its place below a folder."""
        if self.place is not None or not self.data:
            return None
        rows = {name: STUDIES[self.study].data_sets()[name] for name in self.data.split()}
        found = None if folder is None else next(self._found(folder), None)
        layouts = " or ".join(row.layout for row in rows.values())
        source = next(iter(rows.values())).source
        return Need(" or ".join(rows), self.file, layouts, source, found)

    def _found(self, folder: Path) -> Iterator[str]:
        rows = STUDIES[self.study].data_sets()
        for name in self.data.split():
            for place in below(folder, self.file):
                known = rows[name].recognises
                own = place if known(place) else place.parent
                if known(own):
                    yield str(own.resolve())


@dataclass(frozen=True)
class PaperTable(Comparison):
    """A table of a paper.

    Attributes
    ----------
    shows : str
        What is in it.
    source : str
        Key of the paper in the bibliography, and the table.
    problems : tuple of Problem
    contenders : tuple of Contender
        The first one is what the others are compared with.
    metrics : tuple of str
        Split and metric of each number, "test accuracy (%)"; all that are measured if empty.
    rates : tuple of float
        Learning rates that are tried with one seed; that of the preset alone if empty.
    average : bool
        Whether the table has the mean over its problems.
    papers : mapping of str to mapping
        Numbers of contenders with options, by name and metric; presets have the others.
    stand_in : callable
        From a problem and a folder, into which it may write data, to the problem of the quick mode.
    """

    shows: str = ""
    source: str = ""
    problems: tuple[Problem, ...] = ()
    contenders: tuple[Contender, ...] = ()
    metrics: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    average: bool = False
    papers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    stand_in: Callable[[Problem, Path], Problem] = lambda problem, folder: problem
    file: str = ""
    trial_seed: int = 2022
    quick_steps: int | None = None

    study = ""
    columns = "part problem model preset rate seed options"
    table: ClassVar[Table] = Table(index=("problem", "model"), contender="model")
    divergence = True
    keeps_runs = partial = True

    @property
    def title(self) -> str:
        """What is in it."""
        return self.shows

    @property
    def names(self) -> tuple[str, str]:
        """Files of the networks and of the table."""
        return f"{self.file}_networks", self.file

    def needs(self, folder: Path | None) -> list[Need]:
        """Return the data of all problems."""
        needs = (problem.need(folder) for problem in self.problems)
        return [need for need in needs if need is not None]

    def located(self, folder: Path | None) -> Self:
        """Return the table of the data below a folder."""
        refuse_missing(self.needs(folder), folder)
        found = ((problem, problem.need(folder)) for problem in self.problems)
        placed = tuple(p.at(n.place) if n else p for p, n in found)
        return replace(self, problems=placed, data=None if folder is None else str(folder))

    def stages(self) -> tuple[Stage, ...]:
        """Return trials of rates, if any, and the networks of the table."""
        parts = self.parts()
        compared = Stage(parts, self.seeds)
        if not self.rates:
            return (compared,)
        return trials(parts, grid(self.rates), self.trial_seed), compared

    def parts(self) -> tuple[Part, ...]:
        """Return the contenders on each problem."""
        return tuple(
            Part(self.contenders, p.preset, self.steps_of(p), p.name, study=p.study)
            for p in self.problems
        )

    def steps_of(self, problem: Problem) -> int:
        """Return the updates of a network."""
        recipe: Recipe = STUDIES[problem.study].presets[problem.preset].recipe
        return self.quick_steps or recipe.steps

    def shortened(self, recipe: Recipe, steps: int) -> Recipe:
        """Return the recipe of a preset as it is, or a short one for the quick mode."""
        return recipe if steps == recipe.steps else super().shortened(recipe, steps)

    def data_of(self, network: Network) -> str | None:
        """Return the place of the data of a problem."""
        return self.problem_of(network).place

    def hours_of(self, network: Network) -> float | None:
        """Return the hours of one core for a network, if they are known."""
        return self.problem_of(network).hours

    def problem_of(self, network: Network) -> Problem:
        """Return what a network learns."""
        return next(p for p in self.problems if p.name == network.part.problem)

    @property
    def decided_by(self) -> str:  # type: ignore[override]
        """The first metric."""
        return self.metrics[0] if self.metrics else ""

    def measure_of(self, line: Row) -> str:
        """Return the metric of a line."""
        return str(line["metric"])

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return the difference of the published numbers."""
        ours, theirs = (_first(rows, f"published {column}") for rows in (cell.rows, cell.reference))
        if cell.reference_name == cell.index["model"] or "" in (ours, theirs):
            return None
        gain = float(str(ours)) - float(str(theirs))
        return -gain if is_loss(column) else gain

    def numbers(self, result: Trained) -> Mapping[str, Measured]:
        """Return what is measured of a network by the metrics of the table."""
        return {f"{row.split} {row.metric}": row for row in result.measured}

    def measured(self, network: Network, result: Trained) -> Row:
        """Return all numbers, and the published ones where model, data and metric are the same."""
        numbers = self.numbers(result)
        papers = {metric: row.published for metric, row in numbers.items()}
        if network.contender.options:  # of which presets know nothing
            known = result.facts.get("corpus") in self.problem_of(network).data.split()
            papers = dict(self.papers.get(network.contender.name, {})) if known else {}
        return {
            "end": result.end,
            "valid_loss": result.least_loss,
            **{metric: row.value for metric, row in numbers.items()},
            **{f"published {name}": value for name, value in papers.items() if value is not None},
        }

    def wanted_controls(self) -> list[Row]:
        """Return those of the problems, and of the average if there is one."""
        wanted = super().wanted_controls()
        return [*wanted, *({**row, "problem": AVERAGE} for row in wanted if self.average)]

    def judge(self, rows: Sequence[Row], evidence: Evidence) -> Judge:
        """Return what says how contenders stand to the controls, on average too."""
        averaged = any(row["problem"] == AVERAGE for row in rows)
        return super().judge([*rows, *(() if averaged else self.averages(rows))], evidence)

    def tables(
        self, rows: Sequence[Row], evidence: Evidence = NO_EVIDENCE
    ) -> dict[str, Sequence[Row]]:
        """Return the networks and the table, with the average over the problems."""
        networks, main = super().tables([*rows, *self.averages(rows)], evidence).items()
        own = [row for row in networks[1] if row["problem"] != AVERAGE]
        return {networks[0]: own, main[0]: main[1]}

    def averages(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Yield a row for each contender and seed that has been measured on all problems."""
        wanted = {problem.name for problem in self.problems if problem.averaged}
        own = [r for r in rows if r["part"] == COMPARED and r["problem"] in wanted]
        own = [row for row in own if row.get("end", FINISHED) == FINISHED]
        for (model, seed), group in grouped_rows(own, ("model", "seed")).items():
            if self.average and {row["problem"] for row in group} == wanted:
                line = {"part": COMPARED, "problem": AVERAGE, "model": model, "seed": seed}
                for kind in ("", "published ")[: 1 + self._printed(group)]:
                    names = [f"{kind}{metric}" for metric in self.metrics]
                    values = [row[n] for row in group for n in names if row.get(n, "") != ""]
                    line |= {names[0]: float(np.mean([float(v) for v in values]))} if values else {}
                yield line

    def _printed(self, rows: Sequence[Row]) -> bool:
        """Whether rows have all numbers that the paper has of their problems."""
        presets = {p.name: STUDIES[p.study].presets[p.preset] for p in self.problems}
        mixers = {contender.name: contender.mixer for contender in self.contenders}
        return all(
            any(name.startswith("published ") and row[name] != "" for name in row)
            for row in rows
            if presets[row["problem"]].published.get(mixers[row["model"]])
        )

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield mean, interval and range of each metric, beside the published number."""
        for metric in self.metrics or _metrics(cell.rows):
            values = cell.values(metric)
            if not len(values):
                continue
            middle, reach = interval(values, 1)
            yield {
                "metric": metric,
                "rate": cell.rows[0].get("rate", ""),
                "seeds": len(values),
                "mean": middle,
                "mean_low": middle - reach,
                "mean_high": middle + reach,
                "least": values.min(),
                "largest": values.max(),
                "reference": cell.reference_name,
                **cell.compared(metric),
                "published": _first(cell.rows, f"published {metric}"),
                "source": self.source,
            }

    def config(self, chosen: Mapping[tuple[str, str], object]) -> dict[str, object]:
        """Return settings for the provenance."""
        return {
            "source": self.source,
            "problems": {p.name: f"{p.study} {p.preset}" for p in self.problems},
            "rates": self.rates,
            "seeds": self.seeds,
            "quick_steps": self.quick_steps,
            **({"settings": dict(self.settings.named)} if self.settings.named else {}),
            "chosen": {" ".join(key): str(tuning) for key, tuning in chosen.items()},
        }

    def quick(self, folder: Path) -> Self:
        """Return the table of a few updates, on data that are made in a folder."""
        few = self.problems[: 1 + self.average]
        small = tuple(self.stand_in(problem, folder) for problem in few)
        return replace(self, problems=small, quick_steps=QUICK_STEPS, seeds=QUICK_SEEDS)


def _metrics(rows: Sequence[Row]) -> list[str]:
    """Return what some row has been measured by: one that diverged has none."""
    labels = {*PaperTable.columns.split(), "end", "valid_loss"}
    columns = dict.fromkeys(column for row in rows for column in row)
    return [c for c in columns if c not in labels and not c.startswith("published ")]


def _first(rows: Sequence[Row], column: str) -> object:
    """Return the first value that there is in a column."""
    return next((row[column] for row in rows if row.get(column, "") != ""), "")
