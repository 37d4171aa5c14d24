"""Estimators: scikit-learn's contract, identities, agreement with peers, bad input."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity as SklearnKernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from tolerances import TOLERANCE

from fourierkernels import KernelDensity, LocalPolynomial, NadarayaWatson
from fourierkernels.estimators import RADIUS_RULES, UndefinedWarning
from fourierkernels.kernels import KERNELS
from fourierkernels.theory import mise

FAST = TOLERANCE["float64"]["fast"]


def data(n: int = 200, dim: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize(
    "estimator",
    [KernelDensity(), NadarayaWatson(), LocalPolynomial(degree=0)],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_contract_holds(estimator: object) -> None:
    results = check_estimator(estimator, on_fail=None)
    failed = [r["check_name"] for r in results if r["status"] not in {"passed", "skipped"}]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) > 30


# --- density ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_density_integrates_to_one(name: str) -> None:
    x, _ = data(50)
    model = KernelDensity(name, radius=3.0).fit(x)
    step = 0.05
    grid = np.arange(-4000, 4000, step).reshape(-1, 1) * (1 if name == "fourier1" else 0.1)
    total = model.density(grid).sum() * (grid[1, 0] - grid[0, 0])
    assert total == pytest.approx(1.0, abs=3e-3 if name in {"fourier1", "fourier2"} else 1e-6)


def test_gaussian_density_agrees_with_scipy_and_scikit_learn() -> None:
    x, _ = data(300, 2)
    at, h = data(40, 2, seed=1)[0], 0.37
    mine = KernelDensity("gaussian", bandwidth=h).fit(x)
    peer = SklearnKernelDensity(bandwidth=h, rtol=1e-12).fit(x)
    np.testing.assert_allclose(mine.score_samples(at), peer.score_samples(at), rtol=1e-9)
    factor = h / math.sqrt(float(np.cov(x[:, 0])))
    scipy_model = stats.gaussian_kde(x[:, 0], bw_method=factor)
    one = KernelDensity("gaussian", bandwidth=h).fit(x[:, :1])
    np.testing.assert_allclose(one.density(at[:, :1]), scipy_model(at[:, 0]), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_repeated_samples_equal_whole_number_weights(name: str) -> None:
    x, _ = data(40, 2)
    counts = np.random.default_rng(3).integers(0, 4, 40)
    at = data(10, 2, seed=5)[0]
    weighted = KernelDensity(name).fit(x, sample_weight=counts)
    repeated = KernelDensity(name).fit(np.repeat(x, counts, axis=0))
    np.testing.assert_allclose(weighted.radius_, repeated.radius_, rtol=1e-12)
    np.testing.assert_allclose(weighted.density(at), repeated.density(at), rtol=1e-9, atol=1e-12)


def test_negative_density_is_returned_and_its_logarithm_is_nan_with_a_count() -> None:
    model = KernelDensity("fourier1", radius=5.0).fit([[0.0]])
    at = [[0.0], [4.4934 / 5.0]]
    assert model.density(at)[1] < 0 < model.density(at)[0]
    with pytest.warns(UndefinedWarning, match="1 of 2 queries have a negative density"):
        log = model.score_samples(at)
    assert np.isnan(log[1])
    assert np.isfinite(log[0])


def test_log_density_does_not_underflow() -> None:
    x = np.random.default_rng(0).normal(size=(30, 128))
    log = KernelDensity("gaussian", bandwidth=0.05).fit(x[1:]).score_samples(x[:1])
    assert np.isfinite(log).all()
    assert log[0] < -745


def test_normal_reference_of_the_sinc_kernel_is_its_closed_rule() -> None:
    """|p̂(R)|² = 1/(n + 1) with p Gaussian: R = sqrt(log(n + 1)) / scale."""
    x = np.random.default_rng(0).normal(size=(500, 1))
    model = KernelDensity("fourier1").fit(x)
    std = x.std()
    quartiles = np.quantile(x, [0.25, 0.75], method="inverted_cdf")
    scale = min(std, float(np.diff(quartiles)[0]) / 1.3489795)
    assert model.radius_[0] == pytest.approx(math.sqrt(math.log(501)) / scale, rel=1e-6)


def test_normal_reference_minimises_the_exact_error_for_gaussian_data() -> None:
    x = np.random.default_rng(1).normal(size=(400, 1))
    for name in KERNELS:
        model = KernelDensity(name).fit((x - x.mean()) / x.std())
        best = mise("gaussian", name, n=400, radius=model.radius_).total
        for factor in (0.5, 2.0):
            assert best < mise("gaussian", name, n=400, radius=factor * model.radius_).total


@pytest.mark.parametrize("rule", RADIUS_RULES)
def test_rules_scale_with_the_data(rule: str) -> None:
    x, _ = data(100, 2)
    plain = KernelDensity(radius=rule).fit(x).radius_
    scaled = KernelDensity(radius=rule).fit(x * [10.0, 0.1]).radius_
    np.testing.assert_allclose(scaled * [10.0, 0.1], plain, rtol=1e-9)


# --- regression ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dim", [1, 3])
def test_rows_of_the_weight_matrix_sum_to_one_and_give_the_prediction(name: str, dim: int) -> None:
    x, y = data(80, dim)
    model = NadarayaWatson(name, radius=1.5).fit(x, y)
    at = 0.5 * data(20, dim, seed=2)[0]
    weights = model.weights(at)
    assert weights.shape == (20, 80)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(weights @ y, model.predict(at), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_regression_reproduces_constants(name: str) -> None:
    x, _ = data(50)
    model = NadarayaWatson(name, radius=2.0).fit(x, np.full(50, 3.25))
    np.testing.assert_allclose(model.predict(0.3 * x), 3.25, rtol=1e-9)


def test_prediction_is_the_ratio_of_sums_written_out() -> None:
    x, y = data(30)
    predicted = NadarayaWatson("gaussian", bandwidth=0.4).fit(x, y).predict([[0.2]])
    weight = np.exp(-0.5 * ((0.2 - x[:, 0]) / 0.4) ** 2)
    assert predicted[0] == pytest.approx(weight @ y / weight.sum(), rel=FAST)


def test_several_responses_are_predicted_together() -> None:
    x, y = data(60)
    both = NadarayaWatson(radius=2.0).fit(x, np.column_stack([y, -2 * y])).predict(x[:5])
    one = NadarayaWatson(radius=2.0).fit(x, y).predict(x[:5])
    np.testing.assert_allclose(both, np.column_stack([one, -2 * one]), rtol=1e-9)


def test_undefined_predictions_are_nan_with_a_count_or_an_error_on_request() -> None:
    radius = 3.0
    lattice = (math.pi / radius * np.arange(30.0)).reshape(-1, 1)
    at = np.vstack([lattice[25:27], [[0.1]]])
    model = NadarayaWatson("fourier2", radius=radius).fit(lattice[:10], np.arange(10.0))
    with pytest.warns(UndefinedWarning, match="2 of 3 queries have a denominator within"):
        predicted = model.predict(at)
    assert np.isnan(predicted[:2]).all()
    assert np.isfinite(predicted[2])
    strict = NadarayaWatson("fourier2", radius=radius, undefined="raise").fit(
        lattice[:10], np.arange(10.0)
    )
    with pytest.raises(ValueError, match="X must lie where the regression is defined: 2 of 3"):
        strict.predict(at)


def test_works_in_a_pipeline_a_grid_search_and_after_cloning() -> None:
    x, y = data(120)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), NadarayaWatson()),
        {"nadarayawatson__radius": [0.5, 4.0, 8.0]},
    ).fit(x, y)
    assert search.best_params_["nadarayawatson__radius"] > 0.5
    assert search.best_score_ > 0.5
    assert clone(NadarayaWatson("fourier2", radius=2.0)).get_params()["kernel"] == "fourier2"


def test_float32_and_integers_are_computed_in_float64() -> None:
    x, y = data(50)
    single = x.astype(np.float32)
    mine = NadarayaWatson(radius=2.0).fit(single, y).predict(single)
    np.testing.assert_array_equal(
        mine, NadarayaWatson(radius=2.0).fit(single.astype(float), y).predict(single)
    )
    assert KernelDensity(radius=1.0).fit([[0], [1], [2]]).density([[1]]).dtype == np.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "radius must be positive and finite, got 0.0"),
        ({"radius": [1.0, -2.0]}, "radius must be positive and finite, got -2.0"),
        ({"radius": [1.0, 2.0, 3.0]}, r"radius must be a number or have shape \(2,\)"),
        ({"bandwidth": -1.0}, "bandwidth must be positive and finite, got -1.0"),
        ({"bandwidth": 1.0, "radius": 1.0}, "radius and bandwidth exclude each other"),
        ({"radius": "silver"}, "radius must be one of normal_reference.* got 'silver'"),
        ({"kernel": "box"}, "kernel must be one of gaussian, .*got 'box'"),
        ({"method": "magic"}, "method must be one of auto, .*got 'magic'"),
    ],
)
@pytest.mark.parametrize("estimator", [KernelDensity, NadarayaWatson])
def test_bad_parameters_are_refused(
    estimator: type, options: dict[str, object], message: str
) -> None:
    x, y = data(20, 2)
    with pytest.raises(ValueError, match=message):
        estimator(**options).fit(x, y)


def test_bad_data_are_refused() -> None:
    x, y = data(20)
    bad = x.copy()
    bad[3] = math.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        KernelDensity().fit(bad)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        NadarayaWatson().fit(x, y[:-1])
    with pytest.raises(ValueError, match=r"minimum of 1 is required|0 sample"):
        KernelDensity().fit(np.zeros((0, 2)))
    with pytest.raises(ValueError, match=r"column 0 constant at 1\.0"):
        KernelDensity().fit(np.ones((5, 1)))
    with pytest.raises(ValueError, match="undefined must be one of nan, raise, got 'zero'"):
        NadarayaWatson(undefined="zero").fit(x, y)
    with pytest.raises(ValueError, match="expecting 1 features"):
        KernelDensity().fit(x).density(np.ones((2, 3)))
    with pytest.raises(NotFittedError):
        KernelDensity().density(x)


def test_no_warning_where_everything_is_defined() -> None:
    x, y = data(50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = NadarayaWatson("gaussian").fit(x, y).predict(x)
    assert np.isfinite(predicted).all()
