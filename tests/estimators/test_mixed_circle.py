"""Circles beside categories: sums over images times kernels on levels, slow scores."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fourierkernels import tables
from fourierkernels.estimators import KernelDensity, MixedDensity, MixedRegression, NadarayaWatson
from fourierkernels.estimators.mixed.choice import DensityScore
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import as_kernel

DAY, SMOOTHING = 24.0, 0.2
RADIUS = np.array([0.6, 1.5])
KERNELS = ["gaussian", "fourier4"]


def table(n: int) -> tuple[FloatArray, FloatArray]:
    """Hours over midnight, a level of three, a number on a line; and responses."""
    rng = np.random.default_rng(0)
    level = rng.integers(3, size=n)
    hour = rng.normal(23.0 + 2.0 * level, 2.0)
    X = np.column_stack([hour, level, rng.normal(size=n)])
    return X, np.sin(2 * np.pi * hour / DAY) + 0.5 * level + 0.1 * rng.normal(size=n)


def weights_of(at: FloatArray, X: FloatArray, kernel: str) -> FloatArray:
    """Sum over images a day apart, times the kernel on the line and that on levels, ``(m, n)``."""
    row = as_kernel(kernel)
    days = DAY * np.arange(-1500, 1501)
    hours = np.array([row.value(RADIUS[0] * (at[:, :1] - x + days)).sum(axis=1) for x in X[:, 0]])
    line = row.value(RADIUS[1] * (at[:, None, 2] - X[None, :, 2]))
    same = at[:, None, 1] == X[None, :, 1]
    levels = np.where(same, 1 - SMOOTHING, SMOOTHING / 2)
    return np.asarray(RADIUS.prod() * hours.T * line * levels)


def estimator(kind: type, kernel: str, **options: Any) -> Any:
    return kind(kernel, **{"radius": RADIUS, "period": [DAY, None], **options})


def density(kernel: str, **options: Any) -> MixedDensity:
    plain = estimator(KernelDensity, kernel, **options)
    return MixedDensity(plain, unordered=[1], smoothing=SMOOTHING)


def regression(kernel: str, **options: Any) -> MixedRegression:
    plain = estimator(NadarayaWatson, kernel, **options)
    return MixedRegression(plain, unordered=[1], smoothing=SMOOTHING)


def queries() -> FloatArray:
    return np.column_stack([np.linspace(-5, 30, 12), np.arange(12) % 3, np.linspace(-1, 1, 12)])


@pytest.mark.parametrize("method", ["bandlimited", "reference"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_estimates_are_sums_over_images_times_the_kernel_on_levels(
    kernel: str, method: str
) -> None:
    X, y = table(120)
    weights = weights_of(queries(), X, kernel)
    found = density(kernel, method=method).fit(X).density(queries())
    np.testing.assert_allclose(found, weights.mean(axis=1), rtol=0, atol=1e-13)
    model = regression(kernel, method=method).fit(X, y)
    expected = weights @ y / weights.sum(axis=1)
    np.testing.assert_allclose(model.predict(queries()), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.weights(queries()) @ y, expected, rtol=0, atol=1e-10)
    squares = np.square(model.weights(queries())).sum(axis=1)
    assert model.squared_weight_sums(queries(), np.ones(120)) == pytest.approx(squares, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_leave_one_out_is_the_fit_without_the_sample(kernel: str) -> None:
    X, y = table(30)
    left = [
        regression(kernel).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0]
        for i in range(30)
    ]
    fitted = regression(kernel).fit(X, y)
    np.testing.assert_allclose(fitted.leave_one_out(), left, rtol=1e-8)
    errors = fitted.design_fit()
    slow = errors.residuals[:, 0] / (1.0 - errors.leverage)
    np.testing.assert_allclose(slow, y - left, rtol=1e-7)
    alone = [density(kernel).fit(np.delete(X, i, 0)).density(X[[i]])[0] for i in range(30)]
    np.testing.assert_allclose(density(kernel).fit(X).leave_one_out(), alone, atol=1e-13)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier2", "fourier4"])
def test_score_is_the_integral_of_the_square_less_twice_the_estimate_left_out(kernel: str) -> None:
    X = table(40)[0][:, :2]
    plain = KernelDensity(kernel, radius=0.7, period=DAY)
    model = MixedDensity(plain, unordered=[1], smoothing=SMOOTHING).fit(X)
    hours = np.linspace(0.0, DAY, 600, endpoint=False)
    square = DAY * sum(
        np.square(model.density(np.column_stack([hours, np.full(600, z)]))).mean() for z in range(3)
    )
    sample = model._sample(slice(None), model.weights_)
    score = DensityScore(sample, model.kernel_, 16.0)(model.radius_, model.smoothing_)
    assert score == pytest.approx(square - 2 * model.leave_one_out().mean(), abs=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rotations_and_whole_periods_change_nothing_that_is_chosen(kernel: str) -> None:
    X, y = table(200)
    X = X[:, :2]
    shift = np.array([5.3 + 3 * DAY, 0.0])
    plain, circle = KernelDensity(kernel, period=DAY), NadarayaWatson(kernel, period=DAY)
    for made, other in (
        (MixedDensity(plain, unordered=[1]).fit(X + s) for s in (0.0 * shift, shift)),
        (MixedRegression(circle, unordered=[1]).fit(X + s, y) for s in (0.0 * shift, shift)),
    ):
        np.testing.assert_allclose(other.radius_, made.radius_, rtol=1e-3)
        np.testing.assert_allclose(other.smoothing_, made.smoothing_, atol=1e-3)


def test_a_slice_is_a_plain_circle_and_draws_lie_on_it() -> None:
    X, y = table(200)
    X = X[:, :2]
    told: dict[str, Any] = {"unordered": [1], "smoothing": SMOOTHING}
    joint = MixedDensity(KernelDensity("gaussian", radius="plugin", period=DAY), **told).fit(X)
    part = joint.given({1: 2.0})
    around = np.linspace(0.0, DAY, 240, endpoint=False)
    assert DAY * part.density(around[:, None]).mean() == pytest.approx(1.0, rel=1e-12)
    plain = KernelDensity("gaussian", radius="plugin", period=DAY)
    assert joint.radius_ == pytest.approx(plain.fit(X[:, :1]).radius_)
    draws = np.array([row[0] for row in joint.sample(2000, rng=np.random.default_rng(0))])
    assert draws.min() >= 0.0
    assert draws.max() < DAY
    share = DAY * sum(
        np.where(around < 6, joint.density(np.column_stack([around, 0 * around + z])), 0.0).mean()
        for z in range(3)
    )
    assert (draws < 6.0).mean() == pytest.approx(share, abs=0.05)
    fitted = MixedRegression(NadarayaWatson(radius=0.6, period=DAY), **told).fit(X, y)
    band = fitted.interval([[0.0, 1.0], [DAY, 1.0]])
    assert band.low[0] == pytest.approx(band.low[1], abs=1e-12)


def test_tables_of_hours_and_categories_go_around() -> None:
    X, y = table(200)
    frame = pd.DataFrame({"hour": X[:, 0], "shift": np.array(["a", "b", "c"])[X[:, 1].astype(int)]})
    found = tables.describe_density(frame, "hour", categories=["shift"], period=24)
    assert found.grid[[0, -1]].tolist() == [0.0, DAY]
    low, high = next(row["region"][0] for row in found.rows() if row["group"] == "a")
    assert low < DAY < high  # over midnight
    curves = tables.describe_regression(
        frame.assign(y=y), "hour", "y", categories=["shift"], period=24, radius=0.6, points=9
    ).curves()
    first = {row["shift"]: row for row in curves if row["hour"] == 0.0}
    last = {row["shift"]: row for row in curves if row["hour"] == DAY}
    assert set(first) == set(last) == {"a", "b", "c"}
    for name in first:
        assert first[name]["estimate"] == pytest.approx(last[name]["estimate"], abs=1e-12)
