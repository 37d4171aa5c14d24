"""Common parts of density and regression summaries: options, groups, rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.estimators.tables.columns import Group, check_distinct, groups_of
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_period, check_weights
from fourierkernels.kernels import Kernel

if TYPE_CHECKING:
    import pandas as pd


class Follow(Protocol):
    """Iterate over items and show progress; `iter` shows nothing."""

    def __call__(self, items: Iterable[Any], /) -> Iterator[Any]:
        """Return an iterator over the items."""


@dataclass(frozen=True)
class DescribedGroup:
    """One group.

    Attributes
    ----------
    name : str
        Value of the grouping column; empty without one.
    n, dropped : int
        Rows used, and rows left out because a value is missing.
    samples : float
        How many samples the rows stand for, see `fourierkernels.estimators.weights`.
    """

    name: str
    n: int
    dropped: int
    samples: float

    def row(self) -> dict[str, Any]:
        """Return the numbers of the group by name."""
        return {
            "group": self.name,
            "n": self.n,
            "dropped": self.dropped,
            "samples": self.samples,
        }


#: Period of a column or of each, None for a line, or of some by name.
Periods = float | Sequence[float | None] | Mapping[str, float] | None

G = TypeVar("G", bound=DescribedGroup)


@dataclass(frozen=True)
class Description(ABC, Generic[G]):
    """Estimates by group.

    Attributes
    ----------
    by : str or None
    kernel, rule : str
        The kernel, and how its radius was chosen.
    level : float
        Of confidence limits, and of regions.
    ungrouped : int
        Rows without a value of the grouping column.
    groups : tuple

    Raises
    ------
    ValueError
        If two groups have one name, as those of the number 1 and the text "1".
    """

    by: str | None
    kernel: str
    rule: str
    level: float
    ungrouped: int
    groups: tuple[G, ...]

    def __post_init__(self) -> None:
        """Refuse groups that figures and curves could not tell apart."""
        names = [group.name for group in self.groups]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise ValueError(f"{self.by} must have a name for each group, got {twice[0]!r} twice")

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of numbers per group."""
        return [group.row() for group in self.groups]

    def curves(self) -> list[dict[str, Any]]:
        """Return the curves as rows: group, place, estimate, limits, and what the kind adds.

        Raises
        ------
        ValueError
            If a column of the table has the name of one of these.
        """
        rows = []
        first = [] if self.by is None else [self.by]
        for group in self.groups:
            names, columns = zip(*self._columns(group), strict=True)
            check_distinct([*first, *names])
            group_name = [group.name] * len(first)
            cells = zip(*columns, strict=True)
            rows += [
                dict(zip([*first, *names], [*group_name, *each], strict=True)) for each in cells
            ]
        return rows

    @abstractmethod
    def _columns(self, group: G) -> list[tuple[str, list[Any]]]:
        """Return the curve of a group, column by column."""


def described(
    frame: "pd.DataFrame",
    columns: Sequence[str],
    by: str | None,
    describe: Callable[[Group], G],
    *,
    missing: str,
    follow: Follow,
    weights: str | None,
) -> tuple[G, ...]:
    """Return the description of each group; an error names the group, and the column of weights.

    Raises
    ------
    TypeError, ValueError
        As :func:`~fourierkernels.estimators.tables.columns.groups_of` and `describe`.
    """
    groups = []
    for group in follow(groups_of(frame, columns, by, missing=missing)):
        with _in_group(group.name):
            if weights is not None:  # the last column
                check_weights(f"column {weights!r}", group.values[:, -1], len(group.values))
            groups.append(describe(group))
    return tuple(groups)


def named_columns(columns: Sequence[str], weights: str | None) -> list[str]:
    """Return the columns to read, that of the weights last.

    Raises
    ------
    ValueError
        If it is one of the others.
    """
    if weights in columns:
        raise ValueError(f"weights must be another column than {', '.join(columns)}, got it twice")
    return [*columns, *([] if weights is None else [weights])]


def split_weights(group: Group, count: int) -> tuple[FloatArray, FloatArray | None]:
    """Return the first columns of a group, and the weights if there is one column more."""
    values = group.values
    return values[:, :count], values[:, count] if values.shape[1] > count else None


def periods_of(columns: Sequence[str], period: Periods) -> list[float | None] | None:
    """Return the period of each column, None for a line; None if all are lines.

    Raises
    ------
    ValueError, TypeError
        If one is not positive and finite, or of a column that is none of these.
    """
    given = period
    if isinstance(period, Mapping):
        for name in period:
            if name not in columns:
                known = ", ".join(columns)
                raise ValueError(f"period must be of a column of the fit, {known}, got {name!r}")
        given = [period.get(name) for name in columns]
    checked = check_period(given, len(columns))
    around = [float(each) if np.isfinite(each) else None for each in checked]
    return around if np.isfinite(checked).any() else None


def set_periods(model: KernelEstimator, columns: Sequence[str], period: Periods) -> None:
    """Make columns of an estimator that is not fitted circles.

    Raises
    ------
    ValueError, TypeError
        As :func:`periods_of`, and for an estimator that has none.
    """
    around = periods_of(columns, period)
    if around is not None and "period" not in model.get_params():
        raise ValueError(f"period must be None for a radius of each sample, got {period}")
    if around is not None:
        model.set_params(period=around)


def circle_of(model: KernelEstimator) -> float | None:
    """Return the period of the only column of a fitted model, None for a line."""
    (period,) = model.periods_
    return float(period) if np.isfinite(period) else None


def places_along(model: KernelEstimator, points: FloatArray, size: int) -> FloatArray:
    """Return places over points ``(n, 1)``, or around the circle, both ends included."""
    period = circle_of(model)
    low, high = (0.0, period) if period else (float(points.min()), float(points.max()))
    return np.linspace(low, high, size)[:, None]


def ungrouped_rows(frame: "pd.DataFrame", by: str | None) -> int:
    """Return the number of rows without a value of the grouping column."""
    return 0 if by is None else int(frame[by].isna().sum())


def radius_of(radius: float | str | None) -> float | str | None:
    """Return a radius that may be a number in text, or the name of a rule."""
    if not isinstance(radius, str):
        return radius
    try:
        return float(radius)
    except ValueError:
        return radius


def rule_name(radius: float | str | None, default: str, adaptive: str | None = None) -> str:
    """Return how the radius was chosen, and that of each sample, for a heading."""
    chosen = radius_of(default if radius is None else radius)
    name = chosen if isinstance(chosen, str) else "as given"
    return name if adaptive is None else f"{name}, of each sample by {adaptive}"


def kernel_name(kernel: Kernel | str) -> str:
    """Return the name of a kernel that may be given by name."""
    return kernel if isinstance(kernel, str) else kernel.name


@contextmanager
def _in_group(name: str) -> Iterator[None]:
    """Say in which group an estimate failed."""
    try:
        yield
    except ValueError as error:
        if not name:
            raise
        raise ValueError(f"group {name!r}: {error}") from error
