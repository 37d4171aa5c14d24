"""Conditional density estimation."""

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.estimators.boxes import Period
from fourierkernels.estimators.checks import (
    checked_queries,
    count_undefined,
    unchanged_on_failure,
    validated,
    warn_undefined,
)
from fourierkernels.estimators.design import nadaraya_watson_design
from fourierkernels.estimators.radius import (
    CONDITIONAL_RULES,
    GAUSSIAN_RULES,
    RADIUS_RULES,
    REGRESSION_RULES,
    of_distinct,
)
from fourierkernels.estimators.roots import monotone_quantiles, rearranged_quantiles
from fourierkernels.estimators.sampling import draw_from_kernel
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import (
    as_real,
    check_choice,
    check_finite,
    check_integer,
    check_points,
    check_rng,
)
from fourierkernels.kernels import Kernel
from fourierkernels.kernels.periodic import wrapped
from fourierkernels.sums import KernelSums, kernel_matrix
from fourierkernels.sums.parts import log_scale

_WHY = "have a denominator within its own numerical error of zero: NaN"
_BLOCK = 64  # queries whose quantiles are computed together
_MARGIN = 40.0  # of a grid beyond the responses, in units of 1/S
_FINENESS = 20.0  # points of a grid in 1/S
_MOST = 2**18


class ConditionalDensity(KernelEstimator):
    """Conditional density p̂(y | x) = Σ_i w_i K_R(x - x_i) K_S(y - y_i) / Σ_i w_i K_R(x - x_i).

    The joint estimate over the marginal one; its mean is the Nadaraya-Watson regression with the
    radius R if K has a mean. Where the denominator is within its own numerical error of zero the
    answer is NaN, with one warning. Source: [rosenblatt1969conditional]_.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim + q,) or the name of a rule, optional
        R, then S for the q responses; by default a density rule for both together.
        "conditional_lscv" cross-validates p̂(y | x) itself, for one response.
    bandwidth : float or array of shape (dim + q,), optional
        1/radius, instead of `radius`.
    method : {"auto", "direct", "direct_float32", "bandlimited", "split", "reference", "torch"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.
    weighting : {"frequency", "importance"}
        What `sample_weight` means: copies of a row, scikit-learn's contract, or an importance of
        which only ratios matter, (Σw)²/Σw² samples in all. Estimates with a given radius do not
        depend on it; rules do, and count distinct rows: see `fourierkernels.estimators.weights`.
    period : float or sequence of float or None, optional
        Of the dimensions of x, then of the responses, None for a line: circles, as of
        `KernelDensity`. Quantiles need a response on a line.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim + q,)
        The kernel and the radius in use.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 9000).reshape(-1, 1)
    >>> y = x[:, 0] ** 2 + 0.1 * np.random.default_rng(0).normal(size=9000)
    >>> model = ConditionalDensity("gaussian", bandwidth=[0.1, 0.05]).fit(x, y)
    >>> print(model.density([[1.0], [1.0]], [1.0, 2.0]).round(2))
    [1.68 0.  ]
    """

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        weighting: str = "frequency",
        period: Period = None,
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            weighting=weighting,
            period=period,
        )

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, q)
        sample_weight : array of shape (n,), optional
            Counts or importances, see `weighting`; 1 each by default.

        Raises
        ------
        ValueError
            For data that is empty, not finite or of different lengths, weights that are negative,
            a radius or bandwidth that is not positive, an unknown kernel, rule or method.
        """
        with unchanged_on_failure(self):
            points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
            columns = np.asarray(responses, dtype=np.float64).reshape(len(points), -1)
            return self._fit_points(np.column_stack([points, columns]), sample_weight)

    def density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return p̂(y_j | x_j) for pairs: `X` ``(m, dim)``, `y` ``(m,)`` or ``(m, q)``; ``(m,)``."""
        joint, marginal = self._joint_and_marginal(X, y, "value")
        return self._ratio(joint, marginal, "value")

    def cdf(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return P̂(Y <= y_j | x_j), in every response, for pairs as in `density`.

        Monotone in y only for nonnegative kernels.

        Raises
        ------
        ValueError
            If a response is on a circle, which has no first value.
        """
        if np.isfinite(self.periods_[self.n_features_in_ :]).any():
            raise ValueError(f"period must be None for y to have a cdf, got {self.period}")
        joint, marginal = self._joint_and_marginal(X, y, "cumulative")
        return self._ratio(joint, marginal, "cumulative")

    def quantile(self, X: ArrayLike, q: ArrayLike) -> FloatArray:
        """Return the quantiles of one response at queries ``(m, dim)``; ``(m,)`` or ``(m, k)``.

        The inverse of `cdf`, exact up to rounding for nonnegative kernels. For kernels with
        negative values, whose `cdf` is not monotone, the generalised inverse, that of the `cdf`
        rearranged [chernozhukov2010quantile]_, on a grid of 1/20 of 1/S: NaN, with one warning, for
        levels that the waves in the tails of the `cdf` reach. NaN too where it is undefined.

        Parameters
        ----------
        X : array of shape (m, dim)
        q : float or array of shape (k,)
            Levels, between 0 and 1.

        Raises
        ------
        ValueError
            For more than one response, or a level not strictly between 0 and 1.
        """
        queries = checked_queries(self, X)
        count = self.points_.shape[1] - queries.shape[1]
        if count != 1:
            raise ValueError(f"y must have one column for quantiles, got {count}")
        if np.isfinite(self.periods_[-1]):
            raise ValueError(f"period must be None for y to have quantiles, got {self.period}")
        levels = check_finite("q", as_real("q", q))
        if levels.ndim > 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"q must be numbers strictly between 0 and 1, got {q!r}")
        blocks = [self._quantiles(rows, levels.ravel()) for rows in self._cut(queries)]
        quantiles = np.concatenate(blocks)
        missing = np.isnan(quantiles)
        if missing.any():
            why = "have no quantile: an undefined denominator, or a level within waves of the tails"
            warn_undefined(count_undefined(missing, why))
        return quantiles if levels.ndim else quantiles[:, 0]

    def sample(self, X: ArrayLike, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Return `n` independent draws of y at each query ``(m, dim)``.

        The shape is ``(m, n)``, or ``(m, n, q)`` for several responses.
        A response is drawn by its weight at x and moved by a draw from the kernel. NaN, with one
        warning, where the density is undefined.

        Raises
        ------
        ValueError, TypeError
            If the kernel is not nonnegative (odd powers), for n < 1, or if `rng` is no generator.
        """
        count = check_integer("n", n)
        check_rng(rng)
        queries = checked_queries(self, X)
        dim = queries.shape[1]
        response_radius = self.radius_[dim:]
        steps = draw_from_kernel(self.kernel_, len(queries) * count * len(response_radius), rng)
        draws = np.empty((len(queries), count, len(response_radius)))
        undefined = self._kept_sum(tuple(range(dim))).at(queries).undefined
        for row, query in enumerate(queries):
            matrix, _, _ = kernel_matrix(
                self.points_[:, :dim],
                query[None],
                kernel=self.kernel_,
                radius=self.radius_[:dim],
                periods=self.periods_[:dim],
            )
            mass = np.where(undefined[row], 1.0, matrix[0] * self.weights_)
            draws[row] = self.points_[rng.choice(len(mass), count, p=mass / mass.sum()), dim:]
        draws += steps.reshape(draws.shape) / response_radius
        draws = wrapped(draws.reshape(-1, draws.shape[2]), self.periods_[dim:]).reshape(draws.shape)
        draws[undefined] = np.nan
        if undefined.any():
            warn_undefined(count_undefined(undefined, _WHY))
        return draws if len(response_radius) > 1 else draws[..., 0]

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return Σ_j log p̂(y_j | x_j); minus infinity if one of them is not positive."""
        density = self.density(X, y)
        with np.errstate(divide="ignore"):
            return float(np.log(np.where(density > 0, density, 0.0)).sum())

    def _chosen_radius(self, X: FloatArray) -> FloatArray:
        if not isinstance(self.radius, str) or self.radius in REGRESSION_RULES:
            return super()._chosen_radius(X)
        plain = RADIUS_RULES | GAUSSIAN_RULES
        if check_choice("radius", self.radius, [*plain, *CONDITIONAL_RULES]) in plain:
            return super()._chosen_radius(X)
        if self.bandwidth is not None:
            raise ValueError(
                f"radius and bandwidth exclude each other, got {self.radius} and {self.bandwidth}"
            )
        dim = self.n_features_in_
        x, y = np.ascontiguousarray(X[:, :dim]), np.ascontiguousarray(X[:, dim:])
        return of_distinct(
            CONDITIONAL_RULES[self.radius],
            x,
            self.weights_,
            self.kernel_,
            y,
            self.weighting,
            partial(nadaraya_watson_design, periods=self.periods_[:dim]),
            self.periods_,
        )

    def _cut(self, queries: FloatArray) -> list[FloatArray]:
        return [queries[i : i + _BLOCK] for i in range(0, len(queries), _BLOCK)]

    def _quantiles(self, queries: FloatArray, levels: FloatArray) -> FloatArray:
        """Return the quantiles at checked queries, shape ``(m, k)``; one response."""
        radius, responses = float(self.radius_[-1]), self.points_[self.weights_ > 0, -1]
        low, high = float(responses.min()), float(responses.max())
        marginal = self._kept_sum(tuple(range(queries.shape[1]))).at(queries)

        def cdf(y: FloatArray) -> FloatArray:
            pairs = np.column_stack([np.repeat(queries, y.shape[1], axis=0), y.ravel()])
            parts = ("value",) * queries.shape[1] + ("cumulative",)
            rows = np.repeat(np.arange(len(queries)), y.shape[1])
            joint = self._kept_sum().to_divide(pairs, marginal.taken(rows), parts=parts)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = joint.denominator / marginal.denominator[rows]
                value = np.ldexp(ratio, joint.exponent - marginal.exponent[rows])
            scale = np.exp(log_scale(self.kernel_, self.radius_[-1:], ("cumulative",)))
            return np.where(marginal.undefined[rows], np.nan, scale * value).reshape(y.shape)

        if self.kernel_.nonnegative:
            shape = len(queries), len(levels)
            margin = 1.0 / radius
            return monotone_quantiles(
                cdf, levels, np.full(shape, low - margin), np.full(shape, high + margin)
            )
        margin = _MARGIN / radius
        count = int(np.ceil((high - low + 2 * margin) * radius * _FINENESS)) + 1
        if count > _MOST:
            raise ValueError(
                "radius of y times its range must be smaller for quantiles by rearrangement, got "
                f"{radius * (high - low):.3g}"
            )
        grid = np.linspace(low - margin, high + margin, count)
        return rearranged_quantiles(cdf, levels, grid, len(queries))

    def _joint_and_marginal(
        self, X: ArrayLike, y: ArrayLike, part: str
    ) -> tuple[KernelSums, KernelSums]:
        queries = checked_queries(self, X)
        dim = queries.shape[1]
        q = len(self.radius_) - dim
        columns = as_real("y", y)
        values = check_points("y", columns.reshape(-1, 1) if columns.ndim == 1 else columns, dim=q)
        if len(values) != len(queries):
            raise ValueError(f"y must have one row per query, {len(queries)}, got {len(values)}")
        pairs, parts = np.column_stack([queries, values]), ("value",) * dim + (part,) * q
        marginal = self._kept_sum(tuple(range(dim))).at(queries)
        if part == "value":
            return self._kept_sum().at(pairs, parts=parts), marginal
        return self._kept_sum().to_divide(pairs, marginal, parts=parts), marginal

    def _ratio(self, joint: KernelSums, marginal: KernelSums, part: str) -> FloatArray:
        undefined = marginal.undefined
        if undefined.any():
            warn_undefined(count_undefined(undefined, _WHY))
        response_radius = self.radius_[self.n_features_in_ :]
        scale = np.exp(log_scale(self.kernel_, response_radius, (part,) * len(response_radius)))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = joint.denominator / marginal.denominator
            total = scale * np.ldexp(ratio, joint.exponent - marginal.exponent)
        return np.where(undefined, np.nan, total)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
