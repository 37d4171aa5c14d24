"""The public edge of every estimator: data, queries, and answers that are undefined."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from fourierkernels.arrays import FloatArray


class UndefinedWarning(UserWarning):
    """Some answers are NaN because they are undefined; the message counts them."""


def count_undefined(undefined: NDArray[np.bool_], why: str) -> str:
    """Return the sentence of a warning or error: how many of how many queries, and why."""
    return f"{int(undefined.sum())} of {undefined.size} queries {why}"


def validated(estimator: Any, X: ArrayLike, **options: Any) -> Any:
    """Check data by scikit-learn's contract (feature names and count included), as float64."""
    return validate_data(estimator, X, dtype=np.float64, order="C", **options)


def checked_queries(estimator: Any, X: ArrayLike) -> FloatArray:
    """Return queries that fit the data of a fitted estimator, shape ``(m, dim)``."""
    check_is_fitted(estimator)
    queries: FloatArray = validated(estimator, X, reset=False)
    return queries
