"""What is prepared at the first queries serves all later ones, and leaves no trace in answers."""

import io
from collections.abc import Callable

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import ConditionalDensity
from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.sums import METHODS, bandlimited, samples

Ask = Callable[[KernelEstimator, np.ndarray], np.ndarray]
ANSWERS: dict[str, tuple[type[KernelEstimator], Ask]] = {
    "density": (KernelDensity, lambda model, at: model.density(at)),
    "log density": (KernelDensity, lambda model, at: model.score_samples(at)),
    "density left out": (KernelDensity, lambda model, at: model.leave_one_out()),
    "density stream": (KernelDensity, lambda model, at: np.concatenate(list(model.stream([at])))),
    "prediction": (NadarayaWatson, lambda model, at: model.predict(at)),
    "prediction left out": (NadarayaWatson, lambda model, at: model.leave_one_out()),
    "leverages": (NadarayaWatson, lambda model, at: model.hat_diagonal()),
    "weights": (NadarayaWatson, lambda model, at: model.weights(at)),
    "conditional": (ConditionalDensity, lambda model, at: model.density(at, at)),
}
EVERYWHERE = ["direct", "bandlimited", "reference"]


def data(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(n, 1))
    return x, np.sin(2 * x[:, 0])


def fitted(kind: type[KernelEstimator], **options: object) -> KernelEstimator:
    x, y = data()
    return kind("fourier4", radius=3.0, **options).fit(x, y)


@pytest.fixture
def preparations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each time that samples are prepared: a sum, a method's summer, a type-1 transform."""
    seen: list[str] = []
    prepare, start = samples.SampleSum._prepared, samples.SampleSum.__init__
    forward = bandlimited.forward

    def noted(self: object, row: object, box: object) -> object:
        seen.append("summer")
        return prepare(self, row, box)

    def started(self: object, *arrays: object, **options: object) -> None:
        seen.append("sum")
        start(self, *arrays, **options)

    def transformed(*arrays: object, **options: object) -> object:
        seen.append("transform")
        return forward(*arrays, **options)

    monkeypatch.setattr(samples.SampleSum, "_prepared", noted)
    monkeypatch.setattr(samples.SampleSum, "__init__", started)
    monkeypatch.setattr(bandlimited, "forward", transformed)
    return seen


@pytest.mark.parametrize("method", EVERYWHERE)
@pytest.mark.parametrize("answer", ANSWERS)
def test_second_call_prepares_nothing(answer: str, method: str, preparations: list[str]) -> None:
    kind, ask = ANSWERS[answer]
    model = fitted(kind, method=method)
    at = 0.5 * data(50)[0]
    first = ask(model, at)
    assert preparations.count("summer") > 0
    preparations.clear()
    np.testing.assert_array_equal(ask(model, at), first)
    np.testing.assert_array_equal(ask(model, at[:20]).shape[1:], first.shape[1:])
    assert preparations == []


def test_fit_prepares_one_sum_and_the_first_prediction_one_transform(
    preparations: list[str],
) -> None:
    x, y = data()
    model = NadarayaWatson(radius=3.0, method="bandlimited").fit(x, y)
    assert preparations == ["sum"]
    model.predict(0.5 * x)
    assert preparations == ["sum", "summer", "transform"]


@pytest.mark.parametrize("method", EVERYWHERE)
@pytest.mark.parametrize("answer", ["density", "prediction"])
def test_answers_do_not_depend_on_what_was_asked_before(answer: str, method: str) -> None:
    kind, ask = ANSWERS[answer]
    near, far = 0.5 * data(50)[0], 1.7 * data(60)[0]
    asked = fitted(kind, method=method)
    for at in (far, 2 * far, near, far):
        np.testing.assert_array_equal(ask(asked, at), ask(fitted(kind, method=method), at))


def test_a_stream_leaves_no_trace_in_later_answers() -> None:
    model, fresh = (fitted(KernelDensity, method="bandlimited") for _ in range(2))
    far = 1.7 * data(60)[0]
    for _ in model.stream(np.array_split(3 * far, 6)):
        pass
    np.testing.assert_array_equal(model.density(far), fresh.density(far))


@pytest.mark.parametrize("answer", ["density", "prediction"])
def test_what_is_prepared_is_not_stored_and_is_prepared_anew(
    answer: str, preparations: list[str]
) -> None:
    kind, ask = ANSWERS[answer]
    model, at = fitted(kind, method="bandlimited"), data(50)[0]
    before = io.BytesIO()
    joblib.dump(model, before)
    values = ask(model, at)
    after = io.BytesIO()
    joblib.dump(model, after)
    assert after.getvalue() == before.getvalue()
    again = joblib.load(io.BytesIO(after.getvalue()))
    preparations.clear()
    np.testing.assert_array_equal(ask(again, at), values)
    np.testing.assert_array_equal(ask(again, at), values)
    assert preparations == ["sum", "summer", "transform"]


def test_options_changed_after_fit_are_in_force_at_once_and_clones_start_afresh() -> None:
    model, at = fitted(KernelDensity, method="bandlimited", tol=1e-4), data(50)[0]
    model.density(at)
    coarse = model.density(at)
    exact = model.set_params(method="direct").density(at)
    assert 0 < np.abs(coarse - exact).max() < 1e-3
    np.testing.assert_array_equal(exact, fitted(KernelDensity, method="direct").density(at))
    other = clone(model).set_params(radius=1.0).fit(data()[0])
    again = KernelDensity("fourier4", radius=1.0, method="direct").fit(data()[0])
    np.testing.assert_array_equal(other.density(at), again.density(at))
    np.testing.assert_array_equal(model.fit(2 * data()[0]).points_, 2 * data()[0])


def test_a_second_fit_forgets_the_samples_of_the_first() -> None:
    model, at = fitted(NadarayaWatson), data(50)[0]
    model.predict(at)
    x, y = data(300)
    model.fit(x + 1, y)
    fresh = NadarayaWatson("fourier4", radius=3.0).fit(x + 1, y)
    np.testing.assert_array_equal(model.predict(at + 1), fresh.predict(at + 1))


@pytest.mark.parametrize("answer", ["density", "prediction", "conditional"])
def test_queries_are_searched_for_infinities_once(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, ask = ANSWERS[answer]
    model, at = fitted(kind), data(50)[0]

    def refused(*arrays: object, **options: object) -> None:
        raise AssertionError("checked again")

    for name in ("check_points", "check_weights", "check_radius", "check_finite"):
        monkeypatch.setattr(f"fourierkernels.sums.prepared.{name}", refused)
    assert np.isfinite(ask(model, 0.5 * at)).all()
    assert set(EVERYWHERE) <= set(METHODS)
