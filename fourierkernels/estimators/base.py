"""What density and regression share: parameters, fitted state, the kernel sum."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.boundary import Bounds, check_bounds, inside, reflect
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.sums import PreparedSum
from fourierkernels.validation import check_weights


class UndefinedWarning(UserWarning):
    """Some answers are NaN because they are undefined; the message counts them."""


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
        self.plan_ = self._prepared(self._summed()).plan(X)
        return self

    def _summed(self) -> FloatArray | None:
        """Return the responses that the estimate sums, if it has any."""
        return None

    def _queries(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        queries: FloatArray = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return queries

    def _inside(self, queries: FloatArray) -> NDArray[np.bool_]:
        return inside(queries, self.bounds_)

    def _prepared(
        self,
        responses: FloatArray | None = None,
        *,
        dims: slice | list[int] = slice(None),
        expected: int = 1,
    ) -> PreparedSum:
        """Return the sum over samples and images, over some dimensions, for any queries."""
        source = self._images.source
        return PreparedSum(
            self._images.points[:, dims],
            kernel=self.kernel_,
            radius=self.radius_[dims],
            weights=self._images.weights,
            responses=None if responses is None else responses[source],
            method=self.method,
            tol=self.tol,
            expected=expected,
            device=self.device,
        )

    def _own_terms(self) -> FloatArray:
        """Σ over sample i and its images of w ∏ shape at x_i, shape ``(n,)``."""
        points, weights, source = self._images
        log, sign = self.kernel_.log_shape(self.radius_ * (self.points_[source] - points))
        terms = weights * sign.prod(axis=1) * np.exp(log.sum(axis=1))
        return np.asarray(np.bincount(source, weights=terms), dtype=np.float64)


class StreamingEstimator(KernelEstimator, ABC):
    """An estimator whose answer is one sum per query, so that queries may come in blocks."""

    def stream(self, blocks: Iterable[ArrayLike]) -> Iterator[FloatArray]:
        """Yield the estimate for each block of queries of shape ``(m, dim)``, as it is asked for.

        What depends on the samples is computed once, so a query set larger than memory costs what
        one call would; memory is O(n + modes) and one block.
        """
        check_is_fitted(self)
        prepared = self._prepared(self._summed(), expected=len(self.points_))
        for block in blocks:
            yield self._estimate(prepared, self._queries(block))

    @abstractmethod
    def _estimate(self, prepared: PreparedSum, queries: FloatArray) -> FloatArray:
        """Return the estimate from the sums at checked queries."""


def count_undefined(undefined: NDArray[np.bool_], why: str) -> str:
    """Return the sentence of a warning or error: how many of how many queries, and why."""
    return f"{int(undefined.sum())} of {undefined.size} queries {why}"


def validated(estimator: Any, X: ArrayLike, **options: Any) -> Any:
    """Check data by scikit-learn's contract (feature names and count included), as float64."""
    return validate_data(estimator, X, dtype=np.float64, order="C", **options)
