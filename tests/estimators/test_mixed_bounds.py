"""Bounds beside categories: estimates of the numbers alone with the weights of levels, refits."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fourierkernels import tables
from fourierkernels.estimators import (
    KernelDensity,
    MixedDensity,
    MixedRegression,
    NadarayaWatson,
    UndefinedWarning,
)
from fourierkernels.foundation.arrays import FloatArray

BOUNDS, SMOOTHING, RADIUS = [(0.0, None), (-1.0, 1.0)], 0.2, np.array([2.0, 3.0])
KERNELS = ["gaussian", "fourier4", "fourier1"]
METHODS = ["auto", "bandlimited", "reference"]


def table(n: int) -> tuple[FloatArray, FloatArray]:
    """A number from 0 on, a level of three, a number in [-1, 1]; and responses."""
    rng = np.random.default_rng(0)
    level = rng.integers(3, size=n)
    X = np.column_stack([rng.exponential(1.0 + level), level, rng.uniform(-1, 1, n)])
    return X, np.sin(X[:, 0]) + 0.5 * level + 0.1 * rng.normal(size=n)


def queries() -> FloatArray:
    return np.column_stack([np.linspace(0, 5, 12), np.arange(12) % 3, np.linspace(-1, 1, 12)])


def levels(at: FloatArray, X: FloatArray) -> FloatArray:
    return np.where(at[:, None, 1] == X[None, :, 1], 1 - SMOOTHING, SMOOTHING / 2)


def numbers(X: FloatArray) -> FloatArray:
    return np.delete(X, 1, axis=1)


def estimator(kind: type, kernel: str, **options: Any) -> Any:
    return kind(kernel, **{"radius": RADIUS, "bounds": BOUNDS, **options})


def density(kernel: str, **options: Any) -> MixedDensity:
    plain = estimator(KernelDensity, kernel, **options)
    return MixedDensity(plain, unordered=[1], smoothing=SMOOTHING)


def regression(kernel: str, **options: Any) -> MixedRegression:
    plain = estimator(NadarayaWatson, kernel, **options)
    return MixedRegression(plain, unordered=[1], smoothing=SMOOTHING)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_estimates_are_those_of_the_numbers_with_the_weights_of_levels(
    kernel: str, method: str
) -> None:
    X, y = table(120)
    found = density(kernel, method=method).fit(X).density(queries())
    model = regression(kernel, method=method).fit(X, y)
    fits = model.predict(queries())
    np.testing.assert_allclose(model.weights(queries()) @ y, fits, rtol=0, atol=1e-9)
    for j, (at, weights) in enumerate(zip(queries(), levels(queries(), X), strict=True)):
        options = {"method": "reference", "weighting": "importance"}
        plain = estimator(KernelDensity, kernel, **options).fit(numbers(X), None, weights)
        expected = plain.density(numbers(at[None]))[0] * weights.sum() / len(X)
        assert found[j] == pytest.approx(expected, abs=1e-12)
        smooth = estimator(NadarayaWatson, kernel, **options).fit(numbers(X), y, weights)
        assert fits[j] == pytest.approx(smooth.predict(numbers(at[None]))[0], abs=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_density_integrates_to_one_within_the_bounds(kernel: str) -> None:
    model = density(kernel).fit(table(60)[0])
    tail = {"gaussian": 1e-10, "fourier4": 2e-5, "fourier1": 2e-2}[kernel]  # beyond the grid
    x, y = np.linspace(0, 60, 1201), np.linspace(-1, 1, 161)
    total = 0.0
    for level in range(3):
        at = np.stack(np.meshgrid(x, [level], y, indexing="ij"), axis=-1).reshape(-1, 3)
        values = model.density(at).reshape(len(x), len(y))
        total += float(np.trapezoid(np.trapezoid(values, y), x))
    assert total == pytest.approx(1.0, abs=tail + 2e-4)  # of the trapezoidal rule


def test_beyond_the_bounds_there_is_no_density_and_no_fit() -> None:
    X, y = table(60)
    at = np.array([[-0.1, 0.0, 0.0], [1.0, 0.0, 1.1], [1.0, 0.0, 0.0]])
    model = density("fourier4").fit(X)
    assert model.density(at)[:2].tolist() == [0.0, 0.0]
    assert model.density(at)[2] > 0
    assert model.score_samples(at)[:2].tolist() == [-np.inf, -np.inf]
    with pytest.warns(UndefinedWarning, match="2 of 3 queries"):
        fit = regression("fourier4").fit(X, y).predict(at)
    assert np.isnan(fit).tolist() == [True, True, False]
    draws = np.array(model.sample(200, rng=np.random.default_rng(0)))
    assert (draws[:, 0] >= 0).all()
    assert (np.abs(draws[:, 2]) <= 1).all()


@pytest.mark.parametrize("kernel", ["gaussian", "fourier4"])
def test_leave_one_out_is_the_fit_without_the_sample(kernel: str) -> None:
    X, y = table(25)
    others = [np.arange(25) != i for i in range(25)]
    fits = [
        regression(kernel).fit(X[rest], y[rest]).predict(X[[i]])[0] for i, rest in enumerate(others)
    ]
    model = regression(kernel).fit(X, y)
    np.testing.assert_allclose(model.leave_one_out(), fits, rtol=0, atol=1e-8)
    found = [density(kernel).fit(X[rest]).density(X[[i]])[0] for i, rest in enumerate(others)]
    np.testing.assert_allclose(density(kernel).fit(X).leave_one_out(), found, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.hat_diagonal(), np.diag(model.weights(X)), rtol=1e-9)
    residuals = model.design_fit().residuals.ravel()
    np.testing.assert_allclose(residuals, y - model.predict(X), atol=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier4"])
def test_variances_are_sums_of_squared_weights(kernel: str) -> None:
    X, y = table(80)
    model, variances = regression(kernel).fit(X, y), np.linspace(1, 2, 80)
    squares = np.square(model.weights(queries())) @ variances
    assert model.squared_weight_sums(queries(), variances) == pytest.approx(squares, rel=1e-10)
    shifted = model.smooth(queries(), np.column_stack([y, y + 1.0]))
    np.testing.assert_allclose(shifted.T, model.predict(queries()) + np.arange(2.0)[:, None])


def test_rules_choose_as_without_bounds() -> None:
    X = table(150)[0]
    bounded, free = (
        MixedDensity(KernelDensity("gaussian", bounds=ends), unordered=[1]).fit(X)
        for ends in (BOUNDS, None)
    )
    np.testing.assert_array_equal(bounded.radius_, free.radius_)
    at = np.array([[0.0, 1.0, 0.5]])
    assert bounded.density(at) > 1.5 * free.density(at)  # where half the mass would be lost


def test_a_sample_beyond_the_bounds_is_refused() -> None:
    X = table(20)[0]
    X[3, 0] = -0.5
    with pytest.raises(ValueError, match=r"bounds must contain all .*: 1 lie outside"):
        density("gaussian").fit(X)


def test_a_table_with_categories_takes_bounds() -> None:
    X = table(90)[0]
    frame = pd.DataFrame({"x": X[:, 0], "level": X[:, 1].astype(int).astype(str)})
    found = tables.describe_density(frame, "x", categories=["level"], bounds=(0, None))
    assert len(found.groups) == 3
    assert [row["region"][0][0] for row in found.rows()] == [0.0] * 3
