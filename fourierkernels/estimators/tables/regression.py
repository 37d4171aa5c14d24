"""Regression summary of table columns, by group: error, degrees of freedom, curve."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.adaptive.regression import AdaptiveRegression
from fourierkernels.estimators.checks import TiedDataWarning, UndefinedWarning, silenced
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.inference.limits import check_level
from fourierkernels.estimators.local_polynomial import LocalPolynomial
from fourierkernels.estimators.mixed.regression import MixedRegression
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.tables.columns import Group, check_variables
from fourierkernels.estimators.tables.description import (
    DescribedGroup,
    Description,
    Follow,
    Periods,
    circle_of,
    described,
    kernel_name,
    named_columns,
    places_along,
    radius_of,
    rule_name,
    set_periods,
    split_weights,
    ungrouped_rows,
)
from fourierkernels.estimators.tables.mixed import (
    Categories,
    by_kind,
    cell_fits,
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

_RULE = "gcv"


@dataclass(frozen=True)
class RegressionGroup(DescribedGroup):
    """The regression in one group.

    Attributes
    ----------
    model : NadarayaWatson or LocalPolynomial
    left_out : array of shape (n,)
        The fit at each sample of the group without it.
    freedom : float
        Degrees of freedom of the fit, tr H.
    at : array of shape (m, dim)
        A grid over the samples in one dimension, or around the circle; else the samples.
    limits : Band
        Intervals or band there, with the fit as their centre.
    slope : array of shape (m, dim)
        Its derivative there.
    own : integer array or slice
        The samples of the model that are in the group; with categories the others count too.
    """

    model: NadarayaWatson | LocalPolynomial
    left_out: FloatArray
    freedom: float
    at: FloatArray
    limits: Band
    slope: FloatArray
    own: NDArray[np.intp] | slice = field(default_factory=lambda: slice(None))

    def row(self) -> dict[str, Any]:
        """Return the numbers of the group by name; errors are over the defined fits, by weight."""
        y, given = self.model.responses_[self.own], self.model.weights_[self.own]
        known = np.isfinite(self.left_out) & (given > 0)
        weights = np.where(known, given, 0.0)
        square = np.square(y - np.where(known, self.left_out, 0.0))
        mean = np.average(y, weights=given)
        spread = float(weights @ np.square(y - mean))
        radius = self.model.radius_
        return super().row() | {
            "radius": radius.tolist(),
            "bandwidth": (1.0 / radius).tolist(),
            "error": float(np.sqrt(weights @ square / weights.sum())) if known.any() else None,
            "r2": 1.0 - float(weights @ square) / spread if spread > 0 else None,
            "freedom": self.freedom,
            "undefined": int(((given > 0) & ~known).sum()),
        }


@dataclass(frozen=True)
class RegressionDescription(Description[RegressionGroup]):
    """Regressions of a column on others, by group.

    Rows of `curves` have the estimate, its limits, and its derivative along each x.

    Attributes
    ----------
    x : tuple of str
    y : str
    degree : int
    simultaneous : bool
        Whether the limits are a band.
    """

    x: tuple[str, ...]
    y: str
    degree: int
    simultaneous: bool

    def table(self) -> "Table":
        """Return the rows as a table for a terminal."""
        from fourierkernels.estimators.tables.terminal import regression_table

        title = (
            f"{self.y} on {', '.join(self.x)}, degree {self.degree}, kernel {self.kernel}, "
            f"radius {self.rule}"
        )
        return regression_table(self.rows(), title, by=self.by, lost=self.ungrouped)

    def figure(self, *, derivative: bool = False) -> "Figure":
        """Draw samples, fit and limits; with several x, responses against leave-one-out fits.

        Parameters
        ----------
        derivative : bool
            Add a panel with the derivative of the fit; for one x.

        Raises
        ------
        ValueError
            For more groups than can be told apart, or a derivative with several x.
        ImportError
            If matplotlib is missing.
        """
        from fourierkernels.plotting import RegressionCurve, plot_left_out, plot_regressions

        if len(self.x) > 1:
            if derivative:
                raise ValueError(f"derivative must go with one x, got {len(self.x)}")
            pairs = {g.name: (g.left_out, g.model.responses_[g.own]) for g in self.groups}
            return plot_left_out(pairs, ylabel=self.y)
        curves = {
            group.name: RegressionCurve(
                at=group.at[:, 0],
                fit=group.limits.centre,
                low=group.limits.low,
                high=group.limits.high,
                slope=group.slope[:, 0],
                samples=group.model.points_[group.own, 0],
                responses=group.model.responses_[group.own],
            )
            for group in self.groups
        }
        limits = f"{100 * self.level:g} % {'band' if self.simultaneous else 'intervals'}"
        return plot_regressions(
            curves,
            xlabel=self.x[0],
            ylabel=self.y,
            limits=limits,
            derivative=derivative,
            period=circle_of(self.groups[0].model),
        )

    def _columns(self, group: RegressionGroup) -> list[tuple[str, list[Any]]]:
        limits = group.limits
        columns = [*group.at.T, limits.centre, limits.low, limits.high, *group.slope.T]
        names = [*self.x, "estimate", "low", "high", *(f"slope_{name}" for name in self.x)]
        return list(zip(names, (column.tolist() for column in columns), strict=True))


def describe_regression(
    frame: "pd.DataFrame",
    x: str | Sequence[str],
    y: str,
    *,
    by: str | None = None,
    categories: Categories = (),
    degree: int = 0,
    kernel: Kernel | str = "fourier4",
    radius: float | str | None = None,
    adaptive: str | None = None,
    period: Periods = None,
    level: float = 0.95,
    band: bool = False,
    rng: np.random.Generator | None = None,
    missing: str = "drop",
    weights: str | None = None,
    weighting: str = "frequency",
    points: int = 256,
    follow: Follow = iter,
) -> RegressionDescription:
    """Return what the regression of a column on others shows: curve, limits, error, freedom.

    Parameters
    ----------
    frame : pandas.DataFrame
    x : str or sequence of str
        Columns of the design.
    y : str
        Column of the responses.
    by : str, optional
        Column whose values are the groups; each group has a radius of its own.
    categories : sequence of str, or mapping of these to levels in order or None, optional
        Columns of categories instead, as `MixedRegression` has them: one fit, smoothed across
        their levels, and its curve at each combination that occurs; degree 0.
    degree : int
        0 for the Nadaraya-Watson regression, up to 3 for local polynomials.
    kernel : Kernel or str
    radius : float or str, optional
        R = 1/bandwidth, or a rule, as for `NadarayaWatson`; by default "gcv".
    adaptive : str, optional
        A rule for the radius of each sample, as for `AdaptiveRegression`; degree 0, no categories.
    period : float, sequence of float or None, or {column: float}, optional
        Of columns of the design that go around a circle, as hours of the day: values are wrapped.
    level : float
        Of the confidence limits, which are for the smoothed regression function.
    band : bool
        Whether the limits hold at all places at once, which needs an `rng`.
    rng : numpy.random.Generator, optional
    missing : {"drop", "refuse"}
        What is done with rows in which a value is missing.
    weights : str, optional
        Column of sample weights.
    weighting : {"frequency", "precision", "importance"}
        What they mean, as for `NadarayaWatson`.
    points : int
        Of the grid, in one dimension.
    follow : callable
        Passes the groups on while it shows progress.

    Raises
    ------
    ValueError, TypeError
        For columns that are not there, not numeric or empty, and as the regression; the message
        names the group.

    Examples
    --------
    >>> import pandas as pd
    >>> x = np.linspace(0, 3, 200)
    >>> frame = pd.DataFrame({"x": x, "y": np.sin(x) + 0.1 * np.cos(40 * x)})
    >>> description = describe_regression(frame, "x", "y", radius=6.0)
    >>> print(description.groups[0].n, f"{description.rows()[0]['r2']:.2f}")
    200 0.93
    """
    share, size = check_level(level), check_integer("points", points, least=2)
    names = (x,) if isinstance(x, str) else tuple(x)
    check_variables(names, y)
    if band and rng is None:
        raise ValueError("rng must be given for a band, got None")
    chosen = radius_of(_RULE if radius is None else radius)
    model = _smoother(kernel, degree, chosen, weighting, adaptive)
    set_periods(model, names, period)
    if categories:
        mixed = MixedRegression(model, **by_kind(frame, categories))
        read = mixed_table(frame, [*names, y], list(categories), by, missing, weights)
        fits = cell_fits(mixed, read, names, y, share, rng if band else None, size)
        cells = tuple(RegressionGroup(*each) for each in fits)
        return _description(mixed, names, y, names_of(mixed), share, band, cells, 0)
    describe = partial(_quietly, model, names=names, level=share, rng=rng, band=band, size=size)
    every = named_columns([*names, y], weights)
    groups = described(frame, every, by, describe, missing=missing, follow=follow, weights=weights)
    return _description(model, names, y, by, share, band, groups, ungrouped_rows(frame, by))


def _description(
    model: NadarayaWatson | LocalPolynomial | MixedRegression,
    x: tuple[str, ...],
    y: str,
    by: str | None,
    level: float,
    simultaneous: bool,
    groups: tuple[RegressionGroup, ...],
    ungrouped: int,
) -> RegressionDescription:
    plain: Any = model.estimator if isinstance(model, MixedRegression) else model
    rule = rule_name(plain.radius, _RULE, getattr(plain, "adaptive", None))
    return RegressionDescription(
        x=x,
        y=y,
        by=by,
        kernel=kernel_name(plain.kernel),
        rule=f"{rule}, {smoothing_of(model)}" if isinstance(model, MixedRegression) else rule,
        degree=getattr(plain, "degree", 0),
        level=level,
        simultaneous=simultaneous,
        groups=groups,
        ungrouped=ungrouped,
    )


def _smoother(
    kernel: Kernel | str,
    degree: int,
    radius: float | str | None,
    weighting: str,
    adaptive: str | None,
) -> NadarayaWatson | LocalPolynomial:
    if adaptive is not None:
        if degree:
            raise ValueError(f"degree must be 0 with a radius of each sample, got {degree}")
        return AdaptiveRegression(kernel, radius=radius, weighting=weighting, adaptive=adaptive)
    if degree == 0:
        return NadarayaWatson(kernel, radius=radius, weighting=weighting)
    return LocalPolynomial(kernel, degree=degree, radius=radius, weighting=weighting)


def _quietly(
    model: NadarayaWatson | LocalPolynomial,
    group: Group,
    *,
    names: Sequence[str],
    level: float,
    rng: np.random.Generator | None,
    band: bool,
    size: int,
) -> RegressionGroup:
    with silenced(UndefinedWarning):  # the rows count them
        return _described(model, group, names, level, rng if band else None, size)


def _described(
    model: NadarayaWatson | LocalPolynomial,
    group: Group,
    names: Sequence[str],
    level: float,
    rng: np.random.Generator | None,
    size: int,
) -> RegressionGroup:
    import pandas as pd
    from sklearn.base import clone

    values, weights = split_weights(group, len(names) + 1)
    design, responses = pd.DataFrame(values[:, :-1], columns=list(names)), values[:, -1]
    fitted: Any = clone(model).fit(design, responses, weights)
    at = fitted.points_
    if len(names) == 1:
        at = places_along(fitted, at, size)
    there = pd.DataFrame(at, columns=list(names))
    if rng is None:
        limits = fitted.interval(there, level=level)
    else:
        limits = fitted.band(there, level=level, rng=rng)
    with silenced(TiedDataWarning):  # said by the limits
        left_out = fitted.leave_one_out()
    return RegressionGroup(
        group.name,
        len(responses),
        group.dropped,
        fitted.sample_rows().size,
        fitted,
        left_out,
        float(np.nansum(fitted.hat_diagonal())),
        at,
        limits,
        fitted.derivative(there),
    )
