"""Conditional densities: cross-validated radii, quantiles and draws, against direct computation."""

import numpy as np
import pytest

from fourierkernels.estimators import ConditionalDensity, UndefinedWarning
from fourierkernels.estimators.design import nadaraya_watson_design
from fourierkernels.estimators.radius.conditional import ConditionalScore
from fourierkernels.kernels import KERNELS, Kernel

NAMES = ["gaussian", "fourier1", "fourier2", "fourier3", "fourier4"]


def data(n: int = 40, dim: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, dim))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


def self_convolution(kernel: Kernel, u: np.ndarray) -> np.ndarray:
    """(K * K)(u) = (1/π) ∫ K̂(s)² cos(su) ds, on panels between the knots."""
    knots = np.unique([0.0, *kernel.knots, *np.linspace(0, kernel.cutoff, 60)])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = 0.5 * np.diff(knots)[:, None]
    s = (knots[:-1, None] + half * (1 + nodes)).ravel()
    power = (half * weights).ravel() * kernel.transform(s) ** 2 / np.pi
    return (np.cos(np.multiply.outer(u, s)) @ power).reshape(u.shape)


def criterion(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, kernel: Kernel, radius: np.ndarray, s: float
) -> float:
    """Mean of ∫ p̂_{-i}(y | x_i)² dy - 2 p̂_{-i}(y_i | x_i), by sums over triples."""
    near = kernel.value(radius * (x[:, None] - x[None])).prod(axis=2) * weights
    np.fill_diagonal(near, 0.0)
    rows = near / near.sum(axis=1, keepdims=True)
    gaps = s * (y[:, None] - y[None])
    square = ((rows @ (s * self_convolution(kernel, gaps))) * rows).sum(axis=1)
    own = (rows * s * kernel.value(gaps)).sum(axis=1)
    return float(np.average(square - 2.0 * own, weights=weights))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [1, 2])
def test_criterion_is_its_triple_sum(name: str, dim: int) -> None:
    x, y = data(dim=dim)
    weights, radius = np.random.default_rng(1).uniform(0.2, 1.0, 40), np.full(dim, 0.7)
    kernel = KERNELS[name]
    score = ConditionalScore(x, weights, kernel, y, nadaraya_watson_design, 8.0)
    for s in (0.8, 3.0, 6.0):
        expected = criterion(x, y, weights, kernel, radius, s)
        assert score.given(radius)(np.array([s])) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
def test_radii_minimise_the_criterion(name: str) -> None:
    x, y = data(60, seed=2)
    kernel, ones = KERNELS[name], np.ones(60)
    found = ConditionalDensity(name, radius="conditional_lscv").fit(x, y).radius_
    least = criterion(x, y, ones, kernel, found[:1], float(found[1]))
    for r in np.geomspace(0.5, 2.0, 7):
        for s in np.geomspace(0.5, 2.0, 7):
            assert least <= criterion(x, y, ones, kernel, r * found[:1], s * found[1]) + 1e-5


def test_cross_validation_comes_nearer_to_the_truth_than_the_joint_reference() -> None:
    """∫∫ (p̂ - p)² dy p(x) dx at draws of x, y on a grid."""
    at, grid = np.linspace(-1.8, 1.8, 13), np.linspace(-2.5, 2.5, 101)
    pairs = np.repeat(at, 101)[:, None], np.tile(grid, 13)
    gap = pairs[1] - np.sin(2 * pairs[0][:, 0])
    truth = np.exp(-0.5 * np.square(gap / 0.3)) / (0.3 * np.sqrt(2 * np.pi))
    for seed in range(2):
        x, y = data(150, seed=seed)
        errors = [
            np.mean(np.square(ConditionalDensity(radius=rule).fit(x, y).density(*pairs) - truth))
            for rule in ("conditional_lscv", None)
        ]
        assert errors[0] < 0.5 * errors[1]


def test_a_column_without_influence_is_smoothed_out() -> None:
    x, y = data(100, 2)
    radius = ConditionalDensity("gaussian", radius="conditional_lscv").fit(x, y).radius_
    assert radius.shape == (3,)
    assert radius[0] > 4 * radius[1]


@pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
def test_radii_follow_units_and_repetitions() -> None:
    x, y = data()
    rule = {"kernel": "fourier1", "radius": "conditional_lscv"}
    plain = ConditionalDensity(**rule).fit(x, y).radius_
    scaled = ConditionalDensity(**rule).fit(1e-3 * x + 5, 1e5 * y).radius_
    np.testing.assert_allclose(scaled * [1e-3, 1e5], plain, rtol=1e-3)
    counts = np.random.default_rng(1).integers(0, 3, 40)
    weighted = ConditionalDensity(**rule).fit(x, y, counts).radius_
    repeated = ConditionalDensity(**rule).fit(np.repeat(x, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted, repeated.radius_, rtol=1e-3)


def test_rule_of_conditional_densities_is_refused_where_it_does_not_apply() -> None:
    x, y = data()
    with pytest.raises(ValueError, match="y must have one column for radius='conditional_lscv'"):
        ConditionalDensity(radius="conditional_lscv").fit(x, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="radius and bandwidth exclude each other"):
        ConditionalDensity(radius="conditional_lscv", bandwidth=1.0).fit(x, y)
    with pytest.raises(ValueError, match="X must vary in every column"):
        ConditionalDensity(radius="conditional_lscv").fit(x, np.ones(40))


# --- quantiles and draws ---------------------------------------------------------------------

AT = np.array([[-1.0], [0.2], [1.5]])


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
def test_quantiles_invert_the_distribution_function(name: str) -> None:
    x, y = data(200)
    model = ConditionalDensity(name, radius=[2.0, 4.0]).fit(x, y)
    levels = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    found = model.quantile(AT, levels)
    assert found.shape == (3, 5)
    again = [model.cdf(AT, found[:, k]) for k in range(5)]
    np.testing.assert_allclose(np.transpose(again), np.tile(levels, (3, 1)), atol=1e-9)
    np.testing.assert_allclose(model.quantile(AT, 0.5), found[:, 2], rtol=1e-12)
    assert (np.diff(found, axis=1) > 0).all()


@pytest.mark.parametrize("name", ["fourier1", "fourier3"])
def test_quantiles_of_signed_kernels_are_the_generalised_inverse(name: str) -> None:
    """Q(u) = a + measure of {y > a: F(y) < u} for a far to the left, on a finer grid."""
    x, y = data(200)
    model = ConditionalDensity(name, radius=[1.5, 4.0]).fit(x, y)
    levels = np.array([0.1, 0.5, 0.9])
    found = model.quantile(AT, levels)
    grid = np.linspace(-12.0, 12.0, 48_001)
    for row, at in enumerate(AT):
        values = model.cdf(np.repeat(at[None], len(grid), axis=0), grid)
        expected = [-12.0 + (values < u).sum() * (grid[1] - grid[0]) for u in levels]
        np.testing.assert_allclose(found[row], expected, atol=2e-3)
    assert (np.diff(found, axis=1) > 0).all()


def test_levels_within_the_waves_of_the_tails_have_no_quantile() -> None:
    x, y = data(200)
    model = ConditionalDensity("fourier1", radius=[1.5, 4.0]).fit(x, y)
    with pytest.warns(UndefinedWarning, match="3 of 6 queries have no quantile"):
        found = model.quantile(AT, [1e-6, 0.5])
    assert np.isnan(found[:, 0]).all()
    assert np.isfinite(found[:, 1]).all()


def test_draws_follow_the_conditional_distribution() -> None:
    """Kolmogorov's distance to the distribution function, below its 1 - 1e-4 quantile."""
    x, y = data(100)
    model = ConditionalDensity("fourier4", radius=[2.0, 4.0]).fit(x, y, np.linspace(0, 2, 100))
    draws = model.sample(AT, 4000, rng=np.random.default_rng(0))
    assert draws.shape == (3, 4000)
    for row, at in enumerate(AT):
        ordered = np.sort(draws[row])
        level = model.cdf(np.repeat(at[None], 4000, axis=0), ordered)
        assert np.abs(level - (np.arange(4000) + 0.5) / 4000).max() < 2.23 / np.sqrt(4000)
    both = ConditionalDensity(radius=2.0).fit(x, np.column_stack([y, y]))
    assert both.sample(AT, 5, rng=np.random.default_rng(0)).shape == (3, 5, 2)


def test_quantiles_and_draws_far_from_the_data_are_undefined() -> None:
    x, y = data()
    model = ConditionalDensity("fourier4", radius=2.0).fit(x, y, np.eye(40)[0])
    zero = x[0] + 2 * np.pi * 2.0  # of the shape of the one sample of positive weight
    with pytest.warns(UndefinedWarning):
        assert np.isnan(model.quantile([zero], 0.5)).all()
    with pytest.warns(UndefinedWarning):
        assert np.isnan(model.sample([zero], 3, rng=np.random.default_rng(0))).all()


def test_bad_levels_kernels_and_numbers_are_refused() -> None:
    x, y = data()
    model, rng = ConditionalDensity("fourier3", radius=1.0).fit(x, y), np.random.default_rng(0)
    for q in (0.0, 1.0, [0.5, 2.0], [[0.5]], []):
        with pytest.raises(ValueError, match="q must be numbers strictly between 0 and 1"):
            model.quantile(AT, q)
    with pytest.raises(ValueError, match="kernel must be nonnegative to be sampled from"):
        model.sample(AT, 3, rng=rng)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        model.sample(AT, 3, rng=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n must be at least 1"):
        model.sample(AT, 0, rng=rng)
    both = ConditionalDensity(radius=1.0).fit(x, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="y must have one column for quantiles, got 2"):
        both.quantile(AT, 0.5)
