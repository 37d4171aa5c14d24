"""Regression on numbers and categories together."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.checks import report_undefined, unchanged_on_failure, warn_of_copies
from fourierkernels.estimators.design import DesignFit, aicc_score, gcv_score, loo_score
from fourierkernels.estimators.mixed.base import MixedEstimator, check_estimator
from fourierkernels.estimators.mixed.choice import MixedDesign, search
from fourierkernels.estimators.radius import Rule
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums import kernel_matrix

_SCORES = {"loo": loo_score, "gcv": gcv_score, "aicc": aicc_score}
_WHY = (
    "have a denominator within its own numerical error of zero; the regression is undefined there"
)


class MixedRegression(MixedEstimator, LinearSmoother):  # type: ignore[override]
    """Regression f̂(x, z) = Σ_i w_i y_i L(z, z_i) K_R(x - x_i) / Σ_i w_i L(z, z_i) K_R(x - x_i).

    Of numbers x and categories z: L is a product of kernels on levels, that of Aitchison and
    Aitken for unordered and that of Wang and van Ryzin for ordered ones, each with a smoothing λ.
    With λ = 0 each combination of levels has a regression of its own, with the largest λ of an
    unordered column the column does not matter. Source: [racine2004nonparametric]_.

    Parameters
    ----------
    estimator : NadarayaWatson, optional
        Kernel, radius, method, accuracy, bounds and periods of the numbers, and what weights mean.
        As there, radius and smoothing are chosen without regard to bounds. The rules
        "gcv" (the default), "loo" and "aicc" choose radius and smoothing together; with a number or
        another rule for the radius, "gcv" chooses the smoothing.
    unordered : sequence of str or int, optional
        Columns of categories: names of a data frame's columns, or places.
    ordered : sequence of str or int, or mapping of these to levels in order, optional
        Columns of ordered categories: numbers, whose differences count; ordered categoricals of
        pandas, or levels in the order given, whose ranks do. If neither is given, columns of a
        data frame that are no numbers are categories, ordered ones as pandas has them.
    smoothing : float or array of shape (k,), optional
        λ per column of categories, in their order in X, instead of a choice.

    Attributes
    ----------
    kernel_, radius_, smoothing_ : Kernel, arrays of shape (dim,) and (k,)
    categories_ : tuple of Category
        The columns of categories with their levels.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> x = np.linspace(0, 3, 300)
    >>> frame = pd.DataFrame({"x": x, "sex": ["f", "m", "m"] * 100})
    >>> y = np.sin(x) + (frame["sex"] == "f")
    >>> model = MixedRegression().fit(frame, y)
    >>> model.predict(pd.DataFrame({"x": [1.5, 1.5], "sex": ["f", "m"]})).round(2)
    array([2., 1.])
    >>> model.given({"sex": "m"}).predict(pd.DataFrame({"x": [1.5]})).round(2)
    array([1.])
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples; choose radius and smoothing unless they are given.

        Parameters
        ----------
        X : data frame or array of shape (n, columns)
        y : array of shape (n,) or (n, k)
        sample_weight : array of shape (n,), optional

        Raises
        ------
        ValueError, TypeError
            As :meth:`NadarayaWatson.fit`; for columns that are not there, ordered levels whose
            order is not known, categories alone, or an estimator of another kind.
        """
        check_estimator(self._plain, NadarayaWatson)
        with unchanged_on_failure(self):
            points, responses = self._encoded(X, y=y, multi_output=True, y_numeric=True)
            self.responses_ = np.asarray(responses, dtype=np.float64)
            chosen = self._prepare(points, sample_weight)
            self.radius_, self.smoothing_ = self._choose(chosen)
        return self

    def weight_rows(self, queries: FloatArray) -> FloatArray:
        """Return the weights of all samples at checked queries, ``(m, n)``; rows sum to one."""
        sums = self._sums(queries, self._no_responses)
        self._report(sums.undefined)
        points, weights, source = self._images(self.weights_, self.kernel_, self.radius_)
        matrix, _, exponent = kernel_matrix(
            points,
            self._numbers(queries),
            kernel=self.kernel_,
            radius=self.radius_,
            periods=self.periods_,
        )
        place, factors = self._factors(queries)
        with np.errstate(divide="ignore"):
            scale = np.ldexp(1.0 / sums.denominator, exponent - sums.exponent)
        scale[sums.undefined] = np.nan
        each = matrix * factors[place][:, self._cells.place[source]] * weights * scale[:, None]
        each = each.reshape(len(queries), -1, len(self.points_))
        return np.asarray(each.sum(axis=1))  # an image counts for its sample

    def fit_at(self, queries: FloatArray) -> FloatArray:
        """Return f̂ at checked queries, in the shape of the responses."""
        sums = self._sums(queries, self._columns())
        self._report(sums.undefined)
        return sums.ratios().reshape(-1, *self.responses_.shape[1:])

    def smooth(self, queries: FloatArray, responses: FloatArray) -> FloatArray:
        """Return the fit of other responses, ``(n, k)`` to ``(m, k)``, at checked queries."""
        sums = self._cell_sums(self.weights_, responses, self.kernel_, self.radius_)
        return self._at(sums, queries).ratios()

    def hat_diagonal(self) -> FloatArray:
        """Return H_ii, the leverages, shape ``(n,)``."""
        sums = self._sums(self.points_, self._no_responses)
        self._report(sums.undefined)
        with np.errstate(divide="ignore", invalid="ignore"):
            leverage = np.ldexp(self._own_terms(), -sums.exponent) / sums.denominator
        return np.where(sums.undefined, np.nan, leverage)

    def squared_weight_sums(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Σ_j W_j(x)² σ_j² at checked queries, by a sum of the squared kernels; ``(m,)``.

        The squares of images, on a circle or in bounds, have cross terms: then from the weights.
        """
        if np.isfinite(self.periods_).any() or self._bounded:
            return super().squared_weight_sums(queries, variances)
        kernel, factor = self.kernel_.squared
        place, factors = self._factors(queries)
        sums = self._cell_sums(
            np.square(self.weights_), variances[:, None], kernel, factor * self.radius_
        )
        squared = sums.at(self._numbers(queries), place, np.square(factors))
        plain = self._sums(queries, self._no_responses)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = squared.numerator[:, 0] / np.square(plain.denominator)
            total = np.ldexp(ratio, squared.exponent - 2 * plain.exponent)
        return np.where(plain.undefined, np.nan, np.maximum(total, 0.0))

    def design_fit(self) -> DesignFit:
        """Return the fit at the design points, one for each distinct row, which scores take."""
        if self._bounded:
            return super().design_fit()
        rows = self.sample_rows()
        first, weights = rows.distinct
        sample, columns = self._sample(first, weights), self._columns()[first]
        design = MixedDesign(sample, columns, self.kernel_, rows.meaning)
        return design(self.radius_, self.smoothing_)

    def undersmoothed(self, factor: float) -> "MixedRegression":
        """Return the regression with `factor` times the radius, and the same smoothing."""
        other: MixedRegression = self._with(radius_=factor * self.radius_)
        return other

    def smoothed_variances(self, squares: FloatArray) -> FloatArray:
        """Smooth squared residuals by the squared kernel, never negative, at half the radius."""
        kernel, factor = self.kernel_.squared
        other = self._with(
            kernel_=kernel, radius_=0.5 * factor * self.radius_, responses_=np.asarray(squares)
        )
        return np.asarray(np.maximum(other.fit_at(self.points_), 0.0))

    def _choose(self, chosen: FloatArray | Rule) -> tuple[FloatArray, FloatArray]:
        """Return radius and smoothing: given, by a rule, or both by cross-validation."""
        rule = chosen.name if isinstance(chosen, Rule) else None
        if rule is not None and self._plain.radius is None:
            rule = "gcv"
        rows = self.sample_rows()
        first, weights = rows.distinct
        sample, radius = self._sample(first, weights), None
        if rule is None:
            radius = np.asarray(chosen)
        else:
            warn_of_copies(rows, self.weighting, rule)
            if rule not in _SCORES and isinstance(chosen, Rule):
                radius = chosen(sample.points, weights, self.kernel_, periods=self.periods_)
        if radius is not None and (self._given is not None or not self.categories_):
            return radius, np.zeros(0) if self._given is None else self._given
        columns = self._columns()[first]
        scale = max(float(np.abs(columns).max()), np.finfo(float).tiny)
        score, start = _SCORES[rule if rule in _SCORES else "gcv"], radius
        if start is None:
            start = sample.reference(self.kernel_)

        design = MixedDesign(sample, columns / scale, self.kernel_, rows.meaning)

        def value(radius: FloatArray, smoothing: FloatArray) -> float:
            return score(design(radius, smoothing))

        return search(value, start, sample.largest, radius=radius, smoothing=self._given)

    def _slice(self, codes: FloatArray) -> NadarayaWatson:
        weights = self._weights_at(codes)
        return self._slice_of(self._plain).fit(self._named, self.responses_, weights)

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite(self.bounds_).any())

    @property
    def _row_length(self) -> int:
        ends = np.isfinite(self.bounds_).sum(axis=0)
        return len(self.points_) * int(np.prod(1 + ends))

    @property
    def _plain(self) -> NadarayaWatson:
        return NadarayaWatson() if self.estimator is None else self.estimator

    @property
    def _no_responses(self) -> FloatArray:
        return np.zeros((len(self.points_), 0))

    def _report(self, undefined: Any) -> None:
        report_undefined(undefined, _WHY, option=self._plain.undefined)
