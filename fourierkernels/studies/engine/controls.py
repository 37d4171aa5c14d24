"""What a comparison must beat: controls, and how sure a gain over them is.

Controls are contenders that mix nothing ("none") or mix alike whatever the tokens are ("linear"),
and rules on the raw input (:class:`Baseline`). A table decides something where a contender beats
all of them: where each t interval of the difference, over seeds and test items, leaves zero out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, by_seed
from fourierkernels.studies.engine.power import (
    Values,
    binomial_error,
    mean_of,
    pooled_deviation,
    reach_of,
    smallest_gain,
)

CONTROL_MIXERS = ("none", "linear")
_LOSSES = ("loss", "perplexity", "error", "cross-entropy")  # in names of columns


@dataclass(frozen=True)
class Baseline:
    """What a rule gets that reads the raw input and mixes no tokens.

    Attributes
    ----------
    name : str
        The rule.
    value : float
        By the measure that decides the table.
    items : int
        Test items.
    """

    name: str
    value: float
    items: int


def is_loss(column: str) -> bool:
    """Return whether less of a column is better.

    >>> is_loss("test plain perplexity"), is_loss("test accuracy (%)")
    (True, False)
    """
    return any(word in column for word in _LOSSES)


@dataclass(frozen=True)
class Gain:
    """How much better a contender is than a control, in units of the measure.

    Attributes
    ----------
    low, high : float
        Ends of the interval over seeds, the test items as they are.
    low_items, high_items : float
        The same over seeds and test items; that over seeds where items are not counted.
    """

    control: str
    middle: float
    low: float
    high: float
    low_items: float
    high_items: float

    NAMES: ClassVar[tuple[str, ...]] = (
        *("control", "gain", "gain_low", "gain_high", "gain_low_items", "gain_high_items"),
    )

    def columns(self) -> Row:
        """Return the columns of a table."""
        return dict(zip(self.NAMES, astuple(self), strict=True))


@dataclass(frozen=True)
class Evidence:
    """What a table rests on besides the rows of its networks; its provenance keeps it.

    Attributes
    ----------
    baselines : mapping of str to sequence of Baseline
        By problem.
    edges : mapping of str to str
        By problem and contender: the hyperparameters chosen at an edge of what was tried.
    """

    baselines: Mapping[str, Sequence[Baseline]] = field(default_factory=dict)
    edges: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, object]:
        """Return it as the provenance has it."""
        known = {name: [asdict(each) for each in own] for name, own in self.baselines.items()}
        return {"baselines": known, "edges": dict(self.edges)}

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Return that of a provenance."""
        known = config.get("baselines", {})
        baselines = {name: [Baseline(**each) for each in own] for name, own in known.items()}
        return cls(baselines, config.get("edges", {}))


NO_EVIDENCE = Evidence()


@dataclass(frozen=True)
class Contest:
    """The networks of one problem by one measure.

    Attributes
    ----------
    column : str
        The measure.
    contenders : mapping of str to mapping
        Values by seed of each contender.
    controls : tuple of str
        The contenders that are controls.
    baselines : sequence of Baseline
        The controls that are not trained.
    comparisons : int
        Contenders that are compared with controls, for which the level is corrected.
    """

    column: str
    contenders: Mapping[str, Values]
    controls: tuple[str, ...]
    baselines: Sequence[Baseline] = ()
    comparisons: int = 1

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return -1 if is_loss(self.column) else 1

    @property
    def items(self) -> int | None:
        """Test items, where they are counted in percent."""
        return self.baselines[0].items if self.baselines else None

    def gains(self, contender: str) -> list[Gain]:
        """Return the gains over all controls, that over the best one first."""
        own = self.contenders[contender]
        rivals = {name: self.contenders.get(name, {}) for name in self.controls}
        rivals |= {each.name: dict.fromkeys(own, each.value) for each in self.baselines}
        known = {name: values for name, values in rivals.items() if values}
        order = sorted(known, key=lambda name: -self.sign * mean_of(known[name]))
        return [self._gain(name, own, known[name]) for name in order]

    def _gain(self, name: str, own: Values, rival: Values) -> Gain:
        gaps = np.array([self.sign * (own[seed] - rival[seed]) for seed in own if seed in rival])
        middle = float(np.mean(gaps)) if len(gaps) else math.nan
        of_seeds = float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5 if len(gaps) > 1 else math.nan
        of_items = binomial_error(mean_of(own), mean_of(rival), self.items)
        near, far = (reach_of(of_seeds, e, len(gaps), self.comparisons) for e in (0.0, of_items))
        far = max(near, far)  # more freedom may have made it the shorter one
        return Gain(name, middle, middle - near, middle + near, middle - far, middle + far)

    def beats(self, contender: str) -> bool:
        """Return whether a contender is surely better than each control."""
        gains = self.gains(contender)
        return bool(gains) and all(gain.low_items > 0 for gain in gains)

    def sentence(self) -> str:
        """Return in a sentence whether some contender beats every control."""
        known = [name for name, own in self.contenders.items() if own and name not in self.controls]
        best = sorted(known, key=lambda name: -self.sign * mean_of(self.contenders[name]))
        if not best:
            return "decides nothing: no contender but controls has finished"
        if not self.gains(best[0]):
            return "decides nothing: there is no control"
        winner = next(filter(self.beats, best), None)
        gain = self.gains(winner or best[0])[0]
        middle, low, high = gain.middle, gain.low_items, gain.high_items
        what = f"decides: {winner} beats"
        if winner is None:
            what = f"decides nothing: {best[0]}, the best that mixes, is ahead of"
            if middle < 0:
                what, middle, low, high = what.replace("ahead of", "behind"), -middle, -high, -low
        ends = "one seed" if math.isnan(low) else f"{low:.3g} to {high:.3g}"
        by = f"{round(middle, 9):.3g} ({ends}) in {self.column}"  # not the rounding of a mean
        return f"{what} the best control, {gain.control}, by {by}"

    def smallest(self, reference: str, seeds: int, comparisons: int) -> float:
        """Return the smallest gain over a reference that so many seeds would show.

        By the deviation over these seeds, pooled over the contenders.
        """
        share = mean_of(self.contenders.get(reference, {}))
        return smallest_gain(
            pooled_deviation(self.contenders, reference),
            seeds,
            comparisons=comparisons,
            of_items=binomial_error(share, share, self.items),
        )


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
    """

    table: Table
    cells: Sequence[Cell]
    controls: tuple[str, ...]
    decided_by: str
    problem: str
    evidence: Evidence
    pilot: Sequence[Row] = ()

    def contest(self, cell: Cell, column: str) -> Contest:
        """Return all networks of the problem of a cell by a measure."""
        same = self.table.others
        own = [c for c in self.cells if all(c.index[n] == cell.index[n] for n in same)]
        known = self.evidence.baselines.get(str(cell.index.get(self.problem, "")), ())
        by = self.table.contender
        return Contest(
            column,
            {c.index[by]: by_seed(c.rows, column) for c in own},
            self.controls,
            known if column == self.decided_by else (),
            sum(c.index[by] not in self.controls for c in self._family(cell)),
        )

    def _family(self, cell: Cell) -> list[Cell]:
        family = self.table.family
        return [c for c in self.cells if all(c.index[n] == cell.index[n] for n in family)]

    def _pilot(self, cell: Cell, contest: Contest) -> Contest:
        """Return the pilot of all that have one reference, or without one the cell's networks."""
        same = [name for name in self.table.others if name != "part"]
        rows = [row for row in self.pilot if all(row[n] == cell.index[n] for n in same)]
        by, reference = self.table.contender, cell.reference_name
        if not rows:
            names = {cell.index[by], reference}
            own = {n: values for n, values in contest.contenders.items() if n in names}
            return replace(contest, contenders=own)
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
        gains = [] if name in self.controls or not contest.contenders[name] else contest.gains(name)
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
        shared = contest.contenders[name].keys() & contest.contenders.get(reference, {}).keys()
        pilot = self._pilot(cell, contest)
        return pilot.smallest(reference, seeds or len(shared), cell.comparisons)

    def planned(self, seeds: int) -> dict[str, float]:
        """Return the smallest gain of a table of so many seeds, by problem, of a pilot's cells."""
        found: dict[str, float] = {}
        for cell in self.cells:
            gain = self._smallest(cell, self.contest(cell, self.decided_by), seeds)
            if math.isfinite(gain):
                found.setdefault(self._label(cell), gain)
        return found

    def _label(self, cell: Cell) -> str:
        return " ".join(str(cell.index[name]) for name in self.table.others)

    def first_line(self) -> str:
        """Return what the whole table decides, problem by problem."""
        found = {self._label(cell): cell for cell in self.cells}
        said = {k: self.contest(cell, self.decided_by).sentence() for k, cell in found.items()}
        if len(said) == 1:
            return next(iter(said.values()))
        count = sum(each.startswith("decides:") for each in said.values())
        return f"decides {count} of {len(said)}; " + "; ".join(f"{k}: {v}" for k, v in said.items())
