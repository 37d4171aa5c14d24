"""Radius rules of regressions: closed forms against refits, minima, undefined predictions."""

import numpy as np
import pytest

from fourierkernels import NadarayaWatson
from fourierkernels.estimators.design import (
    aicc_score,
    gcv_score,
    loo_score,
    nadaraya_watson_design,
)
from fourierkernels.estimators.radius import REGRESSION_RULES, choose_radius
from fourierkernels.kernels import KERNELS, as_kernel

SCORES = {"loo": loo_score, "gcv": gcv_score, "aicc": aicc_score}


def data(n: int = 120, dim: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, dim))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)


def rule_radius(
    rule: str, x: np.ndarray, y: np.ndarray, kernel: str, weights: object = None
) -> np.ndarray:
    weights = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    return choose_radius(x, weights, as_kernel(kernel), radius=rule, bandwidth=None, responses=y)


def score_at(rule: str, x: np.ndarray, y: np.ndarray, kernel: str, radius: object) -> float:
    weights = np.ones(len(x))
    fit = nadaraya_watson_design(
        x, weights, y.reshape(len(x), -1), as_kernel(kernel), np.atleast_1d(radius)
    )
    return SCORES[rule](fit)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_error_is_that_of_refits(name: str, weighted: bool) -> None:
    x, y = data(40)
    weights = np.random.default_rng(2).uniform(0.2, 1.0, 40) if weighted else np.ones(40)
    radius = np.array([3.0])
    fit = nadaraya_watson_design(x, weights, y[:, None], KERNELS[name], radius)
    errors = []
    for j in range(40):
        rest = np.arange(40) != j
        model = NadarayaWatson(name, radius=radius).fit(x[rest], y[rest], weights[rest])
        errors.append(y[j] - model.predict(x[j : j + 1])[0])
    expected = weights @ np.square(errors) / weights.sum()
    assert loo_score(fit) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_generalised_cross_validation_is_its_formula_with_the_hat_matrix(name: str) -> None:
    x, y = data(60)
    model = NadarayaWatson(name, radius=3.0).fit(x, y)
    hat = model.weights(x)
    expected = np.mean((y - hat @ y) ** 2) / (1 - np.trace(hat) / 60) ** 2
    assert score_at("gcv", x, y, name, 3.0) == pytest.approx(expected, rel=1e-9)


def rounded(n: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.sort(np.round(rng.uniform(-2, 2, 40), 3))
    y = np.round(np.sin(3 * x) + 0.3 * rng.normal(size=40), 3)
    if dim == 1:
        return x[:, None], y
    x = np.round(rng.normal(size=(n, 2)), 3)
    return x, np.round(x[:, 0] ** 2 + x[:, 1], 3)


@pytest.mark.parametrize(
    ("n", "bandwidth", "expected"),
    [(40, [0.2], -0.60091961), (40, [0.5], 0.04635928), (30, [0.3, 0.5], -0.87083757)],
)
def test_corrected_criterion_is_that_of_statsmodels(
    n: int, bandwidth: list[float], expected: float
) -> None:
    """``KernelReg(y, x, "c", reg_type="lc").aic_hurvich(bw)`` of statsmodels 0.15.0."""
    x, y = rounded(n, len(bandwidth))
    fit = NadarayaWatson("gaussian", bandwidth=bandwidth).fit(x, y).design_fit()
    assert aicc_score(fit) == pytest.approx(expected, abs=1e-8)


def test_corrected_criterion_is_infinite_without_degrees_of_freedom() -> None:
    x, y = data(30)
    assert np.isinf(score_at("aicc", x, y, "gaussian", 1e4))
    assert np.isfinite(score_at("aicc", x, y, "gaussian", 3.0))


def test_generalised_cross_validation_refuses_a_negative_trace() -> None:
    """Between the poles of the sinc kernel tr H can be negative, and (1 - tr H/n)² large."""
    x, y = data(400, seed=1)
    radius = 25.5 * rule_radius("normal_reference", x, y, "fourier1")
    fit = nadaraya_watson_design(x, np.ones(400), y[:, None], as_kernel("fourier1"), radius)
    assert fit.leverage.sum() < 0
    assert np.isinf(gcv_score(fit))
    assert np.isinf(aicc_score(fit))
    assert np.isfinite(loo_score(fit))


@pytest.mark.parametrize("seed", [1, 2, 6])
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4"])
def test_radius_is_the_global_minimum_of_a_brute_force_grid(name: str, seed: int) -> None:
    """Over the whole range of radii tried, 0.1 to 32 normal-reference radii, 1 % apart."""
    x, y = data(60, seed=seed)
    start, kernel = rule_radius("normal_reference", x, y, name), as_kernel(name)
    grid = start * np.geomspace(0.1, 32.0, 578)
    fits = [nadaraya_watson_design(x, np.ones(60), y[:, None], kernel, np.array([r])) for r in grid]
    for rule, score in SCORES.items():
        found = score_at(rule, x, y, name, rule_radius(rule, x, y, name))
        assert found <= min(score(fit) for fit in fits) + 1e-9


@pytest.mark.parametrize("rule", REGRESSION_RULES)
@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
def test_radius_minimises_its_score_to_a_thousandth(rule: str, name: str) -> None:
    x, y = data()
    found = rule_radius(rule, x, y, name)
    least = score_at(rule, x, y, name, found)
    for radius in found * np.geomspace(0.4, 2.5, 60):
        other = score_at(rule, x, y, name, radius)
        assert least <= other + 1e-3 * abs(other)


@pytest.mark.parametrize("rule", REGRESSION_RULES)
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
def test_radius_gives_nearly_the_least_true_error(rule: str, name: str) -> None:
    x, y = data(2000)
    truth = np.sin(3 * x[:, 0])
    inside = np.abs(x[:, 0]) < 1.7

    def error(radius: np.ndarray) -> float:
        predicted = NadarayaWatson(name, radius=radius).fit(x, y).predict(x[inside])
        return float(np.mean((predicted - truth[inside]) ** 2))

    found = rule_radius(rule, x, y, name)
    best = min(error(found * factor) for factor in np.geomspace(0.3, 2.0, 25))
    assert error(found) < 2.0 * best


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_a_dimension_without_influence_is_smoothed_over(rule: str) -> None:
    x, y = data(500, 2)
    radius = rule_radius(rule, x, y, "fourier4")
    assert radius[0] > 3 * radius[1]


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_three_dimensions_have_a_radius_each(rule: str) -> None:
    x, y = data(400, 3)
    radius = rule_radius(rule, x, y, "gaussian")
    assert radius.shape == (3,)
    assert radius[0] > radius[1:].max()
    assert score_at(rule, x, y, "gaussian", radius) < score_at(
        rule, x, y, "gaussian", np.full(3, radius[0])
    )


@pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_whole_number_weights_are_repetitions(rule: str) -> None:
    x, y = data(100)
    counts = np.random.default_rng(1).integers(0, 3, 100)
    weighted = rule_radius(rule, x, y, "fourier4", counts)
    repeated = rule_radius(rule, np.repeat(x, counts, axis=0), np.repeat(y, counts), "fourier4")
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_radius_scales_with_the_design_and_not_with_the_responses(rule: str) -> None:
    x, y = data()
    plain = rule_radius(rule, x, y, "fourier4")
    np.testing.assert_allclose(rule_radius(rule, 0.01 * x, y, "fourier4") / 100, plain, rtol=1e-6)
    np.testing.assert_allclose(rule_radius(rule, x, 1e200 * y, "fourier4"), plain, rtol=1e-6)
    order = np.random.default_rng(0).permutation(len(x))
    np.testing.assert_allclose(rule_radius(rule, x[order], y[order], "fourier4"), plain, rtol=1e-6)


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_several_responses_share_a_radius(rule: str) -> None:
    x, y = data()
    both = rule_radius(rule, x, np.column_stack([y, -2 * y]), "fourier4")
    np.testing.assert_allclose(both, rule_radius(rule, x, y, "fourier4"), rtol=1e-3)


def test_leave_one_out_score_is_infinite_where_a_prediction_is_undefined() -> None:
    """At R = 12 the Gaussian at distance 5 from its neighbours is alone; its fit itself exists."""
    x, y = data(50)
    x[0] = 7.0
    assert np.isinf(score_at("loo", x, y, "gaussian", 12.0))
    assert np.isfinite(score_at("gcv", x, y, "gaussian", 12.0))
    assert np.isfinite(score_at("loo", x, y, "gaussian", 1.0))
    radius = rule_radius("loo", x, y, "gaussian")
    assert np.isfinite(score_at("loo", x, y, "gaussian", radius))


def test_undefined_at_every_radius_is_an_error_that_counts() -> None:
    x, y = data(50)
    x[0] = 1e6
    with pytest.raises(ValueError, match=r"radius='loo' must find .* at the smallest, 1 of 50"):
        rule_radius("loo", x, y, "gaussian")


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_constant_responses_constant_design_and_missing_responses(rule: str) -> None:
    x, y = data(30)
    assert rule_radius(rule, x, np.full(30, 2.0), "fourier4") > 0
    assert rule_radius(rule, x, np.zeros(30), "fourier4") > 0
    with pytest.raises(ValueError, match="X must vary in every column"):
        rule_radius(rule, np.ones((30, 1)), y, "fourier4")
    with pytest.raises(ValueError, match=f"needs no responses, got '{rule}', which is for regr"):
        choose_radius(x, np.ones(30), KERNELS["fourier4"], radius=rule, bandwidth=None)


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_zero_weights_are_left_out_of_design_and_score(rule: str) -> None:
    x, y = data(60)
    weights = np.ones(60)
    weights[:5], y[:5] = 0.0, 1e6
    found = rule_radius(rule, x, y, "fourier4", weights)
    np.testing.assert_allclose(found, rule_radius(rule, x[5:], y[5:], "fourier4"), rtol=1e-6)
