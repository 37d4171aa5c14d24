"""Tables of numbers and categories together, for one fit with a result in each cell."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.checks import UndefinedWarning, silenced
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.mixed.regression import MixedRegression
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.tables.columns import check_missing, numbers_of
from fourierkernels.estimators.tables.description import places_along
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_weights

if TYPE_CHECKING:
    import pandas as pd


#: Names of columns, perhaps each with its levels in order.
Categories = Sequence[str] | Mapping[str, Sequence[Any] | None]


class MixedTable(NamedTuple):
    """The complete rows of a table.

    Attributes
    ----------
    frame : pandas.DataFrame
        Numbers, then categories.
    weights : array of shape (n,) or None
    dropped : int
        Rows in which a value is missing.
    """

    frame: "pd.DataFrame"
    weights: FloatArray | None
    dropped: int


class Cell(NamedTuple):
    """The rows with one combination of levels.

    Attributes
    ----------
    name : str
    levels : dict
        The level of each category.
    rows : integer array
    """

    name: str
    levels: dict[str | int, Any]
    rows: NDArray[np.intp]


def by_kind(frame: "pd.DataFrame", categories: Categories) -> dict[str, Any]:
    """Return unordered and ordered columns: with levels in order, or ordered in pandas."""
    levels = dict(categories) if isinstance(categories, Mapping) else dict.fromkeys(categories)
    found: dict[str, Any] = {"unordered": [], "ordered": {}}
    for name, order in levels.items():
        dtype = frame.dtypes.get(name)
        if order or getattr(dtype, "ordered", False):
            found["ordered"][name] = order
        else:
            found["unordered"].append(name)
    return found


def mixed_table(
    frame: "pd.DataFrame",
    numbers: Sequence[str],
    categories: Sequence[str],
    by: str | None,
    missing: str,
    weights: str | None,
) -> MixedTable:
    """Return the complete rows of numbers and categories.

    Raises
    ------
    TypeError, ValueError
        As :func:`~fourierkernels.estimators.tables.columns.groups_of`; for groups too, or a column
        that is named twice.
    """
    if by is not None:
        raise ValueError(f"by must be None beside categories, got {by!r}: they are in the fit")
    read = [*numbers, *([] if weights is None else [weights])]
    names = [*read, *categories]
    if len(set(names)) < len(names):
        raise ValueError(f"columns must be different, each once, got {', '.join(names)}")
    values = numbers_of(frame, read, also=categories)
    lost = np.isnan(values).any(axis=1) | frame[list(categories)].isna().any(axis=1).to_numpy()
    check_missing(int(lost.sum()), len(values), names, missing)
    kept = frame.loc[~lost, list(categories)].reset_index(drop=True)
    for place, name in enumerate(numbers):
        kept.insert(place, name, values[~lost, place])
    own = None if weights is None else check_weights("weights", values[~lost, -1], len(kept))
    return MixedTable(kept, own, int(lost.sum()))


def cells_of(model: Any) -> list[Cell]:
    """Return the cells of a fitted model of mixed data, in the order of their levels."""
    codes = model.points_[:, [category.column for category in model.categories_]].astype(np.intp)
    table, place = np.unique(codes, axis=0, return_inverse=True)
    cells = []
    for number, row in enumerate(table):
        each = zip(model.categories_, row, strict=True)
        levels = {category.name: category.levels[code] for category, code in each}
        name = ", ".join(map(str, levels.values()))
        cells.append(Cell(name, levels, np.flatnonzero(place.ravel() == number)))
    return cells


def at_levels(
    values: FloatArray, numbers: Sequence[str], levels: Mapping[str | int, Any]
) -> "pd.DataFrame":
    """Return queries ``(m, dim)`` at the levels of a cell."""
    import pandas as pd

    frame = pd.DataFrame(values, columns=list(numbers))
    return frame.assign(**{str(name): [level] * len(frame) for name, level in levels.items()})


def smoothing_of(model: Any) -> str:
    """Return the smoothing of each category, for a heading."""
    each = zip(model.categories_, model.smoothing_, strict=True)
    return "smoothing " + ", ".join(f"{category.name} {value:.3g}" for category, value in each)


def names_of(model: Any) -> str:
    """Return the names of its categories, as those of groups."""
    return ", ".join(str(category.name) for category in model.categories_)


class CellFit(NamedTuple):
    """The regression in a cell: what a group of a table has, in order."""

    name: str
    n: int
    dropped: int
    samples: float
    model: NadarayaWatson
    left_out: FloatArray
    freedom: float
    at: FloatArray
    limits: Band
    slope: FloatArray
    own: NDArray[np.intp]


def cell_fits(
    model: MixedRegression,
    table: MixedTable,
    x: tuple[str, ...],
    y: str,
    level: float,
    rng: np.random.Generator | None,
    size: int,
) -> list[CellFit]:
    """Fit, and return the regression at each combination of levels that occurs."""
    fits = []
    with silenced(UndefinedWarning):  # the rows count them
        model.fit(table.frame.drop(columns=y), table.frame[y].to_numpy(), table.weights)
        left_out, leverage = model.leave_one_out(), model.hat_diagonal()
        counts = model.sample_rows().counts
        for cell in cells_of(model):
            rows, fitted = cell.rows, model.given(cell.levels)
            at = fitted.points_[rows]
            if len(x) == 1:
                at = places_along(fitted, at, size)
            numbers = len(rows), table.dropped, float(counts[rows].sum())
            freedom, queries = float(np.nansum(leverage[rows])), at_levels(at, x, cell.levels)
            limits = _limits(model, queries[list(model.feature_names_in_)], level, rng)
            slope = fitted.derivative(queries[list(x)])
            left = left_out[rows]
            fits.append(
                CellFit(cell.name, *numbers, fitted, left, freedom, at, limits, slope, rows)
            )
    return fits


def _limits(
    model: MixedRegression, at: "pd.DataFrame", level: float, rng: np.random.Generator | None
) -> Band:
    if rng is None:
        return model.interval(at, level=level)
    return model.band(at, level=level, rng=rng)
