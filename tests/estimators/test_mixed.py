"""Density and regression of numbers and categories: slow sums, statsmodels, text, slices."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fourierkernels.estimators import (
    KernelDensity,
    MixedDensity,
    MixedRegression,
    NadarayaWatson,
    UndefinedWarning,
    loo_score,
)
from fourierkernels.estimators.mixed.choice import DensityScore
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import as_kernel

RADIUS, UNORDERED, ORDERED = 2.5, 0.25, 0.3
CATEGORIES: dict[str, Any] = {"unordered": [1], "ordered": [2], "smoothing": [UNORDERED, ORDERED]}


def table(n: int) -> tuple[FloatArray, FloatArray]:
    i = np.arange(n)
    x = np.round(2 * np.sin(1.7 * i) + 0.1 * i * 24 / n, 3)
    X = np.column_stack([x, (i * 5) % 3, (i * 7) % 4 + 1.0])
    return X, np.round(np.cos(x) + X[:, 1] - 0.2 * X[:, 2] + 0.1 * np.sin(9 * i), 3)


def categories_of(at: FloatArray, X: FloatArray) -> FloatArray:
    """The product of both kernels on levels by their formulas, shape ``(m, n)``."""
    same = at[:, None, 1] == X[None, :, 1]
    gap = np.abs(at[:, None, 2] - X[None, :, 2])
    others = 0.5 * (1 - ORDERED) * ORDERED**gap
    return np.where(same, 1 - UNORDERED, UNORDERED / 2) * np.where(gap == 0, 1 - ORDERED, others)


def weights_of(at: FloatArray, X: FloatArray, kernel: str) -> FloatArray:
    u = RADIUS * (at[:, None, 0] - X[None, :, 0])
    return RADIUS * as_kernel(kernel).value(u) * categories_of(at, X)


def density(kernel: str = "gaussian", **changed: Any) -> MixedDensity:
    return MixedDensity(KernelDensity(kernel, radius=RADIUS), **{**CATEGORIES, **changed})


def regression(kernel: str = "gaussian", **changed: Any) -> MixedRegression:
    return MixedRegression(NadarayaWatson(kernel, radius=RADIUS), **{**CATEGORIES, **changed})


def test_one_name_is_no_sequence_of_names() -> None:
    """Its letters were taken for names of columns."""
    frame = pd.DataFrame(
        {"x": [0.0, 1.0, 2.0], "a": list("uvu"), "b": list("stt"), "ab": list("mmn")}
    )
    for kind in ("unordered", "ordered"):
        with pytest.raises(TypeError, match=f"{kind} must be a sequence of names, got 'ab'"):
            MixedDensity(KernelDensity(radius=1.0), **{kind: "ab"}).fit(frame)


def test_columns_of_a_data_frame_may_be_numbered() -> None:
    X, y = table(24)
    numbered = regression().fit(pd.DataFrame(X), y).predict(pd.DataFrame(X))
    np.testing.assert_array_equal(numbered, regression().fit(X, y).predict(X))


def test_levels_of_many_columns_are_told_apart() -> None:
    """The first of 66 columns of two levels was lost in a number of 64 bits."""
    x, i = np.linspace(-1, 1, 40), np.arange(40)
    levels = np.repeat((i % 3 == 0)[:, None], 66, axis=1)
    levels[:, 0] = i % 2 == 0
    X, y = np.column_stack([x, levels]).astype(float), 10.0 * levels[:, 0] + x
    options: dict[str, Any] = {"unordered": range(1, 67), "smoothing": 0.0}
    model = MixedRegression(NadarayaWatson("gaussian", radius=1.0), **options).fit(X, y)
    same = (X[:, None, 1:] == X[None, :, 1:]).all(axis=2)
    weights = same * np.exp(-0.5 * np.square(x[:, None] - x))
    np.testing.assert_allclose(model.predict(X), weights @ y / weights.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("n", [24, 3000])
def test_levels_that_never_met_have_no_density_and_no_regression(n: int) -> None:
    """Without smoothing no row counts there."""
    X, y = table(n)
    X[:, 2] = np.where(X[:, 1] == 2.0, 4.0, np.minimum(X[:, 2], 3.0))
    at = np.array([[0.0, 2.0, 1.0], [0.0, 2.0, 4.0]])
    found = density(smoothing=0.0).fit(X)
    assert (found.density(at) == 0.0).tolist() == [True, False]
    assert np.isneginf(found.score_samples(at)).tolist() == [True, False]
    model = regression(smoothing=0.0).fit(X, y)
    with pytest.warns(UndefinedWarning, match="1 of 2 queries have a denominator within"):
        fit = model.predict(at)
    own = X[:, 1] == 2.0
    weights = np.exp(-0.5 * np.square(RADIUS * X[own, 0]))
    assert np.isnan(fit[0])
    assert fit[1] == pytest.approx(weights @ y[own] / weights.sum(), rel=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier4"])
@pytest.mark.parametrize("n", [24, 3000])  # summed directly, and by modes
def test_estimates_are_the_sums_of_their_formulas(n: int, kernel: str) -> None:
    X, y = table(n)
    at = X[:50] + np.array([0.05, 0.0, 0.0])
    weights = weights_of(at, X, kernel)
    found = density(kernel).fit(X).density(at)
    np.testing.assert_allclose(found, weights.mean(axis=1), rtol=0, atol=1e-11)
    model = regression(kernel).fit(X, y)
    steady = np.abs(weights.sum(axis=1)) > 1e-3 * np.abs(weights).sum(axis=1)
    fit = (weights @ y / weights.sum(axis=1))[steady]
    np.testing.assert_allclose(model.predict(at)[steady], fit, rtol=0, atol=1e-8)
    rows = model.weights(at)[steady]
    np.testing.assert_allclose(rows @ y, fit, rtol=0, atol=1e-8)


def test_estimates_and_scores_are_those_of_statsmodels() -> None:
    """KDEMultivariate and KernelReg (local constant) of statsmodels 0.15.0, var_type="cuo"."""
    X, y = table(24)
    at = np.array([[0.2, 0, 1], [1.1, 2, 3], [-0.7, 1, 4.0]])
    model = density().fit(X)
    expected = [0.020971229741143183, 0.01534831889780742, 0.0066393908028093]
    np.testing.assert_allclose(model.density(at), expected, rtol=1e-10)
    sample = model._sample(slice(None), model.weights_)
    score = DensityScore(sample, model.kernel_, 16.0)
    assert score(model.radius_, model.smoothing_) == pytest.approx(0.0014497894402861339, abs=1e-12)
    fitted = regression().fit(X, y)
    expected = [0.782730221280868, 1.3371109827523993, 1.2282349352237119]
    np.testing.assert_allclose(fitted.predict(at), expected, rtol=1e-10)
    assert loo_score(fitted.design_fit()) == pytest.approx(0.6184057872816593, rel=1e-10)


def test_score_is_the_integral_of_the_square_less_twice_the_estimate_left_out() -> None:
    X, _ = table(24)
    model = density("fourier4").fit(X)
    left = np.array(
        [density("fourier4").fit(np.delete(X, i, 0)).density(X[[i]])[0] for i in range(24)]
    )
    np.testing.assert_allclose(model.leave_one_out(), left, rtol=1e-9, atol=1e-13)
    x = np.linspace(-60, 60, 60001)
    square = sum(
        np.trapezoid(model.density(np.column_stack([x, *np.full((2, len(x)), [[u], [o]])])) ** 2, x)
        for u in range(3)
        for o in range(1, 5)
    )
    sample = model._sample(slice(None), model.weights_)
    score = DensityScore(sample, model.kernel_, 16.0)(model.radius_, model.smoothing_)
    assert score == pytest.approx(square - 2 * left.mean(), abs=1e-9)


def test_leave_one_out_is_the_fit_without_the_sample() -> None:
    X, y = table(24)
    left = [
        regression().fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0] for i in range(24)
    ]
    np.testing.assert_allclose(regression().fit(X, y).leave_one_out(), left, rtol=1e-9)


def test_smoothing_of_none_and_of_all() -> None:
    X, y = table(240)
    alone = regression(smoothing=[0.0, 0.0]).fit(X, y)
    own = (X[:, 1:] == X[3, 1:]).all(axis=1)
    plain = NadarayaWatson("gaussian", radius=RADIUS)
    np.testing.assert_allclose(
        alone.predict(X[[3]]), plain.fit(X[own, :1], y[own]).predict(X[[3], :1]), rtol=1e-12
    )
    pooled = MixedRegression(plain, unordered=[1], smoothing=2 / 3).fit(X[:, :2], y)
    np.testing.assert_allclose(pooled.predict(X[:9, :2]), plain.fit(X[:, :1], y).predict(X[:9, :1]))


def test_digits_of_small_responses_are_not_lost_to_large_ones_elsewhere() -> None:
    X, y = table(3000)
    y = np.where(X[:, 1] == 0, 1e-9, 1e9) * y
    model = regression(smoothing=[0.0, ORDERED]).fit(X, y)
    here = X[:, 1] == 0
    alone = MixedRegression(model.estimator, ordered=[1], smoothing=ORDERED)
    expected = alone.fit(X[here][:, [0, 2]], y[here]).predict(X[here][:, [0, 2]])
    np.testing.assert_allclose(model.predict(X[here]), expected, rtol=1e-9, atol=1e-20)


def test_weights_count_copies() -> None:
    X, y = table(24)
    X[:, 0] = np.round(X[:, 0])  # rounded values may coincide
    counts = np.arange(24) % 3 + 1.0
    twice, long = np.repeat(X, counts.astype(int), axis=0), np.repeat(y, counts.astype(int))
    model = density().fit(X, sample_weight=counts)
    np.testing.assert_allclose(model.density(X), density().fit(twice).density(X), rtol=1e-12)
    fit = regression().fit(X, y, counts).predict(X)
    np.testing.assert_allclose(fit, regression().fit(twice, long).predict(X), rtol=1e-10)


def frame_of(n: int) -> tuple[pd.DataFrame, FloatArray]:
    X, y = table(n)
    levels = np.array(["low", "mid", "high", "top"])[X[:, 2].astype(int) - 1]
    text = np.array(["red", "blue", "grey"])[X[:, 1].astype(int)]
    return pd.DataFrame({"colour": text, "x": X[:, 0], "grade": levels}), y


def test_text_in_frames_and_arrays_is_the_same_as_numbers() -> None:
    X, y = table(240)
    frame, _ = frame_of(240)
    order = {"grade": ["low", "mid", "high", "top"]}
    told: dict[str, Any] = {"unordered": ["colour"], "ordered": order}
    by_frame = regression(**told).fit(frame, y)
    expected = regression().fit(X, y).predict(X[:20])
    np.testing.assert_allclose(by_frame.predict(frame[:20]), expected, rtol=1e-12)
    told = {"unordered": [0], "ordered": {2: order["grade"]}}
    by_array = regression(**told).fit(frame.to_numpy(dtype=object), y)
    rows = frame[:20].to_numpy(dtype=object).tolist()
    np.testing.assert_allclose(by_array.predict(rows), expected, rtol=1e-12)
    frame["grade"] = pd.Categorical(frame["grade"], order["grade"], ordered=True)
    by_itself = regression(unordered=None, ordered=None).fit(frame, y)
    assert [category.kind for category in by_itself.categories_] == ["unordered", "ordered"]
    np.testing.assert_allclose(by_itself.predict(frame[:20]), expected, rtol=1e-12)


def test_a_slice_is_a_plain_estimator_at_its_levels() -> None:
    frame, y = frame_of(240)
    told: dict[str, Any] = {"unordered": ["colour", "grade"], "ordered": None}
    levels = {"colour": "blue", "grade": "mid"}
    at = pd.DataFrame({"colour": "blue", "x": [0.0, 1.0], "grade": "mid"})
    fitted = regression(**told).fit(frame, y)
    part = fitted.given(levels)
    assert isinstance(part, NadarayaWatson)
    np.testing.assert_allclose(part.predict(at[["x"]]), fitted.predict(at), rtol=1e-10)
    joint = density(**told).fit(frame)
    whole = joint.given(levels).density(at[["x"]])
    ratio = joint.density(at) / whole
    assert ratio[0] == pytest.approx(ratio[1])
    assert ratio[0] == pytest.approx(1 / 12, rel=0.02)  # each of the twelve cells
    with pytest.raises(ValueError, match="levels must be given for"):
        fitted.given({"colour": "blue"})


def test_limits_are_those_of_the_weights() -> None:
    X, y = table(240)
    model = regression("fourier4").fit(X, y)
    found = model.squared_weight_sums(model.check_queries(X[:7]), np.ones(240))
    np.testing.assert_allclose(found, np.square(model.weights(X[:7])).sum(axis=1), rtol=1e-9)
    limits = model.interval(X[:7], noise="local", bias="corrected")
    assert (limits.low < limits.high).all()


def test_draws_have_the_probabilities_of_the_estimate() -> None:
    frame, _ = frame_of(240)
    model = density(unordered=["colour", "grade"], ordered=None, smoothing=[0.3, 0.2]).fit(frame)
    frame["colour"] = ["red"] * 180 + ["blue"] * 59 + ["grey"]
    model.fit(frame)
    draws = model.sample(4000, rng=np.random.default_rng(0))
    share = np.mean([row[0] == "red" for row in draws])
    assert share == pytest.approx(0.7 * 0.75 + 0.15 * 0.25, abs=0.03)
    assert all(isinstance(row[1], float) for row in draws)


def test_cross_validation_keeps_what_matters_and_pools_what_does_not() -> None:
    rng = np.random.default_rng(0)
    n = 600
    X = np.column_stack([rng.normal(size=n), rng.integers(2, size=n), rng.integers(4, size=n)])
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    for rule in ("gcv", "loo", "aicc"):
        model = MixedRegression(NadarayaWatson(radius=rule), unordered=[1, 2]).fit(X, y)
        assert model.smoothing_[0] < 0.05
        assert model.smoothing_[1] > 0.3
    X[:, 0] += 3 * X[:, 1]
    joint = MixedDensity(unordered=[1, 2]).fit(X)
    assert joint.smoothing_[0] < 0.05
    assert joint.smoothing_[1] > 0.3
    given = MixedDensity(KernelDensity(radius="plugin"), unordered=[1, 2], smoothing=0.1).fit(X)
    assert given.radius_ == KernelDensity(radius="plugin").fit(X[:, :1]).radius_


def test_rounded_numbers_do_not_take_the_radius_away() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.round(10 * rng.normal(size=2000)), rng.integers(2, size=2000)])
    with pytest.warns(UserWarning, match="X is rounded to multiples of 1"):
        model = MixedDensity(unordered=[1]).fit(X)
    assert model.radius_[0] < 3.2  # π over the step


def test_models_are_cloned_kept_and_compared() -> None:
    frame, y = frame_of(24)
    model = regression(unordered=["colour", "grade"], ordered=None)
    assert clone(model).get_params()["estimator__radius"] == RADIUS
    fitted = model.fit(frame, y)
    again = copy.deepcopy(fitted)
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"unordered": ["color"]}, "unordered must name columns of X, 'colour', 'x', 'grade'"),
        ({"unordered": ["colour"], "ordered": ["colour"]}, "ordered must name each column once"),
        ({"ordered": ["grade"]}, "ordered must give the order of levels that are no numbers"),
        ({"ordered": {"grade": ["low", "mid"]}}, "ordered must give all levels of 'grade'"),
        ({"unordered": ["colour", "x", "grade"]}, "X must have a column of numbers"),
        ({"smoothing": 0.9}, r"smoothing of unordered column 'colour' must be in \[0, 0.66"),
        ({"smoothing": [0.1]}, "smoothing must be a number or one for each of the 2 columns"),
        ({"estimator": KernelDensity()}, "estimator must be a NadarayaWatson, got KernelDensity"),
        (
            {"estimator": NadarayaWatson(bounds=[(-9, 9), None])},
            r"bounds must have a pair \(low, high\) per dimension, 1, got",
        ),
        ({"estimator": NadarayaWatson(period=[24.0, None])}, "period must be a number or have one"),
        ({"estimator": NadarayaWatson(weighting="precision")}, "weighting must be one of"),
    ],
)
def test_what_cannot_be_is_refused(told: dict[str, Any], message: str) -> None:
    frame, y = frame_of(24)
    with pytest.raises((ValueError, TypeError), match=message):
        MixedRegression(**told).fit(frame, y)


def test_strange_and_missing_levels_are_refused() -> None:
    frame, y = frame_of(24)
    model = regression(unordered=["colour", "grade"], ordered=None).fit(frame, y)
    other = frame.assign(colour=["green"] * 24)
    with pytest.raises(ValueError, match="column 'colour' must have one of its 3 levels, got 'gre"):
        model.predict(other)
    other.loc[3, "colour"] = None
    with pytest.raises(
        ValueError, match="column 'colour' must not be missing, got no value in row"
    ):
        model.fit(other, y)
    with pytest.raises(ValueError, match="at most 3 columns of numbers for cross-validation"):
        MixedDensity(unordered=[4]).fit(np.random.default_rng(0).normal(size=(9, 5)).round())


def test_a_data_frame_of_another_library_is_refused() -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame({"x": np.arange(20.0), "kind": list("ab") * 10})
    model = MixedDensity().fit(table)
    other = dataframe.from_pandas(table, npartitions=2)
    for use in (MixedDensity().fit, model.density):
        with pytest.raises(TypeError, match="must be a pandas data frame or an array"):
            use(other)
