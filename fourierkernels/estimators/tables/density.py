"""Density summary of a table column, by group: modes, region, curve."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.adaptive.density import AdaptiveDensity
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.inference.limits import check_level
from fourierkernels.estimators.mixed.density import MixedDensity
from fourierkernels.estimators.modes import (
    Intervals,
    Modes,
    SilvermanTest,
    highest_density_intervals,
    modes,
    silverman_test,
)
from fourierkernels.estimators.modes.regions import cut_at_end
from fourierkernels.estimators.tables.columns import Group
from fourierkernels.estimators.tables.description import (
    DescribedGroup,
    Description,
    Follow,
    Periods,
    circle_of,
    described,
    kernel_name,
    named_columns,
    radius_of,
    rule_name,
    set_periods,
    split_weights,
    ungrouped_rows,
)
from fourierkernels.estimators.tables.mixed import (
    Categories,
    by_kind,
    cells_of,
    mixed_table,
    names_of,
    smoothing_of,
)
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer
from fourierkernels.kernels import Kernel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

_MARGIN = 3.0  # bandwidths of the grid beyond the samples
_RULE = "normal_reference"
_REPLICATES = 199
_TESTED = 100_000  # samples: a million take a minute and a half

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class DensityGroup(DescribedGroup):
    """The density of one group.

    Attributes
    ----------
    model : KernelDensity
    modes : Modes
    region : Intervals or None
        The highest-density region; None for a kernel with negative values.
    test : SilvermanTest or None
        Of one mode; None for kernels other than the Gaussian, or if it was not asked for.
    own : integer array or slice
        The samples of the model that are in the group; with categories the others count too.
    """

    model: KernelDensity
    modes: Modes
    region: Intervals | None
    test: SilvermanTest | None
    own: NDArray[np.intp] | slice = field(default_factory=lambda: slice(None))

    @property
    def period(self) -> float | None:
        """Of the column, None for a line."""
        return circle_of(self.model)

    def row(self) -> dict[str, Any]:
        """Return the numbers of the group by name; arcs over the end of a circle end above it."""
        test = self.test
        return super().row() | {
            "period": self.period,
            "radius": float(self.model.radius_[0]),
            "bandwidth": float(1.0 / self.model.radius_[0]),
            "modes": self.modes.points[:, 0].tolist(),
            "densities": self.modes.densities.tolist(),
            "region": [] if self.region is None else self.region.ends.tolist(),
            "p_value": None if test is None else test.p_value,
            "p_interval": None if test is None else test.interval,
        }


@dataclass(frozen=True)
class DensityDescription(Description[DensityGroup]):
    """Densities of a column, by group, on one grid.

    Rows of `curves` have the density, whether the place is in the region, and pointwise confidence
    limits of the smoothed density at the same level; None for a single sample.

    Attributes
    ----------
    column : str
    grid : array of shape (m,)
    """

    column: str
    grid: FloatArray

    def density(self, group: DensityGroup) -> FloatArray:
        """Return the density of a group on the grid, shape ``(m,)``."""
        return group.model.density(_named(self.grid, self.column))

    def table(self) -> "Table":
        """Return the rows as a table for a terminal."""
        from fourierkernels.estimators.tables.terminal import density_table

        title = f"{self.column}, kernel {self.kernel}, radius {self.rule}"
        untested = self.kernel == "gaussian" and any(
            group.test is None and group.n > _TESTED for group in self.groups
        )
        return density_table(
            self.rows(),
            title,
            by=self.by,
            level=self.level,
            lost=self.ungrouped,
            untested=untested,
        )

    def figure(self) -> "Figure":
        """Draw the curves with modes, regions and samples.

        Raises
        ------
        ValueError
            For more groups than can be told apart in one panel.
        ImportError
            If matplotlib is missing.
        """
        from fourierkernels.plotting import DensityCurve, plot_densities

        curves = {
            group.name: DensityCurve(
                density=self.density(group),
                samples=group.model.points_[group.own, 0],
                modes=np.column_stack([group.modes.points, group.modes.densities]),
                region=_pieces(group),
            )
            for group in self.groups
        }
        around = self.groups[0].period
        return plot_densities(
            curves, self.grid, xlabel=self.column, level=self.level, period=around
        )

    def _columns(self, group: DensityGroup) -> list[tuple[str, list[Any]]]:
        low, high = _limits(group.model, _named(self.grid, self.column), self.level)
        return [
            (self.column, self.grid.tolist()),
            ("density", self.density(group).tolist()),
            ("low", low),
            ("high", high),
            ("in_region", _inside(self.grid, group)),
        ]


def describe_density(
    frame: "pd.DataFrame",
    column: str,
    *,
    by: str | None = None,
    categories: Categories = (),
    kernel: Kernel | str = "fourier4",
    radius: float | str | None = None,
    adaptive: str | None = None,
    bounds: Bounds | None = None,
    period: Periods = None,
    level: float = 0.95,
    replicates: int | None = None,
    rng: np.random.Generator | None = None,
    missing: str = "drop",
    weights: str | None = None,
    weighting: str = "frequency",
    points: int = 512,
    follow: Follow = iter,
) -> DensityDescription:
    """Return what the density of a column shows: modes, highest-density region, curve.

    Parameters
    ----------
    frame : pandas.DataFrame
    column : str
    by : str, optional
        Column whose values are the groups; each group has a radius of its own.
    categories : sequence of str, or mapping of these to levels in order or None, optional
        Columns of categories instead, as `MixedDensity` has them: one fit, smoothed across their
        levels, and the density of the column at each combination that occurs.
    kernel : Kernel or str
    radius : float or str, optional
        R = 1/bandwidth, or a rule, as for `KernelDensity`.
    adaptive : str, optional
        A rule for the radius of each sample, as for `AdaptiveDensity`; not beside categories.
    bounds : (low, high), optional
        Where the density lives; None or an infinite number for an open end.
    period : float or {column: float}, optional
        Of a column that goes around a circle, as hours of the day: its values are wrapped.
    level : float
        Probability of the region, and of the confidence limits of the curve.
    replicates : int, optional
        Of Silverman's test of one mode, for the Gaussian with one radius: 199 by default, and no
        test of a group of more than 100,000 samples, for which it takes longer than all else.
    rng : numpy.random.Generator, optional
        For that test, which is left out without one.
    missing : {"drop", "refuse"}
        What is done with rows without a value.
    weights : str, optional
        Column of sample weights.
    weighting : {"frequency", "importance"}
        What they mean, as for `KernelDensity`.
    points : int
        Of the grid.
    follow : callable
        Passes the groups on while it shows progress.

    Raises
    ------
    ValueError, TypeError
        For a column that is not there, not numeric or empty, and as `KernelDensity`; the message
        names the group.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, 1.2, 0.9, 5.0, 5.3, None], "g": list("aaabbb")})
    >>> description = describe_density(frame, "x", by="g", kernel="gaussian")
    >>> [(row["group"], row["n"], row["dropped"]) for row in description.rows()]
    [('a', 3, 0), ('b', 2, 1)]
    """
    share, size = check_level(level), check_integer("points", points, least=2)
    model = _estimator(kernel, radius_of(radius), bounds, weighting, adaptive)
    set_periods(model, [column], period)
    if categories:
        mixed = MixedDensity(model, **by_kind(frame, categories))
        return _described_cells(mixed, frame, column, by, share, missing, weights, size)
    names = named_columns([column], weights)
    describe = partial(_described, model, column=column, level=share, count=replicates, rng=rng)
    groups = described(frame, names, by, describe, missing=missing, follow=follow, weights=weights)
    return DensityDescription(
        column=column,
        by=by,
        kernel=kernel_name(kernel),
        rule=rule_name(radius, _RULE, adaptive),
        level=share,
        ungrouped=ungrouped_rows(frame, by),
        groups=groups,
        grid=_grid([group.model for group in groups], size),
    )


def _estimator(
    kernel: Kernel | str,
    radius: float | str | None,
    bounds: Bounds | None,
    weighting: str,
    adaptive: str | None,
) -> KernelDensity:
    ends = bounds and [bounds]
    if adaptive is None:
        return KernelDensity(kernel, radius=radius, bounds=ends, weighting=weighting)
    return AdaptiveDensity(
        kernel, radius=radius, bounds=ends, weighting=weighting, adaptive=adaptive
    )


def _described_cells(
    model: MixedDensity,
    frame: "pd.DataFrame",
    column: str,
    by: str | None,
    level: float,
    missing: str,
    weights: str | None,
    size: int,
) -> DensityDescription:
    """Describe the density at each combination of levels."""
    names = [*(model.unordered or ()), *(model.ordered or ())]
    table = mixed_table(frame, [column], names, by, missing, weights)
    model.fit(table.frame, None, table.weights)
    groups = []
    for cell in cells_of(model):
        fitted = model.given(cell.levels)
        region = highest_density_intervals(fitted, level) if fitted.kernel_.nonnegative else None
        samples = fitted.sample_rows().size
        found = cell.name, len(cell.rows), table.dropped, samples, fitted, modes(fitted), region
        groups.append(DensityGroup(*found, None, cell.rows))
    plain: Any = model.estimator
    return DensityDescription(
        column=column,
        by=names_of(model),
        kernel=kernel_name(plain.kernel),
        rule=f"{rule_name(plain.radius, 'lscv')}, {smoothing_of(model)}",
        level=level,
        ungrouped=0,
        groups=tuple(groups),
        grid=_grid([group.model for group in groups], size),
    )


def _described(
    model: KernelDensity,
    group: Group,
    column: str,
    level: float,
    count: int | None,
    rng: np.random.Generator | None,
) -> DensityGroup:
    from sklearn.base import clone

    values, weights = split_weights(group, 1)
    fitted: KernelDensity = clone(model).fit(_named(values[:, 0], column), None, weights)
    proper = fitted.kernel_.nonnegative
    affordable = count is not None or len(values) <= _TESTED
    varies = bool(np.ptp(fitted.points_[fitted.weights_ > 0]) > 0)
    fixed = not isinstance(fitted, AdaptiveDensity)
    tested = fitted.kernel_.name == "gaussian" and varies and affordable and fixed
    test = None
    if tested and rng:
        test = silverman_test(
            values,
            rng=rng,
            replicates=_REPLICATES if count is None else count,
            sample_weight=weights,
            weighting=fitted.weighting,
            period=circle_of(fitted),
        )
    return DensityGroup(
        group.name,
        len(values),
        group.dropped,
        fitted.sample_rows().size,
        fitted,
        modes(fitted),
        highest_density_intervals(fitted, level) if proper else None,
        test,
    )


def _grid(models: Sequence[KernelDensity], points: int) -> FloatArray:
    """Return places over the samples of all groups, or around the circle, both ends included."""
    if period := circle_of(models[0]):
        return np.linspace(0.0, period, points)
    ends = [
        np.clip(
            [end(model.points_) + side * _MARGIN / model.radius_[0]], *model.bounds_[:, 0]
        ).item()
        for model in models
        for end, side in ((np.min, -1.0), (np.max, 1.0))
    ]
    return np.linspace(min(ends), max(ends), points)


def _pieces(group: DensityGroup) -> FloatArray:
    if group.region is None:
        return np.zeros((0, 2))
    return cut_at_end(group.region.ends, group.period or np.inf)


def _inside(grid: FloatArray, group: DensityGroup) -> list[bool | None]:
    if group.region is None:
        return [None] * len(grid)
    low, high = _pieces(group).T
    return [bool(((low <= x) & (x <= high)).any()) for x in grid]


def _limits(model: KernelDensity, at: "pd.DataFrame", level: float) -> list[list[float | None]]:
    """Return low and high limits of the smoothed density; None of what one sample leaves open."""
    if model.sample_rows().size < 2:
        return [[None] * len(at)] * 2
    limits = model.interval(at, level=level)
    return [limits.low.tolist(), limits.high.tolist()]


def _named(values: FloatArray, column: str) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({column: values})
