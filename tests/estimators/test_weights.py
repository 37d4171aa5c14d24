"""One meaning of sample weights: counts are repetitions, importances have no scale; no jumps."""

import numpy as np
import pytest
from sklearn.base import clone

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import REGRESSION_RULES, ConditionalDensity, LinearSmoother
from fourierkernels.estimators.design import aicc_score, gcv_score, loo_score

pytestmark = pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
NAMES = ["gaussian", "fourier1", "fourier2", "fourier4"]
AT = np.linspace(-1, 1, 7).reshape(-1, 1)


def data(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


def counts(n: int = 40) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4, n)


class NearMean(LinearSmoother):
    """The mean of what lies within one, by the weight matrix alone."""

    def __init__(self, weighting: str = "frequency") -> None:
        self.weighting = weighting

    def weight_rows(self, queries: np.ndarray) -> np.ndarray:
        rows = self.weights_ * (np.abs(queries - self.points_[:, 0]) <= 1.0)
        return rows / rows.sum(axis=1, keepdims=True)


SMOOTHERS = [NadarayaWatson("fourier4", radius=1.5), NadarayaWatson("gaussian", radius=2.0)]
SMOOTHERS += [NadarayaWatson("fourier3", radius=0.8), NearMean()]
BOUNDED = NadarayaWatson("gaussian", radius=2.0, bounds=[(-4.0, 4.0)])


@pytest.mark.parametrize("model", [*SMOOTHERS, BOUNDED], ids=str)
def test_everything_of_a_smoother_takes_counts_for_repetitions(model: LinearSmoother) -> None:
    x, y = data()
    weights = counts()
    one = clone(model).fit(x, y, weights)
    many = clone(model).fit(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    first = np.cumsum(weights)[weights > 0] - 1
    left = one.leave_one_out()[weights > 0]
    np.testing.assert_allclose(left, many.leave_one_out()[first], rtol=1e-8)
    np.testing.assert_allclose(one.predict(AT), many.predict(AT), rtol=1e-9)
    for score in (aicc_score, gcv_score, loo_score):
        assert score(one.design_fit()) == pytest.approx(score(many.design_fit()), rel=1e-9)
    for noise in ("constant", "local"):
        error = many.interval(AT, noise=noise).error
        np.testing.assert_allclose(one.interval(AT, noise=noise).error, error, rtol=1e-7)


@pytest.mark.parametrize("model", SMOOTHERS, ids=str)
@pytest.mark.parametrize("factor", [1e-300, 0.5, 2.0, 1e100])
def test_nothing_of_a_smoother_depends_on_the_scale_of_importances(
    model: LinearSmoother, factor: float
) -> None:
    x, y = data()
    weights = np.random.default_rng(2).uniform(0.1, 3.0, 40)
    model = clone(model).set_params(weighting="importance")
    one, other = clone(model).fit(x, y, weights), clone(model).fit(x, y, factor * weights)
    np.testing.assert_allclose(other.leave_one_out(), one.leave_one_out(), rtol=1e-8)
    np.testing.assert_allclose(other.interval(AT).error, one.interval(AT).error, rtol=1e-8)
    for score in (aicc_score, gcv_score, loo_score):
        assert score(one.design_fit()) == pytest.approx(score(other.design_fit()), rel=1e-9)
    size = weights.sum() ** 2 / (weights @ weights)
    assert other.weights_.sum() == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("weighting", ["frequency", "importance"])
@pytest.mark.parametrize("model", SMOOTHERS, ids=str)
def test_nothing_of_a_smoother_jumps_at_whole_numbers(
    model: LinearSmoother, weighting: str
) -> None:
    x, y = data()
    model, weights = clone(model).set_params(weighting=weighting), counts() + 1.0
    one, other = clone(model).fit(x, y, weights), clone(model).fit(x, y, weights + 1e-7)
    np.testing.assert_allclose(other.leave_one_out(), one.leave_one_out(), rtol=1e-3)
    np.testing.assert_allclose(other.interval(AT).error, one.interval(AT).error, rtol=1e-4)
    for score in (aicc_score, gcv_score, loo_score):
        assert score(one.design_fit()) == pytest.approx(score(other.design_fit()), rel=1e-4)


@pytest.mark.parametrize("bounds", [None, [(-4.0, 4.0)]])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rounded", [False, True])
def test_density_without_a_sample_is_without_its_copies_or_one_of_rounded_values(
    name: str, bounds: object, rounded: bool
) -> None:
    x = np.linspace(-2.0, 1.9, 40)[:, None] if rounded else data()[0]
    weights = counts() + np.where(np.arange(40) % 5 == 0, 1e-9, 0.0)
    left = KernelDensity(name, radius=2.0, bounds=bounds).fit(x, sample_weight=weights)
    left = left.leave_one_out()
    for i in range(0, 40, 3):
        rest = weights.copy()
        rest[i] = max(rest[i] - 1.0, 0.0) if rounded else 0.0
        again = KernelDensity(name, radius=2.0, bounds=bounds).fit(x, sample_weight=rest)
        assert left[i] == pytest.approx(again.density(x[[i]])[0], abs=1e-10)


def test_all_twos_are_all_nearly_twos() -> None:
    x, y = data(200)
    for rule in ("normal_reference", *REGRESSION_RULES):
        model = NadarayaWatson("fourier4", radius=rule)
        twos, nearly = (
            clone(model).fit(x, y, np.full(200, weight)).radius_ for weight in (2.0, 2.0001)
        )
        np.testing.assert_allclose(nearly, twos, rtol=1e-3)


def test_halves_stand_for_half_the_samples_of_rounded_values_alone() -> None:
    """Rows that do not coincide by rounding are one sample each, whatever their equal weights."""
    x, _ = data(200)
    rule = {"kernel": "gaussian", "radius": "scott"}
    plain = KernelDensity(**rule).fit(x)
    importance = KernelDensity(**rule, weighting="importance").fit(x, sample_weight=np.full(200, 3))
    assert importance.radius_[0] == pytest.approx(plain.radius_[0], rel=1e-12)
    halves = KernelDensity(**rule).fit(x, sample_weight=np.full(200, 0.5)).radius_[0]
    assert halves == pytest.approx(plain.radius_[0], rel=1e-12)
    x = np.linspace(-2.0, 1.98, 200)[:, None]
    plain = KernelDensity(**rule).fit(x)
    halves = KernelDensity(**rule).fit(x, sample_weight=np.full(200, 0.5)).radius_[0]
    spread = np.sqrt((1 - 1 / 100) / (1 - 1 / 200))  # the divisor n - 1 of the deviation
    assert halves == pytest.approx(plain.radius_[0] * 0.5**0.2 * spread, rel=1e-9)


@pytest.mark.parametrize("estimator", [KernelDensity, NadarayaWatson, ConditionalDensity])
def test_an_unknown_meaning_of_weights_is_refused(estimator: type) -> None:
    x, y = data()
    known = "frequency, precision" if estimator is NadarayaWatson else "frequency"
    with pytest.raises(ValueError, match=f"weighting must be one of {known}, importance, got 'x'"):
        estimator(weighting="x").fit(x, y)


def test_frequencies_whose_sum_has_no_inverse_are_refused() -> None:
    """The density was infinite everywhere; importances are ratios."""
    x, _ = data()
    tiny = np.full(len(x), 1e-320)
    with pytest.raises(ValueError, match=r"sample_weight must reach 1e-290 somewhere, got 9.9\d+e"):
        KernelDensity("gaussian", radius=2.0).fit(x, None, tiny)
    model = KernelDensity("gaussian", radius=2.0, weighting="importance")
    kernels = np.exp(-2.0 * np.square(AT - x[:, 0])) * 2.0 / np.sqrt(2.0 * np.pi)
    np.testing.assert_allclose(model.fit(x, None, tiny).density(AT), kernels.mean(axis=1))
