"""Radii of conditional densities by least squares cross-validation.

Likelihood cross-validation would take logarithms of estimates that may be negative, so it is not
offered. With W_ij the weights of the regression at x_i without sample i, and φ_i(t) =
Σ_j W_ij exp(i t y_j) the characteristic function that they give y at x_i, the criterion is

    (1/2π) ∫ [A(t) K̂(t/S)² - 2 B(t) K̂(t/S)] dt,   A = mean |φ_i|²,  B = mean Re φ_i exp(-i t y_i),

the integrated squared error of p̂(y | x) weighted by the density of x, less a constant. A and B
depend on R alone, so that all S come from one regression of cosines and sines.
"""

import math
from collections.abc import Callable

import numpy as np

from fourierkernels.estimators.design import FitDesign
from fourierkernels.estimators.radius.reference import normal_reference
from fourierkernels.estimators.radius.rule import Rule, minimise
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.spectrum import AnyAxis, CircleAxis, fitted_axis

_RANGE = {1: (0.1, 32.0), 2: (0.1, 8.0)}  # R tried, in normal-reference radii; D > 2: the last
_RANGE_OF_Y = (0.1, 8.0)  # S tried, likewise
_STEP = 0.25
_PHASE = 8.0  # panel length times range of y, for which 16 nodes integrate to rounding
_LARGEST = 2**26  # cosines and sines held at once


def conditional_lscv(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
    fit_design: FitDesign,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return R, then S, that minimise cross-validation of p̂(y | x), shape ``(dim + 1,)``.

    For each R the best S is searched, between a tenth and 8 times the normal reference, and R as in
    :func:`lscv`, up to 32 times (8 times for several columns). A radius at which a prediction is
    undefined without its own sample is ruled out. A column of x without influence gets a small R:
    it is smoothed out. Source: [hall2004cross]_.

    Raises
    ------
    ValueError
        For more than one response, a column that does not vary, too many samples for the range of
        y, or if every radius is ruled out.
    """
    columns = responses.reshape(len(points), -1)
    if columns.shape[1] != 1:
        raise ValueError(
            f"y must have one column for radius='conditional_lscv', got {columns.shape[1]}"
        )
    kept = weights > 0
    points, weights, columns = points[kept], weights[kept], columns[kept]
    around = np.full(points.shape[1] + 1, np.inf) if periods is None else periods
    starts = (
        normal_reference(points, weights, kernel, periods=around[:-1]),
        normal_reference(columns, weights, kernel, periods=around[-1:]),
    )
    options = {"largest": _RANGE_OF_Y[1], "period": float(around[-1])}
    score = ConditionalScore(points, weights, kernel, columns[:, 0], fit_design, **options)

    def best(radius: FloatArray) -> tuple[FloatArray, float]:
        given = score.given(radius)
        return minimise(given, starts[1], low=_RANGE_OF_Y[0], high=_RANGE_OF_Y[1], step=_STEP)

    low, high = _RANGE[min(points.shape[1], 2)]
    best_radius, least = minimise(lambda r: best(r)[1], starts[0], low=low, high=high, step=_STEP)
    if not math.isfinite(least):
        raise ValueError(
            "radius='conditional_lscv' must find a radius at which every prediction is defined "
            f"without its own sample, got none from {low:g} to {high:g} times the normal "
            "reference; give radius as numbers"
        )
    return np.append(best_radius, best(best_radius)[0])


def _axis(end: float, response: FloatArray, period: float) -> AnyAxis:
    """Return the frequencies of y up to an end."""
    if math.isfinite(period):
        return CircleAxis(period, end, mirrored=False)
    return fitted_axis(end, float(np.ptp(response)), _PHASE, mirrored=False)


class ConditionalScore:
    """The criterion as a function of R, and for given R of S up to `largest` normal references.

    Raises
    ------
    ValueError
        If samples times frequencies are too many.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        kernel: Kernel,
        response: FloatArray,
        fit_design: FitDesign,
        largest: float,
        *,
        period: float = math.inf,
    ) -> None:
        self._points, self._weights, self._kernel = points, weights, kernel
        self._fit_design = fit_design
        around = None if math.isinf(period) else np.array([period])
        unit = normal_reference(response[:, None], weights, kernel, periods=around)
        self._axis = _axis(kernel.cutoff * largest * float(unit[0]), response, period)
        if 2 * self._axis.size * len(points) > _LARGEST:
            raise ValueError(
                f"X must have at most {_LARGEST // (2 * self._axis.size)} samples for "
                f"radius='conditional_lscv' with this range of y, got {len(points)}"
            )
        phase = (response - response.mean())[:, None] * self._axis.nodes
        self._waves = np.hstack([np.cos(phase), np.sin(phase)])

    def given(self, radius: FloatArray) -> Callable[[FloatArray], float]:
        """Return the criterion as a function of S, shape ``(1,)``; infinite if R is ruled out."""
        fit = self._fit_design(self._points, self._weights, self._waves, self._kernel, radius)
        if fit.lost:
            return lambda _: math.inf
        left = self._waves - fit.residuals / (1.0 - fit.leverage)[:, None]
        shares = self._weights / self._weights.sum()
        power = self._halves(shares @ np.square(left))
        overlap = self._halves(shares @ (left * self._waves))

        def value(other: FloatArray) -> float:
            return self._integral(power, other, 2) - 2.0 * self._integral(overlap, other, 1)

        return value

    def _halves(self, both: FloatArray) -> FloatArray:
        """Return the part of the cosines plus that of the sines."""
        return both[: self._axis.size] + both[self._axis.size :]

    def _integral(self, values: FloatArray, radius: FloatArray, power: int) -> float:
        """Return (2π)^{-1} ∫ values K̂(t/S)^power dt over the line."""
        knots = radius[0] * np.asarray(self._kernel.knots)

        def factor(t: FloatArray) -> FloatArray:
            return np.asarray(self._kernel.transform(t / radius[0]) ** power)

        return float(self._axis.weights((factor, knots)) @ values)


RULES = (
    Rule(
        "conditional_lscv",
        conditional_lscv,
        "least squares cross-validation of the conditional density",
        "hall2004cross",
        needs_responses=True,
        on_circles=True,
    ),
)
