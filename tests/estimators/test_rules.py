"""A radius rule is a row: one from outside the package is offered wherever rules are."""

import numpy as np
import pytest

from fourierkernels import KernelDensity, NadarayaWatson, simulation
from fourierkernels.estimators import (
    CONDITIONAL_RULES,
    GAUSSIAN_RULES,
    RADIUS_RULES,
    REGRESSION_RULES,
    ConditionalDensity,
    DesignFit,
)
from fourierkernels.estimators.design import FitDesign
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel, as_kernel


def three(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    return np.full(points.shape[1], 3.0)


def least_residuals(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
    fit_design: FitDesign,
) -> FloatArray:
    """Of two radii, the one with smaller residuals."""

    def size(radius: FloatArray) -> float:
        columns = responses.reshape(len(points), -1)
        return float(
            np.square(fit_design(points, weights, columns, kernel, radius).residuals).sum()
        )

    return min((np.array([1.0]), np.array([4.0])), key=size)


def data(dim: int = 1) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(80, dim))
    return x, np.sin(3 * x[:, 0])


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(RADIUS_RULES, "three", Rule("three", three, "always 3", "derived here"))
    return "three"


def test_a_density_rule_from_outside_serves_every_estimator(rule: str) -> None:
    x, y = data(2)
    assert KernelDensity(radius=rule).fit(x).radius_.tolist() == [3.0, 3.0]
    assert NadarayaWatson(radius=rule).fit(x, y).radius_.tolist() == [3.0, 3.0]
    assert ConditionalDensity(radius=rule).fit(x, y).radius_.tolist() == [3.0, 3.0, 3.0]


def test_a_density_rule_from_outside_serves_simulations(rule: str) -> None:
    options = {"n": 20, "replicates": 3, "rng": np.random.default_rng(0)}
    found = simulation.mise("gaussian", "fourier4", radius=rule, **options)
    assert found.radii.tolist() == [[3.0]] * 3


def test_a_rule_from_outside_is_named_where_one_is_unknown(rule: str) -> None:
    with pytest.raises(ValueError, match=r"radius must be one of .*three.*, got 'four'"):
        KernelDensity(radius="four").fit(data()[0])


def test_a_rule_of_the_gaussian_from_outside_refuses_other_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Rule("three", three, "always 3", "derived here", gaussian_only=True)
    monkeypatch.setitem(GAUSSIAN_RULES, "three", row)
    assert KernelDensity("gaussian", radius="three").fit(data()[0]).radius_[0] == 3.0
    with pytest.raises(ValueError, match="kernel must be gaussian for radius='three', got"):
        KernelDensity(radius="three").fit(data()[0])


@pytest.fixture
def regression_rule(monkeypatch: pytest.MonkeyPatch) -> str:
    row = Rule("least", least_residuals, "least residuals", "derived here", needs_responses=True)
    monkeypatch.setitem(REGRESSION_RULES, "least", row)
    return "least"


def test_a_rule_of_regression_from_outside_sees_responses_and_the_fit(regression_rule: str) -> None:
    x, y = data()
    assert NadarayaWatson(radius=regression_rule).fit(x, y).radius_[0] == 4.0
    with pytest.raises(ValueError, match="radius must be a rule that needs no responses"):
        KernelDensity(radius=regression_rule).fit(x)


@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_rules_of_regression_minimise_over_the_fits_they_are_given(rule: str) -> None:
    """A smoother of another kind gives its own fits: here those of the best radius, 2.5."""
    x, y = data()

    def fit_design(
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        kernel: Kernel,
        radius: FloatArray,
        weighting: str,
    ) -> DesignFit:
        assert weighting == "frequency"
        none = np.zeros(len(points), bool)
        residuals = np.full(responses.shape, 1.0 + np.log(radius[0] / 2.5) ** 2)
        return DesignFit(residuals, np.zeros(len(points)), weights, weights, none, none)

    options = {"radius": rule, "bandwidth": None, "responses": y, "fit_design": fit_design}
    found = choose_radius(x, np.ones(80), as_kernel("fourier4"), **options)
    assert found[0] == pytest.approx(2.5, rel=1e-3)


def test_a_conditional_rule_from_outside_is_taken_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Rule("least", least_residuals, "least residuals", "derived here", needs_responses=True)
    monkeypatch.setitem(CONDITIONAL_RULES, "least", row)
    x, y = data()
    assert ConditionalDensity(radius="least").fit(x, y).radius_[0] == 4.0
    with pytest.raises(ValueError, match=r"radius must be one of .*conditional_lscv.*least, got"):
        ConditionalDensity(radius="four").fit(x, y)
