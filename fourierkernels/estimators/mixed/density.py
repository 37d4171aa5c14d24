"""Density of numbers and categories together."""

import itertools
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.checks import (
    count_undefined,
    unchanged_on_failure,
    warn_of_copies,
    warn_undefined,
)
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.mixed.base import MixedEstimator, check_estimator
from fourierkernels.estimators.mixed.categories import cell_weights
from fourierkernels.estimators.mixed.choice import cross_validated
from fourierkernels.estimators.radius import Rule
from fourierkernels.estimators.weights import SampleRows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.parts import check_parts, log_scale

_NO_LOG = "have a negative density estimate; its logarithm is NaN"


class MixedDensity(DensityMixin, MixedEstimator):  # type: ignore[misc]
    """Density p̂(x, z) = Σ_i w_i L(z, z_i) ∏_d R_d K(R_d(x_d - x_id)) / Σ_i w_i.

    Of numbers x and categories z, as :class:`MixedRegression` has them: a density in x, a
    probability in z. It sums to one over the levels of unordered columns, over all integers for
    ordered ones. Source: [li2003nonparametric]_.

    Parameters
    ----------
    estimator : KernelDensity, optional
        Kernel, radius, method, accuracy, bounds and periods of the numbers, and what weights mean.
        As there, radius and smoothing are chosen without regard to bounds. Least squares
        cross-validation ("lscv", the default) chooses radius and smoothing together; with a number
        or another rule for the radius it chooses the smoothing.
    unordered, ordered, smoothing
        As of :class:`MixedRegression`.

    Attributes
    ----------
    kernel_, radius_, smoothing_ : Kernel, arrays of shape (dim,) and (k,)
    categories_ : tuple of Category
        The columns of categories with their levels.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> sex = np.array(["f", "m"])[rng.integers(2, size=1000)]
    >>> frame = pd.DataFrame({"x": rng.normal(size=1000) + 3 * (sex == "f"), "sex": sex})
    >>> model = MixedDensity().fit(frame)
    >>> model.density(pd.DataFrame({"x": [3.0, 3.0], "sex": ["f", "m"]})).round(2)
    array([0.16, 0.  ])
    """

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples; choose radius and smoothing unless they are given.

        Parameters
        ----------
        X : data frame or array of shape (n, columns)
        y : ignored
        sample_weight : array of shape (n,), optional

        Raises
        ------
        ValueError, TypeError
            As :meth:`KernelDensity.fit` and :meth:`MixedRegression.fit`; for cross-validation in
            more than three columns of numbers.
        """
        check_estimator(self._plain, KernelDensity)
        with unchanged_on_failure(self):
            chosen = self._prepare(self._encoded(X), sample_weight)
            self.radius_, self.smoothing_ = self._choose(chosen)
        return self

    def density(self, X: ArrayLike) -> FloatArray:
        """Return p̂ at queries ``(m, columns)``; shape ``(m,)``."""
        queries = self.check_queries(X)
        totals = self._sums(queries, self._no_responses).totals()
        if self.kernel_.nonnegative:  # rounding is not
            totals = np.maximum(totals, 0.0)
        return np.asarray(totals * np.exp(self._log_scale))

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return log p̂, shape ``(m,)``; NaN, with one warning, where p̂ < 0."""
        queries = self.check_queries(X)
        log = self._sums(queries, self._no_responses).log_totals() + self._log_scale
        if np.isnan(log).any():
            warn_undefined(count_undefined(np.isnan(log), _NO_LOG))
        return log

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the total log-likelihood Σ log p̂(x, z)."""
        return float(self.score_samples(X).sum())

    def leave_one_out(self) -> FloatArray:
        """Return p̂ without sample i at each sample, shape ``(n,)``; NaN if it is alone."""
        check_is_fitted(self)
        rows, weight = self.sample_rows(), float(self.weights_.sum())
        left_terms = rows.left_share * rows.over_copies(self._own_terms())
        totals = self._sums(self.points_, self._no_responses).totals() - left_terms
        rest = weight - rows.left
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(rest > 1e-12 * weight, weight / rest, np.nan)
        return np.asarray(totals * np.exp(self._log_scale) * share)

    def sample_rows(self) -> SampleRows:
        """Return how the rows of the sample count."""
        return SampleRows.of(self.points_, self.weights_, self.weighting)

    def sample(self, n: int, *, rng: np.random.Generator) -> list[list[Any]]:
        """Return `n` independent draws, rows with the columns of X: numbers and levels.

        Raises
        ------
        ValueError, TypeError
            As :meth:`KernelDensity.sample`.
        """
        check_is_fitted(self)
        combinations = list(itertools.product(*(range(len(c.levels)) for c in self.categories_)))
        at = np.array(combinations, dtype=np.intp).reshape(len(combinations), -1)
        factors = cell_weights(self.categories_, self.smoothing_, at, self._cells.table)
        mass = factors @ np.bincount(self._cells.place, self.weights_)
        counts = rng.multinomial(n, mass / mass.sum())
        rows: list[list[Any]] = []
        for codes, count in zip(at, counts, strict=True):
            if count:
                numbers = self._slice(codes.astype(np.float64)).sample(int(count), rng=rng)
                rows += [self._row(list(each), codes) for each in numbers.tolist()]
        return [rows[i] for i in rng.permutation(len(rows))]

    def _row(self, numbers: list[Any], codes: Any) -> list[Any]:
        for category, code in zip(self.categories_, codes, strict=True):
            numbers.insert(category.column, category.levels[code])
        return numbers

    def _choose(self, chosen: FloatArray | Rule) -> tuple[FloatArray, FloatArray]:
        """Return radius and smoothing: given, by a rule, or both by cross-validation."""
        radius = None if isinstance(chosen, Rule) else chosen
        rows = self.sample_rows()
        first, weights = rows.distinct
        sample = self._sample(first, weights)
        if isinstance(chosen, Rule):
            chosen.check(self.kernel_, None)
            warn_of_copies(rows, self.weighting, chosen.name)
            if self._plain.radius not in (None, "lscv"):
                radius = chosen(sample.points, weights, self.kernel_, periods=self.periods_)
        if radius is not None and (self._given is not None or not self.categories_):
            return radius, np.zeros(0) if self._given is None else self._given
        return cross_validated(sample, self.kernel_, radius=radius, smoothing=self._given)

    def _slice(self, codes: FloatArray) -> KernelDensity:
        return self._slice_of(self._plain).fit(self._named, None, self._weights_at(codes))

    @property
    def _plain(self) -> KernelDensity:
        return KernelDensity() if self.estimator is None else self.estimator

    @property
    def _no_responses(self) -> FloatArray:
        return np.zeros((len(self.points_), 0))

    @property
    def _log_scale(self) -> float:
        names = check_parts(None, self._dim)
        return log_scale(self.kernel_, self.radius_, names) - float(np.log(self.weights_.sum()))
