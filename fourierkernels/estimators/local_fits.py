"""Local polynomials at any queries and at their own design points, which radius rules score.

Sums are in blocks; doubtful systems are summed again exactly.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.design import (
    DIGITS,
    LEFT,
    DesignFit,
    FitRows,
    peak_of,
    sample_counts,
)
from fourierkernels.estimators.local_orthogonal import orthogonal_fit, orthogonal_slopes
from fourierkernels.estimators.local_systems import LocalFit, quadratic_form, solve, sums_of_powers
from fourierkernels.estimators.weights import left_out
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums import SampleSum
from fourierkernels.sums.parts import multi_indices
from fourierkernels.sums.result import MomentSums


def local_polynomial_design(degree: int, periods: FloatArray | None = None) -> FitRows:
    """Return the function that fits local polynomials of a degree at their design points.

    All weights are positive. The share of sample j in its own prediction is
    w_j shape(0) (S^{-1})_{00}, S the matrix of moments at x_j; of frequencies that of one copy.
    """
    return partial(_design, degree=degree, periods=periods)


def _design(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    kernel: Kernel,
    radius: FloatArray,
    *,
    degree: int,
    weighting: str = "frequency",
    periods: FloatArray | None = None,
) -> DesignFit:
    sums = SampleSum(
        points, kernel=kernel, radius=radius, weights=weights, responses=responses, periods=periods
    )
    moments = sums.moments(points, 2 * degree, with_responses=degree)
    fit = solve(moments, sums_of_powers(points.shape[1], degree))
    peak = peak_of(kernel, radius, periods)
    left_terms = np.ldexp(peak * left_out(weights, weighting), -fit.exponent)
    with np.errstate(over="ignore", invalid="ignore"):
        leverage = left_terms * fit.row[0]
        predicted = sums.units.restored(fit.coefficients[0], 1.0)
        least = np.maximum(DIGITS * fit.doubt, LEFT) * np.maximum(np.abs(leverage), 1.0)
    predicted[fit.undefined] = math.nan
    return DesignFit(
        responses - predicted,
        leverage,
        weights,
        sample_counts(weights, weighting),
        ~(DIGITS * fit.doubt < 1.0),
        ~(np.abs(1.0 - leverage) > least),
    )


_HELD = 2**25  # sums held at once, all moments and columns counted
_LEAST_ROWS = 2**14
_DOUBTFUL = 1e-7  # from which on the local design is factored instead of its moments
_SLOPELESS = 1e-6  # from which on the slope of the fit may have no digits
_LOST = 1e-3  # of an own term that is subtracted, as in sums without a sample


class LocalFits:
    """The local polynomials of one degree to the samples of a prepared sum."""

    def __init__(self, prepared: SampleSum, degree: int) -> None:
        self._sum, self._degree = prepared, degree
        self._dim = len(prepared.radius)
        self._table = sums_of_powers(self._dim, degree)

    def at(self, queries: FloatArray) -> LocalFit:
        """Return the local fits at queries of shape ``(m, dim)``."""

        def some(prepared: SampleSum, block: slice) -> LocalFit:
            moments = self._moments(prepared, queries[block])
            fit = self._solution(moments)
            rows = self._faint(moments, fit)
            if len(rows):
                exact = self._moments(prepared, queries[block][rows], exactly=True)
                exact_fit = replace(self._solution(exact), direct=np.ones(len(rows), bool))
                fit = fit.replaced(rows, exact_fit)
            rows = np.flatnonzero(~(fit.doubt <= _DOUBTFUL))
            if not len(rows) or not self._degree:
                return fit
            return fit.replaced(rows, orthogonal_fit(prepared, queries[block][rows], self._degree))

        return self._in_blocks(len(queries), some)

    def left_out(self, own: FloatArray) -> LocalFit:
        """Return the local fits at the samples, each without itself.

        `own`, shape ``(n,)``, is the term w ∏ shape(0) of each.
        """
        return self._in_blocks(len(own), lambda sums, block: self._some_left_out(sums, block, own))

    def values(self, fit: LocalFit) -> FloatArray:
        """Return f̂, shape ``(m, k)``, NaN where it is undefined."""
        values = self._sum.units.restored(fit.coefficients[0], 1.0)
        values[fit.undefined] = np.nan
        return values

    def known_slopes(self, fit: LocalFit) -> LocalFit:
        """Return the fit, undefined too where its slope, which loses more digits, has none left."""
        return replace(fit, doubt=np.where(fit.doubt > _SLOPELESS, math.inf, fit.doubt))

    def slope_of_polynomial(self, fit: LocalFit, d: int) -> FloatArray:
        """Return ∂/∂x_d of the local polynomial at its query, shape ``(m, k)``."""
        return self._in_responses(-self._sum.radius[d] * fit.coefficients[1 + d], fit)

    def slope_of_fit(self, queries: FloatArray, fit: LocalFit, d: int) -> FloatArray:
        """Return ∂f̂/∂x_d = row · (T' - S' β), from the differentiated sums, shape ``(m, k)``."""
        step = self.rows_at_once()
        blocks = (slice(start, start + step) for start in range(0, len(queries), step))
        return np.concatenate([self._slopes(queries[rows], fit.some(rows), d) for rows in blocks])

    def quadratic(self, queries: FloatArray, fit: LocalFit, factor: float) -> FloatArray:
        """Return Σ_i w_i y_i (Σ_a row_a u_i^a)² shape(factor u_i), shape ``(m,)``, of one response.

        `fit`, at the same queries, has the rows; this sum has `factor` times its radius. NaN where
        the terms of the form cancel so far that few digits are left.
        """
        powers = multi_indices(self._dim, 2 * self._degree)
        unit = np.array([factor ** -float(sum(each)) for each in powers])[:, None]
        moments = self._squares(queries)
        lost = self._lost(moments, fit, unit)
        rows = np.flatnonzero(lost)
        if len(rows) and not moments.exact:
            moments = moments.replaced(rows, self._squares(queries[rows], exactly=True))
            lost = self._lost(moments, fit, unit)
        sums = moments.units.restored(moments.in_units, moments.denominators[:, :, None])[:, :, 0]
        with np.errstate(invalid="ignore", over="ignore"):
            total = quadratic_form(fit.row, unit * sums, self._table)
            total = np.ldexp(total, moments.exponent - 2 * fit.exponent)
        return np.where(lost, np.nan, total)

    def _lost(self, moments: MomentSums, fit: LocalFit, unit: FloatArray) -> NDArray[np.bool_]:
        """Return where the errors of the moments leave a form less than half of its digits."""
        with np.errstate(invalid="ignore", over="ignore"):
            total = quadratic_form(fit.row, unit * moments.denominators, self._table)
            error = quadratic_form(np.abs(fit.row), unit * moments.errors, self._table)
        return ~(error <= math.sqrt(self._sum.tol) * total) & ~fit.undefined

    def rows_at_once(self) -> int:
        """Return how many queries are summed together."""
        each = math.comb(self._dim + 2 * self._degree, self._dim)
        columns = int(self._sum.responses.shape[1])
        return max(_LEAST_ROWS, _HELD // (each * (1 + columns)))

    def _slopes(self, queries: FloatArray, fit: LocalFit, d: int) -> FloatArray:
        moments = self._moments(self._sum, queries, slope_in=d)
        with np.errstate(invalid="ignore", over="ignore"):  # only where it is undefined
            change = np.einsum("abm,bmk->amk", moments.denominators[self._table], fit.coefficients)
            scaled = self._sum.radius[d] * np.ldexp(fit.row, moments.exponent - fit.exponent)
            slope = np.einsum("am,amk->mk", scaled, moments.in_units - change)
        error = self._slope_error(moments, fit, d)
        enough = math.sqrt(self._sum.tol) * np.maximum(np.abs(slope), self._sum.radius[d])
        rows = np.flatnonzero(fit.direct | (~(error <= enough).all(axis=1) & ~fit.undefined))
        if len(rows):
            slope[rows] = orthogonal_slopes(self._sum, queries[rows], self._degree, d)
        return self._in_responses(slope, fit)

    def _slope_error(self, moments: MomentSums, fit: LocalFit, d: int) -> FloatArray:
        """Return what errors of the sums and of the fit change in slopes, in units, ``(m, k)``."""
        error, beta = moments.errors, np.abs(fit.coefficients)
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.abs(moments.in_units) * fit.doubt[:, None] + 2.0 * error[: len(beta), :, None]
            each = fit.doubt * np.abs(moments.denominators) + error
            size += np.einsum("abm,bmk->amk", each[self._table], beta)
            row = self._sum.radius[d] * np.ldexp(np.abs(fit.row), moments.exponent - fit.exponent)
            return np.asarray(np.einsum("am,amk->mk", row, size))

    def _in_blocks(self, count: int, solved: Callable[[SampleSum, slice], LocalFit]) -> LocalFit:
        rows = self.rows_at_once()
        prepared = self._sum.for_blocks(count) if count > rows else self._sum
        first, *others = (
            solved(prepared, slice(start, start + rows)) for start in range(0, count, rows)
        )
        return first.joined(*others)

    def _some_left_out(self, prepared: SampleSum, block: slice, own: FloatArray) -> LocalFit:
        points, own, response = prepared.points[block], own[block], prepared.responses[block]
        moments = self._moments(prepared, points).without(own, response)
        rows = self._faint(moments, self._solution(moments))
        if len(rows):
            exact = self._moments(prepared, points[rows], exactly=True)
            moments = moments.replaced(rows, exact.without(own[rows], response[rows]))
        left = np.abs(moments.denominators[0])
        alone = np.flatnonzero(left < _LOST * np.abs(np.ldexp(own, -moments.exponent)))
        if len(alone):
            others = prepared.moments_left_out(
                points[alone], 2 * self._degree, block.start + alone, with_responses=self._degree
            )
            moments = moments.replaced(alone, others)
        return self._solution(moments)

    def _moments(
        self,
        prepared: SampleSum,
        queries: FloatArray,
        *,
        exactly: bool = False,
        slope_in: int | None = None,
    ) -> MomentSums:
        degree = self._degree
        return prepared.moments(
            queries, 2 * degree, with_responses=degree, exactly=exactly, slope_in=slope_in
        )

    def _squares(self, queries: FloatArray, *, exactly: bool = False) -> MomentSums:
        degree = 2 * self._degree
        return self._sum.moments(queries, degree, with_responses=degree, exactly=exactly)

    def _solution(self, moments: MomentSums) -> LocalFit:
        return solve(moments, self._table)

    def _faint(self, moments: MomentSums, fit: LocalFit) -> NDArray[np.intp]:
        """Return rows of inexact sums whose errors leave less than half of the digits."""
        if moments.exact:
            return np.zeros(0, np.intp)
        return np.flatnonzero(~(fit.doubt <= math.sqrt(self._sum.tol)))

    def _in_responses(self, slope: FloatArray, fit: LocalFit) -> FloatArray:
        scaled = slope * self._sum.units.scale
        scaled[fit.undefined] = np.nan
        return np.asarray(scaled)
