"""Checks of data and queries, and warnings about undefined answers."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_kind

#: Folders whose frames lie between a user's line and a warning: this package and scikit-learn.
_LIBRARIES = tuple(
    f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent)
)


class UndefinedWarning(UserWarning):
    """Some answers are NaN because they are undefined; the message counts them."""


def count_undefined(undefined: NDArray[np.bool_], why: str) -> str:
    """Return the sentence of a warning or error: how many of how many queries, and why."""
    return f"{int(undefined.sum())} of {undefined.size} queries {why}"


def warn_undefined(message: str) -> None:
    """Warn of undefined answers at the user's line."""
    warn_at_the_caller(message, UndefinedWarning)


def warn_at_the_caller(message: str, category: type[UserWarning]) -> None:
    """Warn at the user's line, however deep inside the package this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def report_undefined(undefined: NDArray[np.bool_], why: str, *, option: str) -> None:
    """Warn of queries at which a regression is undefined, or refuse them if `option` is "raise".

    Raises
    ------
    ValueError
    """
    if not undefined.any():
        return
    message = count_undefined(undefined, why)
    if option == "raise":
        raise ValueError(f"X must lie where the regression is defined: {message}")
    warn_undefined(f"{message}: NaN")


def validated(estimator: Any, X: ArrayLike, **options: Any) -> Any:
    """Check data by scikit-learn's contract (feature names and count included), as float64."""
    for name, values in (("X", X), ("y", options.get("y"))):
        if values is not None:
            check_kind(name, values)
    return validate_data(estimator, X, dtype=np.float64, order="C", **options)


def checked_queries(estimator: Any, X: ArrayLike) -> FloatArray:
    """Return queries that fit the data of a fitted estimator, shape ``(m, dim)``."""
    check_is_fitted(estimator)
    queries: FloatArray = validated(estimator, X, reset=False)
    return queries
