"""What a comparison must beat: controls, and how sure a gain over them is.

Controls are contenders that mix nothing ("none") or mix alike whatever the tokens are ("linear"),
and rules on the raw input (:class:`Baseline`). A table decides something where a contender beats
all of them: where each t interval of the difference, over seeds and test items, leaves zero out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.power import (
    LEAST_SEEDS,
    Values,
    binomial_error,
    mean_of,
    paired,
    pooled_deviation,
    reach_of,
    smallest_gain,
    variance_of,
    widest_reach,
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
    seeds : int
        That both have; in no column.
    """

    control: str
    middle: float
    low: float
    high: float
    low_items: float
    high_items: float
    seeds: int

    NAMES: ClassVar[tuple[str, ...]] = (
        *("control", "gain", "gain_low", "gain_high", "gain_low_items", "gain_high_items"),
    )

    def columns(self) -> Row:
        """Return the columns of a table."""
        return dict(zip(self.NAMES, astuple(self)[:-1], strict=True))

    @property
    def sure(self) -> bool:
        """Whether the contender is better beyond chance."""
        return self.low_items > 0 and self.seeds >= LEAST_SEEDS

    @property
    def ends(self) -> str:
        """The interval of the distance, whichever is ahead, or why there is none."""
        if self.seeds < LEAST_SEEDS:
            return "one seed" if self.seeds == 1 else "too few seeds to tell"
        if math.isnan(self.low_items):
            return "no deviation over seeds"
        sign = -1 if self.middle < 0 else 1
        low, high = sorted((sign * self.low_items, sign * self.high_items))
        return f"{low:.3g} to {high:.3g}"


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
        known = {name: [asdict(each) for each in rows] for name, rows in self.baselines.items()}
        return {"baselines": known, "edges": dict(self.edges)}

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """Return that of a provenance."""
        facts: dict[str, Any] = dict(config)
        known = facts.get("baselines", {})
        baselines = {name: [Baseline(**each) for each in rows] for name, rows in known.items()}
        return cls(baselines, facts.get("edges", {}))


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
        The contenders that are controls, also those without values.
    baselines : sequence of Baseline
        The controls that are not trained.
    comparisons : int
        Contenders that are compared with controls, for which the level is corrected.
    unit : str
        Of the measure, where its column does not say it.
    seeds : int
        Of each contender if all have finished; unknown if 0.
    """

    column: str
    contenders: Mapping[str, Values]
    controls: tuple[str, ...]
    baselines: Sequence[Baseline] = ()
    comparisons: int = 1
    unit: str = ""
    seeds: int = 0

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
        values = self.contenders[contender]
        rivals = {name: self.contenders.get(name, {}) for name in self.controls}
        rivals |= {each.name: dict.fromkeys(values, each.value) for each in self.baselines}
        known = {name: values for name, values in rivals.items() if values}
        order = sorted(known, key=lambda name: -self.sign * mean_of(known[name]))
        return [self._gain(name, values, known[name]) for name in order]

    def _gain(self, name: str, own: Values, rival: Values) -> Gain:
        gaps = self.sign * paired(own, rival)
        middle = float(np.mean(gaps)) if len(gaps) else math.nan
        of_seeds = math.sqrt(variance_of(own, rival)) / max(len(gaps), 1) ** 0.5
        of_items = binomial_error(mean_of(own), mean_of(rival), self.items)
        near = reach_of(of_seeds, 0.0, len(gaps), self.comparisons)
        far = widest_reach(of_seeds, of_items, len(gaps), self.comparisons)
        ends = middle - near, middle + near, middle - far, middle + far
        return Gain(name, middle, *ends, len(gaps))

    def beats(self, contender: str) -> bool:
        """Return whether a contender is surely better than each control."""
        gains = self.gains(contender)
        return bool(gains) and all(gain.sure for gain in gains)

    def sentence(self) -> str:
        """Return in a sentence whether some contender beats every control."""
        if not self.column:
            return "decides nothing: the table names no metric"
        known = [
            name for name, values in self.contenders.items() if values and name not in self.controls
        ]
        best = sorted(known, key=lambda name: -self.sign * mean_of(self.contenders[name]))
        if not best:
            return "decides nothing: no contender but controls has finished"
        if lost := [name for name in self.controls if not self.contenders.get(name)]:
            which = (
                f"control {lost[0]} has" if len(lost) == 1 else f"controls {', '.join(lost)} have"
            )
            return f"decides nothing: {which} not finished"
        if not self.gains(best[0]):
            return "decides nothing: there is no control"
        winner = next(filter(self.beats, best), None)
        if winner is None:
            return f"decides nothing: {best[0]}, the best that mixes, {self._undecided(best[0])}"
        gain = self.gains(winner)[0]
        return f"decides: {winner} beats the best control, {gain.control}, {self._by(gain)}"

    def _undecided(self, contender: str) -> str:
        """Return how a contender stands to the best control that it does not beat."""
        gains = self.gains(contender)
        gain = next(each for each in gains if not each.sure)
        if not gain.seeds:
            return f"and control {gain.control} have no common seed"
        which = "the best control" if gain is gains[0] else "another control"
        where = "behind" if gain.middle < 0 else "ahead of"
        return f"is {where} {which}, {gain.control}, {self._by(gain)}"

    def _by(self, gain: Gain) -> str:
        size = f"{round(abs(gain.middle), 9):.3g}"  # not the rounding of a mean
        number = " ".join(filter(None, (size, self.unit)))
        few = f", over {gain.seeds} of {self.seeds} seeds" if gain.seeds < self.seeds else ""
        return f"by {number} ({gain.ends}) in {self.column}{few}"

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
