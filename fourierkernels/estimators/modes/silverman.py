"""Silverman's test of the number of modes, with the Gaussian kernel.

The number of modes of a Gaussian estimate never grows with the bandwidth [silverman1981using]_; for
other kernels it may, so that no critical bandwidth is defined by it. If a density has more than k
modes, much smoothing is needed until an estimate has k. How much is usual is found by drawing from
the estimate at that critical bandwidth. On a circle the same holds for the Gaussian summed over
its images [huckemann2016circular]_.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.estimators.modes.critical import Curve, Range, refined, turns
from fourierkernels.estimators.weights import WEIGHTINGS, SampleRows, fitted_weights
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import (
    as_real,
    check_finite,
    check_integer,
    check_number,
    check_rng,
)
from fourierkernels.kernels import GaussianKernel
from fourierkernels.kernels.periodic import kernels_along, wrapped
from fourierkernels.sums import SampleSum
from fourierkernels.sums.parts import log_scale

_PRECISION = 1e-6  # relative, of the critical bandwidth

# λ_α of Hall and York's calibration, a rational function of α: powers 3 to 0.
_CALIBRATION = (0.94029, -1.59914, 0.17695, 0.48971), (1.0, -1.77793, 0.36162, 0.42423)

Interval = tuple[float, float]


@dataclass(frozen=True)
class SilvermanTest:
    """Outcome of a test for at most `modes` modes.

    Attributes
    ----------
    modes : int
    bandwidth : float
        The critical bandwidth, the smallest with at most so many modes.
    p_value : float
        Share of the replicates with more modes at that bandwidth.
    interval : (float, float)
        That share's confidence interval of level 0.95 [clopper1934use]_, for the p-value that
        infinitely many replicates would give.
    replicates : int
    """

    modes: int
    bandwidth: float
    p_value: float
    interval: tuple[float, float]
    replicates: int


def number_of_modes(
    x: ArrayLike,
    bandwidth: float,
    *,
    within: Interval | None = None,
    period: float | None = None,
) -> int:
    """Return the number of modes of the Gaussian density estimate of `x`.

    Parameters
    ----------
    x : array of shape (n,) or (n, 1)
    bandwidth : float
    within : (low, high), optional
        Count those in this interval only.
    period : float, optional
        Of data on a circle.

    Raises
    ------
    ValueError
        For samples that are not finite or not of one dimension, a bandwidth or a period that is not
        positive, an interval that is not increasing, or one on a circle.

    Examples
    --------
    >>> [number_of_modes([0.0, 1.0, 5.0], h) for h in (0.1, 1.0, 4.0)]
    [3, 2, 1]
    >>> number_of_modes([23.0, 1.0], 1.5, period=24.0)
    1
    """
    around = _period(period, within)
    values = Values.alike(_column(x, around), around)
    return _count(values, check_number("bandwidth", bandwidth, above=0.0), _interval(within))


def critical_bandwidth(
    x: ArrayLike,
    modes: int = 1,
    *,
    within: Interval | None = None,
    period: float | None = None,
) -> float:
    """Return the smallest Gaussian bandwidth with at most so many modes, to 1e-5 of itself.

    On an interval, where the number need not be monotone, it is one at which it changes.

    Raises
    ------
    ValueError
        As :func:`number_of_modes`, and if the samples have no more distinct values than modes.

    Examples
    --------
    >>> print(f"{critical_bandwidth([-1.0, 1.0]):.4f}")  # two normals merge at h = 1
    1.0000
    """
    around = _period(period, within)
    values = Values.alike(_column(x, around), around)
    return _critical(values, check_integer("modes", modes), _interval(within))


def silverman_test(
    x: ArrayLike,
    modes: int = 1,
    *,
    rng: np.random.Generator,
    replicates: int = 999,
    within: Interval | None = None,
    calibrate: float | None = None,
    sample_weight: ArrayLike | None = None,
    weighting: str = "frequency",
    period: float | None = None,
) -> SilvermanTest:
    """Test whether the density has at most so many modes.

    Replicates are draws from the estimate at the critical bandwidth, rescaled to the variance of
    the sample [silverman1981using]_. For densities whose mode is curved the test is conservative:
    it rejects more rarely than its level says, even in large samples [hall2001calibration]_.
    `calibrate` corrects this for one mode on an interval, at one level. For flat densities it is
    not: of 50 uniform samples of 200, 16 were rejected at level 0.05, of 50 normal ones none
    (``experiments/silverman_size.py``).

    Parameters
    ----------
    x : array of shape (n,) or (n, 1)
    modes : int
        Of the hypothesis.
    rng : numpy.random.Generator
    replicates : int
        At least 20.
    within : (low, high), optional
        Count modes in this interval only, as a density with long tails makes necessary: far out,
        single samples are modes.
    calibrate : float, optional
        A level α, up to 0.5: the bandwidth of the replicates is multiplied by λ_α, for which the
        test that rejects if the p-value is below α has level α in the limit. The hypothesis is
        then one mode, `within` must be given, and replicates are not rescaled.
    sample_weight : array of shape (n,), optional
        1 each by default. Replicates have as many draws as there are samples: repeated values are
        one unless they are rounded, see `fourierkernels.estimators.weights`.
    weighting : {"frequency", "importance"}
        What these weights mean.
    period : float, optional
        Of data on a circle. Replicates are not rescaled then: no scale is left to choose.

    Raises
    ------
    ValueError, TypeError
        As :func:`critical_bandwidth`, for fewer replicates, an `rng` that is no generator, and a
        calibration without interval or for more modes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> two = np.concatenate([rng.normal(-2, 1, 100), rng.normal(2, 1, 100)])
    >>> test = silverman_test(two, rng=rng, replicates=99)
    >>> print(f"h = {test.bandwidth:.2f}, p = {test.p_value:.2f}")
    h = 1.65, p = 0.00
    """
    around, most, part = _period(period, within), check_integer("modes", modes), _interval(within)
    count = check_integer("replicates", replicates, least=20)
    check_rng(rng)
    factor = 1.0 if calibrate is None else _factor(calibrate, most, within)
    values = _distinct(_column(x, around), sample_weight, weighting, around)
    critical = _critical(values, most, part)
    variance = values.variance if calibrate is None and np.isinf(around) else np.inf
    more = 0
    for _ in range(count):
        drawn = Values.alike(_draw(values, critical, variance, rng), around)
        more += _count(drawn, factor * critical, part) > most
    return SilvermanTest(most, critical, more / count, share_interval(more, count), count)


class Values(NamedTuple):
    """Samples ``(n,)`` with weights ``(n,)`` that sum to n; on a circle in [0, period)."""

    x: FloatArray
    weights: FloatArray
    period: float = np.inf

    @classmethod
    def alike(cls, x: FloatArray, period: float = np.inf) -> "Values":
        """Return samples of equal weight."""
        return cls(x, np.ones(len(x)), period)

    @property
    def shares(self) -> FloatArray | None:
        """Probabilities of the samples; None if they are equal."""
        equal = bool((self.weights == self.weights[0]).all())
        return None if equal else self.weights / self.weights.sum()

    @property
    def mean(self) -> float:
        """Weighted mean."""
        return float(self.x.mean() if self.shares is None else self.x @ self.shares)

    @property
    def variance(self) -> float:
        """Weighted variance, with divisor Σw."""
        if self.shares is None:
            return float(self.x.var())
        return float(np.square(self.x - self.mean) @ self.shares)


def _distinct(
    x: FloatArray, sample_weight: ArrayLike | None, weighting: str, period: float
) -> Values:
    weights = fitted_weights(sample_weight, len(x), weighting, WEIGHTINGS)
    first, joint = SampleRows.of(x[:, None], weights, weighting).distinct
    return Values(x[first], joint, period)


def _draw(
    values: Values, bandwidth: float, variance: float, rng: np.random.Generator
) -> FloatArray:
    """Draw from the estimate; the result has the sample's variance in the mean, if it is finite."""
    count = max(1, round(float(values.weights.sum())))
    chosen = rng.choice(values.x, count, p=values.shares)
    moved = chosen + bandwidth * rng.standard_normal(count)
    middle = values.mean
    scaled = middle + (moved - middle) / np.sqrt(1.0 + bandwidth**2 / variance)
    return _around(scaled, values.period)


def _critical(values: Values, modes: int, part: Interval) -> float:
    sample = values.x
    inside = np.unique(sample[(sample >= part[0]) & (sample <= part[1])])
    if len(inside) <= modes:  # each distinct value is a mode if the bandwidth is small enough
        where = "" if np.isinf(part).all() else f" in {part}"
        raise ValueError(
            f"x must have more distinct values than modes, {modes}, got {len(inside)}{where}"
        )
    high = float(np.ptp(sample))
    while _count(values, high, part) > modes:
        high *= 2.0
    low = 0.5 * high
    while _count(values, low, part) <= modes:
        low, high = 0.5 * low, low
    while high - low > _PRECISION * high:
        middle = np.sqrt(low * high)
        low, high = (middle, high) if _count(values, middle, part) > modes else (low, middle)
    return float(high)


def _count(values: Values, bandwidth: float, part: Interval) -> int:
    sample, curve = values.x, _gaussian_curve(values, 1.0 / bandwidth)
    seen = Range(float(sample.min()) - bandwidth, float(sample.max()) + bandwidth)
    circle = Range(0.0, values.period, closed=True)
    turning = turns(curve, seen if np.isinf(values.period) else circle)
    low, high = turning.low[turning.maxima], turning.high[turning.maxima]
    certain = (low >= part[0]) & (high <= part[1])
    doubtful = ~certain & (high >= part[0]) & (low <= part[1])
    places = refined(curve, low[doubtful], high[doubtful])
    return int(certain.sum() + ((places >= part[0]) & (places <= part[1])).sum())


def _gaussian_curve(values: Values, radius: float) -> Curve:
    """Return the estimate without the checks of an estimator, which would take most of the time."""
    kernel, n = GaussianKernel(), len(values.x)
    periods = np.array([values.period])
    total = SampleSum(
        values.x[:, None],
        kernel=kernel,
        radius=np.array([radius]),
        weights=values.weights,
        responses=np.zeros((n, 0)),
        periods=periods,
    )

    def part(name: str) -> Callable[[FloatArray], FloatArray]:
        scale = np.exp(log_scale(kernel, total.radius, (name,))) / values.weights.sum()
        return lambda x: scale * total.at(x[:, None], parts=(name,), refine=False).totals()

    (along,) = kernels_along(kernel, np.array([radius]), periods)
    return Curve(along, radius, part("value"), part("slope"))


def _factor(level: float, modes: int, within: Interval | None) -> float:
    """Return λ_α of [hall2001calibration]_; λ_0.05 = 1.13."""
    alpha = check_number("calibrate", level, above=0.0)
    if alpha > 0.5:
        raise ValueError(f"calibrate must be a level of at most 0.5, got {level}")
    if modes != 1 or within is None:
        raise ValueError(
            f"calibrate must go with modes=1 and an interval, got modes={modes} and within={within}"
        )
    above, below = (float(np.polyval(row, alpha)) for row in _CALIBRATION)
    return above / below


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Return the exact binomial interval of level 0.95 of a share [clopper1934use]_."""
    low = special.betaincinv(count, total - count + 1, 0.025) if count else 0.0
    high = special.betaincinv(count + 1, total - count, 0.975) if count < total else 1.0
    return float(low), float(high)


def _column(x: ArrayLike, period: float) -> FloatArray:
    sample = check_finite("x", as_real("x", x))
    if sample.ndim == 2 and sample.shape[1] == 1:
        sample = sample[:, 0]
    if sample.ndim != 1 or not len(sample):
        raise ValueError(f"x must have shape (n,) with n >= 1, got {sample.shape}")
    return _around(sample, period)


def _around(x: FloatArray, period: float) -> FloatArray:
    return wrapped(x[:, None], np.array([period]))[:, 0]


def _period(period: float | None, within: Interval | None) -> float:
    if period is None:
        return np.inf
    if within is not None:
        raise ValueError(f"within must be None on a circle, got {within} and period {period}")
    return check_number("period", period, above=0.0)


def _interval(within: Interval | None) -> Interval:
    if within is None:
        return -np.inf, np.inf
    ends = as_real("within", within)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"within must be an increasing pair (low, high), got {within}")
    return float(ends[0]), float(ends[1])
