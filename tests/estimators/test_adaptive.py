"""Densities and regressions with a radius of each sample equal their formulas, written out."""

import copy

import numpy as np
import pytest
from scipy import integrate

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import (
    ADAPTIVE_RULES,
    AdaptiveDensity,
    AdaptiveRegression,
    MixedDensity,
)
from fourierkernels.estimators.adaptive.choice import AdaptiveScore, best_multiple, lscv_score
from fourierkernels.estimators.adaptive.rules import AdaptiveRule, Sample, neighbour_distances
from fourierkernels.estimators.modes import (
    highest_density_contours,
    highest_density_intervals,
    modes,
)
from fourierkernels.foundation.arrays import FloatArray

X = np.random.default_rng(0).standard_t(3, size=(150, 1))
AT = np.linspace(-6.0, 6.0, 25)[:, None]


def kernels_of(model: AdaptiveDensity | AdaptiveRegression, at: FloatArray) -> FloatArray:
    """λ_i^D ∏ R_d K(λ_i R_d(x_d - x_id)), one entry per query and sample."""
    u = (at[:, None] - model.points_) * model.factors_[:, None] * model.radius_
    each = model.kernel_.value(u) * model.factors_[:, None] * model.radius_
    return np.asarray(each.prod(axis=2))


def test_factors_of_abramson_are_the_square_root_of_the_pilot() -> None:
    pilot = KernelDensity("gaussian").fit(X).density(X)
    model = AdaptiveDensity("gaussian").fit(X)
    scale = np.exp(np.log(pilot).mean())
    assert model.factors_ == pytest.approx(np.sqrt(pilot / scale), rel=1e-9)
    whole = AdaptiveDensity("gaussian", sensitivity=1.0).fit(X)
    assert whole.factors_ == pytest.approx(model.factors_**2, rel=1e-9)


def test_factors_of_neighbours_are_inverse_distances() -> None:
    points = np.random.default_rng(1).normal(size=(80, 2))
    model = AdaptiveDensity(radius=[1.0, 2.0], adaptive="neighbours", neighbours=7).fit(points)
    gaps = np.linalg.norm((points[:, None] - points) * [1.0, 2.0], axis=2)
    inverse = 1.0 / np.sort(gaps, axis=1)[:, 7]
    assert model.factors_ == pytest.approx(inverse / np.exp(np.log(inverse).mean()))


def test_distances_count_copies_and_stop_at_the_next_place() -> None:
    points = np.array([[0.0], [0.0], [0.0], [1.0], [5.0]])
    assert neighbour_distances(points, np.ones(5), 3).tolist() == [1.0, 1.0, 1.0, 1.0, 5.0]
    assert neighbour_distances(points, np.ones(5), 1).tolist() == [1.0, 1.0, 1.0, 1.0, 4.0]
    joint = neighbour_distances(points[2:], np.array([3.0, 1.0, 1.0]), 3)
    assert joint.tolist() == [1.0, 1.0, 5.0]


@pytest.mark.parametrize("method", ["auto", "bandlimited", "reference"])
@pytest.mark.parametrize("adaptive", list(ADAPTIVE_RULES))
@pytest.mark.parametrize("dim", [1, 2])
def test_the_density_is_the_mean_of_its_kernels(dim: int, adaptive: str, method: str) -> None:
    points = np.random.default_rng(1).normal(size=(80, dim))
    weights = np.random.default_rng(2).integers(0, 3, 80).astype(float)
    model = AdaptiveDensity(adaptive=adaptive, method=method, weighting="importance")
    model.fit(points, sample_weight=weights)
    at = np.random.default_rng(3).normal(size=(20, dim))
    expected = kernels_of(model, at) @ model.weights_ / model.weights_.sum()
    assert model.density(at) == pytest.approx(expected, abs=1e-11 * expected.max())
    assert np.exp(model.score_samples(at)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("bounds", [None, [(-30.0, 30.0)]])
def test_it_integrates_to_one(bounds: list[tuple[float, float]] | None) -> None:
    model = AdaptiveDensity("gaussian", bounds=bounds).fit(X)

    def value(x: float) -> float:
        return float(model.density([[x]])[0])

    whole, _ = integrate.quad(value, -30, 30, limit=500, points=[-5.0, 0.0, 5.0])
    part, _ = integrate.quad(value, -1.0, 2.0, limit=500)
    assert whole == pytest.approx(1.0, abs=1e-6)
    assert model.probability(-1.0, 2.0) == pytest.approx(part, abs=1e-9)
    assert model.cdf([[2.0]])[0] - model.cdf([[-1.0]])[0] == pytest.approx(part, abs=1e-9)


def test_samples_at_a_bound_are_reflected_with_their_radius() -> None:
    points = np.random.default_rng(4).exponential(size=(60, 1))
    model = AdaptiveDensity("gaussian", bounds=[(0.0, None)]).fit(points)
    mirrored = copy.copy(model)
    mirrored.points_ = -points
    expected = (kernels_of(model, AT) + kernels_of(mirrored, AT)).mean(axis=1)
    assert model.density(AT) == pytest.approx(np.where(AT[:, 0] < 0, 0.0, expected), abs=1e-11)
    rest = model.probability(0.0, np.inf)
    assert rest == pytest.approx(1.0, abs=1e-10)


def test_derivatives_are_those_of_the_density() -> None:
    model = AdaptiveDensity(method="bandlimited").fit(X)
    step = 1e-5
    slope = (model.density(AT + step) - model.density(AT - step)) / (2 * step)
    assert model.derivative(AT)[:, 0] == pytest.approx(slope, abs=1e-6)
    y = np.sin(X[:, 0])
    fit = AdaptiveRegression(radius=3.0).fit(X, y)
    rise = (fit.predict(AT + step) - fit.predict(AT - step)) / (2 * step)
    assert fit.derivative(AT)[:, 0] == pytest.approx(rise, abs=1e-5)


def test_leaving_one_out_keeps_the_factors_of_the_others() -> None:
    model = AdaptiveDensity().fit(X)
    matrix = kernels_of(model, X)
    others = (matrix.sum(axis=1) - matrix.diagonal()) / (len(X) - 1)
    assert model.leave_one_out() == pytest.approx(others, rel=1e-6)
    y = np.sin(X[:, 0])
    fit = AdaptiveRegression("gaussian", radius=3.0).fit(X, y)
    matrix = kernels_of(fit, X)
    np.fill_diagonal(matrix, 0.0)
    assert fit.leave_one_out() == pytest.approx(matrix @ y / matrix.sum(axis=1), rel=1e-6)


def test_draws_have_the_radius_of_their_sample() -> None:
    points = np.repeat([[0.0], [100.0]], 500, axis=0)
    model = AdaptiveDensity("gaussian", radius=1.0).fit(points)
    model.factors_ = np.repeat([0.5, 4.0], 500)
    draws = model.sample(20_000, rng=np.random.default_rng(5))[:, 0]
    assert draws[draws < 50].std() == pytest.approx(2.0, rel=0.03)
    assert draws[draws > 50].std() == pytest.approx(0.25, rel=0.03)


def test_limits_are_those_of_the_kernels_in_use() -> None:
    model = AdaptiveDensity().fit(X)
    matrix = kernels_of(model, AT)
    error = matrix.std(axis=1, ddof=1) / np.sqrt(len(X))
    band = model.interval(AT)
    assert (band.high - band.low) / (2 * 1.959964) == pytest.approx(error, rel=1e-6)
    with pytest.raises(ValueError, match="bias must be 'ignore' with a radius of each sample"):
        model.interval(AT, bias="corrected")
    fit = AdaptiveRegression("gaussian", radius=2.0).fit(X, np.cos(X[:, 0]))
    sums = fit.squared_weight_sums(AT, np.ones(len(X)))
    assert sums == pytest.approx(np.square(fit.weights(AT)).sum(axis=1))


def test_regression_is_the_ratio_of_its_sums() -> None:
    y = np.column_stack([np.sin(X[:, 0]), X[:, 0]])
    model = AdaptiveRegression("gaussian", radius=2.0, method="bandlimited").fit(X, y)
    matrix = kernels_of(model, AT)
    expected = matrix @ y / matrix.sum(axis=1, keepdims=True)
    assert model.predict(AT) == pytest.approx(expected, abs=1e-8)
    assert model.weights(AT) @ y == pytest.approx(expected, abs=1e-8)
    assert model.hat_diagonal() == pytest.approx(model.weights(X).diagonal(), rel=1e-8)
    fit = model.design_fit()
    assert fit.residuals == pytest.approx(y - model.predict(X), abs=1e-10)


def test_modes_and_regions_are_those_of_the_density() -> None:
    model = AdaptiveDensity("gaussian").fit(X)
    found = modes(model)
    assert model.derivative(found.points) == pytest.approx(np.zeros((len(found), 1)), abs=1e-8)
    region = highest_density_intervals(model, 0.9)
    assert region.probability == pytest.approx(0.9, abs=1e-9)
    assert model.density(region.ends.reshape(-1, 1)) == pytest.approx(region.level, rel=1e-6)


def test_contours_see_the_narrowest_kernel() -> None:
    """One sample alone: a disc of radius √(2 log 2)/(λR), whatever R says."""
    model = AdaptiveDensity("gaussian", radius=1.0).fit([[0.0, 0.0]])
    model.factors_ = np.array([3.0])
    region = highest_density_contours(model, 0.5, steps=16)
    assert region.area == pytest.approx(2 * np.pi * np.log(2) / 9, rel=2e-3)


def slow_lscv(model: AdaptiveDensity, radius: float, reach: float) -> float:
    """∫p̂² over a long fine grid, less twice the mean density at each sample by the others."""
    other = copy.copy(model)
    other.radius_ = np.array([radius])
    x = np.arange(-reach, reach, 0.02)[:, None]
    square = np.square(kernels_of(other, x).mean(axis=1)).sum() * 0.02
    matrix = kernels_of(other, model.points_)
    others = (matrix.sum(axis=1) - matrix.diagonal()) / (len(matrix) - 1)
    return float(square - 2.0 * others.mean())


@pytest.mark.parametrize("adaptive", list(ADAPTIVE_RULES))
@pytest.mark.parametrize("kernel", ["gaussian", "fourier2", "fourier4"])
def test_cross_validation_chooses_the_radius_of_the_estimate_itself(
    kernel: str, adaptive: str
) -> None:
    model = AdaptiveDensity(kernel, adaptive=adaptive, radius="lscv").fit(X)
    best = float(model.radius_[0])
    scores = [slow_lscv(model, best * c, 200.0) for c in (0.5, 0.9, 0.98, 1.0, 1.02, 1.1, 2.0)]
    assert min(scores) == scores[3]
    for radius, score in ((best, scores[3]), (2.0 * best, scores[-1])):
        other = copy.copy(model)
        other.radius_ = np.array([radius])
        assert lscv_score(other) == pytest.approx(score, rel=2e-4)


def test_cross_validation_at_a_bound_is_that_of_the_mirrored_sample() -> None:
    points = np.random.default_rng(4).exponential(size=(60, 1))
    model = AdaptiveDensity("gaussian", bounds=[(0.0, None)], radius="lscv").fit(points)
    mirrored = copy.copy(model)
    mirrored.points_ = -points
    x = np.arange(0.0, 60.0, 1e-3)[:, None]
    values = (kernels_of(model, x) + kernels_of(mirrored, x)).mean(axis=1)
    square = np.trapezoid(np.square(values), dx=1e-3)
    matrix = kernels_of(model, points) + kernels_of(mirrored, points)
    others = (matrix.sum(axis=1) - matrix.diagonal()) / (len(points) - 1)
    assert lscv_score(model) == pytest.approx(square - 2.0 * others.mean(), rel=1e-3)


@pytest.mark.parametrize("rule", ["loo", "gcv", "aicc"])
def test_rules_of_regression_choose_the_radius_of_the_estimate_itself(rule: str) -> None:
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=len(X))
    model = AdaptiveRegression("gaussian", radius=rule).fit(X, y)

    def score(factor: float) -> float:
        other = copy.copy(model)
        other.radius_ = factor * model.radius_
        weights = kernels_of(other, X)
        hat = weights / weights.sum(axis=1, keepdims=True)
        error, share = y - hat @ y, float(np.trace(hat)) / len(y)
        if rule == "loo":
            return float(np.square(error / (1.0 - hat.diagonal())).mean())
        if rule == "gcv":
            return float(np.square(error).mean() / (1.0 - share) ** 2)
        loss = np.log(np.square(error).mean())
        return float(loss + (1.0 + share) / (1.0 - share - 2.0 / len(y)))

    scores = [score(factor) for factor in (0.5, 0.9, 0.97, 1.0, 1.03, 1.1, 2.0)]
    assert min(scores) == scores[3]


def test_columns_keep_their_ratio_of_radii() -> None:
    points = np.random.default_rng(3).normal(size=(200, 2)) * [1.0, 10.0]
    one = KernelDensity("gaussian", radius="lscv").fit(points).radius_
    each = AdaptiveDensity("gaussian", radius="lscv").fit(points).radius_
    assert each[0] / one[0] == pytest.approx(each[1] / one[1])
    assert each[0] < one[0]


def test_sensitivity_0_is_one_radius() -> None:
    y = np.sin(X[:, 0])
    one = AdaptiveRegression(radius=3.0, sensitivity=0.0).fit(X, y).predict(AT)
    assert one == pytest.approx(NadarayaWatson(radius=3.0).fit(X, y).predict(AT), abs=1e-9)


def test_blocks_and_grids_are_what_all_queries_are() -> None:
    model = AdaptiveDensity(method="bandlimited").fit(X)
    whole = model.density(AT)
    assert np.concatenate(list(model.stream([AT[:9], AT[9:]]))) == pytest.approx(whole, abs=1e-12)
    grid = model.on_grid(64)
    assert grid.values == pytest.approx(model.density(grid.axes[0][:, None]), abs=1e-12)


def test_a_rule_from_outside_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(sample: Sample) -> FloatArray:
        return np.zeros(len(sample.points))

    row = AdaptiveRule("flat", flat, lambda dim: 0.5, "no pilot", "derived here")
    monkeypatch.setitem(ADAPTIVE_RULES, "flat", row)
    assert (AdaptiveDensity(adaptive="flat").fit(X).factors_ == 1.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adaptive": "lscv"}, "adaptive must be one of"),
        ({"sensitivity": 1.5}, r"sensitivity must be in \[0, 1\], got 1.5"),
        ({"adaptive": "neighbours", "neighbours": 150}, "neighbours must be below the number"),
        ({"pilot": KernelDensity("fourier1", radius=1.0)}, "pilot must be positive at all samp"),
        ({"radius": np.eye(2)}, "radius must be a vector for AdaptiveDensity, got a matrix"),
        ({"method": "direct"}, "method must be one of auto, bandlimited, reference"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    options: dict[str, object], message: str
) -> None:
    lobe = np.append(0.01 * X, [[4.49]], axis=0)  # the last where sinc is most negative
    points = lobe if "pilot" in options else X
    points = np.column_stack([X, X[::-1]]) if "radius" in options else points
    with pytest.raises(ValueError, match=message):
        AdaptiveDensity(**options).fit(points)


def test_what_has_no_formula_is_refused() -> None:
    with pytest.raises(ValueError, match="adaptive must be off for the ISE in frequency"):
        AdaptiveDensity().fit(X).ise("gaussian")
    with pytest.raises(ValueError, match="kernel must be nonnegative"):
        AdaptiveDensity("fourier1").fit(X).proper()
    with pytest.raises(ValueError, match="X must be an array for a radius of each sample"):
        AdaptiveDensity().fit(iter([X]))
    with pytest.raises(TypeError, match="estimator must have one radius, got AdaptiveDensity"):
        MixedDensity(AdaptiveDensity(), ordered=[0]).fit(X)
    with pytest.raises(AttributeError):
        AdaptiveDensity(radius=2.0).partial_fit(X)


def test_cross_validation_without_a_best_radius_is_refused() -> None:
    far = AdaptiveDensity("fourier1", radius=3.0).fit([[-1e9], [0.0], [1.0], [2.0], [1e9]])
    with pytest.raises(ValueError, match="and a range that 8,388,608 places resolve"):
        lscv_score(far)
    ever = AdaptiveScore(lambda fit: -float(fit.radius_[0]), 2.0)
    with pytest.raises(ValueError, match=r"must find a best radius from 0\.03125 to 2 times"):
        best_multiple(AdaptiveDensity().fit(X), ever)
