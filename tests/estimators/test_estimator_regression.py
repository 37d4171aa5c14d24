"""What a regression offers beside its values: leave-one-out, derivative, intervals and bands."""

import math
from pathlib import Path

import joblib
import numpy as np
import pytest
from tolerances import MONTE_CARLO_SIGMAS

from fourierkernels import NadarayaWatson
from fourierkernels.estimators import REGRESSION_RULES, UndefinedWarning
from fourierkernels.kernels import KERNELS

METHODS = ["reference", "direct", "bandlimited"]
EVEN = [name for name, kernel in KERNELS.items() if kernel.nonnegative]
BOUNDS = [None, [(-5.0, None)], [(-5.0, 5.0)]]


def data(n: int = 200, dim: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


# --- leave-one-out -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("name", EVEN)
def test_leave_one_out_is_refitting_without_the_sample(
    name: str, bounds: object, method: str
) -> None:
    x, y = data(30)
    weights = np.random.default_rng(1).integers(0, 3, 30)
    options = {"radius": 2.0, "bounds": bounds, "method": method, "weighting": "importance"}
    left = NadarayaWatson(name, **options).fit(x, y, sample_weight=weights).leave_one_out()
    for i in range(0, 30, 6):
        rest = np.delete(np.arange(30), i)
        again = NadarayaWatson(name, **options).fit(x[rest], y[rest], sample_weight=weights[rest])
        assert left[i] == pytest.approx(again.predict(x[[i]])[0], abs=1e-7)


def test_leave_one_out_has_the_shape_of_the_responses_and_its_textbook_form() -> None:
    x, y = data(60, 2)
    model = NadarayaWatson("fourier3", radius=0.8).fit(x, np.column_stack([y, y**2]))
    leverage, fit = model.hat_diagonal(), model.predict(x)
    textbook = (fit - leverage[:, None] * model.responses_) / (1 - leverage[:, None])
    assert model.leave_one_out().shape == (60, 2)
    np.testing.assert_allclose(model.leave_one_out(), textbook, rtol=1e-8)
    np.testing.assert_allclose(leverage, np.diag(model.weights(x)), rtol=1e-9)


def test_leave_one_out_of_a_sample_alone_is_undefined() -> None:
    far = math.pi * 1e3  # a zero of the other samples' sinc
    model = NadarayaWatson("fourier2", radius=1.0).fit([[0.0], [math.pi], [far]], [1.0, 2.0, 3.0])
    with pytest.warns(UndefinedWarning, match="3 of 3 queries"):
        assert np.isnan(model.leave_one_out()).all()


# --- derivative --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["reference", "bandlimited"])
@pytest.mark.parametrize("name", EVEN)
@pytest.mark.parametrize("dim", [1, 2])
def test_derivative_is_the_central_difference_of_the_fit(method: str, name: str, dim: int) -> None:
    x, y = data(100, dim)
    model = NadarayaWatson(name, radius=np.linspace(1.5, 2.0, dim), method=method).fit(x, y)
    at, step = 0.7 * data(9, dim, seed=1)[0], 1e-5
    slope = model.derivative(at)
    for d in range(dim):
        move = step * np.eye(dim)[d]
        central = (model.predict(at + move) - model.predict(at - move)) / (2 * step)
        np.testing.assert_allclose(slope[:, d], central, rtol=1e-5, atol=1e-5)


def test_derivative_of_several_responses_is_that_of_each() -> None:
    x, y = data(80, 2)
    both = NadarayaWatson(radius=1.5).fit(x, np.column_stack([y, -2 * y])).derivative(x[:5])
    one = NadarayaWatson(radius=1.5).fit(x, y).derivative(x[:5])
    assert both.shape == (5, 2, 2)
    np.testing.assert_allclose(both, np.stack([one, -2 * one], axis=1), rtol=1e-8, atol=1e-10)


def test_derivative_far_from_the_data_is_as_good_as_the_direct_one() -> None:
    x, y = data(2000)
    at = np.array([[0.0], [4.5], [5.5]])
    fast = NadarayaWatson("gaussian", radius=4.0, method="bandlimited").fit(x, y).derivative(at)
    slow = NadarayaWatson("gaussian", radius=4.0, method="reference").fit(x, y).derivative(at)
    np.testing.assert_allclose(fast, slow, rtol=1e-7, atol=1e-9)


# --- bounds and blocks -------------------------------------------------------------------------


def test_reflected_fit_is_flat_at_the_bound_and_undefined_outside() -> None:
    x, y = data(100)
    model = NadarayaWatson(radius=3.0, bounds=[(-2.5, None)]).fit(x, y)
    np.testing.assert_allclose(model.derivative([[-2.5]]), 0.0, atol=1e-8)
    with pytest.warns(UndefinedWarning, match="1 of 2 queries .* or lie out of bounds"):
        fit = model.predict([[0.0], [-2.6]])
    assert np.isnan(fit[1])
    rows = model.weights(x)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-10)
    np.testing.assert_allclose(rows @ y, model.predict(x), rtol=1e-8)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_stream_gives_what_predict_gives(columns: tuple[int, ...]) -> None:
    x, y = data(3000)
    model = NadarayaWatson(radius=4.0).fit(x, np.resize(y, (3000, *columns)))
    at = np.linspace(-2, 2, 500).reshape(-1, 1)
    blocks = np.concatenate(list(model.stream(np.array_split(at, 6))))
    np.testing.assert_allclose(blocks, model.predict(at), rtol=1e-8)


# --- intervals and bands -----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KERNELS)
def test_standard_error_is_that_of_the_hat_matrix(name: str, method: str) -> None:
    x, y = data(80)
    weights = np.random.default_rng(2).random(80)
    model = NadarayaWatson(name, radius=1.5, method=method, weighting="importance")
    model.fit(x, y, sample_weight=weights)
    at = np.linspace(-1, 1, 7).reshape(-1, 1)
    hat, error = model.weights(x), model.interval(at).error
    spread = 1 - 2 * np.diag(hat) + np.square(hat).sum(axis=1)
    noise = np.average(np.square(y - hat @ y) / spread, weights=weights)
    rows = np.square(model.weights(at)).sum(axis=1)
    np.testing.assert_allclose(error, np.sqrt(noise * rows), rtol=1e-6)


def test_noise_is_unbiased_where_the_fit_has_no_bias() -> None:
    """f constant: the mean of the squared standardised residuals is σ², here 0.25."""
    x, _ = data(100)
    rng, values = np.random.default_rng(3), []
    for _ in range(200):
        model = NadarayaWatson(radius=3.0).fit(x, rng.normal(scale=0.5, size=100))
        unit = np.sqrt(np.square(model.weights([[0.0]])).sum())
        values.append(float(model.interval([[0.0]]).error[0] / unit) ** 2)
    error = np.std(values) / math.sqrt(len(values))
    assert abs(np.mean(values) - 0.25) < MONTE_CARLO_SIGMAS * error


def coverage(noise: str, *, bounds: object = None, replicates: int = 300) -> tuple[float, float]:
    """Share of samples in which the interval at 0.4, and the band, contain E f̂."""
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(-2, 2, (150, 1)), axis=0)
    scale = 0.3 if noise == "constant" else 0.1 + 0.3 * np.abs(x[:, 0])
    truth, at = np.sin(2 * x[:, 0]), np.linspace(-1.9, 1.9, 39).reshape(-1, 1)
    model = NadarayaWatson("fourier4", radius=6.0, method="direct", bounds=bounds)
    smooth = model.fit(x, truth).weights(at) @ truth
    pointwise = uniform = 0
    for _ in range(replicates):
        model.fit(x, truth + scale * rng.normal(size=150))
        limits = model.interval(at, noise=noise)
        pointwise += limits.low[23] <= smooth[23] <= limits.high[23]
        limits = model.band(at, noise=noise, rng=rng, replicates=200)
        uniform += np.all((limits.low <= smooth) & (smooth <= limits.high))
    return pointwise / replicates, uniform / replicates


@pytest.mark.parametrize("noise", ["constant", "local"])
def test_intervals_and_bands_cover_the_smoothed_function_as_often_as_they_say(noise: str) -> None:
    """Within four binomial errors of 95 %: n = 150, 300 samples; local noise costs a little."""
    error = math.sqrt(0.95 * 0.05 / 300)
    allowed = MONTE_CARLO_SIGMAS * error + (0.03 if noise == "local" else 0.0)
    for share in coverage(noise):
        assert abs(share - 0.95) < allowed


def test_band_is_wider_than_the_intervals_and_narrower_than_bonferroni() -> None:
    x, y = data(300)
    at = np.linspace(-1, 1, 60).reshape(-1, 1)
    model = NadarayaWatson(radius=3.0).fit(x, y)
    single = model.interval(at)
    joint = model.band(at, rng=np.random.default_rng(0))
    assert single.critical == pytest.approx(1.959964, abs=1e-6)
    assert 2.2 < joint.critical < 3.34  # Bonferroni over 60 queries
    np.testing.assert_array_equal(single.error, joint.error)


def test_band_of_one_query_is_its_interval() -> None:
    x, y = data(100)
    limits = (
        NadarayaWatson(radius=3.0)
        .fit(x, y)
        .band([[0.2]], rng=np.random.default_rng(0), replicates=4000)
    )
    assert limits.critical == pytest.approx(1.96, abs=0.1)


def test_undersmoothing_is_a_fit_with_a_larger_radius() -> None:
    x, y = data(200)
    model = NadarayaWatson(bandwidth=0.25).fit(x, y)
    sharper = NadarayaWatson(radius=6.0).fit(x, y)
    mine, other = model.interval(x[:9], undersmooth=1.5), sharper.interval(x[:9])
    np.testing.assert_allclose(mine.low, other.low, rtol=1e-10)
    assert model.radius_[0] == 4.0


def test_standard_error_with_bounds_counts_an_image_with_its_sample() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (60, 1))
    model = NadarayaWatson(radius=8.0, bounds=[(0, 1)]).fit(x, rng.normal(size=60))
    limits = model.interval([[0.0], [0.5]])
    rows = np.square(model.weights([[0.0], [0.5]])).sum(axis=1)
    np.testing.assert_allclose(limits.error[0] / limits.error[1], np.sqrt(rows[0] / rows[1]))


def test_limits_are_nan_where_the_fit_is_undefined() -> None:
    x, y = data(50)
    model = NadarayaWatson(radius=3.0, bounds=[(-9, 9)]).fit(x, y)
    with pytest.warns(UndefinedWarning):
        limits = model.band([[0.0], [10.0]], rng=np.random.default_rng(0))
    assert np.isfinite(limits.low[0])
    assert np.isnan(limits.high[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, r"level must be between 0 and 1, got 1\.0"),
        ({"level": math.nan}, "level must be finite, got nan"),
        ({"noise": "white"}, "noise must be one of constant, local, got 'white'"),
        ({"undersmooth": 0.0}, r"undersmooth must be finite and greater than 0, got 0\.0"),
        ({"replicates": 3}, "replicates must be at least 20, got 3"),
    ],
)
def test_bad_options_of_a_band_are_refused(options: dict[str, object], message: str) -> None:
    x, y = data(50)
    with pytest.raises(ValueError, match=message):
        NadarayaWatson(radius=3.0).fit(x, y).band(x, rng=np.random.default_rng(0), **options)


def test_limits_work_for_named_columns_and_after_a_round_trip_to_disk(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    x, y = data(60)
    frame = pandas.DataFrame(x, columns=["dose"])
    for bounds in (None, [(-9, 9)]):
        model = NadarayaWatson(radius=3.0, bounds=bounds).fit(frame, y)
        joblib.dump(model, tmp_path / "model.joblib")
        again = joblib.load(tmp_path / "model.joblib")
        limits = model.interval(frame[:5], undersmooth=1.2, noise="local")
        np.testing.assert_array_equal(
            again.interval(frame[:5], undersmooth=1.2, noise="local").low, limits.low
        )
        assert np.isfinite(model.band(frame[:5], rng=np.random.default_rng(0)).high).all()


def test_limits_need_one_response_and_neighbours() -> None:
    x, y = data(50)
    with pytest.raises(ValueError, match=r"y must be one-dimensional for limits, got \(50, 2\)"):
        NadarayaWatson(radius=3.0).fit(x, np.column_stack([y, y])).interval(x)
    lonely = NadarayaWatson("gaussian", radius=1.0).fit([[0.0], [1e3]], [1.0, 2.0])
    with pytest.raises(ValueError, match="radius must leave each sample neighbours"):
        lonely.interval([[0.0]])


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_radius_rules_see_the_responses(rule: str) -> None:
    x, y = data(200)
    slow = NadarayaWatson(radius=rule).fit(x, y).radius_[0]
    fast = NadarayaWatson(radius=rule).fit(x, np.sin(12 * x[:, 0])).radius_[0]
    assert fast > 2 * slow
