"""Checks of data and queries, and warnings about undefined answers and about ties."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from fourierkernels.estimators.weights import SampleRows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_kind

#: Folders whose frames lie between a user's line and a warning: this package and scikit-learn.
_LIBRARIES = tuple(
    f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent)
)


#: What is not warned of at present, in this thread.
_SILENCED: ContextVar[tuple[type[UserWarning], ...]] = ContextVar("silenced", default=())


class UndefinedWarning(UserWarning):
    """Some answers are NaN because they are undefined; the message counts them."""


class TiedDataWarning(UserWarning):
    """Data is rounded or has copies; the message says what was made of them."""


def count_undefined(undefined: NDArray[np.bool_], why: str) -> str:
    """Return the sentence of a warning or error: how many of how many queries, and why."""
    return f"{int(undefined.sum())} of {undefined.size} queries {why}"


def warn_undefined(message: str) -> None:
    """Warn of undefined answers at the user's line."""
    warn_at_the_caller(message, UndefinedWarning)


@contextmanager
def silenced(*categories: type[UserWarning]) -> Iterator[None]:
    """Give no warnings of these kinds in this thread.

    The filters of :mod:`warnings` belong to all threads: one that ends `catch_warnings` while
    another is inside puts back what it found.
    """
    before = _SILENCED.set((*_SILENCED.get(), *categories))
    try:
        yield
    finally:
        _SILENCED.reset(before)


def warn_at_the_caller(message: str, category: type[UserWarning]) -> None:
    """Warn at the user's line, however deep inside the package this is."""
    if issubclass(category, _SILENCED.get()):
        return
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


def warn_tied(message: str) -> None:
    """Warn of ties at the user's line."""
    warn_at_the_caller(message, TiedDataWarning)


def warn_of_copies(rows: SampleRows, weighting: str, rule: str | None = None) -> None:
    """Warn if copies of rows were taken for one sample, by a rule if it is named."""
    n = int((rows.weights > 0).sum())
    repeated = 0 if rows.place is None else n - len(np.unique(rows.place[rows.weights > 0]))
    if repeated:
        warn_of_repetitions(repeated / n, n, rows.size, rule)
    elif weighting == "frequency" and rows.meaning != "frequency":
        warn_of_frequencies(rows.size, rule)


def warn_of_repetitions(share: float, n: int, size: float, rule: str | None) -> None:
    """Warn that this share of n rows were taken for copies of others."""
    warn_tied(
        f"X has repeated rows, {share * n:.0f} of {n} repeat another: {_taken(rule)}, {size:.6g} "
        "in all"
    )


def warn_of_frequencies(size: float, rule: str | None) -> None:
    """Warn that the copies which weights count were taken for one sample."""
    warn_tied(
        f"sample_weight counts copies of rows that are not rounded: {_taken(rule)}, {size:.6g} in "
        "all; say weighting='importance', or 'precision' of a regression, if they are no counts"
    )


def _taken(rule: str | None) -> str:
    if rule is None:
        return "copies of a row are taken for one sample"
    return f"radius={rule!r} takes copies of a row for one sample"


def tell_copies(model: Any, rows: SampleRows) -> None:
    """Warn if rows of a fitted model are copies, unless the rule for its radius has."""
    radius = getattr(model, "radius", 0.0)
    if not (isinstance(radius, str) or (radius is None and model.bandwidth is None)):
        warn_of_copies(rows, model.weighting)


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if its fit fails, what was noted of its columns included."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        for name in vars(estimator).keys() - before.keys():
            delattr(estimator, name)
        vars(estimator).update(before)
        raise


def validated(estimator: Any, X: ArrayLike, *, reset: bool = True, **options: Any) -> Any:
    """Check data by scikit-learn's contract (feature names and count included), as float64.

    Data of a fit, those with `reset`, are copied: the caller may write to the arrays afterwards.
    """
    for name, values in (("X", X), ("y", options.get("y"))):
        if values is not None:
            check_kind(name, values)
    if "y" not in options and _is_ready(estimator, X, reset=reset, **options):
        estimator.n_features_in_ = np.shape(X)[1]
        return np.array(X) if reset else X
    options |= {"dtype": np.float64, "order": "C", "copy": reset}
    checked = validate_data(estimator, X, reset=reset, **options)
    if "y" not in options:
        return checked
    return checked[0], np.array(checked[1], dtype=np.float64)  # scikit-learn copies X alone


def _is_ready(estimator: Any, X: ArrayLike, *, reset: bool) -> bool:
    """Return whether scikit-learn would pass an array as it is, which takes it a while to see."""
    if (
        type(X) is not np.ndarray
        or X.dtype != np.float64
        or X.ndim != 2
        or not X.flags.c_contiguous
    ):
        return False
    known = X.shape[1] if reset else estimator.n_features_in_
    plain = not hasattr(estimator, "feature_names_in_") and X.shape[1] == known
    with np.errstate(over="ignore", invalid="ignore"):  # left to scikit-learn
        return plain and bool(X.size) and bool(np.isfinite(X.sum()))


def checked_queries(estimator: Any, X: ArrayLike) -> FloatArray:
    """Return queries that fit the data of a fitted estimator, shape ``(m, dim)``."""
    check_is_fitted(estimator)
    queries: FloatArray = validated(estimator, X, reset=False)
    return queries
