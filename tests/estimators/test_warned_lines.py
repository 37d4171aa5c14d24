"""Warnings name the line that asked, however deep inside the package they arise."""

import warnings
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import ConditionalDensity, UndefinedWarning

WARNED: dict[str, tuple[Callable[[], object], Callable[..., object]]] = {
    "predict": (NadarayaWatson, lambda model, at: model.predict(at)),
    "score": (NadarayaWatson, lambda model, at: model.score(at, np.ones(2))),
    "weights": (NadarayaWatson, lambda model, at: model.weights(at)),
    "derivative": (NadarayaWatson, lambda model, at: model.derivative(at)),
    "stream": (NadarayaWatson, lambda model, at: list(model.stream([at]))),
    "fit_at": (NadarayaWatson, lambda model, at: model.fit_at(at)),
    "interval": (NadarayaWatson, lambda model, at: model.interval(at)),
    "leave_one_out": (NadarayaWatson, lambda model, _: model.leave_one_out()),
    "score_samples": (KernelDensity, lambda model, at: model.score_samples(at)),
    "log-likelihood": (KernelDensity, lambda model, at: model.score(at)),
    "conditional density": (ConditionalDensity, lambda model, at: model.density(at, at)),
    "conditional cdf": (ConditionalDensity, lambda model, at: model.cdf(at, at)),
    "conditional score": (ConditionalDensity, lambda model, at: model.score(at, at)),
}


@pytest.mark.parametrize("name", WARNED)
def test_warnings_name_the_line_of_the_user(name: str) -> None:
    """Zeros of the sinc at whole numbers leave the query at 2 and the sample at 1 without mass."""
    kind, ask = WARNED[name]
    model = kind("fourier1", radius=np.pi).fit([[0.0], [0.0], [0.0], [1.0]], [0.0, 1.0, 2.0, 3.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(ValueError):  # scikit-learn scores no NaN
            ask(model, np.array([[2.0], [3.5]]))
    found = [each for each in caught if each.category is UndefinedWarning]
    assert found
    assert {each.filename for each in found} == {__file__}
