"""Nadaraya-Watson regression."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.base import StreamingEstimator
from fourierkernels.estimators.boxes import Bounds, Period
from fourierkernels.estimators.checks import (
    report_undefined,
    tell_copies,
    unchanged_on_failure,
    validated,
)
from fourierkernels.estimators.design import DesignFit
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.estimators.streams.choice import as_source, stream_of
from fourierkernels.estimators.streams.fitting import may_go_on
from fourierkernels.estimators.weights import REGRESSION_WEIGHTINGS
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice
from fourierkernels.kernels import Kernel
from fourierkernels.sums import KernelSums, SampleSum
from fourierkernels.sums.factors import shape_matrix

_WHY = (
    "have a denominator within its own numerical error of zero (far from the data, or between "
    "the signs of an odd power) or lie out of bounds; the regression is undefined there"
)


class NadarayaWatson(LinearSmoother, StreamingEstimator):
    """Regression f̂(x) = Σ_i w_i y_i K_R(x - x_i) / Σ_i w_i K_R(x - x_i).

    A scikit-learn estimator. With a matrix R the kernel is ∏_d K((R (x - x_i))_d). Where the
    denominator is within its own numerical error of zero the answer is NaN, with one warning that
    counts the queries. Sources: [nadaraya1964estimating]_, [watson1964smooth]_;
    [nguyen2022fourierformer]_ eq. 14 for the Fourier kernels.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim,) or (dim, dim) or str, optional
        R = 1/bandwidth, or a rule of `fourierkernels.estimators.radius`: "loo" (leave-one-out),
        "gcv" and "aicc" look at the responses; by default the density rule for the design points.
    bandwidth : float or array of shape (dim,) or (dim, dim), optional
        1/R, or the inverse of the matrix, instead of `radius`.
    method : {"auto", "direct", "direct_float32", "bandlimited", "split", "reference", "torch"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.
    bounds : sequence of (low, high) or None per dimension, optional
        Where the design lives, None for an end that is open. Samples are reflected there, with
        their responses; queries outside are undefined.
    undefined : {"nan", "raise"}
        What to do at undefined queries.
    device : {"cpu", "cuda", "cuda:<index>"}
        Where sums run: "cuda" uses the operator of Fourier attention in double precision.
        Derivatives need the CPU.
    weighting : {"frequency", "precision", "importance"}
        What `sample_weight` means: "frequency", copies of a row, scikit-learn's contract;
        "precision", 1/variance of its response up to a factor, as of a mean of w measurements;
        "importance", of which only ratios matter, the noise being the same for all. Estimates with
        a given radius do not depend on it; rules, leave-one-out and limits do, and count distinct
        rows: see `fourierkernels.estimators.weights`.
    within : sequence of (low, high) per dimension, optional
        A range that contains all samples and queries of a stream: with a radius given too, one
        reading is enough. Not a bound of the design.
    period : float or sequence of float or None per dimension, optional
        Of dimensions that are circles, None for a line: the kernel is the sum over its images a
        period apart (`fourierkernels.kernels.PeriodicKernel`). Data of any period are wrapped into
        one.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim,) or (dim, dim)
        The kernel and the radius in use.
    plan_ : Plan
        Method, estimated seconds and promised accuracy for as many queries as samples.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 200).reshape(-1, 1)
    >>> model = NadarayaWatson("fourier4", radius=6.0).fit(x, np.sin(x[:, 0]))
    >>> print(f"{model.predict([[1.0]])[0]:.3f}")  # sin(1) = 0.841
    0.833
    """

    _takes_matrices = True
    _weightings = REGRESSION_WEIGHTINGS

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        bounds: Bounds | None = None,
        undefined: str = "nan",
        device: str = "cpu",
        weighting: str = "frequency",
        within: Bounds | None = None,
        period: Period = None,
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            bounds=bounds,
            device=device,
            weighting=weighting,
            within=within,
            period=period,
        )
        self.undefined = undefined

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Keep the samples and choose the radius.

        Of a stream, in at most three dimensions, only the modes of the samples are kept, in memory
        O(modes) and a block. Sums are as accurate as those of an array, relative to the largest;
        where the denominator is small, the fit has fewer digits, and where it is within its error
        it is NaN. What needs the samples (weights, leverages, leave-one-out, intervals) is refused.

        Parameters
        ----------
        X : array of shape (n, dim), or a stream
            A stream is an iterable of blocks (X, y) or (X, y, weights), the path of a ``.npy``
            file, a memory map of at least 2^27 numbers (1 GiB), a Dask array, or what
            :func:`fourierkernels.estimators.samples_from` returns. Unless `radius` and `within` are
            given it must be possible to read it again.
        y : array of shape (n,) or (n, k)
            Like X on disk or in Dask if that is; None beside blocks.
        sample_weight : array of shape (n,), optional
            Counts, precisions or importances, see `weighting`; 1 each by default. Likewise.

        Raises
        ------
        ValueError
            For data that is empty, not finite or of different lengths, weights that are negative,
            a radius or bandwidth that is not positive, an unknown kernel, rule or method.
        """
        check_choice("undefined", self.undefined, ["nan", "raise"])
        source = as_source(X, y, sample_weight)
        if source is not None:
            return self._fit_stream(source)
        with unchanged_on_failure(self):
            points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
            columns = np.asarray(responses, dtype=np.float64)
            return self._fit_points(points, sample_weight, responses_=columns)

    @available_if(may_go_on)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add samples to a fit to a stream; `radius` and `within` must be given.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, arrays too.

        Raises
        ------
        ValueError
            As `fit`; for samples beyond the range, and parameters that have changed meanwhile.
        """
        check_choice("undefined", self.undefined, ["nan", "raise"])
        return self._fit_stream(stream_of(X, y, sample_weight), more=True)

    def weight_rows(self, queries: FloatArray) -> FloatArray:
        """Return the weights of all samples at checked queries, ``(m, n)``; rows sum to one."""
        sums = self._bounded(self._kept_sum(with_responses=False).at(queries), queries)
        self._report(sums)
        points, weights, source = self._images
        factors = self._factors_at(source)
        matrix, exponent = shape_matrix(
            self._frame, points, queries, kernel=self.kernel_, factors=factors
        )
        with np.errstate(divide="ignore"):
            scale = np.ldexp(1.0 / sums.denominator, exponent - sums.exponent)
        scale[sums.undefined] = np.nan
        each = (matrix * weights * scale[:, None]).reshape(len(queries), -1, len(self.points_))
        return np.asarray(each.sum(axis=1))  # an image counts for its sample

    def fit_at(self, queries: FloatArray) -> FloatArray:
        """Return f̂ at checked queries, in the shape of the responses."""
        return self._estimate(self._kept_sum(), queries)

    def smooth(self, queries: FloatArray, responses: FloatArray) -> FloatArray:
        """Return the fit of other responses, ``(n, k)`` to ``(m, k)``, at checked queries."""
        sums = self._sum_of(responses).at(queries)
        return self._bounded(sums, queries).ratios()

    def hat_diagonal(self) -> FloatArray:
        """Return H_ii = w_i K(0) / Σ_j w_j K(x_i - x_j), the leverages, shape ``(n,)``."""
        check_is_fitted(self)
        sums = self._kept_sum(with_responses=False).at(self.points_)
        self._report(sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            leverage = np.ldexp(self._own_terms(), -sums.exponent) / sums.denominator
        return np.where(sums.undefined, np.nan, leverage)

    def leave_one_out(self) -> FloatArray:
        """Return f̂ without sample i at each x_i, in closed form; shape ``(n,)`` or ``(n, k)``.

        (f̂(x_i) - H_ii y_i) / (1 - H_ii), written with sums; where H_ii is near 1, the other
        samples are summed without sample i, so that it stays exact. Its copies are left out too,
        with a warning (`fourierkernels.estimators.weights`). NaN, with one warning, where the
        others leave the fit undefined.
        """
        check_is_fitted(self)
        rows = self.sample_rows()
        tell_copies(self, rows)
        sums = self._sums_without_own(rows)
        self._report(sums)
        return sums.ratios().reshape(self.responses_.shape)

    def design_fit(self) -> DesignFit:
        """Return the fit at distinct design points, by one sum if there are no bounds."""
        check_is_fitted(self)
        if len(self._images.points) > len(self.points_):
            return super().design_fit()
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

        By a sum of the squared kernel, which is a kernel again: sinc^{2l} at the same radius, a
        Gaussian at √2 R. With images of a sample, or on a circle, the squares have cross terms:
        then from the weights themselves.
        """
        if len(self._images.points) > len(self.points_) or self._on_circle:
            return super().squared_weight_sums(queries, variances)
        kernel, factor = self.kernel_.squared
        squared = SampleSum(
            self.points_,
            kernel=kernel,
            radius=factor * self.radius_,
            weights=np.square(self.weights_),
            responses=variances[:, None],
            method=self.method,
            tol=self.tol,
        ).at(queries)
        plain = self._kept_sum(with_responses=False).at(queries)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = squared.numerator[:, 0] / np.square(plain.denominator)
            total = np.ldexp(ratio, squared.exponent - 2 * plain.exponent)
        return np.where(plain.undefined, np.nan, np.maximum(total, 0.0))

    def adjoint(self, columns: FloatArray) -> FloatArray:
        """Return Hᵀ c of columns ``(n, k)``: w_j Σ_i K(x_j - x_i) c_i / D(x_i), D the denominator.

        A sum at the samples; with images of a sample, from the weights themselves.
        """
        if len(self._images.points) > len(self.points_):
            return super().adjoint(columns)
        plain, used = self._kept_sum(with_responses=False).at(self.points_), self.weights_ > 0
        share = np.where(plain.undefined & used, np.nan, 0.0)
        known = used & ~plain.undefined
        share[known] = np.ldexp(1.0 / plain.denominator[known], -plain.exponent[known])
        sums = SampleSum(
            self.points_,
            kernel=self.kernel_,
            radius=self.radius_,
            weights=np.ones(len(used)),
            responses=columns * share[:, None],
            method=self.method,
            tol=self.tol,
            periods=self.periods_,
        ).at(self.points_)
        return self.weights_[:, None] * np.ldexp(sums.numerator, sums.exponent[:, None])

    def undersmoothed(self, factor: float) -> "NadarayaWatson":
        """Return the regression fitted with `factor` times the radius."""
        return self._refitted(self.responses_, radius=factor * self.radius_)

    def smoothed_variances(self, squares: FloatArray) -> FloatArray:
        """Smooth squared residuals by the squared kernel, never negative, at half the radius."""
        kernel, factor = self.kernel_.squared
        other = self._refitted(squares, kernel=kernel, radius=0.5 * factor * self.radius_)
        return np.maximum(other.fit_at(self.points_), 0.0)

    def derivative(self, X: ArrayLike) -> FloatArray:
        """Return ∂f̂/∂x_d at queries ``(m, dim)``; shape ``(m, dim)`` or ``(m, k, dim)``.

        (N' - f̂ D') / D of the numerator and the denominator of f̂; NaN where f̂ is undefined.
        """
        queries = self.check_queries(X)
        value, slopes = self._kept_sum().with_slopes(queries)
        value = self._bounded(value, queries)
        self._report(value)
        fit, columns, frame = value.ratios_in_units(), [], self._frame
        fit[value.undefined] = np.nan
        for slope, radius in zip(slopes, frame.radius, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                gap = slope.in_units - fit * slope.denominator[:, None]
                scale = np.ldexp(radius / value.denominator, slope.exponent - value.exponent)
                columns.append(value.units.scale * gap * scale[:, None])
        gradient = frame.gradient(np.stack(columns, axis=-1))
        return gradient.reshape(-1, *self._outputs, len(slopes))

    def _refitted(self, responses: FloatArray, **changed: object) -> "NadarayaWatson":
        other = clone(self).set_params(bandwidth=None, **changed)
        fitted: NadarayaWatson = other.fit(self.points_, responses, self.weights_)
        return fitted

    @property
    def _row_length(self) -> int:
        return len(self._images.points)

    def _summed(self) -> FloatArray:
        return self.responses_

    @property
    def _outputs(self) -> tuple[int, ...]:
        """Shape of one response."""
        return (self.modes_.outputs or ()) if self._streamed else self.responses_.shape[1:]

    def _estimate(self, prepared: SampleSum, queries: FloatArray) -> FloatArray:
        sums = self._bounded(prepared.at(queries), queries)
        self._report(sums)
        ratios = sums.ratios()
        return ratios if self._outputs else ratios[:, 0]

    def _bounded(self, sums: KernelSums, queries: FloatArray) -> KernelSums:
        """Return the sums with no weight out of bounds, which leaves those queries undefined."""
        inside = self._inside(queries)
        return sums if inside.all() else replace(sums, denominator=sums.denominator * inside)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _report(self, sums: KernelSums) -> None:
        report_undefined(sums.undefined, _WHY, option=self.undefined)
