"""Highest-density regions hold their probability, are bounded by a level, and are the smallest."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes

from fourierkernels import KernelDensity
from fourierkernels.estimators.modes import (
    density_contours,
    density_level,
    highest_density_contours,
    highest_density_intervals,
)

BMI = load_diabetes(scaled=False).data[:, [2]]
RNG = np.random.default_rng(0)
CLOUDS = np.vstack([RNG.normal(m, 0.5, (60, 2)) for m in ([0, 0], [3, 0], [0, 3])])


def shoelace(x: np.ndarray, y: np.ndarray) -> float:
    return float(0.5 * np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]))


@pytest.mark.parametrize("probability", [0.01, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("kernel", ["gaussian", "fourier2", "fourier4"])
def test_region_holds_its_probability_and_ends_on_its_level(
    kernel: str, probability: float
) -> None:
    model = KernelDensity(kernel, radius=1.5).fit(BMI)
    region = highest_density_intervals(model, probability)
    held = sum(model.probability(low, high) for low, high in region.ends)
    assert held == pytest.approx(probability, abs=1e-12)
    assert region.probability == pytest.approx(probability, abs=1e-12)
    np.testing.assert_allclose(model.density(region.ends.reshape(-1, 1)), region.level, rtol=1e-11)


def test_region_is_the_set_above_the_level() -> None:
    model = KernelDensity("fourier4", radius=8.0).fit(BMI)
    region = highest_density_intervals(model, 0.9)
    assert len(region.ends) > 1
    x = np.linspace(5, 60, 20_001)
    inside = ((x[:, None] > region.ends[:, 0]) & (x[:, None] < region.ends[:, 1])).any(axis=1)
    np.testing.assert_array_equal(inside, model.density(x[:, None]) > region.level)


def test_region_of_one_normal_is_the_normal_interval() -> None:
    model = KernelDensity("gaussian", bandwidth=2.0).fit([[1.0]])
    region = highest_density_intervals(model, 0.95)
    half = 2.0 * stats.norm.ppf(0.975)
    np.testing.assert_allclose(region.ends, [[1.0 - half, 1.0 + half]], rtol=1e-12)


def test_region_reaches_a_bound() -> None:
    x = np.random.default_rng(1).exponential(size=(300, 1))
    model = KernelDensity("gaussian", bounds=[(0.0, None)]).fit(x)
    region = highest_density_intervals(model, 0.9)
    assert region.ends[0, 0] == 0.0
    assert model.probability(*region.ends[0]) == pytest.approx(0.9, abs=1e-12)


def test_level_at_the_samples_is_their_quantile_and_near_the_exact_one() -> None:
    x = np.random.default_rng(2).normal(size=(5000, 1))
    model = KernelDensity("gaussian").fit(x)
    level = density_level(model, 0.5)
    assert np.mean(model.density(x) >= level) == pytest.approx(0.5, abs=1e-3)
    assert level == pytest.approx(highest_density_intervals(model, 0.5).level, rel=0.03)
    doubled = KernelDensity("gaussian", radius=model.radius_).fit(x, sample_weight=np.full(5000, 2))
    assert density_level(doubled, 0.5) == pytest.approx(level, rel=1e-12)


@pytest.mark.parametrize("probability", [0.5, 0.95])
def test_outline_of_one_gaussian_is_the_ellipse(probability: float) -> None:
    """p̂ = R_1 R_2 e^{-r²/2}/2π, and {r² < s} holds 1 - e^{-s/2}."""
    radius = np.array([2.0, 0.5])
    model = KernelDensity("gaussian", radius=radius).fit([[1.0, -1.0]])
    region = highest_density_contours(model, probability)
    square = -2.0 * np.log(1.0 - probability)
    assert region.area == pytest.approx(np.pi * square / radius.prod(), rel=1e-3)
    assert region.level == pytest.approx(radius.prod() / (2 * np.pi) * (1 - probability), rel=3e-3)
    (line,) = region.lines
    found = np.square((line - [1.0, -1.0]) * radius).sum(axis=1)
    np.testing.assert_allclose(
        found, -2 * np.log(region.level * 2 * np.pi / radius.prod()), rtol=1e-9
    )


@pytest.mark.parametrize("kernel", ["gaussian", "fourier4"])
def test_outlines_lie_on_the_level_and_enclose_the_area(kernel: str) -> None:
    model = KernelDensity(kernel, radius=2.0).fit(CLOUDS)
    region = highest_density_contours(model, 0.8)
    heights = model.density(np.vstack(region.lines))
    np.testing.assert_allclose(heights, region.level, rtol=1e-9)
    enclosed = sum(shoelace(*line.T) for line in region.lines)
    assert enclosed == pytest.approx(region.area, rel=2e-3)
    draws = model.sample(20_000, rng=np.random.default_rng(0))
    held = np.mean(model.density(draws) >= region.level)
    assert held == pytest.approx(0.8, abs=4 * np.sqrt(0.8 * 0.2 / 20_000))
    again = density_contours(model, region.level)
    assert again.area == pytest.approx(region.area, rel=1e-9)


def test_error_of_the_plane_falls_with_the_square_of_the_step() -> None:
    model = KernelDensity("gaussian", radius=2.0).fit([[0.0, 0.0]])
    errors = [
        abs(highest_density_contours(model, 0.9, steps=steps).area - np.pi * -2 * np.log(0.1) / 4)
        for steps in (4, 8, 16)
    ]
    assert errors[0] > 2.5 * errors[1] > 6 * errors[2]


def test_region_of_the_plane_stays_within_bounds() -> None:
    x = np.random.default_rng(4).exponential(size=(100, 2))
    model = KernelDensity("gaussian", bandwidth=0.4, bounds=[(0, None), (0, None)]).fit(x)
    region = highest_density_contours(model, 0.7)
    assert min(line.min() for line in region.lines) >= 0.0
    assert region.probability == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize(
    ("kernel", "dim", "probability", "message"),
    [
        ("gaussian", 1, 0.0, "probability must be between 0 and 1, got 0.0"),
        ("gaussian", 1, 1.0, "probability must be between 0 and 1, got 1.0"),
        ("gaussian", 2, 0.5, "model must have dimension 1, got 2"),
        ("fourier3", 1, 0.5, "kernel must be nonnegative for a region, got fourier3"),
    ],
)
def test_what_has_no_region_is_refused(
    kernel: str, dim: int, probability: float, message: str
) -> None:
    model = KernelDensity(kernel, radius=1.0).fit(np.zeros((3, dim)))
    with pytest.raises(ValueError, match=message):
        highest_density_intervals(model, probability)


def test_a_grid_too_large_is_refused() -> None:
    model = KernelDensity("gaussian", radius=1e4).fit(CLOUDS)
    with pytest.raises(ValueError, match="the grid has at most"):
        highest_density_contours(model, 0.5)
