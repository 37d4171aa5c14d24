"""Columns of a table on a grid: their density, or a regression on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.gridded import Gridded
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.tables.columns import check_distinct, check_variables, groups_of
from fourierkernels.estimators.tables.description import Periods, periods_of, radius_of
from fourierkernels.kernels import Kernel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class GridDescription:
    """An estimate of columns on a grid.

    Attributes
    ----------
    model : KernelDensity or NadarayaWatson
    grid : Gridded
    n, dropped : int
        Rows used, and rows left out because a value is missing.
    """

    model: KernelDensity | NadarayaWatson
    grid: Gridded
    n: int
    dropped: int

    def row(self) -> dict[str, Any]:
        """Return its numbers by name; the place of the largest value is that of a maximum."""
        flat = int(np.nanargmax(self.grid.values))
        place = np.unravel_index(flat, self.grid.values.shape)
        return {
            "n": self.n,
            "dropped": self.dropped,
            "radius": self.model.radius_.tolist(),
            "lengths": [len(axis) for axis in self.grid.axes],
            "largest": float(self.grid.values.flat[flat]),
            "at": [float(axis[i]) for axis, i in zip(self.grid.axes, place, strict=True)],
        }

    def table(self) -> "Table":
        """Return the numbers as a table for a terminal."""
        from fourierkernels.estimators.tables.terminal import grid_table

        columns, label = ", ".join(self.grid.columns), self.grid.label
        title = f"density of {columns}" if label == "density" else f"{label} on {columns}"
        return grid_table(self.row(), f"{title}, on a grid")

    def curves(self) -> list[dict[str, Any]]:
        """Return one row per place: its coordinates, and the estimate.

        Raises
        ------
        ValueError
            If a column of the table has the name of the estimate.
        """
        names = [*self.grid.columns, self.grid.label]
        check_distinct(names)
        axes = np.meshgrid(*self.grid.axes, indexing="ij", copy=False)
        columns = [axis.ravel().tolist() for axis in (*axes, self.grid.values)]
        return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]

    def figure(self) -> "Figure":
        """Draw it, see :meth:`fourierkernels.estimators.Gridded.figure`."""
        return self.grid.figure()


def describe_grid(
    frame: "pd.DataFrame",
    x: Sequence[str],
    y: str | None = None,
    *,
    points: int | Sequence[int] | None = None,
    kernel: Kernel | str = "fourier4",
    radius: float | str | None = None,
    period: Periods = None,
    tol: float = 1e-12,
    missing: str = "drop",
) -> GridDescription:
    """Return the density of one to three columns, or the regression of another on them, on a grid.

    Parameters
    ----------
    frame : pandas.DataFrame
    x : sequence of str
        One to three columns.
    y : str, optional
        Column of the responses of a regression.
    points : int or sequence of int, optional
        Length of the axes: 512, and 64 for three columns.
    kernel, radius, tol
        As for `KernelDensity` and `NadarayaWatson`; the radius of a regression is chosen by
        generalised cross-validation.
    period : float, sequence of float or None, or {column: float}, optional
        Of columns that go around a circle, which the grid covers.
    missing : {"drop", "refuse"}
        What is done with rows without a value.

    Raises
    ------
    ValueError, TypeError
        As the estimators, and for columns that are not there, not numeric or empty.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 2)), columns=["a", "b"])
    >>> found = describe_grid(frame, ["a", "b"], points=128)
    >>> found.grid.values.shape, found.row()["lengths"]
    ((128, 128), [128, 128])
    """
    import pandas as pd

    check_variables(x, y)
    (group,) = groups_of(frame, [*x, *([] if y is None else [y])], None, missing=missing)
    design = pd.DataFrame(group.values[:, : len(x)], columns=list(x))
    around = periods_of(list(x), period)
    model: KernelDensity | NadarayaWatson
    if y is None:
        model = KernelDensity(kernel, radius=radius_of(radius), tol=tol, period=around).fit(design)
    else:
        chosen = radius_of("gcv" if radius is None else radius)
        model = NadarayaWatson(kernel, radius=chosen, tol=tol, period=around)
        model.fit(design, group.values[:, -1])
    grid = model.on_grid(points)
    if y is not None:
        grid = replace(grid, label=y)
    return GridDescription(model, grid, len(design), group.dropped)
