"""What each line of a table, and the whole of it, says of controls and power."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, by_seed
from fourierkernels.studies.engine.controls import Contest, Evidence, Gain


@dataclass(frozen=True)
class Judge:
    """Says of each line of a table what it decides.

    Attributes
    ----------
    table : Table
    cells : sequence of Cell
    controls : tuple of str
        The contenders that are controls.
    decided_by : str
        The column of networks by which the table decides.
    problem : str
        The column of the task or data set.
    evidence : Evidence
    pilot : sequence of mapping
        Rows of networks that are not in the table.
    absent : sequence of Cell
        Controls of the comparison of which no network has finished.
    unit : str
        Of the differences, where the columns do not say it.
    seeds : int
        Of each contender if all have finished.
    """

    table: Table
    cells: Sequence[Cell]
    controls: tuple[str, ...]
    decided_by: str
    problem: str
    evidence: Evidence
    pilot: Sequence[Row] = ()
    absent: Sequence[Cell] = ()
    unit: str = ""
    seeds: int = 0

    def contest(self, cell: Cell, column: str) -> Contest:
        """Return all networks of the problem of a cell by a measure."""
        cells = self._alike(cell, self.table.problems)
        by = self.table.contender
        known = self.evidence.baselines.get(str(cell.index.get(self.problem, "")), ())
        return Contest(
            column,
            {self._name(c): by_seed(c.rows, column) for c in cells},
            tuple(self._name(c) for c in cells if c.index[by] in self.controls),
            known if column == self.decided_by else (),
            sum(c.index[by] not in self.controls for c in self._family(cell)),
            self.unit,
            self.seeds,
        )

    def _alike(self, cell: Cell, columns: Sequence[str]) -> list[Cell]:
        every = (*self.cells, *self.absent)
        return [c for c in every if all(c.index[n] == cell.index[n] for n in columns)]

    def _name(self, cell: Cell) -> str:
        """Return the contender, with its hyperparameters if the problem has it with several."""
        same = self._alike(cell, (*self.table.problems, self.table.contender))
        tuned = [f"{n} {float(cell.index[n]):.3g}" for n in self.table.tuned] if same[1:] else []
        name = str(cell.index[self.table.contender])
        return f"{name} at {', '.join(tuned)}" if tuned else name

    def _family(self, cell: Cell) -> list[Cell]:
        return [c for c in self._alike(cell, self.table.family) if c.rows]

    def _pilot(self, cell: Cell, contest: Contest) -> Contest:
        """Return the pilot of all that have one reference, or without one the cell's networks."""
        same = [name for name in self.table.others if name != "part"]
        rows = [row for row in self.pilot if all(row[n] == cell.index[n] for n in same)]
        by, reference = self.table.contender, cell.reference_name
        if not rows:
            names = {cell.index[by], reference}
            kept = {n: values for n, values in contest.contenders.items() if n in names}
            return replace(contest, contenders=kept)
        alike = {c.index[by] for c in self.cells if c.reference_name == reference}
        found = {
            name: by_seed([row for row in rows if row[by] == name], contest.column)
            for name in contest.contenders
            if name in alike
        }
        return replace(contest, contenders=found)

    def columns(self, cell: Cell, column: str, paper_gain: float | None) -> Row:
        """Return what a line of the table, which is about a measure, says of controls and power."""
        contest, name = self.contest(cell, column), cell.index[self.table.contender]
        own = self._name(cell)
        gains = contest.gains(own) if name not in self.controls and contest.contenders[own] else []
        gain = gains[0].columns() if gains else dict.fromkeys(Gain.NAMES, "")
        smallest = self._smallest(cell, contest)
        problem = str(cell.index.get(self.problem, ""))
        return {
            **gain,
            "smallest_gain": smallest if math.isfinite(smallest) else "",
            "paper_gain": "" if paper_gain is None else paper_gain,
            "edge": self.evidence.edges.get(f"{problem} {name}".strip(), ""),
            "decides": self.contest(cell, self.decided_by).sentence(),
        }

    def _smallest(self, cell: Cell, contest: Contest, seeds: int | None = None) -> float:
        """Return the smallest gain over its reference; NaN of the reference itself."""
        name, reference = cell.index[self.table.contender], cell.reference_name
        if reference in ("", name):
            return math.nan
        by = self.table.contender
        same = self._alike(cell, self.table.others)  # of the same hyperparameters, too
        values = {c.index[by]: by_seed(c.rows, contest.column) for c in same}
        contest = replace(contest, contenders=values)
        shared = contest.contenders[name].keys() & contest.contenders.get(reference, {}).keys()
        pilot = self._pilot(cell, contest)
        return pilot.smallest(reference, seeds or len(shared), cell.comparisons)

    def planned(self, seeds: int) -> dict[str, float]:
        """Return the smallest gain of a table of so many seeds, by problem, of a pilot's cells."""
        found: dict[str, float] = {}
        for cell in self.cells:
            gain = self._smallest(cell, self.contest(cell, self.decided_by), seeds)
            if math.isfinite(gain):
                found.setdefault(_label(cell, self.table.others), gain)
        return found

    def first_line(self) -> str:
        """Return what the whole table decides, problem by problem."""
        found = {_label(cell, self.table.problems): cell for cell in self.cells}
        said = {k: self.contest(cell, self.decided_by).sentence() for k, cell in found.items()}
        if len(said) == 1:
            return next(iter(said.values()))
        count = sum(each.startswith("decides:") for each in said.values())
        return f"decides {count} of {len(said)}; " + "; ".join(f"{k}: {v}" for k, v in said.items())


def _label(cell: Cell, columns: Sequence[str]) -> str:
    return " ".join(str(cell.index[name]) for name in columns)
