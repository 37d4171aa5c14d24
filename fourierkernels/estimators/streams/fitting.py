"""Fit to a stream: first its range and radius, then the modes of its samples, which are kept."""

import math
import operator
from collections.abc import Callable, Sized
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.boxes import Bounds, Period, check_circles, check_ends, reflect
from fourierkernels.estimators.checks import warn_of_frequencies, warn_of_repetitions
from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, Rule, radius_or_rule
from fourierkernels.estimators.streams.blocks import Block, Expected, Layout
from fourierkernels.estimators.streams.sample import StreamedSample
from fourierkernels.estimators.streams.sources import ROWS, Source
from fourierkernels.estimators.streams.survey import StreamFingerprint, Survey
from fourierkernels.estimators.weights import REGRESSION_WEIGHTINGS, WEIGHTINGS
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_period
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.kernels.periodic import wrapped
from fourierkernels.sums import check_tolerance
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.plan import Plan
from fourierkernels.sums.streamed import ModeGrid, Modes, SamplesNotKeptError, StreamedSum

_SPARE = 0.125  # of the range of the samples, to either side, for queries
_REACH = 2.0  # bandwidths, likewise
_MOST_ROWS = 2**22  # of a part, where the transform of a part costs more than its samples


@dataclass(frozen=True)
class Options:
    """Options of an estimator; its parameters of the same names."""

    kernel: Kernel | str
    radius: ArrayLike | str | None
    bandwidth: ArrayLike | None
    method: str
    tol: float
    bounds: Bounds | None
    device: str
    within: Bounds | None
    weighting: str
    period: Period


@dataclass(frozen=True)
class Counted:
    """The modes of samples and their images, Σ w, and the fingerprint of their stream."""

    modes: Modes
    fingerprint: StreamFingerprint
    weight: float

    def __add__(self, other: "Counted") -> "Counted":
        """Return those of both."""
        return Counted(
            self.modes + other.modes,
            self.fingerprint + other.fingerprint,
            self.weight + other.weight,
        )


@dataclass(frozen=True)
class StreamFit:
    """Result of a fit to a stream.

    Attributes
    ----------
    counted : Counted
    grid : ModeGrid
    bounds : array of shape (2, dim)
    layout : Layout
    """

    counted: Counted
    grid: ModeGrid
    bounds: FloatArray
    layout: Layout

    @property
    def outputs(self) -> tuple[int, ...] | None:
        """Shape of one response; None for a density."""
        return self.layout.outputs

    @property
    def sum(self) -> StreamedSum:
        """The sum at queries."""
        return StreamedSum(self.counted.modes, self.grid, self.bounds, self.n)

    @property
    def periods(self) -> FloatArray:
        """Period per dimension, infinite for lines."""
        return np.array(self.grid.periods)

    def check_unchanged(self, kernel: Kernel, radius: FloatArray, bounds: FloatArray) -> None:
        """Refuse what was assigned after the fit: modes are for one kernel, radius and box.

        Raises
        ------
        SamplesNotKeptError
        """
        same = kernel == self.grid.kernel and np.array_equal(radius, self.grid.radius)
        if not (same and np.array_equal(bounds, self.bounds)):
            raise SamplesNotKeptError(
                "kernel_, radius_ and bounds_ must be those of the fit to a stream, whose samples "
                f"are not kept, got {kernel.name}, {radius}, {bounds.tolist()}"
            )

    @property
    def n(self) -> int:
        """Number of samples of positive weight."""
        return self.counted.fingerprint.n

    @property
    def weight(self) -> float:
        """Σ w over the samples, without their images."""
        return self.counted.weight

    @property
    def plan(self) -> Plan:
        """The plan for as many queries as samples."""
        return self.grid.plan(self.n, len(self.counted.modes.values))


def fit_stream(source: Source, options: Options, *, regression: bool) -> StreamFit:
    """Return the fit to a stream: in one pass where radius and range are given.

    Raises
    ------
    ValueError
        If one of them must be found first and the stream can be read only once, the rule needs the
        samples themselves, the stream changes, or sums cannot be band-limited.
    """
    check_options(options)
    known = REGRESSION_WEIGHTINGS if regression else WEIGHTINGS
    check_choice("weighting", options.weighting, known)
    kernel, limits = as_kernel(options.kernel), _limits(options, source.columns)
    given = {"within": options.within, "bounds": options.bounds, "period": options.period}
    name = next((name for name, value in given.items() if value is not None), "within")
    expected = Expected(regression, _on_lines(limits, options), name)
    radius = None if limits is None else _known_radius(limits.shape[1], options)
    survey = None
    if radius is None or limits is None or not np.isfinite(limits).all():
        if source.once:
            raise ValueError(_ONCE)
        survey = source.reduce(Survey.of, operator.add, expected, label="range")
        radius = _found_radius(source, survey, expected, kernel, options)
    box = _range(limits, survey, radius)
    fit = _summed(source, expected, kernel, radius, box, options)
    if survey is not None:
        survey.fingerprint.check_same(fit.counted.fingerprint)
    return fit


def continued(fit: StreamFit, new: StreamFit) -> StreamFit:
    """Return the fit to the samples of both.

    Raises
    ------
    ValueError
        If the parameters were not the same, or columns have other names.
    """
    same = fit.grid == new.grid and np.array_equal(fit.bounds, new.bounds)
    if not same or fit.outputs != new.outputs:
        raise ValueError(
            "partial_fit must go on with the kernel, radius, range, bounds and responses that it "
            f"began with, {fit.grid}, {fit.outputs}, got {new.grid}, {new.outputs}"
        )
    layout = fit.layout.named(new.layout.names)
    return replace(new, counted=fit.counted + new.counted, layout=layout)


def may_go_on(estimator: Any) -> bool:
    """Return True if an estimator has radius and range, so that samples may come bit by bit.

    Raises
    ------
    AttributeError
        If it has not, as scikit-learn expects of a method that is not available.
    """
    limits = _limits(options_of(estimator))
    given = estimator.bandwidth is not None or not (
        estimator.radius is None or isinstance(estimator.radius, str)
    )
    if given and limits is not None and np.isfinite(limits).all():
        return True
    raise AttributeError(
        "partial_fit needs radius as a number and within=[(low, high), ...], the range of samples "
        f"and queries, got radius={estimator.radius!r}, within={estimator.within!r}"
    )


def options_of(estimator: Any) -> Options:
    """Return the parameters of an estimator that a fit to a stream takes."""
    return Options(**{field.name: getattr(estimator, field.name) for field in fields(Options)})


def check_options(options: Options) -> None:
    """Refuse what a stream cannot do.

    Raises
    ------
    ValueError
    """
    check_tolerance(options.tol)
    if any(
        np.ndim(given) == 2 for given in (options.radius, options.bandwidth) if given is not None
    ):
        raise ValueError("radius must be a number or a vector for a stream, got a matrix")
    if options.method not in {"auto", "bandlimited"}:
        raise ValueError(
            "method must be 'auto' or 'bandlimited' for a stream, whose samples are not kept, "
            f"got {options.method!r}"
        )
    if options.device != "cpu":
        raise ValueError(f"device must be 'cpu' for a stream, got {options.device!r}")


def _limits(
    options: Options, columns: Callable[[], int | None] = lambda: None
) -> FloatArray | None:
    """Return where samples must lie, shape (2, dim), by `within` and `bounds`; None if neither.

    Nor a period; how many columns one period for all is of, is asked if no other option says so.
    """
    named = {"within": options.within, "bounds": options.bounds}
    given = {name: pairs for name, pairs in named.items() if pairs is not None}
    if not given and options.period is not None:
        each = (options.period, options.radius, options.bandwidth)
        arrays = [np.asarray(column, dtype=object) for column in each]
        told = [len(column) for column in arrays if column.ndim == 1]
        given["within"] = [(None, None)] * (told[0] if told else columns() or 1)
    if not given:
        return None
    counts = {name: len(p) if isinstance(p, Sized) else 1 for name, p in given.items()}
    ends = [check_ends(pairs, counts[name], name) for name, pairs in given.items()]
    if len(set(counts.values())) > 1:
        raise ValueError(f"within must have as many pairs as bounds, got {given}")
    low, high = np.max([e[0] for e in ends], axis=0), np.min([e[1] for e in ends], axis=0)
    periods = check_circles(options.period, check_ends(options.bounds, len(low)))
    circles = np.isfinite(periods)
    return np.array([np.where(circles, 0.0, low), np.where(circles, periods, high)])


def _on_lines(limits: FloatArray | None, options: Options) -> FloatArray | None:
    """Return the limits within which samples must lie: on a circle they may lie anywhere."""
    if limits is None or options.period is None:
        return limits
    circles = np.isfinite(check_period(options.period, limits.shape[1]))
    return np.where(circles, np.array([[-np.inf], [np.inf]]), limits)


def _known_radius(dim: int, options: Options) -> FloatArray | None:
    given = radius_or_rule(dim, radius=options.radius, bandwidth=options.bandwidth)
    return None if isinstance(given, Rule) else given


def _found_radius(
    source: Source, survey: Survey, expected: Expected, kernel: Kernel, options: Options
) -> FloatArray:
    given = radius_or_rule(len(survey.low), radius=options.radius, bandwidth=options.bandwidth)
    if not isinstance(given, Rule):
        return given
    if options.period is not None:
        raise ValueError(
            f"radius must be a number for a stream with a period, got {given.name!r}; an array has "
            "rules"
        )
    if given.of_sample is None:
        able = [row.name for row in (*RADIUS_RULES.values(), *GAUSSIAN_RULES.values())]
        able = [n for n in able if (RADIUS_RULES | GAUSSIAN_RULES)[n].of_sample is not None]
        raise ValueError(
            f"radius must be a number or one of {', '.join(able)} for a stream, got "
            f"{given.name!r}, which needs the samples themselves"
        )
    given.check_kernel(kernel)
    sample = StreamedSample(source, survey, expected, weighting=options.weighting)
    if sample.copied_share:
        warn_of_repetitions(sample.copied_share, survey.fingerprint.n, sample.size, given.name)
    elif sample.copied:
        warn_of_frequencies(sample.size, given.name)
    return given.of_sample(sample, kernel)


def _range(limits: FloatArray | None, survey: Survey | None, radius: FloatArray) -> Box:
    """Return the range of samples and queries: as promised, or that of the samples and more."""
    dim = len(radius)
    low, high = np.full((2, dim), np.nan) if limits is None else limits
    if survey is not None:
        # Halves, because the range of data at the ends of floating point overflows.
        more = 2.0 * _SPARE * (0.5 * survey.high - 0.5 * survey.low) + _REACH / radius
        with np.errstate(over="ignore"):
            low = np.where(np.isfinite(low), low, survey.low - more)
            high = np.where(np.isfinite(high), high, survey.high + more)
    return Box(tuple(map(float, low)), tuple(map(float, high)))


def _with_images(box: Box, bounds: FloatArray) -> Box:
    """Return the range of samples, of their images about the bounds, and of queries."""
    low, high = np.array(box)
    below = np.where(np.isfinite(bounds[0]), 2.0 * bounds[0] - high, low)
    above = np.where(np.isfinite(bounds[1]), 2.0 * bounds[1] - low, high)
    ends = np.minimum(low, below), np.maximum(high, above)
    return Box(*(tuple(map(float, end)) for end in ends))


def _summed(
    source: Source,
    expected: Expected,
    kernel: Kernel,
    radius: FloatArray,
    box: Box,
    options: Options,
) -> StreamFit:
    """Read the stream for its modes."""
    bounds = check_ends(options.bounds, len(radius))
    periods = check_circles(options.period, bounds)
    grid = ModeGrid.covering(kernel, radius, _with_images(box, bounds), options.tol, periods)
    grid.plan(1, 1)  # refuses what would not fit
    rows = min(max(ROWS, math.prod(count for _, count in grid.grid)), _MOST_ROWS)
    part = partial(_counted, grid=grid, bounds=bounds)
    counted = source.reduce(part, operator.add, expected, label="modes", rows=rows)
    assert source.layout is not None
    return StreamFit(counted, grid, bounds, source.layout)


def _counted(block: Block, grid: ModeGrid, bounds: FloatArray) -> Counted:
    placed = wrapped(block.points, np.array(grid.periods))
    points, weights, owner = reflect(
        placed, block.weights, bounds, kernel=grid.kernel, radius=np.array(grid.radius)
    )
    modes = grid.transform(points, weights, block.responses[owner])
    return Counted(modes, StreamFingerprint.of(block), float(block.weights.sum()))


_ONCE = (
    "X must be a stream that can be read again, for its range or a radius rule, got an iterator; "
    "give a list of blocks, a file, or a function that returns the blocks anew, or else radius as "
    "a number and within=[(low, high), ...], the range of samples and queries"
)
