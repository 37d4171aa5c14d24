"""Estimators on circles: rotations and whole periods change nothing, and slow sums agree."""

from typing import Any

import numpy as np
import pytest

from fourierkernels import KernelDensity, LocalPolynomial, NadarayaWatson
from fourierkernels.estimators import ConditionalDensity
from fourierkernels.estimators.modes import highest_density_intervals
from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, REGRESSION_RULES
from fourierkernels.estimators.radius.spectrum import KernelScore, SampleSpectrum, settled
from fourierkernels.kernels import PeriodicKernel, as_kernel

DAY = 24.0
KERNELS = ["gaussian", "fourier1", "fourier2", "fourier4"]
ON_CIRCLES = [name for name, rule in (RADIUS_RULES | GAUSSIAN_RULES).items() if rule.on_circles]
ON_LINES = [name for name, rule in (RADIUS_RULES | GAUSSIAN_RULES).items() if not rule.on_circles]


def hours(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two rush hours and the night between, and a response."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(8.5, 1.0, n // 2), rng.normal(23.5, 2.0, n - n // 2)])
    return x[:, None], np.sin(2 * np.pi * x / DAY) + 0.2 * rng.normal(size=n)


def around(count: int = 240) -> np.ndarray:
    """Return places of the whole circle, whose mean is the integral of what is band-limited."""
    return np.linspace(0.0, DAY, count, endpoint=False)[:, None]


@pytest.mark.parametrize("name", KERNELS)
def test_density_is_the_mean_of_kernels_and_integrates_to_one(name: str) -> None:
    x, _ = hours()
    weights = np.random.default_rng(1).random(len(x))
    model = KernelDensity(name, radius=1.3, period=DAY).fit(x, None, weights)
    kernel = PeriodicKernel(as_kernel(name), 1.3 * DAY)
    expected = 1.3 * kernel.value(1.3 * (around() - x.T)) @ weights / weights.sum()
    np.testing.assert_allclose(model.density(around()), expected, atol=1e-13)
    assert DAY * model.density(around()).mean() == pytest.approx(1.0, rel=1e-12)
    step = 1e-4
    rise = (model.density(around() + step) - model.density(around() - step)) / (2 * step)
    np.testing.assert_allclose(model.derivative(around())[:, 0], rise, atol=1e-6)


@pytest.mark.parametrize("rule", ON_CIRCLES)
@pytest.mark.parametrize("name", KERNELS)
def test_rotations_and_whole_periods_change_no_density(name: str, rule: str) -> None:
    x, _ = hours()
    plain = KernelDensity(name, radius=rule, period=DAY).fit(x)
    for shift in (5.3, 3 * DAY):
        moved = KernelDensity(name, radius=rule, period=DAY).fit(x + shift)
        np.testing.assert_allclose(moved.radius_, plain.radius_, rtol=1e-6)
        np.testing.assert_allclose(
            moved.density(around() + shift), plain.density(around()), atol=1e-7
        )
    later = plain.density(around() + DAY)
    np.testing.assert_allclose(later, plain.density(around()), atol=1e-13)


@pytest.mark.parametrize("rule", REGRESSION_RULES)
@pytest.mark.parametrize("degree", [0, 1])
def test_rotations_change_no_regression(degree: int, rule: str) -> None:
    x, y = hours(120)
    plain, moved = (
        LocalPolynomial(degree=degree, radius=rule, period=DAY).fit(x + shift, y)
        for shift in (0.0, -31.7)
    )
    np.testing.assert_allclose(moved.radius_, plain.radius_, rtol=1e-5)
    found = moved.predict(around(20) - 31.7)
    np.testing.assert_allclose(found, plain.predict(around(20)), atol=1e-5)


@pytest.mark.parametrize("rule", ON_LINES)
def test_rules_for_lines_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=rf"takes periods, got '{rule}', which is for data on"):
        KernelDensity("gaussian", radius=rule, period=DAY).fit(hours()[0])


@pytest.mark.parametrize("name", KERNELS)
def test_rules_of_narrow_data_are_those_of_the_line(name: str) -> None:
    """Wrapping does not matter to samples within a fiftieth of the circle."""
    x = np.random.default_rng(3).normal(5.0, 1.0, (400, 1))
    for rule in ON_CIRCLES:
        circle = KernelDensity(name, radius=rule, period=300.0).fit(x).radius_
        line = KernelDensity(name, radius=rule).fit(x).radius_
        np.testing.assert_allclose(circle, line, rtol=0.1 if rule == "normal_reference" else 0.02)


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
def test_cross_validation_is_its_sum_over_samples(name: str) -> None:
    """∫p̂² by quadrature less twice the mean of p̂ without each sample; smallest at the radius."""
    x, _ = hours(80)
    best = float(KernelDensity(name, radius="lscv", period=DAY).fit(x).radius_[0])

    def score(radius: float) -> float:
        model = KernelDensity(name, radius=radius, period=DAY).fit(x)
        square = DAY * np.square(model.density(around(2000))).mean()
        return float(square - 2.0 * model.leave_one_out().mean())

    scores = [score(best * factor) for factor in (0.9, 0.99, 1.0, 1.01, 1.1)]
    assert min(scores) == scores[2]


def test_score_of_a_circle_beside_a_line_is_its_double_sum() -> None:
    """With the integral of the square by quadrature over both."""
    data = np.column_stack([hours(60)[0] % DAY, np.random.default_rng(0).normal(size=60)])
    periods, kernel = np.array([DAY, np.inf]), as_kernel("gaussian")
    sample, _ = settled(data, np.ones(60), 9.0, "lscv", periods)
    score = KernelScore(SampleSpectrum(sample, np.full(2, 20.0), rule="lscv"), kernel)
    grid = np.meshgrid(around(150)[:, 0], np.linspace(-6.0, 6.0, 150, endpoint=False))
    places = np.column_stack([axis.ravel() for axis in grid])
    for radius in ([1.0, 1.0], [2.0, 1.5]):
        model = KernelDensity(kernel, radius=radius / sample.scale, period=[DAY, None]).fit(data)
        square = DAY * 12.0 * np.square(model.density(places)).mean()
        expected = float(square - 2.0 * model.leave_one_out().mean())
        assert score(np.array(radius)) / sample.scale.prod() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_leave_one_out_is_a_fit_without_the_sample(name: str) -> None:
    x, y = hours(40)
    regression = NadarayaWatson(name, radius=0.8, period=DAY).fit(x, y)
    density = KernelDensity(name, radius=0.8, period=DAY).fit(x)
    for i in range(5):
        others = np.delete(x, i, axis=0)
        left = NadarayaWatson(name, radius=0.8, period=DAY).fit(others, np.delete(y, i))
        assert regression.leave_one_out()[i] == pytest.approx(left.predict(x[[i]])[0], abs=1e-10)
        left = KernelDensity(name, radius=0.8, period=DAY).fit(others)
        assert density.leave_one_out()[i] == pytest.approx(left.density(x[[i]])[0], abs=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_local_polynomials_are_least_squares_in_the_chord(name: str, degree: int) -> None:
    x, y = hours()
    model = LocalPolynomial(name, degree=degree, radius=0.9, period=DAY).fit(x, y)
    kernel = PeriodicKernel(as_kernel(name), 0.9 * DAY)
    at, u = around(9), 0.9 * (around(9) - x.T)
    for row, offsets, query in zip(kernel.value(u), kernel.chord(u), at, strict=True):
        design = offsets[:, None] ** np.arange(degree + 1)
        system = (design * row[:, None]).T @ design
        fit = np.linalg.solve(system, (design * row[:, None]).T @ y)[0]
        assert model.predict([query])[0] == pytest.approx(fit, abs=1e-8)
    np.testing.assert_allclose(model.weights(at) @ y, model.predict(at), atol=1e-8)
    squares = np.square(model.weights(at)).sum(axis=1)
    np.testing.assert_allclose(model.squared_weight_sums(at, np.ones(len(y))), squares, rtol=1e-8)


def test_limits_are_periodic_and_those_of_the_weights() -> None:
    x, y = hours()
    density = KernelDensity(radius=1.0, period=DAY).fit(x)
    for bias in ("ignore", "corrected"):
        limits, next_day = (density.interval(around(9) + s, bias=bias) for s in (0.0, DAY))
        np.testing.assert_allclose(limits.error, next_day.error, rtol=1e-9)
    each = np.column_stack(
        [KernelDensity(radius=1.0, period=DAY).fit(x[[i]]).density(around(9)) for i in range(300)]
    )
    error = each.std(axis=1, ddof=1) / np.sqrt(300)
    np.testing.assert_allclose(density.interval(around(9)).error, error, rtol=1e-9)
    curve = NadarayaWatson(radius=1.0, period=DAY).fit(x, y)
    band = curve.band(around(9), rng=np.random.default_rng(0), replicates=40)
    weights = curve.weights(around(9))
    sigma = band.error / np.sqrt(np.square(weights).sum(axis=1))
    np.testing.assert_allclose(sigma, sigma[0], rtol=1e-9)


def test_probability_of_arcs_is_the_integral_of_the_density() -> None:
    model = KernelDensity(radius=1.0, period=DAY).fit(hours()[0])
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def integral(low: float, high: float) -> float:
        places = low + 0.5 * (high - low) * (nodes + 1.0)
        return float(0.5 * (high - low) * weights @ model.density(places[:, None]))

    assert model.probability(22.0, 26.0) == pytest.approx(integral(22.0, 26.0), abs=1e-12)
    assert model.probability(-2.0, 2.0) == pytest.approx(model.probability(22.0, 26.0), abs=1e-13)
    assert model.probability(3.0, 27.0) == pytest.approx(1.0, abs=1e-13)
    assert model.probability(-np.inf, np.inf) == pytest.approx(1.0, abs=1e-13)
    assert model.cdf([[6.0], [30.0]]) == pytest.approx([integral(0.0, 6.0)] * 2, abs=1e-12)


def test_draws_lie_in_one_period_and_have_the_density() -> None:
    model = KernelDensity("gaussian", radius=1.0, period=DAY).fit(hours()[0])
    draws = model.sample(20_000, rng=np.random.default_rng(0))
    assert draws.min() >= 0.0
    assert draws.max() < DAY
    share = float((draws[:, 0] < 6.0).mean())
    assert share == pytest.approx(model.probability(0.0, 6.0), abs=4 * 0.5 / np.sqrt(20_000))


def test_open_periodic_and_reflected_dimensions_in_one_fit() -> None:
    rng = np.random.default_rng(0)
    data = np.column_stack([hours(200)[0], rng.normal(size=200), rng.exponential(size=200)])
    options: dict[str, Any] = {
        "period": [DAY, None, None],
        "bounds": [None, None, (0.0, None)],
        "radius": [0.8, 1.5, 2.0],
    }
    at = np.column_stack([around(12), rng.normal(size=12), rng.exponential(size=12)])
    model = KernelDensity("gaussian", **options).fit(data)
    wave = PeriodicKernel(as_kernel("gaussian"), 0.8 * DAY)
    line = as_kernel("gaussian")
    first, second, third = (at[:, None, d] - data[None, :, d] for d in range(3))
    mirrored = at[:, None, 2] + data[None, :, 2]
    ends = line.value(2.0 * third) + line.value(2.0 * mirrored)
    expected = 0.8 * 1.5 * 2.0 * wave.value(0.8 * first) * line.value(1.5 * second) * ends
    np.testing.assert_allclose(model.density(at), expected.mean(axis=1), rtol=1e-9)
    assert model.probability([0, -np.inf, 0], [DAY, np.inf, np.inf]) == pytest.approx(1.0)
    y = data[:, 1] + rng.normal(size=200)
    curve = NadarayaWatson("gaussian", **options).fit(data, y)
    np.testing.assert_allclose(
        curve.predict(at), (expected @ y) / expected.sum(axis=1), rtol=1e-9, atol=1e-9
    )
    for rule in ("normal_reference", "plugin"):
        chosen = KernelDensity("gaussian", radius=rule, period=[DAY, None]).fit(data[:, :2])
        assert chosen.probability([0, -np.inf], [DAY, np.inf]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
def test_conditional_densities_on_circles(name: str) -> None:
    """Of a value given the hour, and of the hour given a value."""
    x, y = hours()
    given_hour = ConditionalDensity(name, radius=[1.0, 2.0], period=[DAY, None]).fit(x, y)
    given_value = ConditionalDensity(name, radius=[2.0, 1.0], period=[None, DAY])
    given_value.fit(y[:, None], x[:, 0])
    assert given_hour.density([[1.0], [25.0]], [0.2, 0.2]).std() < 1e-12
    total = given_value.density(np.full((240, 1), 0.3), around()[:, 0]).mean() * DAY
    assert total == pytest.approx(1.0, rel=1e-10)
    with pytest.raises(ValueError, match="period must be None for y to have a cdf"):
        given_value.cdf([[0.3]], [2.0])
    with pytest.raises(ValueError, match="period must be None for y to have quantiles"):
        given_value.quantile([[0.3]], 0.5)
    rule = ConditionalDensity(name, radius="conditional_lscv", period=[DAY, None])
    turned = ConditionalDensity(name, radius="conditional_lscv", period=[DAY, None])
    np.testing.assert_allclose(
        turned.fit(x[::8] + 4.0, y[::8]).radius_, rule.fit(x[::8], y[::8]).radius_, rtol=1e-4
    )


@pytest.mark.parametrize("name", KERNELS)
def test_streams_are_summed_as_arrays_are(name: str) -> None:
    x, y = hours()
    x = x + DAY * np.arange(-150, 150)[:, None]
    blocks = [(x[:100], y[:100]), (x[100:], y[100:])]
    whole = NadarayaWatson(name, radius=0.8, period=DAY).fit(x, y)
    streamed = NadarayaWatson(name, radius=0.8, period=DAY).fit(blocks)
    np.testing.assert_allclose(streamed.predict(around()), whole.predict(around()), atol=1e-9)
    density = KernelDensity(name, radius=0.8, period=DAY).fit(x)
    going = KernelDensity(name, radius=0.8, period=[DAY]).partial_fit(x[:50]).partial_fit(x[50:])
    np.testing.assert_allclose(going.density(around()), density.density(around()), atol=1e-12)
    assert going.probability(20, 27) == pytest.approx(density.probability(20, 27), abs=1e-12)
    with pytest.raises(ValueError, match="radius must be a number for a stream with a period"):
        KernelDensity(name, period=DAY).fit([x])


@pytest.mark.parametrize("kind", ["blocks", "parts", "once"])
def test_one_period_serves_all_columns_of_a_stream(kind: str) -> None:
    x = np.column_stack([hours()[0][:, 0], 0.5 * hours()[0][::-1, 0]])
    radius = [0.8, 0.8] if kind == "once" else 0.8
    model, whole = (KernelDensity(radius=radius, period=DAY) for _ in range(2))
    if kind == "parts":
        model.partial_fit(x[:100]).partial_fit(x[100:])
    else:
        model.fit([x[:100], x[100:]] if kind == "blocks" else iter([x[:100], x[100:]]))
    at = whole.fit(x).points_[:9]
    np.testing.assert_allclose(model.density(at), whole.density(at), atol=1e-11)


def test_periods_of_a_stream_may_be_an_array() -> None:
    x = np.column_stack([hours()[0], hours()[0][::-1]])
    model = KernelDensity("gaussian", radius=0.8, period=np.array([DAY, DAY])).fit(iter([x]))
    whole = KernelDensity("gaussian", radius=0.8, period=DAY).fit(x)
    np.testing.assert_allclose(model.density(x[:9]), whole.density(x[:9]), atol=1e-12)


def test_what_circles_do_not_have_is_refused() -> None:
    x, _ = hours()
    with pytest.raises(ValueError, match="period must be None where there are bounds"):
        KernelDensity(period=DAY, bounds=[(0, 24)]).fit(x)
    with pytest.raises(ValueError, match="period must be None with a radius matrix"):
        KernelDensity("gaussian", period=[DAY, None], radius=np.eye(2)).fit(np.hstack([x, x]))
    with pytest.raises(ValueError, match="period must be None for an estimate to be made"):
        KernelDensity("fourier1", radius=1.0, period=DAY).fit(x).proper()


def test_midnight_is_one_point_for_ties() -> None:
    """0 and 24 hours are copies of each other: leave-one-out leaves one of them."""
    y = np.array([1.0, 3.0, 2.0, 5.0])
    apart = NadarayaWatson(radius=1.0, period=DAY).fit([[0.0], [24.0], [6.0], [48.0]], y)
    same = NadarayaWatson(radius=1.0, period=DAY).fit([[0.0], [0.0], [6.0], [0.0]], y)
    np.testing.assert_allclose(apart.leave_one_out(), same.leave_one_out(), rtol=1e-12)
    np.testing.assert_array_equal(apart.points_, same.points_)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_slopes_and_left_out_fits_of_local_polynomials_go_around(degree: int) -> None:
    x, y = hours(120)
    model = LocalPolynomial(degree=degree, radius=0.5, period=DAY).fit(x, y)
    step = 1e-5
    rise = (model.predict(around(25) + step) - model.predict(around(25) - step)) / (2 * step)
    np.testing.assert_allclose(model.derivative(around(25))[:, 0], rise, atol=1e-6)
    np.testing.assert_allclose(model.hat_diagonal(), np.diag(model.weights(x)), atol=1e-12)
    for i in (0, 60, 119):
        left = LocalPolynomial(degree=degree, radius=0.5, period=DAY)
        left.fit(np.delete(x, i, axis=0), np.delete(y, i))
        assert model.leave_one_out()[i] == pytest.approx(left.predict(x[[i]])[0], abs=1e-10)
    for limits in (model.interval, lambda at: model.band(at, rng=np.random.default_rng(0))):
        first, last = limits(np.array([[0.0], [DAY]])).low
        assert first == pytest.approx(last, abs=1e-12)


def test_grids_slopes_and_regions_of_a_stream_on_a_circle_are_those_of_the_array() -> None:
    x, _ = hours()
    streamed = KernelDensity(radius=0.8, period=DAY).fit([x[:100], x[100:]])
    whole = KernelDensity(radius=0.8, period=DAY).fit(x)
    grids = [model.on_grid(64) for model in (streamed, whole)]
    assert [grid.axes[0][[0, -1]].tolist() for grid in grids] == [[0.0, DAY]] * 2
    np.testing.assert_allclose(grids[0].values, grids[1].values, atol=1e-13)
    at = around(20)
    np.testing.assert_allclose(streamed.derivative(at), whole.derivative(at), atol=1e-12)
    first, second = (highest_density_intervals(model, 0.9).ends for model in (streamed, whole))
    np.testing.assert_allclose(first, second, atol=1e-7)


@pytest.mark.parametrize("method", ["direct", "torch"])
def test_methods_without_sums_over_images_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match=f"'{method}' has no sums over images on a circle"):
        KernelDensity(radius=0.8, period=DAY, method=method).fit(hours()[0])
