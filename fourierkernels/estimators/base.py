"""The base of density and regression: parameters, fitted state, and the sums that are kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.boundary import Bounds, check_bounds, inside, reflect
from fourierkernels.estimators.checks import checked_queries
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.sums import SampleSum
from fourierkernels.validation import check_weights


class KernelEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: a kernel, a radius and a method of summation.

    Attributes
    ----------
    kernel_ : Kernel
    radius_ : array of shape (dim,)
    bounds_ : array of shape (2, dim)
        Lower and upper ends, infinite where there is no bound.
    plan_ : Plan
        Method, estimated seconds and accuracy for as many queries as samples.
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
        device: str = "cpu",
    ) -> None:
        self.kernel = kernel
        self.radius = radius
        self.bandwidth = bandwidth
        self.method = method
        self.tol = tol
        self.bounds = bounds
        self.device = device

    def _fit_points(self, X: FloatArray, sample_weight: ArrayLike | None) -> Self:
        n = len(X)
        weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight)
        self.weights_ = check_weights("sample_weight", weights, n)
        self.kernel_ = as_kernel(self.kernel)
        self.radius_ = choose_radius(
            X,
            self.weights_,
            self.kernel_,
            radius=self.radius,
            bandwidth=self.bandwidth,
            responses=self._summed(),
        )
        self.points_ = X
        self.bounds_ = check_bounds(self.bounds, X)
        self._images = reflect(
            X, self.weights_, self.bounds_, kernel=self.kernel_, radius=self.radius_
        )
        self._kept: dict[tuple[Any, ...], SampleSum] = {}
        self.plan_ = self._kept_sum().plan(X)
        return self

    def _summed(self) -> FloatArray | None:
        """Return the responses that the estimate sums, if it has any."""
        return None

    def _inside(self, queries: FloatArray) -> NDArray[np.bool_]:
        return inside(queries, self.bounds_)

    def _kept_sum(
        self, dims: tuple[int, ...] | None = None, *, with_responses: bool = True
    ) -> SampleSum:
        """Return a sum that the estimate takes, prepared once and kept for later queries."""
        responses = self._summed() if with_responses else None
        options = self.method, self.tol, self.device  # those in force, if they changed since fit
        key = (*options, dims or tuple(range(len(self.radius_))), responses is None)
        if key not in self._kept:
            self._kept = {old: kept for old, kept in self._kept.items() if old[:3] == options}
            self._kept[key] = self._sum_of(responses, dims)
        return self._kept[key]

    def _sum_of(
        self, responses: FloatArray | None, dims: tuple[int, ...] | None = None
    ) -> SampleSum:
        """Return the sum over samples and images, over some dimensions, for any queries."""
        points, weights, source = self._images
        columns = np.zeros((len(source), 0)) if responses is None else responses[source]
        some = slice(None) if dims is None else list(dims)
        return SampleSum(
            np.ascontiguousarray(points[:, some]),
            kernel=self.kernel_,
            radius=self.radius_[some],
            weights=weights,
            responses=columns.reshape(len(source), -1),
            method=self.method,
            tol=self.tol,
            device=self.device,
        )

    def _own_terms(self) -> FloatArray:
        """Σ over sample i and its images of w ∏ shape at x_i, shape ``(n,)``."""
        points, weights, source = self._images
        log, sign = self.kernel_.log_shape(self.radius_ * (self.points_[source] - points))
        terms = weights * sign.prod(axis=1) * np.exp(log.sum(axis=1))
        return np.asarray(np.bincount(source, weights=terms), dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the prepared sums, which are prepared again on first use."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._kept = {}


class StreamingEstimator(KernelEstimator, ABC):
    """An estimator whose answer is one sum per query, so that queries may come in blocks."""

    def stream(self, blocks: Iterable[ArrayLike]) -> Iterator[FloatArray]:
        """Yield the estimate for each block of queries of shape ``(m, dim)``, as it is asked for.

        What depends on the samples is computed once, so a query set larger than memory costs what
        one call would; memory is O(n + modes) and one block.
        """
        check_is_fitted(self)
        prepared = self._kept_sum().for_blocks(len(self.points_))
        for block in blocks:
            yield self._estimate(prepared, checked_queries(self, block))

    @abstractmethod
    def _estimate(self, prepared: SampleSum, queries: FloatArray) -> FloatArray:
        """Return the estimate from the sums at checked queries."""
