"""A fitted model answers for the state it has now: changed, shared among threads, or refitted."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import (
    ConditionalDensity,
    LinearSmoother,
    LocalPolynomial,
    MixedDensity,
    MixedRegression,
)

X = np.random.default_rng(0).uniform(0.1, 0.9, size=(60, 1))
Y = np.sin(9.0 * X[:, 0])
AT = np.linspace(0.2, 0.8, 7)[:, None]
BOUNDS = [(0.0, 1.0)]
RADIUS = np.array([9.0])
CHANGES: dict[str, Callable[[NadarayaWatson], object]] = {
    "radius_": lambda model: 2.0 * model.radius_,
    "responses_": lambda model: model.responses_ + 1.0,
    "kernel_": lambda model: model.kernel_.squared[0],
    "weights_": lambda model: model.weights_ * np.arange(1.0, 61.0),
    "points_": lambda model: model.points_ * 0.9 + 0.05,
}


@pytest.mark.filterwarnings("ignore:sample_weight counts copies")
@pytest.mark.parametrize("bounds", [None, BOUNDS], ids=["open", "bounded"])
@pytest.mark.parametrize("name", CHANGES)
def test_answers_follow_a_fitted_attribute_that_is_replaced(name: str, bounds: object) -> None:
    model = NadarayaWatson("fourier2", radius=9.0, bounds=bounds).fit(X, Y)
    before = model.predict(AT)
    setattr(model, name, CHANGES[name](model))
    assert np.abs(model.predict(AT) - before).min() > 0
    np.testing.assert_allclose(model.predict(AT), model.weights(AT) @ model.responses_, rtol=1e-9)
    fresh = NadarayaWatson(model.kernel_, radius=model.radius_, bounds=bounds)
    fresh.fit(model.points_, model.responses_, model.weights_)
    np.testing.assert_array_equal(model.predict(AT), fresh.predict(AT))
    np.testing.assert_array_equal(model.leave_one_out(), fresh.leave_one_out())


def test_answers_follow_a_radius_that_is_changed_in_place() -> None:
    model = KernelDensity("fourier2", radius=9.0).fit(X)
    model.radius_ = model.radius_.copy()
    model.density(AT)
    model.radius_ *= 2.0
    fresh = KernelDensity("fourier2", radius=18.0).fit(X)
    np.testing.assert_array_equal(model.density(AT), fresh.density(AT))


@pytest.mark.parametrize("options", [{"radius": -1.0}, {"tol": 7.0}, {"bounds": [(0.5, 0.6)]}])
def test_a_fit_that_fails_leaves_the_fit_before_it(options: dict[str, object]) -> None:
    model = NadarayaWatson(radius=9.0).fit(X, Y)
    before, old = model.predict(AT), model.get_params()
    with pytest.raises(ValueError, match=next(iter(options))):
        model.set_params(**options).fit(X + 1.0, 2.0 * Y)
    model.set_params(**old)
    np.testing.assert_array_equal(model.predict(AT), before)
    np.testing.assert_allclose(model.weights(AT) @ model.responses_, before, rtol=1e-9)


class OwnMean(LinearSmoother):
    """The mean of all responses."""

    def weight_rows(self, queries: np.ndarray) -> np.ndarray:
        return np.full((len(queries), len(self.points_)), 1.0 / len(self.points_))


FAILING: dict[str, tuple[Any, ...]] = {
    "density": (KernelDensity(radius=9.0),),
    "regression": (NadarayaWatson(radius=9.0), Y),
    "local polynomial": (LocalPolynomial(radius=9.0), Y),
    "conditional density": (ConditionalDensity(radius=9.0), Y),
    "smoother": (OwnMean(), Y),
    "mixed density": (MixedDensity(KernelDensity(radius=9.0), unordered=["g"], smoothing=0.1),),
    "mixed regression": (
        MixedRegression(NadarayaWatson(radius=9.0), unordered=["g"], smoothing=0.1),
        Y,
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_fit_that_fails_leaves_no_trace_of_its_columns(name: str) -> None:
    model, *y = FAILING[name]
    first = pd.DataFrame({"a": X[:, 0], "g": np.arange(60.0) % 2})
    model.fit(first, *y)
    before = dict(vars(model))
    other = first.assign(c=X[:, 0], g=np.arange(60.0) % 3)
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.fit(other, *y, sample_weight=np.full(60, -1.0))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())
    fresh = clone(model)
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        fresh.fit(other, *y, sample_weight=np.full(60, -1.0))
    assert not [key for key in vars(fresh) if key.endswith("_")]


@pytest.mark.parametrize("kind", [KernelDensity, NadarayaWatson])
@pytest.mark.parametrize(
    ("name", "value", "error", "rule"),
    [
        ("tol", np.array(1e-9), TypeError, r"tol must be a number, got array\(1.e-09\)"),
        ("tol", np.array([1e-9, 1e-8]), TypeError, r"tol must be a number, got array\(\[1.e-09"),
        ("tol", [1e-9], TypeError, r"tol must be a number, got \[1e-09\]"),
        ("method", ["auto"], ValueError, r"method must be one of .*, got \['auto'\]"),
        ("device", ["cpu"], ValueError, r"device must be 'cpu'.*, got \['cpu'\]"),
    ],
)
def test_options_that_cannot_be_hashed_are_refused_by_their_rule(
    kind: type, name: str, value: object, error: type[Exception], rule: str
) -> None:
    with pytest.raises(error, match=rule):
        kind(radius=3.0, **{name: value}).fit(X, Y)
    model = kind(radius=3.0).fit(X, Y).set_params(**{name: value})
    with pytest.raises(error, match=rule):
        next(model.stream([AT]))


def both(model: Any, at: np.ndarray) -> np.ndarray:
    return np.asarray(model.density(at, np.zeros(len(at))))


ANSWERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "density": (KernelDensity("gaussian", radius=RADIUS), lambda model: model.density(AT)),
    "regression": (NadarayaWatson("gaussian", radius=RADIUS), lambda model: model.predict(AT)),
    "matrix": (NadarayaWatson(radius=RADIUS[None]), lambda model: model.predict(AT)),
    "lines": (LocalPolynomial(radius=RADIUS), lambda model: model.predict(AT)),
    "conditional": (ConditionalDensity(radius=np.full(2, 9.0)), lambda model: both(model, AT)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_arrays_may_be_overwritten_after_a_fit(name: str) -> None:
    model, answer = ANSWERS[name]
    model = clone(model)
    given = X.copy(), Y.copy(), np.linspace(0.5, 1.5, len(X))
    model.fit(*given)
    expected = answer(model)
    for array in (*given, model.radius):
        array *= 0.5
    np.testing.assert_array_equal(answer(model), expected)


@pytest.fixture
def impatient() -> Iterator[None]:
    """Switch threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(work: Callable[[int], None], threads: int = 8) -> None:
    start = threading.Barrier(threads)

    def together(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(together, range(threads)))


@pytest.mark.usefixtures("impatient")
def test_threads_with_different_ranges_share_a_model() -> None:
    model = NadarayaWatson("fourier4", radius=5.0, method="bandlimited", tol=1e-4).fit(X, Y)
    ranges = [np.linspace(0.1 - 0.01 * i, 0.9, 5)[:, None] for i in range(16)]
    expected = [model.predict(at) for at in ranges]

    def ask(number: int) -> None:
        for turn in range(60):
            place = (5 * number + turn) % len(ranges)
            np.testing.assert_array_equal(model.predict(ranges[place]), expected[place])

    in_threads(ask)


@pytest.mark.usefixtures("impatient")
def test_threads_share_a_model_while_its_options_change() -> None:
    model = KernelDensity("fourier4", radius=5.0, method="reference").fit(X)
    expected = model.density(AT)

    def ask(number: int) -> None:
        for turn in range(100):
            if number % 2:
                model.tol = (1e-12, 1e-6, 1e-4)[turn % 3]
            np.testing.assert_array_equal(model.density(AT), expected)

    in_threads(ask)
