"""The table of a comparison: contenders over the seeds, beside those they are compared with."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

LEVEL = 0.95
TUNED = ("rate", "sharpness")  # columns of hyperparameters
Row = Mapping[str, Any]  # of a CSV file: column -> value, a text where the file has been read
Index = tuple[Any, ...]  # values of the columns by which rows are told apart


class Difference(NamedTuple):
    """A mean difference and the ends of its interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """The networks of a contender, which differ in their seeds, and what they are compared with.

    Attributes
    ----------
    index : mapping
        What they have in common: the first columns of their row in the table.
    rows, reference, baseline : sequence of mapping
        Their rows, those of their reference, and of the comparison's first contender.
    reference_name : str
        The contender that they are compared with.
    trials : sequence of mapping
        Rows of the trials of the same contender.
    comparisons : int
        Number of intervals for which the level is corrected.
    """

    index: Row
    rows: Sequence[Row]
    reference: Sequence[Row] = ()
    reference_name: str = ""
    baseline: Sequence[Row] = ()
    trials: Sequence[Row] = ()
    comparisons: int = 0

    def first(self, column: str) -> Any:
        """Return what a column says in all rows."""
        return self.rows[0][column]

    def values(self, column: str) -> np.ndarray:
        """Return the numbers of a column by seed, of the networks that have one."""
        return np.array(list(by_seed(self.rows, column).values()))

    def baseline_values(self, column: str) -> np.ndarray:
        """Return the numbers of a column by seed, of the comparison's first contender."""
        return np.array(list(by_seed(self.baseline, column).values()))

    def difference(self, column: str) -> Difference:
        """Return the mean difference from the reference, paired by the seeds that both have.

        The ends are those of a t interval over seeds at :data:`LEVEL`, corrected (Bonferroni).
        """
        ours, theirs = (by_seed(rows, column) for rows in (self.rows, self.reference))
        gaps = np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
        middle, reach = interval(gaps, self.comparisons)
        return Difference(middle, middle - reach, middle + reach)

    def compared(self, column: str) -> dict[str, float | int]:
        """Return the difference as the columns that tables have."""
        middle, low, high = self.difference(column)
        return {"difference": middle, "low": low, "high": high, "comparisons": self.comparisons}

    def line(self, measure: str) -> dict[str, Any]:
        """Return the line of a measure, of networks that differ in rate and size."""
        values = self.values(measure)
        mean, reach = interval(values, 1)
        return {
            "measure": measure,
            "rate": self.first("rate"),
            "parameters": self.first("parameters"),
            "seeds": len(values),
            "mean": mean,
            "mean_low": mean - reach,
            "mean_high": mean + reach,
            **self.compared(measure),
        }


def by_seed(rows: Iterable[Row], column: str) -> dict[int, float]:
    """Return the numbers of a column by seed, of the rows that have one."""
    numbers = {int(row["seed"]): row.get(column, "") for row in rows}
    return {seed: float(numbers[seed]) for seed in sorted(numbers) if numbers[seed] != ""}


def interval(gaps: np.ndarray, comparisons: int) -> tuple[float, float]:
    """Return the mean and the half width of its t interval, corrected for many comparisons."""
    from scipy.stats import t as student  # slow to import

    if len(gaps) < 2:
        return float(np.mean(gaps)) if len(gaps) else math.nan, math.nan
    quantile = student.ppf(1 - (1 - LEVEL) / (2 * max(comparisons, 1)), len(gaps) - 1)
    return float(np.mean(gaps)), float(quantile * np.std(gaps, ddof=1) / len(gaps) ** 0.5)


def grouped_rows(rows: Iterable[Row], columns: Sequence[str]) -> dict[Index, list[Row]]:
    """Return rows with the same values in some columns together, in the order of the first."""
    groups: dict[Index, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


@dataclass(frozen=True)
class Table:
    """How the networks of a comparison become cells.

    Attributes
    ----------
    index : tuple of str
        Columns that the networks of a cell have in common.
    contender : str
        That of them which names the contender.
    family : tuple of str
        Those of them within which intervals are counted; none: all of the table.
    measures : int
        Intervals of a cell that are counted.
    parts, trials : tuple of str
        Values of the column "part", if there is one, of networks in the table and of trials.
    """

    index: tuple[str, ...]
    contender: str
    family: tuple[str, ...] = ()
    measures: int = 1
    parts: tuple[str, ...] = ("compared",)
    trials: tuple[str, ...] = ("trials",)

    def cells(self, rows: Sequence[Row], references: Mapping[str, str]) -> Iterator[Cell]:
        """Yield the cells, by the columns of the index, each in the order of its values.

        Parameters
        ----------
        references : mapping of str to str
            Contender -> what it is compared with; the first one is the baseline.
        """
        in_table = [row for row in rows if row.get("part", self.parts[0]) in self.parts]
        groups = grouped_rows(in_table, self.index)
        tried = grouped_rows((row for row in rows if row.get("part") in self.trials), self.index)
        keys = sorted(groups, key=partial(_ranks, tuple(map(_order, zip(*groups, strict=True)))))
        against = {key: self._with(key, references[key[self._place]]) for key in keys}
        counted = Counter(self._family(key) for key, other in against.items() if key != other)
        first = next(iter(references))
        for key, other in against.items():
            yield Cell(
                dict(zip(self.index, key, strict=True)),
                groups[key],
                groups.get(other, []),
                other[self._place],
                groups.get(self._with(key, first), []),
                tried.get(key, []),
                counted[self._family(key)] * self.measures,
            )

    @property
    def others(self) -> list[str]:
        """Columns of the index besides the contender: those of a problem and tuned ones."""
        return [name for name in self.index if name != self.contender]

    @property
    def tuned(self) -> list[str]:
        """Columns of the index that are hyperparameters."""
        return [name for name in self.others if name in TUNED]

    @property
    def problems(self) -> list[str]:
        """Columns of the index that say what is learnt, whatever the hyperparameters are."""
        return [name for name in self.others if name not in TUNED]

    @property
    def _place(self) -> int:
        return self.index.index(self.contender)

    def _with(self, key: Index, contender: str) -> Index:
        return (*key[: self._place], contender, *key[self._place + 1 :])

    def _family(self, key: Index) -> Index:
        return tuple(key[self.index.index(column)] for column in self.family)


def _order(values: Iterable[Any]) -> dict[Any, int]:
    return {value: rank for rank, value in enumerate(dict.fromkeys(values))}


def _ranks(orders: Sequence[dict[Any, int]], key: Index) -> list[int]:
    return [order[value] for order, value in zip(orders, key, strict=True)]


def same_columns(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows with every column that any of them has, empty where a row has none.

    >>> same_columns([{"a": 1}, {"a": 2, "b": 3}])
    [{'a': 1, 'b': ''}, {'a': 2, 'b': 3}]
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name, "") for name in names} for row in rows]
