"""What density and regression share: parameters, fitted state, the kernel sum."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from fourierkernels.estimators.radius import choose_radius
from fourierkernels.kernels import FloatArray, Kernel, as_kernel
from fourierkernels.sums import KernelSums, Plan, check_tolerance, kernel_sum
from fourierkernels.sums.plan import Problem, plan_sum, spans
from fourierkernels.validation import check_weights


class UndefinedWarning(UserWarning):
    """Some answers are NaN because they are undefined; the message counts them."""


class KernelEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: a kernel, a radius and a method of summation.

    Attributes
    ----------
    kernel_ : Kernel
    radius_ : array of shape (dim,)
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
    ) -> None:
        self.kernel = kernel
        self.radius = radius
        self.bandwidth = bandwidth
        self.method = method
        self.tol = tol

    def _fit_points(
        self, X: FloatArray, sample_weight: ArrayLike | None, *, columns: int = 1
    ) -> Self:
        n = len(X)
        weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight)
        self.weights_ = check_weights("sample_weight", weights, n)
        self.kernel_ = as_kernel(self.kernel)
        self.radius_ = choose_radius(
            X, self.weights_, self.kernel_, radius=self.radius, bandwidth=self.bandwidth
        )
        self.points_ = X
        self.plan_ = self._plan(columns)
        return self

    def _plan(self, columns: int) -> Plan:
        n, dim = self.points_.shape
        span = spans(self.points_, self.points_, self.radius_)
        tol = check_tolerance(self.tol)
        return plan_sum(Problem(self.kernel_, n, n, dim, columns, span, tol), self.method)

    def _queries(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        queries: FloatArray = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return queries

    def _sums(
        self, queries: FloatArray, responses: FloatArray | None = None, *, refine: bool = True
    ) -> KernelSums:
        return kernel_sum(
            self.points_,
            queries,
            kernel=self.kernel_,
            radius=self.radius_,
            weights=self.weights_,
            responses=responses,
            method=self.method,
            tol=self.tol,
            refine=refine,
        )


def count_undefined(undefined: NDArray[np.bool_], why: str) -> str:
    """Return the sentence of a warning or error: how many of how many queries, and why."""
    return f"{int(undefined.sum())} of {undefined.size} queries {why}"


def validated(estimator: Any, X: ArrayLike, **options: Any) -> Any:
    """Check data by scikit-learn's contract (feature names and count included), as float64."""
    return validate_data(estimator, X, dtype=np.float64, order="C", **options)
