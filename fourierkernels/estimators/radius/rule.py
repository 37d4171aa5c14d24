"""Radius rules, and the search for the minimum of a score.

The search is over a grid of common factors, then in each dimension by itself. Scores are wavy,
those of kernels with slow tails most of all, and their deepest valley may lie between two points of
a coarse grid: the several lowest minima of the grid are refined, and the better half of a coarse
grid may be looked at more finely first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from fourierkernels.estimators.design import FitDesign, nadaraya_watson_design
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import GaussianKernel, Kernel


@dataclass(frozen=True)
class Rule:
    """A rule that finds the radius from the data.

    Attributes
    ----------
    name : str
    function : callable
        (points, weights, kernel) to a radius of shape (dim,) or (dim, dim). If it needs responses
        it takes two arguments more: the responses, and the function that fits the smoother at its
        design points for a radius, see `fourierkernels.estimators.DesignFit`.
    description : str
    source : str
        Key of book/references.bib, or "derived here".
    gaussian_only : bool
        Whether it fits no kernel but the Gaussian.
    needs_responses : bool
        Whether it is a rule of regression.
    of_sample : callable, optional
        (sample, kernel) to the same radius, from a `Standardised` sample, which may be a stream
        that is read anew for each sum over it; None for rules that need the samples themselves.
    on_circles : bool
        Whether the function takes `periods`, of shape ``(dim,)`` and infinite for lines; other
        rules are for lines alone.
    """

    name: str
    function: Callable[..., FloatArray]
    description: str
    source: str
    gaussian_only: bool = False
    needs_responses: bool = False
    of_sample: Callable[[Any, Kernel], FloatArray] | None = None
    on_circles: bool = False

    def __call__(
        self,
        points: FloatArray,
        weights: FloatArray,
        kernel: Kernel,
        responses: FloatArray | None = None,
        fit_design: FitDesign = nadaraya_watson_design,
        periods: FloatArray | None = None,
    ) -> FloatArray:
        """Return the radius per dimension, shape ``(dim,)``.

        Raises
        ------
        ValueError
            If the rule does not apply to the kernel, to a density, or to the data.
        """
        self.check(kernel, responses)
        circles: dict[str, Any] = {}
        if periods is not None and np.isfinite(periods).any():
            circles["periods"] = self._known(periods)
        if not self.needs_responses:
            return self.function(points, weights, kernel, **circles)
        return self.function(points, weights, kernel, responses, fit_design, **circles)

    def _known(self, periods: FloatArray) -> FloatArray:
        if not self.on_circles:
            raise ValueError(
                f"radius must be a number or a rule that takes periods, got {self.name!r}, which "
                "is for data on lines"
            )
        return periods

    def check(self, kernel: Kernel, responses: FloatArray | None) -> None:
        """Refuse a kernel that the rule does not fit, and a density for a rule of regression.

        Raises
        ------
        ValueError
        """
        self.check_kernel(kernel)
        if self.needs_responses and responses is None:
            raise ValueError(
                f"radius must be a rule that needs no responses, got {self.name!r}, "
                "which is for regression"
            )

    def check_kernel(self, kernel: Kernel) -> None:
        """Refuse a kernel that the rule does not fit.

        Raises
        ------
        ValueError
        """
        if self.gaussian_only and not isinstance(kernel, GaussianKernel):
            raise ValueError(
                f"kernel must be gaussian for radius={self.name!r}, got {kernel.name!r}"
            )


Score = Callable[[FloatArray], float]

# A radius is found to 1e-4: far below its random error, and far above what rounding decides.
_PRECISION = 1e-4
_REFINED = 5  # minima of the grid


def minimise(
    score: Score,
    start: FloatArray,
    *,
    low: float,
    high: float,
    step: float,
    fine: float | None = None,
    common: bool = False,
) -> tuple[FloatArray, float]:
    """Return the radius per dimension with the least score, and that score.

    First `start` times one common factor: global on the grid exp(`step` · k) within [`low`,
    `high`], with steps of `fine` beside its points that are better than the median; the lowest five
    minima are refined between neighbours. Then, for D > 1 unless the factor
    is to stay `common`, all dimensions by the simplex of Nelder
    and Mead over log R, from there: a local minimum within the same bounds per dimension.

    Returns
    -------
    radius : array of shape (dim,)
    least : float
        Infinite if every score was.
    """
    logs = np.append(np.arange(math.log(low), math.log(high), step), math.log(high))
    values = np.array([_finite(score(start * math.exp(log))) for log in logs])
    if np.isinf(values).all():
        return start, math.inf
    if fine is not None:
        between = _between(logs, values, fine)
        more = [_finite(score(start * math.exp(log))) for log in between]
        order = np.argsort(np.append(logs, between))
        logs, values = np.append(logs, between)[order], np.append(values, more)[order]
    minima = [_refine(score, start, logs, values, place) for place in _lowest(values)]
    log, least = min(minima, key=lambda minimum: minimum[1])
    if common or len(start) == 1:
        return start * math.exp(log), least
    return _simplex(score, start, log, (math.log(low), math.log(high)))


def _between(logs: FloatArray, values: FloatArray, fine: float) -> FloatArray:
    """Return points `fine` apart on both sides of those whose value is not above the median."""
    good = values <= np.median(values[np.isfinite(values)])
    sides = good[:-1] | good[1:]
    pairs = zip(logs[:-1][sides], logs[1:][sides], strict=True)
    inner = [np.linspace(a, b, math.ceil((b - a) / fine) + 1)[1:-1] for a, b in pairs]
    return np.concatenate([*inner, np.zeros(0)])


def _lowest(values: FloatArray) -> list[int]:
    """Return the places of the lowest minima, the global one first."""
    left, right = np.append(math.inf, values[:-1]), np.append(values[1:], math.inf)
    minima = np.flatnonzero((values <= left) & (values <= right) & np.isfinite(values))
    return [int(place) for place in minima[np.argsort(values[minima], kind="stable")][:_REFINED]]


def _refine(
    score: Score, start: FloatArray, logs: FloatArray, values: FloatArray, place: int
) -> tuple[float, float]:
    """Return the minimum between the neighbours of a place of the grid."""
    ends = float(logs[max(place - 1, 0)]), float(logs[min(place + 1, len(logs) - 1)])
    ceiling = float(values[np.isfinite(values)].max())  # parabolas need numbers

    def value(log: float) -> float:
        return min(_finite(score(start * math.exp(log))), ceiling)

    result = minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": _PRECISION})
    if result.fun < values[place]:
        return float(result.x), float(result.fun)
    return float(logs[place]), float(values[place])


def _simplex(
    score: Score, start: FloatArray, log: float, bounds: tuple[float, float]
) -> tuple[FloatArray, float]:
    dim = len(start)
    corners = log + 0.2 * np.vstack([np.zeros(dim), np.eye(dim)])
    corners = np.where(corners > bounds[1], corners - 0.4, corners)

    def value(logs: FloatArray) -> float:
        return _finite(score(start * np.exp(logs)))

    options: Any = {
        "initial_simplex": corners,
        "xatol": 1e-3,
        "fatol": math.inf,
        "maxfev": 60 * dim,
    }
    result: Any = minimize(
        value, np.full(dim, log), method="Nelder-Mead", bounds=[bounds] * dim, options=options
    )
    return np.asarray(start * np.exp(result.x)), float(result.fun)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf
