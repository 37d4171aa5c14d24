"""Base classes of the estimators: parameters, fitted state, and prepared sums."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.boxes import (
    Bounds,
    Images,
    Period,
    check_bounds,
    check_circles,
    check_ends,
    inside,
    reflect,
)
from fourierkernels.estimators.checks import checked_queries
from fourierkernels.estimators.design import FitRows, nadaraya_watson_design
from fourierkernels.estimators.gridded import Gridded, gridded, meeting_places, model_axes
from fourierkernels.estimators.kept import Kept, Sources
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.estimators.streams.fitting import StreamFit, continued, fit_stream, options_of
from fourierkernels.estimators.streams.sources import Source
from fourierkernels.estimators.weights import WEIGHTINGS, SampleRows, fitted_weights, whole_rows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.kernels.periodic import wrapped
from fourierkernels.sums import Frame, KernelSums, SampleSum
from fourierkernels.sums.factors import radii_of, sample_sum
from fourierkernels.sums.streamed import SamplesNotKeptError

_SAMPLES = ("points_", "weights_", "responses_")


class KernelEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: a kernel, a radius and a method of summation.

    Attributes
    ----------
    kernel_ : Kernel
    radius_ : array of shape (dim,) or (dim, dim)
    bounds_ : array of shape (2, dim)
        Lower and upper ends, infinite where there is no bound.
    periods_ : array of shape (dim,)
        Infinite for a dimension that is no circle; points on a circle are wrapped into [0, P).
    weights_ : array of shape (n,)
        As given, or scaled; see `fourierkernels.estimators.weights`.
    plan_ : Plan
        Method, estimated seconds and accuracy for as many queries as samples.
    """

    expected_queries = 0  # of a model that prepares for so many, in any number of calls
    _takes_matrices = False
    _weightings: tuple[str, ...] = WEIGHTINGS

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        bounds: Bounds | None = None,
        device: str = "cpu",
        weighting: str = "frequency",
        within: Bounds | None = None,
        period: Period = None,
    ) -> None:
        self.kernel = kernel
        self.radius = radius
        self.bandwidth = bandwidth
        self.method = method
        self.tol = tol
        self.bounds = bounds
        self.device = device
        self.weighting = weighting
        self.within = within
        self.period = period

    def _fit_points(
        self, X: FloatArray, sample_weight: ArrayLike | None, **also: FloatArray
    ) -> Self:
        """Fit a copy and take over its state, so that a fit that fails changes nothing."""
        other = copy.copy(self)
        other.__dict__.pop("modes_", None)
        other.__dict__.update(also)
        other._compute_fit(X, sample_weight)
        self.__dict__.pop("modes_", None)
        self.__dict__.update(other.__dict__)
        return self

    def _compute_fit(self, X: FloatArray, sample_weight: ArrayLike | None) -> None:
        self.weights_ = fitted_weights(sample_weight, len(X), self.weighting, self._weightings)
        self.kernel_ = as_kernel(self.kernel)
        self.periods_ = check_circles(self.period, check_ends(self.bounds, X.shape[1]))
        X = wrapped(X, self.periods_)
        self.radius_ = self._chosen_radius(X)
        self.points_ = X
        self.bounds_ = check_bounds(self.bounds, X)
        check_bounds(self.within, X, name="within")
        if self.radius_.ndim == 2:
            self._check_matrix()
        self.plan_ = self._kept_sum().plan(X)

    def _chosen_radius(self, X: FloatArray) -> FloatArray:
        return choose_radius(
            X,
            self.weights_,
            self.kernel_,
            radius=self.radius,
            bandwidth=self.bandwidth,
            responses=self._summed(),
            weighting=self.weighting,
            fit_design=self._fit_design(),
            periods=self.periods_,
        )

    def _check_matrix(self) -> None:
        """Refuse a radius matrix where the estimate needs a kernel per column."""
        if not self._takes_matrices:
            raise ValueError(f"radius must be a vector for {type(self).__name__}, got a matrix")
        if np.isfinite(self.bounds_).any():
            raise ValueError(f"bounds must be None with a radius matrix, got {self.bounds}")
        if self._on_circle:
            raise ValueError(f"period must be None with a radius matrix, got {self.period}")

    @property
    def _frame(self) -> Frame:
        """The coordinates in which the kernel is a product."""
        if self.radius_.ndim == 1:
            return Frame(self.radius_, periods=self.periods_)
        return Frame.of(self.radius_, self.points_)

    @property
    def sample_factors(self) -> FloatArray | None:
        """Factors on the radius of each sample ``(n,)``; None if all have one radius."""
        return None

    @property
    def largest_radius(self) -> FloatArray:
        """The largest radius that a sample has, shape of `radius_`."""
        factors = self.sample_factors
        if factors is None:
            return self.radius_
        return np.asarray(self.radius_ * factors[self.weights_ > 0].max())

    def _factors_at(self, rows: NDArray[np.intp] | slice) -> FloatArray | None:
        factors = self.sample_factors
        return None if factors is None else factors[rows]

    @property
    def _on_circle(self) -> bool:
        """Whether a dimension is periodic."""
        return bool(np.isfinite(self.periods_).any())

    def _summed(self) -> FloatArray | None:
        """Return the responses that the estimate sums, if it has any."""
        return None

    def _fit_design(self) -> FitRows:
        """Return how the smoother is fitted at its design points, which rules of regression use."""
        return partial(nadaraya_watson_design, periods=self.periods_)

    def sample_rows(self) -> SampleRows:
        """Return how the rows of the sample count."""
        rows = whole_rows(self.points_, self._summed())
        return SampleRows.of(rows, self.weights_, self.weighting)

    def _inside(self, queries: FloatArray) -> NDArray[np.bool_]:
        return inside(queries, self.bounds_)

    def _kept_sum(
        self, dims: tuple[int, ...] | None = None, *, with_responses: bool = True
    ) -> SampleSum:
        """Return the prepared sum, building it on first use."""
        responses = self._summed() if with_responses else None
        key = dims or tuple(range(len(self.radius_))), responses is None
        kept: SampleSum = self._kept.get(
            key, self._sources(), lambda: self._sum_of(responses, dims)
        )
        return kept

    @property
    def _images(self) -> Images:
        """The samples and their mirror images, built on first use."""
        box, radius = self.bounds_, radii_of(self.radius_, self.sample_factors)
        kept: Images = self._kept.get(
            "images",
            self._sources(),
            lambda: reflect(self.points_, self.weights_, box, kernel=self.kernel_, radius=radius),
        )
        return kept

    def _sources(self) -> Sources:
        """Return the options and the fitted state in force, which may have changed since fit."""
        options = self.method, self.tol, self.device
        fitted = self.kernel_, self.points_, self.weights_, self.sample_factors, self._summed()
        small = self.radius_, self.bounds_, self.periods_
        return Sources((*options, *fitted), tuple(np.asarray(each).tobytes() for each in small))

    def _sum_of(
        self, responses: FloatArray | None, dims: tuple[int, ...] | None = None
    ) -> SampleSum:
        """Return the sum over samples and images, over some dimensions, for any queries."""
        if np.isfinite(self.bounds_).any():
            return self._sum_of_images(*self._images, responses, dims)
        return self._sum_of_images(self.points_, self.weights_, slice(None), responses, dims)

    def _sum_of_images(
        self,
        points: FloatArray,
        weights: FloatArray,
        source: NDArray[np.intp] | slice,
        responses: FloatArray | None,
        dims: tuple[int, ...] | None = None,
    ) -> SampleSum:
        columns = np.zeros((len(points), 0)) if responses is None else responses[source]
        some = slice(None) if dims is None else list(dims)
        prepared = sample_sum(
            points if dims is None else np.ascontiguousarray(points[:, some]),
            factors=self._factors_at(source),
            kernel=self.kernel_,
            radius=self.radius_[some],
            weights=weights,
            responses=columns.reshape(len(points), -1),
            method=self.method,
            tol=self.tol,
            device=self.device,
            periods=self.periods_[some],
        )
        return prepared.for_blocks(self.expected_queries) if self.expected_queries else prepared

    def _own_terms(self) -> FloatArray:
        """Σ over sample i and its images of w ∏ shape at x_i, shape ``(n,)``."""
        points, weights, source = self._images
        frame = self._frame
        gaps, scale = frame.placed(self.points_)[source] - frame.placed(points), 1.0
        if (factors := self._factors_at(source)) is not None:
            gaps, scale = gaps * factors[:, None], factors ** gaps.shape[1]
        along = zip(frame.kernels(self.kernel_), frame.radius, gaps.T, strict=True)
        logs, signs = zip(*(kernel.log_shape(r * gap) for kernel, r, gap in along), strict=True)
        terms = weights * scale * math.prod(signs) * np.exp(sum(logs))
        return np.asarray(np.bincount(source, weights=terms), dtype=np.float64)

    def _sums_without_own(self, rows: SampleRows) -> KernelSums:
        """Return the sums at each sample without what leave-one-out leaves out of it.

        Copies leave together. What is left of a row that counts for more than one sample is a row
        of its own, which belongs to no query: so the others can be summed by themselves where
        little is left.
        """
        left_terms = rows.over_copies(self._own_terms()) * rows.left_share
        points, weights, source = self._images
        if rows.place is not None:
            first = np.unique(rows.place, return_index=True)[1]
            owners = rows.place[source]
            sums = self._kept_sum().left_out(self.points_[first], left_terms[first], owners)
            return sums.taken(rows.place)
        share = rows.left_share[source]
        kept = np.flatnonzero((share < 1.0) & (weights > 0))
        if not len(kept):
            return self._kept_sum().left_out(self.points_, left_terms, source)
        split = Images(
            np.concatenate([points, points[kept]]),
            np.concatenate([weights * share, (weights * (1.0 - share))[kept]]),
            np.concatenate([source, source[kept]]),
        )
        owners = np.concatenate([source, len(self.points_) + np.arange(len(kept))])
        return self._sum_of_images(*split, self._summed()).left_out(
            self.points_, left_terms, owners
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the prepared sums, which are prepared again on first use."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._kept = Kept()


class StreamingEstimator(KernelEstimator, ABC):
    """An estimator whose answer is one sum per query, so that queries may come in blocks.

    So may samples: what is kept of them then is `modes_`, which is all that such a sum takes.

    Attributes
    ----------
    modes_ : StreamFit
        After a fit to a stream, instead of `points_`, `weights_` and `responses_`.
    """

    modes_: StreamFit

    def stream(self, blocks: Iterable[ArrayLike]) -> Iterator[FloatArray]:
        """Yield the estimate for each block of queries of shape ``(m, dim)``, as it is asked for.

        What depends on the samples is computed once, so a query set larger than memory costs what
        one call would; memory is O(n + modes) and one block.
        """
        check_is_fitted(self)
        prepared = self._kept_sum().for_blocks(self._fitted_samples)
        for block in blocks:
            yield self._estimate(prepared, checked_queries(self, block))

    def on_grid(
        self, points: int | Sequence[int] | None = None, *, within: Bounds | None = None
    ) -> Gridded:
        """Return the estimate on a grid, in at most three dimensions.

        Axes have 512 points each, in three dimensions 64, and cover the samples, or `within`, pairs
        (low, high). Such queries are recognised wherever they come from.

        Examples
        --------
        >>> from fourierkernels import KernelDensity
        >>> x = np.random.default_rng(0).normal(size=(1000, 2))
        >>> grid = KernelDensity().fit(x).on_grid(256)
        >>> print(grid.values.shape, f"{grid.values.max():.3f}")
        (256, 256) 0.142
        """
        check_is_fitted(self)
        axes = model_axes(self, points, within)
        values = self._estimate(self._kept_sum(), meeting_places(axes))
        return gridded(self, axes, values)

    @abstractmethod
    def _estimate(self, prepared: SampleSum, queries: FloatArray) -> FloatArray:
        """Return the estimate from the sums at checked queries."""

    def _fit_stream(self, source: Source, *, more: bool = False) -> Self:
        """Fit to a stream, or with `more` to its samples and those before."""
        if more and "points_" in self.__dict__:
            raise ValueError("partial_fit must follow a fit to a stream, got one to an array")
        fit = fit_stream(source, options_of(self), regression=isinstance(self, RegressorMixin))
        if more and self._streamed:
            fit = continued(self.modes_, fit)
        for name in (*_SAMPLES, "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.kernel_, self.radius_ = fit.grid.kernel, np.array(fit.grid.radius)
        self.bounds_, self.plan_, self.modes_ = fit.bounds, fit.plan, fit
        self.periods_ = fit.periods
        if fit.layout.names is not None:
            self.feature_names_in_ = np.array(fit.layout.names, dtype=object)
        self.n_features_in_ = len(self.radius_)
        self._kept = Kept()
        return self

    def _kept_sum(
        self, dims: tuple[int, ...] | None = None, *, with_responses: bool = True
    ) -> SampleSum:
        if not self._streamed:
            return super()._kept_sum(dims, with_responses=with_responses)
        self.modes_.check_unchanged(self.kernel_, self.radius_, self.bounds_)
        kept: SampleSum = self._kept.get(
            (dims, with_responses),
            Sources((self.modes_,), ()),
            lambda: self.modes_.sum.over(dims, with_responses=with_responses),
        )
        return kept

    @property
    def _streamed(self) -> bool:
        return "modes_" in self.__dict__

    @property
    def _fitted_samples(self) -> int:
        return self.modes_.n if self._streamed else len(self.points_)

    @property
    def _weight(self) -> float:
        """Σ w over the samples."""
        return self.modes_.weight if self._streamed else float(self.weights_.sum())

    def __getattr__(self, name: str) -> Any:
        """Say why there are no samples after a fit to a stream; all that needs them comes here."""
        if name in _SAMPLES and "modes_" in self.__dict__:
            raise SamplesNotKeptError(
                f"{name} must be there for this, but a fit to a stream keeps no samples: only sums "
                "over all of them can be had, not weights, leverages, leave-one-out or draws; fit "
                "an array"
            )
        return object.__getattribute__(self, name)  # raises what it would without this method
