"""Categories beside numbers: their levels, kernels on them, and the cells that they make.

A kernel on levels has a smoothing λ, 0 for none: rows of other levels do not count then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.foundation.arrays import FloatArray

#: Names or places of columns.
ColumnNames = Sequence[str | int]
#: The same, perhaps each with its levels in order.
OrderedColumns = ColumnNames | Mapping[str, Sequence[Any] | None]


@dataclass(frozen=True)
class CategoryKernel:
    """A kernel on the levels of a column.

    Attributes
    ----------
    name : str
    weights : callable
        (places of the levels (c,), λ) to the weights of pairs of levels, ``(c, c)``.
    largest : callable
        Number of levels to the largest λ.
    source : str
        Key of book/references.bib.
    """

    name: str
    weights: Callable[[FloatArray, float], FloatArray]
    largest: Callable[[int], float]
    source: str


def aitchison_aitken(places: FloatArray, smoothing: float) -> FloatArray:
    """Return 1 - λ for equal levels of c and λ/(c - 1) for others, shape ``(c, c)``.

    With λ = (c - 1)/c the levels do not matter. Source: [aitchison1976multivariate]_.

    Examples
    --------
    >>> aitchison_aitken(np.arange(3.0), 0.2)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """
    count = len(places)
    if count == 1:
        return np.ones((1, 1))
    others = np.full((count, count), smoothing / (count - 1))
    np.fill_diagonal(others, 1.0 - smoothing)
    return others


def wang_van_ryzin(places: FloatArray, smoothing: float) -> FloatArray:
    """Return 1 - λ for equal levels and ½ (1 - λ) λ^|a - b| for others, shape ``(c, c)``.

    On all integers the weights sum to one. Source: [wang1981class]_.

    Examples
    --------
    >>> wang_van_ryzin(np.arange(3.0), 0.5)
    array([[0.5   , 0.125 , 0.0625],
           [0.125 , 0.5   , 0.125 ],
           [0.0625, 0.125 , 0.5   ]])
    """
    others = 0.5 * (1.0 - smoothing) * smoothing ** np.abs(places[:, None] - places)
    np.fill_diagonal(others, 1.0 - smoothing)
    return np.asarray(others)


_KERNELS: dict[str, CategoryKernel] = {
    "unordered": CategoryKernel(
        "Aitchison-Aitken", aitchison_aitken, lambda c: (c - 1) / c, "aitchison1976multivariate"
    ),
    "ordered": CategoryKernel(
        "Wang-van Ryzin", wang_van_ryzin, lambda c: 0.99 if c > 1 else 0.0, "wang1981class"
    ),
}


@dataclass(frozen=True)
class Category:
    """A column of categories.

    Attributes
    ----------
    column : int
        Its place in X.
    name : str or int
        As it is called: the name of a data frame's column, or its place.
    kind : {"unordered", "ordered"}
    levels : tuple
        The values that occur, sorted or in the order given.
    places : array of shape (c,)
        Where ordered levels lie: numbers by themselves, others by their rank.
    """

    column: int
    name: str | int
    kind: str
    levels: tuple[Any, ...]
    places: FloatArray

    @property
    def kernel(self) -> CategoryKernel:
        """The kernel on the levels."""
        return _KERNELS[self.kind]

    @property
    def largest(self) -> float:
        """The largest λ."""
        return self.kernel.largest(len(self.levels))

    def codes(self, values: Sequence[Any]) -> FloatArray:
        """Return the place of each value among the levels.

        Raises
        ------
        ValueError
            For a value that is missing, or did not occur.
        """
        known = {level: code for code, level in enumerate(self.levels)}
        codes = np.array([known.get(value, -1.0) for value in values], dtype=np.float64)
        strange = np.flatnonzero(codes < 0)
        if len(strange):
            raise ValueError(
                f"column {self.name!r} must have one of its {len(self.levels)} levels, got "
                f"{values[strange[0]]!r} in row {strange[0] + 1}; the first are "
                f"{', '.join(map(repr, self.levels[:5]))}"
            )
        return codes


@dataclass(frozen=True)
class Cells:
    """Which cell, a combination of levels, each row is in.

    Attributes
    ----------
    table : integer array of shape (s, k)
        The levels of the cells that occur.
    place : integer array of shape (n,)
        The cell of each row.
    """

    table: NDArray[np.intp]
    place: NDArray[np.intp]

    @classmethod
    def of(cls, codes: FloatArray) -> "Cells":
        """Return the cells of levels ``(n, k)``."""
        whole = codes.astype(np.intp)
        place = np.zeros(len(whole), np.intp)
        first = np.zeros(1, np.intp)
        for column in whole.T:  # numbered anew each time: a product of all sizes overflows
            both = place * (int(column.max(initial=0)) + 1) + column
            _, first, place = np.unique(both, return_index=True, return_inverse=True)
        return cls(whole[first], place.ravel())


def cell_weights(
    categories: Sequence[Category],
    smoothing: FloatArray,
    at: NDArray[np.intp],
    cells: NDArray[np.intp],
) -> FloatArray:
    """Return the products of the kernels on levels, ``(t, k)`` and ``(s, k)``; shape ``(t, s)``."""
    total = np.ones((len(at), len(cells)))
    for k, (category, share) in enumerate(zip(categories, smoothing, strict=True)):
        weights = category.kernel.weights(category.places, float(share))
        total *= weights[np.ix_(at[:, k], cells[:, k])]
    return total


# ---- columns -------------------------------------------------------------------------------------


def find_categories(
    X: ArrayLike, unordered: ColumnNames | None, ordered: OrderedColumns | None
) -> tuple[Category, ...]:
    """Return the columns of categories, in their order in X.

    Named ones; of a data frame, if neither argument is given, those that are no numbers.

    Raises
    ------
    ValueError
        For columns that are not there or are named twice, missing values, ordered levels whose
        order is not known, or if no column of numbers is left.
    TypeError
        For a text in place of a sequence of names, or a data frame that is not of pandas.
    """
    _check_frame(X)
    for kind, given in (("unordered", unordered), ("ordered", ordered)):
        if isinstance(given, str):
            raise TypeError(f"{kind} must be a sequence of names, got {given!r}")
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    width = len(names) if names is not None else np.shape(X)[-1]
    orders: Mapping[Any, Any] = ordered if isinstance(ordered, Mapping) else {}
    wanted: dict[str, list[Any]] = {
        "unordered": list(unordered or ()),
        "ordered": list(ordered or ()),
    }
    if unordered is None and ordered is None:
        wanted = _of_their_own(X)
    found: dict[int, Category] = {}
    for kind, columns in wanted.items():
        for name in columns:
            place = _place(name, names, width, kind)
            if place in found:
                raise ValueError(f"{kind} must name each column once, got {name!r} twice")
            found[place] = _category(X, place, name, kind, orders.get(name))
    if len(found) == width:
        raise ValueError(f"X must have a column of numbers, got {width} of categories alone")
    return tuple(found[place] for place in sorted(found))


def _check_frame(X: Any) -> None:
    """Refuse data frames of other libraries, whose columns are read in another way."""
    if hasattr(X, "columns") and not hasattr(X, "isetitem"):
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise TypeError(f"X must be a pandas data frame or an array, got a {kind}")


def as_numbers(X: Any, categories: Sequence[Category]) -> Any:
    """Return X with levels in place of categories, which scikit-learn can check further."""
    _check_frame(X)
    if hasattr(X, "columns"):
        replaced = X.copy() if categories else X
        for category in categories:  # by place: names may be numbers
            replaced.isetitem(category.column, category.codes(column_of(X, category.column)))
        return replaced
    array: Any = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if not categories or array.ndim != 2:
        return X
    codes = [c.codes(column_of(array, c.column)) for c in categories]
    numbers = np.array(array, dtype=object)
    for category, column in zip(categories, codes, strict=True):
        numbers[:, category.column] = column
    return numbers.astype(np.float64)


def column_of(X: Any, place: int) -> list[Any]:
    """Return the values of a column, None where one is missing."""
    if hasattr(X, "columns"):
        column = X.iloc[:, place]
        return [None if lost else v for v, lost in zip(column.tolist(), column.isna(), strict=True)]
    values = np.asarray(X, dtype=object) if not isinstance(X, np.ndarray) else X
    return [None if value != value else value for value in values[:, place].tolist()]


def _of_their_own(X: Any) -> dict[str, list[Any]]:
    """Return columns of a data frame that are text, categories or truth values, by their kind."""
    kinds: dict[str, list[Any]] = {"unordered": [], "ordered": []}
    for name, dtype in X.dtypes.items() if hasattr(X, "dtypes") and hasattr(X, "columns") else ():
        if not getattr(dtype, "_is_numeric", getattr(dtype, "kind", "O") in "iuf"):
            kinds["ordered" if getattr(dtype, "ordered", False) else "unordered"].append(name)
        elif getattr(dtype, "kind", "") == "b":
            kinds["unordered"].append(name)
    return kinds


def _place(name: Any, names: list[str] | None, width: int, kind: str) -> int:
    if isinstance(name, str) and names is not None and name in names:
        return names.index(name)
    if not isinstance(name, str | bool) and -width <= name < width:
        return int(name) % width
    known = ", ".join(map(repr, names or range(width)))
    raise ValueError(f"{kind} must name columns of X, {known}, got {name!r}")


def _category(X: Any, place: int, name: str | int, kind: str, order: Any) -> Category:
    values = column_of(X, place)
    if None in values:
        raise ValueError(
            f"column {name!r} must not be missing, got no value in row {values.index(None) + 1}"
        )
    dtype = X.dtypes.iloc[place] if hasattr(X, "columns") else None
    if order is None and getattr(dtype, "ordered", False):
        order = list(getattr(dtype, "categories", ()))
    found = set(values)
    if order is not None:
        ranks = {level: rank for rank, level in enumerate(order)}
        strange = [level for level in found if level not in ranks]
        if strange:
            raise ValueError(
                f"ordered must give all levels of {name!r}, got none for {strange[0]!r}"
            )
        levels = sorted(found, key=ranks.__getitem__)
        return Category(
            place, name, kind, tuple(levels), np.array([ranks[v] for v in levels], float)
        )
    levels = _sorted(found)
    if kind == "unordered":
        return Category(place, name, kind, tuple(levels), np.arange(len(levels), dtype=np.float64))
    if any(isinstance(level, str) for level in levels):
        raise ValueError(
            f"ordered must give the order of levels that are no numbers, got {levels[0]!r} in "
            f"column {name!r}: name it with its levels, the lowest first"
        )
    return Category(place, name, kind, tuple(levels), np.array(levels, dtype=np.float64))


def _sorted(levels: set[Any]) -> list[Any]:
    try:
        return sorted(levels)
    except TypeError:  # levels of several kinds
        return sorted(levels, key=lambda level: (type(level).__name__, str(level)))
