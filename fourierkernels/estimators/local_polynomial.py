"""Local polynomial regression."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.base import StreamingEstimator
from fourierkernels.estimators.boxes import Period
from fourierkernels.estimators.checks import (
    report_undefined,
    tell_copies,
    unchanged_on_failure,
    validated,
)
from fourierkernels.estimators.design import DesignFit, FitRows
from fourierkernels.estimators.local_fits import LocalFits, local_polynomial_design
from fourierkernels.estimators.local_orthogonal import orthogonal_weights
from fourierkernels.estimators.local_systems import LocalFit
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.estimators.weights import REGRESSION_WEIGHTINGS
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.kernels import Kernel
from fourierkernels.sums import SampleSum, kernel_matrix
from fourierkernels.sums.parts import multi_indices, offsets

_LARGEST_DEGREE = 3
_DIGITS = 1e-9  # by which the sum of a row of weights may miss 1
_WHY = (
    "have a local design matrix that is singular within its own numerical error (too few samples "
    "near, or signs of an odd power that cancel); the regression is undefined there"
)


class LocalPolynomial(LinearSmoother, StreamingEstimator):
    """Regression by the polynomial that fits best around each query, f̂(x) its value at x.

    With u_i = R(x - x_i), the coefficients β minimise Σ_i w_i K(u_i) (y_i - Σ_a β_a u_i^a)² over
    the monomials of total degree up to `degree`, and f̂(x) = β_0. Degree 0 is
    :class:`NadarayaWatson`; polynomials up to the degree are reproduced exactly, whatever the
    design, so that degree 1 has neither the boundary bias nor the design bias of degree 0. All
    sums of the normal equations, Σ w ∏ u_d^{a_d} K(u_d), come from one transform of the samples:
    u^j K(u) is as band-limited as K. Sources: [fan1996local]_, [ruppert1994multivariate]_.

    Where the local design matrix is singular within its own numerical error the answer is NaN,
    with one warning that counts the queries.

    For finite samples the weights exist for every kernel. The asymptotic bias of degree p takes the
    moments of K up to 2p + 1 at a boundary, up to 2p in the interior (2p + 2 if p is even), and
    for sinc^l the integral of |u|^j |K| is finite if l - j > 1: local lines have their classical
    order R^-2 for l >= 4 in the interior and l >= 5 at a boundary (for l = 4 with a factor
    log R). For l = 2 the second moment grows with the range of the data: the fit still reproduces
    lines, but its slope is that of the whole sample, and the boundary bias stays; for l = 1 the
    matrix of moments has no limit at all. With odd powers it is not definite: between the signs
    of its determinant there are queries at which the variance of the fit is large without limit,
    from degree 1 (l = 1) or 2 (l = 3, 5) on in our examples. `interval` shows them.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    degree : int
        From 0 to 3.
    radius : float, array of shape (dim,) or str, optional
        R = 1/bandwidth, or a rule of `fourierkernels.estimators.radius`: "loo" (leave-one-out) and
        "gcv" score this very fit; by default the density rule for the design points.
    bandwidth : float or array of shape (dim,), optional
        1/R, instead of `radius`.
    method : {"auto", "direct", "bandlimited", "reference", "torch"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.
    undefined : {"nan", "raise"}
        What to do at undefined queries.
    device : {"cpu", "cuda", "cuda:<index>"}
        Where sums run: "cuda" uses the operator of Fourier attention in double precision, on
        monomials about one centre; queries whose systems lose too many digits by that are summed
        again on the CPU. Derivatives need the CPU.
    weighting : {"frequency", "precision", "importance"}
        What `sample_weight` means: copies of a row, 1/variance of its response up to a factor, or
        an importance of which only ratios matter; see `fourierkernels.estimators.weights`.
    period : float or sequence of float or None per dimension, optional
        Of dimensions that are circles, None for a line. There polynomials are in the chord
        (P/2π) sin(2π(x - x_i)/P) instead of x - x_i [dimarzio2009local]_, and the kernel is the sum
        over its images. Data of any period are wrapped into one.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim,)
        The kernel and the radius in use.
    plan_ : Plan
        Method, estimated seconds and promised accuracy for as many queries as samples.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(size=(500, 1))
    >>> model = LocalPolynomial("fourier4", degree=1, radius=20.0).fit(x, 3 * x[:, 0] - 1)
    >>> print(model.predict([[0.0], [0.5]]).round(9))  # a line, to its very end
    [-1.   0.5]
    """

    _weightings = REGRESSION_WEIGHTINGS

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        degree: int = 1,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        undefined: str = "nan",
        device: str = "cpu",
        weighting: str = "frequency",
        period: Period = None,
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            device=device,
            weighting=weighting,
            period=period,
        )
        self.degree = degree
        self.undefined = undefined

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, k)
        sample_weight : array of shape (n,), optional
            Counts, precisions or importances, see `weighting`; 1 each by default.

        Raises
        ------
        ValueError
            For data that is empty, not finite or of different lengths, weights that are negative,
            fewer samples of positive weight than coefficients, a degree out of range, a radius or
            bandwidth that is not positive, an unknown kernel, rule or method.
        """
        check_choice("undefined", self.undefined, ["nan", "raise"])
        check_degree(self.degree)
        with unchanged_on_failure(self):
            points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
            columns = np.asarray(responses, dtype=np.float64)
            return self._fit_points(points, sample_weight, responses_=columns)

    def weight_rows(self, queries: FloatArray) -> FloatArray:
        """Return the weights of all samples at checked queries, ``(m, n)``; rows sum to one."""
        fit = self._fits(with_responses=False).at(queries)
        self._report(fit)
        matrix, _, exponent = kernel_matrix(
            self.points_,
            queries,
            kernel=self.kernel_,
            radius=self.radius_,
            periods=self.periods_,
        )
        u = offsets(self._frame, self.kernel_, queries[:, None] - self.points_)  # (m, n, dim)
        polynomial = np.zeros(matrix.shape)
        with np.errstate(invalid="ignore", over="ignore"):  # only in rows that are undefined
            for powers, row in zip(self._powers, fit.row, strict=True):
                scaled = np.ldexp(row, exponent - fit.exponent)
                polynomial += scaled[:, None] * np.prod(u**powers, axis=2)
            rows = matrix * self.weights_ * polynomial
            lost = ~(np.abs(rows.sum(axis=1) - 1.0) <= _DIGITS)  # powers of u that cancel
        places = np.flatnonzero((lost | fit.direct) & ~fit.undefined)
        if len(places):
            prepared = self._kept_sum(with_responses=False)
            rows[places] = orthogonal_weights(prepared, queries[places], self.degree)
        rows[fit.undefined] = np.nan
        return np.asarray(rows)

    def fit_at(self, queries: FloatArray) -> FloatArray:
        """Return f̂ at checked queries, in the shape of the responses."""
        return self._estimate(self._kept_sum(), queries)

    def smooth(self, queries: FloatArray, responses: FloatArray) -> FloatArray:
        """Return the fit of other responses, ``(n, k)`` to ``(m, k)``, at checked queries."""
        fits = LocalFits(self._sum_of(responses), self.degree)
        return fits.values(fits.at(queries))

    def hat_diagonal(self) -> FloatArray:
        """Return H_ii = w_i K(0) (S^-1)_00, S the matrix of moments at x_i, shape ``(n,)``."""
        check_is_fitted(self)
        fit = self._fits(with_responses=False).at(self.points_)
        self._report(fit)
        leverage = np.ldexp(self._own_terms(), -fit.exponent) * fit.row[0]
        return np.where(fit.undefined, np.nan, leverage)

    def leave_one_out(self) -> FloatArray:
        """Return f̂ without sample i at each x_i, in closed form; shape ``(n,)`` or ``(n, k)``.

        There u_i = 0: only the sums of degree 0 change. Where they are nearly all the own term, the
        other samples are summed without it, so that it stays exact, unless it has copies. NaN, with
        one warning, where the others leave the fit undefined.
        """
        check_is_fitted(self)
        rows = self.sample_rows()
        if not np.array_equal(rows.left, self.weights_):
            return super().leave_one_out()  # copies stay, or leave together
        tell_copies(self, rows)
        fits = self._fits()
        fit = fits.left_out(self._own_terms())
        self._report(fit)
        return fits.values(fit).reshape(self.responses_.shape)

    def design_fit(self) -> DesignFit:
        """Return the fit at distinct design points, by one set of sums."""
        check_is_fitted(self)
        rows = self.sample_rows()
        first, weights = rows.distinct
        return self._fit_design()(
            self.points_[first],
            weights,
            self._columns()[first],
            self.kernel_,
            self.radius_,
            weighting=rows.meaning,
        )

    def squared_weight_sums(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Σ_j W_j(x)² σ_j² at checked queries, shape ``(m,)``.

        The squares are a polynomial of twice the degree times the squared kernel, which is a kernel
        again: a quadratic form of its moments. Where its terms cancel, as far out, and on a circle,
        where the squares have cross terms, from the weights themselves.
        """
        if self._on_circle:
            return super().squared_weight_sums(queries, variances)
        kernel, factor = self.kernel_.squared
        squares = SampleSum(
            self.points_,
            kernel=kernel,
            radius=factor * self.radius_,
            weights=np.square(self.weights_),
            responses=variances[:, None],
            method=self.method,
            tol=self.tol,
        )
        plain, squared = self._fits(with_responses=False), LocalFits(squares, self.degree)
        blocks, step = [], squared.rows_at_once()
        for rows in (queries[i : i + step] for i in range(0, len(queries), step)):
            fit = plain.at(rows)
            total = np.maximum(squared.quadratic(rows, fit, factor), 0.0)
            lost = np.flatnonzero(np.isnan(total) & ~fit.undefined)
            if len(lost):
                total[lost] = super().squared_weight_sums(rows[lost], variances)
            blocks.append(np.where(fit.undefined, np.nan, total))
        return np.concatenate(blocks)

    def undersmoothed(self, factor: float) -> "LocalPolynomial":
        """Return the regression fitted with `factor` times the radius."""
        other = clone(self).set_params(bandwidth=None, radius=factor * self.radius_)
        fitted: LocalPolynomial = other.fit(self.points_, self.responses_, self.weights_)
        return fitted

    def smoothed_variances(self, squares: FloatArray) -> FloatArray:
        """Smooth squared residuals by the squared kernel, never negative, at half the radius."""
        kernel, factor = self.kernel_.squared
        radius = 0.5 * factor * self.radius_
        other = NadarayaWatson(
            kernel,
            radius=radius,
            method=self.method,
            tol=self.tol,
            weighting=self.weighting,
            period=self.period,
        )
        other.fit(self.points_, squares, self.weights_)
        return np.maximum(other.fit_at(self.points_), 0.0)

    def derivative(self, X: ArrayLike, *, of: str = "fit") -> FloatArray:
        """Return ∂f̂/∂x_d at queries ``(m, dim)``; shape ``(m, dim)`` or ``(m, k, dim)``.

        Parameters
        ----------
        X : array of shape (m, dim)
        of : {"fit", "polynomial"}
            "fit" differentiates x -> f̂(x) itself, as :meth:`NadarayaWatson.derivative` does, so
            that it is the slope of the curve that `predict` draws. "polynomial" is the slope at x
            of the polynomial fitted around x, the usual estimate of f' (degree at least 1): it
            is the weighted least squares coefficient, and what statsmodels returns as marginal
            effects. Both are exact on polynomials of the degree, and differ elsewhere.

        Raises
        ------
        ValueError
            If `of` is unknown, or "polynomial" with degree 0, which has no slope.
        """
        queries = self.check_queries(X)
        check_choice("of", of, ["fit", "polynomial"])
        if of == "polynomial" and self.degree == 0:
            raise ValueError("degree must be at least 1 for of='polynomial', got 0")
        fits = self._fits()
        fit = fits.at(queries) if of == "polynomial" else fits.known_slopes(fits.at(queries))
        self._report(fit)
        columns = [
            fits.slope_of_polynomial(fit, d)
            if of == "polynomial"
            else fits.slope_of_fit(queries, fit, d)
            for d in range(len(self.radius_))
        ]
        slopes = np.stack(columns, axis=-1)  # (m, k, dim)
        return slopes.reshape(-1, *self.responses_.shape[1:], len(columns))

    def _compute_fit(self, X: FloatArray, sample_weight: ArrayLike | None) -> None:
        super()._compute_fit(X, sample_weight)
        coefficients, used = len(self._powers), int((self.weights_ > 0).sum())
        if coefficients > used:
            raise ValueError(
                f"degree must leave no more coefficients than samples: degree {self.degree} in "
                f"{X.shape[1]} dimensions has {coefficients}, got {used} samples of positive weight"
            )
        self.plan_ = self._kept_sum().plan_moments(X, 2 * self.degree)

    def _fit_design(self) -> FitRows:
        return local_polynomial_design(self.degree, self.periods_)

    @property
    def _powers(self) -> list[tuple[int, ...]]:
        return multi_indices(len(self.radius_), self.degree)

    def _summed(self) -> FloatArray:
        return self.responses_

    def _estimate(self, prepared: SampleSum, queries: FloatArray) -> FloatArray:
        fits = LocalFits(prepared, self.degree)
        fit = fits.at(queries)
        self._report(fit)
        values = fits.values(fit)
        return values[:, 0] if self.responses_.ndim == 1 else values

    def _fits(self, *, with_responses: bool = True) -> LocalFits:
        return LocalFits(self._kept_sum(with_responses=with_responses), self.degree)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _report(self, fit: LocalFit) -> None:
        report_undefined(fit.undefined, _WHY, option=self.undefined)


def check_degree(degree: int) -> int:
    """Return the degree of a local polynomial, from 0 to 3."""
    value = check_integer("degree", degree, least=0)
    if value > _LARGEST_DEGREE:
        raise ValueError(f"degree must be at most {_LARGEST_DEGREE}, got {degree}")
    return value
