"""The contract of linear smoothers: a weight matrix is enough, and brute force agrees."""

import math

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fourierkernels import NadarayaWatson
from fourierkernels.estimators import (
    LinearSmoother,
    UndefinedWarning,
    gcv_score,
    loo_score,
    smoother,
)
from fourierkernels.sums import factors


class RunningMean(LinearSmoother):
    """Mean of the responses within a distance, by its weights alone."""

    def __init__(self, width: float = 0.8) -> None:
        self.width = width

    def weight_rows(self, queries: np.ndarray) -> np.ndarray:
        near = np.abs(queries - self.points_[:, 0]) <= self.width
        rows = near * self.weights_
        with np.errstate(invalid="ignore"):
            return rows / rows.sum(axis=1, keepdims=True)


class LocalLine(LinearSmoother):
    """Weighted straight line through the neighbours of each query: no multiple of weights."""

    def weight_rows(self, queries: np.ndarray) -> np.ndarray:
        rows = []
        for query in queries:
            gap = self.points_[:, 0] - query
            weights = self.weights_ * np.exp(-0.5 * np.square(gap / 0.5))
            design = np.column_stack([np.ones(len(gap)), gap])
            inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
            rows.append(inverse[0] @ (design.T * weights))
        return np.array(rows)


class PlainNadarayaWatson(LinearSmoother):
    """The kernel regression by its weights: every fast path of the package has this beside it."""

    def __init__(self, radius: float = 2.0) -> None:
        self.radius = radius

    def weight_rows(self, queries: np.ndarray) -> np.ndarray:
        model = NadarayaWatson(radius=self.radius, method="reference")
        return model.fit(self.points_, self.responses_, self.weights_).weights(queries)


SMOOTHERS = [RunningMean, LocalLine]


def data(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, (n, 1)), axis=0)
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


def refitted(kind: type, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Predictions at each sample by a smoother fitted without it, however often it counts."""
    left = []
    for i in range(len(x)):
        rest = weights.copy()
        rest[i] = 0.0
        left.append(kind().fit(x, y, rest).predict(x[i : i + 1])[0])
    return np.array(left)


@pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
@pytest.mark.parametrize("kind", SMOOTHERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_refitting_without_the_sample(kind: type, weighted: bool) -> None:
    x, y = data()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    left = kind().fit(x, y, weights).leave_one_out()
    np.testing.assert_allclose(left, refitted(kind, x, y, weights), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", SMOOTHERS)
def test_leave_one_out_of_several_responses_is_that_of_each(kind: type) -> None:
    x, y = data()
    both = kind().fit(x, np.column_stack([y, -2 * y])).leave_one_out()
    one = kind().fit(x, y).leave_one_out()
    np.testing.assert_allclose(both, np.column_stack([one, -2 * one]), rtol=1e-10)


@pytest.mark.parametrize("kind", SMOOTHERS)
def test_scores_are_their_formulas_with_the_weight_matrix(kind: type) -> None:
    x, y = data()
    model = kind().fit(x, y)
    hat = model.weights(x)
    expected = np.mean(np.square(y - hat @ y)) / (1 - np.trace(hat) / 60) ** 2
    assert gcv_score(model.design_fit()) == pytest.approx(expected, rel=1e-10)
    errors = y - refitted(kind, x, y, np.ones(60))
    assert loo_score(model.design_fit()) == pytest.approx(np.mean(errors**2), rel=1e-9)


@pytest.mark.parametrize("kind", SMOOTHERS)
def test_scores_count_whole_number_weights_as_repetitions(kind: type) -> None:
    x, y = data(40)
    counts = np.random.default_rng(2).integers(0, 4, 40)
    weighted = kind().fit(x, y, counts).design_fit()
    repeated = kind().fit(np.repeat(x, counts, axis=0), np.repeat(y, counts)).design_fit()
    for score in (gcv_score, loo_score):
        assert score(weighted) == pytest.approx(score(repeated), rel=1e-9)


def test_scores_are_infinite_where_a_sample_is_alone() -> None:
    x = np.append(data()[0], [[9.0]], axis=0)
    fit = RunningMean().fit(x, np.arange(61.0)).design_fit()
    assert fit.lost == 1
    assert loo_score(fit) == math.inf
    assert math.isfinite(gcv_score(fit))


@pytest.mark.parametrize("kind", SMOOTHERS)
@pytest.mark.parametrize("noise", ["constant", "local"])
def test_interval_has_the_standard_error_of_the_weight_matrix(kind: type, noise: str) -> None:
    x, y = data()
    model, at = kind().fit(x, y), np.linspace(-1.5, 1.5, 9)[:, None]
    limits, hat, rows = model.interval(at, noise=noise), model.weights(x), model.weights(at)
    spread = 1 - 2 * np.diag(hat) + np.square(hat).sum(axis=1)
    squares = np.square(y - hat @ y) / spread
    variances = np.full(60, squares.mean()) if noise == "constant" else hat @ squares
    error = np.sqrt(np.square(rows) @ np.maximum(variances, 0.0))
    np.testing.assert_allclose(limits.error, error, rtol=1e-10)
    np.testing.assert_allclose(limits.centre, rows @ y, rtol=1e-10)
    np.testing.assert_allclose(limits.high - limits.low, 2 * 1.959963984540054 * error, rtol=1e-9)


@pytest.mark.parametrize("kind", SMOOTHERS)
def test_band_is_the_bootstrap_written_out(kind: type) -> None:
    x, y = data()
    model, at = kind().fit(x, y), np.linspace(-1.5, 1.5, 9)[:, None]
    limits = model.band(at, rng=np.random.default_rng(5), replicates=40)
    draws = np.random.default_rng(5).standard_normal((60, 40))
    scale = math.sqrt(
        float(model.interval(at).error[0] ** 2 / model.squared_weight_sums(at, np.ones(60))[0])
    )
    highest = np.abs(model.weights(at) @ (scale * draws) / limits.error[:, None]).max(axis=0)
    assert limits.critical == pytest.approx(np.quantile(highest, 0.95, method="higher"), rel=1e-9)


def test_fit_is_nan_where_no_sample_is_near_and_limits_with_it() -> None:
    model = RunningMean().fit(*data())
    limits = model.interval([[0.0], [50.0]])
    assert np.isfinite(limits.low[0])
    assert np.isnan([model.predict([[50.0]])[0], limits.low[1]]).all()


def test_a_smoother_without_a_radius_refuses_to_undersmooth() -> None:
    with pytest.raises(ValueError, match=r"undersmooth must be 1 for RunningMean, got 1\.5"):
        RunningMean().fit(*data()).interval([[0.0]], undersmooth=1.5)


@pytest.mark.parametrize("bounds", [None, [(-2.0, 2.0)]])
def test_kernel_regression_answers_as_its_weight_matrix_does(bounds: object) -> None:
    """Each fast path of the Nadaraya-Watson smoother is the default of the contract."""
    x, y = data()
    model = NadarayaWatson(radius=2.0, bounds=bounds, method="direct").fit(x, y)
    at, variances = x[::7], np.linspace(1.0, 2.0, 60)
    plain = LinearSmoother
    for name, arguments in (
        ("fit_at", (at,)),
        ("smooth", (at, y[:, None])),
        ("hat_diagonal", ()),
        ("squared_weight_sums", (at, variances)),
        ("leave_one_out", ()),
    ):
        fast, slow = getattr(model, name)(*arguments), getattr(plain, name)(model, *arguments)
        np.testing.assert_allclose(fast, slow, rtol=1e-8, atol=1e-12, err_msg=name)
    for score in (gcv_score, loo_score):
        expected = score(plain.design_fit(model))
        assert score(model.design_fit()) == pytest.approx(expected, rel=1e-8)


def test_the_contract_alone_is_a_kernel_regression_with_the_same_limits() -> None:
    x, y = data()
    fast, slow = NadarayaWatson(radius=2.0).fit(x, y), PlainNadarayaWatson().fit(x, y)
    mine, other = (model.interval(x[:9]) for model in (fast, slow))
    np.testing.assert_allclose(mine.low, other.low, rtol=1e-8)


def test_images_count_in_the_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    block, held = 2_000, []
    matrix = factors.kernel_matrix

    def noted(points: np.ndarray, queries: np.ndarray, **options: object) -> object:
        held.append(len(points) * len(queries))
        return matrix(points, queries, **options)

    monkeypatch.setattr(smoother, "_BLOCK", block)
    monkeypatch.setattr(factors, "kernel_matrix", noted)
    x = np.random.default_rng(1).uniform(0.1, 0.9, size=(40, 2))
    model = NadarayaWatson("fourier2", radius=9.0, bounds=2 * [(0.0, 1.0)]).fit(x, x[:, 0])
    model.interval(x[:2])
    assert 0.5 * block < max(held) <= block


def test_smoothing_is_undefined_out_of_bounds_as_the_fit_is() -> None:
    x = np.random.default_rng(0).uniform(0.1, 0.9, size=(60, 1))
    model = NadarayaWatson("fourier2", radius=9.0, bounds=[(0.0, 1.0)]).fit(x, np.sin(x[:, 0]))
    at = np.array([[-0.2], [0.5], [1.2]])
    with pytest.warns(UndefinedWarning):
        fit = model.fit_at(at)
    np.testing.assert_array_equal(model.smooth(at, np.sin(x))[:, 0], fit)
    np.testing.assert_array_equal(np.isnan(fit), [True, False, True])


def test_a_model_without_a_fit_says_so_before_it_looks_at_the_level() -> None:
    for ask in (NadarayaWatson().interval, NadarayaWatson().band):
        with pytest.raises(NotFittedError):
            ask([[0.0]], level=7, **({"rng": None} if ask.__name__ == "band" else {}))
