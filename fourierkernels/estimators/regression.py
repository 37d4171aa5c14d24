"""Nadaraya-Watson regression."""

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.base import (
    StreamingEstimator,
    UndefinedWarning,
    count_undefined,
    validated,
)
from fourierkernels.estimators.boundary import Bounds
from fourierkernels.estimators.inference import Band, band, interval
from fourierkernels.kernels import Kernel
from fourierkernels.sums import KernelSums, PreparedSum, kernel_matrix
from fourierkernels.validation import check_choice

_WHY = (
    "have a denominator within its own numerical error of zero (far from the data, or between "
    "the signs of an odd power) or lie out of bounds; the regression is undefined there"
)


class NadarayaWatson(RegressorMixin, StreamingEstimator):  # type: ignore[misc]
    """Regression f̂(x) = Σ_i w_i y_i K_R(x - x_i) / Σ_i w_i K_R(x - x_i).

    A scikit-learn estimator. Where the denominator is within its own numerical error of zero the
    answer is NaN, with one warning that counts the queries. Sources: [nadaraya1964estimating]_,
    [watson1964smooth]_; [nguyen2022fourierformer]_ eq. 14 for the Fourier kernels.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim,) or str, optional
        R = 1/bandwidth, or a rule of `fourierkernels.estimators.radius`: "loo" (leave-one-out) and
        "gcv" look at the responses; by default the density rule for the design points.
    bandwidth : float or array of shape (dim,), optional
        1/R, instead of `radius`.
    method : {"auto", "direct", "direct_float32", "bandlimited", "reference", "torch"}
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

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim,)
        What is in use.
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
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            bounds=bounds,
            device=device,
        )
        self.undefined = undefined

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, k)
        sample_weight : array of shape (n,), optional

        Raises
        ------
        ValueError
            For data that is empty, not finite or of different lengths, weights that are negative,
            a radius or bandwidth that is not positive, an unknown kernel, rule or method.
        """
        check_choice("undefined", self.undefined, ["nan", "raise"])
        points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
        self.responses_ = np.asarray(responses, dtype=np.float64)
        return self._fit_points(points, sample_weight)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return f̂ at queries of shape ``(m, dim)``; shape ``(m,)`` or ``(m, k)`` as y had."""
        queries = self._queries(X)
        return self._estimate(self._prepared(self.responses_), queries)

    def weights(self, X: ArrayLike) -> FloatArray:
        """Return the weight (hat) matrix at queries: shape ``(m, n)``, rows sum to one.

        ``weights(X) @ y`` equals ``predict(X)``; rows are NaN where the prediction is.
        """
        return self._hat_matrix(self._queries(X))

    def _hat_matrix(self, queries: FloatArray) -> FloatArray:
        sums = self._bounded(self._prepared().at(queries), queries)
        self._report(sums)
        points, weights, _ = self._images
        matrix, _, exponent = kernel_matrix(
            points, queries, kernel=self.kernel_, radius=self.radius_
        )
        with np.errstate(divide="ignore"):
            scale = np.ldexp(1.0 / sums.denominator, exponent - sums.exponent)
        scale[sums.undefined] = np.nan
        each = (matrix * weights * scale[:, None]).reshape(len(queries), -1, len(self.points_))
        return np.asarray(each.sum(axis=1))  # an image counts for its sample

    def hat_diagonal(self) -> FloatArray:
        """Return H_ii = w_i K(0) / Σ_j w_j K(x_i - x_j), the leverages, shape ``(n,)``."""
        check_is_fitted(self)
        sums = self._prepared().at(self.points_)
        self._report(sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.ldexp(self._own_terms(), -sums.exponent) / sums.denominator
        return np.where(sums.undefined, np.nan, own)

    def leave_one_out(self) -> FloatArray:
        """Return f̂ without sample i at each x_i, in closed form; shape ``(n,)`` or ``(n, k)``.

        (f̂(x_i) - H_ii y_i) / (1 - H_ii), written with sums so that it stays exact where H_ii is
        near 1. NaN, with one warning, where the other samples leave the fit undefined.
        """
        check_is_fitted(self)
        columns = self.responses_.reshape(len(self.points_), -1)
        prepared = self._prepared(columns)
        sums = prepared.left_out(self.points_, self._own_terms(), columns)
        self._report(sums)
        return sums.ratios().reshape(self.responses_.shape)

    def derivative(self, X: ArrayLike) -> FloatArray:
        """Return ∂f̂/∂x_d at queries ``(m, dim)``; shape ``(m, dim)`` or ``(m, k, dim)``.

        (N' - f̂ D') / D of the numerator and the denominator of f̂; NaN where f̂ is undefined.
        """
        queries = self._queries(X)
        value, slopes = self._prepared(self.responses_).with_slopes(queries)
        value = self._bounded(value, queries)
        self._report(value)
        fit, columns = value.ratios(), []
        for slope, radius in zip(slopes, self.radius_, strict=True):
            gap = slope.numerator - fit * slope.denominator[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = np.ldexp(radius / value.denominator, slope.exponent - value.exponent)
                columns.append(gap * scale[:, None])
        return np.stack(columns, axis=-1).reshape(-1, *self.responses_.shape[1:], len(slopes))

    def interval(
        self, X: ArrayLike, *, level: float = 0.95, noise: str = "constant", undersmooth: float = 1
    ) -> Band:
        """Return pointwise confidence intervals; see `fourierkernels.estimators.inference`."""
        check_is_fitted(self)
        return interval(self, X, level=level, noise=noise, undersmooth=undersmooth)

    def band(
        self,
        X: ArrayLike,
        *,
        rng: np.random.Generator,
        level: float = 0.95,
        noise: str = "constant",
        undersmooth: float = 1,
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
            replicates=replicates,
            rng=rng,
        )

    def _summed(self) -> FloatArray:
        return self.responses_

    def _estimate(self, prepared: PreparedSum, queries: FloatArray) -> FloatArray:
        sums = self._bounded(prepared.at(queries), queries)
        self._report(sums)
        ratios = sums.ratios()
        return ratios[:, 0] if self.responses_.ndim == 1 else ratios

    def _bounded(self, sums: KernelSums, queries: FloatArray) -> KernelSums:
        """Return the sums with no weight out of bounds, which leaves those queries undefined."""
        inside = self._inside(queries)
        return sums if inside.all() else replace(sums, denominator=sums.denominator * inside)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _report(self, sums: KernelSums) -> None:
        if not sums.undefined.any():
            return
        message = count_undefined(sums.undefined, _WHY)
        if self.undefined == "raise":
            raise ValueError(f"X must lie where the regression is defined: {message}")
        warnings.warn(f"{message}: NaN", UndefinedWarning, stacklevel=4)
