"""Base class of linear smoothers f̂(x) = Σ_j W_j(x) y_j; all else follows from the weights.

A smoother is one method, :meth:`LinearSmoother.weight_rows`. Predictions, leverages, leave-one-out,
cross-validation scores, confidence intervals and bands follow; a smoother that computes one of them
faster than through its weights overrides that method.
"""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.checks import (
    checked_queries,
    tell_copies,
    unchanged_on_failure,
    validated,
)
from fourierkernels.estimators.design import DesignFit, design_fit_of
from fourierkernels.estimators.inference import Band, Linear, Twicing, band, check_order, interval
from fourierkernels.estimators.weights import SampleRows, fitted_weights, whole_rows
from fourierkernels.foundation.arrays import FloatArray

_BLOCK = 2**22  # entries of the weight matrix held at once


class LinearSmoother(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of regressions that are linear in the responses; a scikit-learn estimator.

    Methods that take `X` check it. Those that take `queries` expect contiguous float64 arrays of
    shape ``(m, dim)`` that are checked already, and responses of shape ``(n, k)``. Weights and
    fits are NaN at queries where the regression is undefined.

    Attributes
    ----------
    points_, responses_, weights_ : arrays of shape (n, dim), (n,) or (n, k), and (n,)
        The samples, with weights as given or scaled.
    weighting : {"frequency", "precision", "importance"}
        What sample weights mean, see `fourierkernels.estimators.weights`; an attribute of the
        class unless a subclass makes it a parameter.

    Examples
    --------
    >>> class RunningMean(LinearSmoother):
    ...     def weight_rows(self, queries):
    ...         near = np.abs(queries - self.points_[:, 0]) <= 1.0
    ...         return near / near.sum(axis=1, keepdims=True)
    >>> model = RunningMean().fit([[0.0], [1.0], [2.0]], [0.0, 3.0, 3.0])
    >>> model.predict([[0.0], [1.0]])
    array([1.5, 2. ])
    >>> model.leave_one_out()
    array([3. , 1.5, 3. ])
    """

    points_: FloatArray
    responses_: FloatArray
    weights_: FloatArray
    weighting: str = "frequency"

    @abstractmethod
    def weight_rows(self, queries: FloatArray) -> FloatArray:
        """Return the weights W_j(x) of all samples at each query, shape ``(m, n)``."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, k)
        sample_weight : array of shape (n,), optional
            What they mean is said by `weighting`; 1 each by default.
        """
        with unchanged_on_failure(self):
            points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
            self.weights_ = fitted_weights(sample_weight, len(points), self.weighting)
        self.points_, self.responses_ = points, np.asarray(responses, dtype=np.float64)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return f̂ at queries of shape ``(m, dim)``; shape ``(m,)`` or ``(m, k)`` as y had."""
        return self.fit_at(self.check_queries(X))

    def weights(self, X: ArrayLike) -> FloatArray:
        """Return the weight (hat) matrix at queries: shape ``(m, n)``.

        ``weights(X) @ y`` equals ``predict(X)``; rows are NaN where the prediction is.
        """
        return self.weight_rows(self.check_queries(X))

    def leave_one_out(self) -> FloatArray:
        """Return f̂ without sample i at each x_i, (f̂(x_i) - H_ii y_i) / (1 - H_ii).

        Shape ``(n,)`` or ``(n, k)``; NaN where the fit is undefined without the sample. This holds
        for all smoothers whose weights, renormalised, are those of the fit without a sample. All
        copies of a row are left out, with their joint H_ii and a warning; of rows that coincide
        otherwise, one (`fourierkernels.estimators.weights`).
        """
        check_is_fitted(self)
        rows = self.sample_rows()
        tell_copies(self, rows)
        leverage = rows.left_share * rows.over_copies(self.hat_diagonal())
        leverage = leverage.reshape(-1, *[1] * (self.responses_.ndim - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            left = (self.fit_at(self.points_) - leverage * self.responses_) / (1.0 - leverage)
        return np.where(np.isfinite(left), left, np.nan)

    def sample_rows(self) -> SampleRows:
        """Return how the rows of the sample count, see `fourierkernels.estimators.weights`."""
        rows = whole_rows(self.points_, self._columns())
        return SampleRows.of(rows, self.weights_, self.weighting)

    def interval(
        self,
        X: ArrayLike,
        *,
        level: float = 0.95,
        noise: str = "constant",
        undersmooth: float = 1,
        bias: str = "ignore",
    ) -> Band:
        """Return pointwise confidence intervals; see `fourierkernels.estimators.inference`."""
        check_is_fitted(self)
        return interval(self, X, level=level, noise=noise, undersmooth=undersmooth, bias=bias)

    def band(
        self,
        X: ArrayLike,
        *,
        rng: np.random.Generator,
        level: float = 0.95,
        noise: str = "constant",
        undersmooth: float = 1,
        bias: str = "ignore",
        replicates: int = 500,
    ) -> Band:
        """Return a simultaneous band; see `fourierkernels.estimators.inference`."""
        check_is_fitted(self)
        return band(
            self,
            X,
            level=level,
            noise=noise,
            undersmooth=undersmooth,
            bias=bias,
            replicates=replicates,
            rng=rng,
        )

    def check_queries(self, X: ArrayLike) -> FloatArray:
        """Return checked queries of a fitted smoother, shape ``(m, dim)``."""
        return checked_queries(self, X)

    def fit_at(self, queries: FloatArray) -> FloatArray:
        """Return f̂ of the smoother's own responses, in their shape."""
        fit = self.smooth(queries, self._columns())
        return fit.reshape(-1, *self.responses_.shape[1:])

    def smooth(self, queries: FloatArray, responses: FloatArray) -> FloatArray:
        """Return Σ_j W_j(x) y_j for responses of shape ``(n, k)``; shape ``(m, k)``."""
        return np.concatenate([self.weight_rows(rows) @ responses for rows in self._cut(queries)])

    def hat_diagonal(self) -> FloatArray:
        """Return H_ii = W_i(x_i), the leverages, shape ``(n,)``."""
        check_is_fitted(self)
        blocks, start = [], 0
        for rows in self._cut(self.points_):
            blocks.append(self.weight_rows(rows).diagonal(start))
            start += len(rows)
        return np.concatenate(blocks)

    def squared_weight_sums(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Var f̂ = Σ_j W_j(x)² σ_j² for variances of shape ``(n,)``; shape ``(m,)``."""
        blocks = [np.square(self.weight_rows(rows)) @ variances for rows in self._cut(queries)]
        return np.concatenate(blocks)

    def adjoint(self, columns: FloatArray) -> FloatArray:
        """Return Hᵀ c of columns ``(n, k)``, H the weights at the samples; shape ``(n, k)``.

        Rows of samples without weight are left out: their columns count as zero.
        """
        total, used = np.zeros_like(columns), self.weights_ > 0
        start, given = 0, columns[used]
        for rows in self._cut(self.points_[used]):
            total += self.weight_rows(rows).T @ given[start : start + len(rows)]
            start += len(rows)
        return total

    def bias_corrected(self) -> Linear:
        """Return the fit less an estimate of its bias: the fit plus the smoothed residuals.

        Raises
        ------
        ValueError
            If it has a kernel of infinite order, whose bias has no leading term.
        """
        kernel = getattr(self, "kernel_", None)
        if kernel is not None:
            check_order(kernel)
        return Twicing(self)

    def design_fit(self) -> DesignFit:
        """Return the fit at the design points, one for each distinct row, which scores take."""
        rows = self.sample_rows()
        first, weights = rows.distinct
        columns = self._columns()
        fit = self.fit_at(self.points_).reshape(columns.shape)[first]
        leverage = rows.over_copies(self.hat_diagonal())[first]
        return design_fit_of(fit, leverage, columns[first], weights, weighting=rows.meaning)

    def undersmoothed(self, factor: float) -> "LinearSmoother":
        """Return this smoother fitted with `factor` times the radius.

        Raises
        ------
        ValueError
            If the smoother has no radius, as by default.
        """
        raise ValueError(f"undersmooth must be 1 for {type(self).__name__}, got {factor}")

    def smoothed_variances(self, squares: FloatArray) -> FloatArray:
        """Return the variance of the noise at each sample from squared residuals, ``(n,)`` both.

        Never negative; by default smoothed as the responses are.
        """
        return np.maximum(self.smooth(self.points_, squares[:, None])[:, 0], 0.0)

    @property
    def _row_length(self) -> int:
        """Number of entries that `weight_rows` holds per query while it computes weights."""
        return len(self.points_)

    def _columns(self) -> FloatArray:
        return self.responses_.reshape(len(self.responses_), -1)

    def _cut(self, queries: FloatArray) -> list[FloatArray]:
        rows = max(1, _BLOCK // self._row_length)
        return [queries[i : i + rows] for i in range(0, len(queries), rows)]
