"""Cross-validation and plug-in: defining equations, O(n²) references, expectations, bad input."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from tolerances import MONTE_CARLO_SIGMAS

from fourierkernels import KernelDensity
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.estimators.radius.pairs import PairSpectrum
from fourierkernels.estimators.radius.sample import standardise
from fourierkernels.estimators.radius.spectral import NOISE, pilot
from fourierkernels.estimators.radius.spectrum import KernelScore, SampleSpectrum, settled
from fourierkernels.estimators.weights import fitted_weights
from fourierkernels.kernels import KERNELS, Kernel, as_kernel
from fourierkernels.kernels.phi_kernel import PhiKernel
from fourierkernels.theory import mise, optimal_radius
from fourierkernels.theory.densities import as_density


def rule_radius(rule: str, x: np.ndarray, kernel: object, weights: object = None) -> np.ndarray:
    x = np.asarray(x, float).reshape(len(x), -1)
    weights = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    return choose_radius(x, weights, as_kernel(kernel), radius=rule, bandwidth=None)  # type: ignore[arg-type]


def normal(n: int, dim: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim))


def spectral_score(
    x: np.ndarray, weights: np.ndarray, kernel: Kernel, reach: float
) -> Callable[[np.ndarray], float]:
    """The score as a function of the radius, for the data as given."""
    sample = standardise(x, weights)
    ends = np.full(x.shape[1], kernel.cutoff * reach) * sample.scale
    score = KernelScore(SampleSpectrum(sample, ends, rule="lscv"), kernel)
    return lambda radius: score(radius * sample.scale) / sample.scale.prod()


def self_convolution(kernel: Kernel, u: np.ndarray) -> np.ndarray:
    """(K * K)(u) = (1/π) ∫ K̂(s)² cos(su) ds, on panels between the knots."""
    knots = np.unique([0.0, *kernel.knots, *np.linspace(0, kernel.cutoff, 60)])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = 0.5 * np.diff(knots)[:, None]
    s = (knots[:-1, None] + half * (1 + nodes)).ravel()
    power = (half * weights).ravel() * kernel.transform(s) ** 2 / math.pi
    return (np.cos(np.multiply.outer(u, s)) @ power).reshape(u.shape)


def double_sum(x: np.ndarray, weights: np.ndarray, kernel: Kernel, radius: np.ndarray) -> float:
    """LSCV in space, O(n²): ∫p̂² - 2 Σ_{i≠j} w_i w_j K_R / Σ_{i≠j} w_i w_j."""
    u = radius * (x[:, None] - x[None])
    p = weights / weights.sum()
    pairs = np.outer(p, p)
    square = (radius * self_convolution(kernel, u)).prod(axis=-1)
    value = (radius * kernel.value(u)).prod(axis=-1)
    off = ~np.eye(len(x), dtype=bool)
    return float((pairs * square).sum() - 2 * (pairs * value)[off].sum() / pairs[off].sum())


# --- least squares cross-validation ----------------------------------------------------------


@pytest.mark.parametrize("name", [*KERNELS, "phi"])
@pytest.mark.parametrize("weighted", [False, True])
def test_score_in_frequency_is_the_double_sum_in_space(name: str, weighted: bool) -> None:
    kernel = PhiKernel(lambda z: z**3 + z**4) if name == "phi" else KERNELS[name]
    x = normal(70)
    weights = np.random.default_rng(1).uniform(0.1, 1.0, 70) if weighted else np.ones(70)
    weights = fitted_weights(weights, 70, "importance")
    score = spectral_score(x, weights, kernel, reach=6.0)
    for radius in (0.7, 1.9, 3.1, 5.99):
        expected = double_sum(x, weights, kernel, np.array([radius]))
        assert score(np.array([radius])) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4"])
@pytest.mark.parametrize(("dim", "accuracy"), [(2, 1e-4), (3, 1e-3)])
def test_score_in_more_dimensions_is_the_double_sum(name: str, dim: int, accuracy: float) -> None:
    x = normal(40, dim) * [1.0, 3.0, 0.5][:dim]
    radius = np.array([2.1, 0.9, 2.9][:dim]) * (0.7 if dim == 3 else 1.0)
    kernel = KERNELS[name]
    expected = double_sum(x, np.ones(40), kernel, radius)
    reach = radius.max() * (0.4 if name == "gaussian" and dim == 3 else 1.0)
    if reach < radius.max():  # the grid ends where the transform is 1e-3: what is lost is noise
        accuracy *= 10
    score = spectral_score(x, np.ones(40), kernel, reach=float(reach))
    assert score(radius) == pytest.approx(expected, rel=accuracy)


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier3", "fourier4"])
@pytest.mark.parametrize("target", ["gaussian", "laplace", "mw6"])
def test_expected_score_is_the_exact_mise(name: str, target: str) -> None:
    """E LSCV(R) + ∫p² = MISE(R), within 4 standard errors of 300 replicates."""
    density, kernel, n = as_density(target), KERNELS[name], 40
    radius = 1.3 * optimal_radius(density, kernel, n=n)
    rng = np.random.default_rng([len(name), sum(map(ord, target))])
    draws = [
        spectral_score(density.sample(n, rng)[:, None], np.ones(n), kernel, radius)(
            np.array([radius])
        )
        for _ in range(300)
    ]
    error = np.std(draws, ddof=1) / math.sqrt(300)
    exact = mise(density, kernel, n=n, radius=radius).total
    assert abs(np.mean(draws) + density.roughness - exact) < MONTE_CARLO_SIGMAS * error


def test_expected_score_is_the_exact_mise_in_two_dimensions() -> None:
    density, kernel, n, radius = as_density("correlated"), KERNELS["fourier4"], 40, np.array([3, 2])
    rng = np.random.default_rng(3)
    draws = [
        spectral_score(density.sample(n, rng), np.ones(n), kernel, 3.0)(radius) for _ in range(100)
    ]
    exact = mise(density, kernel, n=n, radius=radius).total
    error = np.std(draws, ddof=1) / 10.0
    assert abs(np.mean(draws) + density.roughness - exact) < MONTE_CARLO_SIGMAS * error


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4"])
def test_cross_validation_minimises_the_double_sum(name: str) -> None:
    x, kernel = normal(30, seed=4), KERNELS[name]
    found = rule_radius("lscv", x, name)
    least = double_sum(x, np.ones(30), kernel, found)
    for radius in found * np.geomspace(0.2, 4.0, 40):
        assert least < double_sum(x, np.ones(30), kernel, np.array([radius])) + 1e-7


def test_cross_validated_sinc_radius_solves_its_equation() -> None:
    """u(R) = 1/(n + 1), u unbiased for |p̂|²: the rule |φ_n(R)|² = 2/(n + 1)."""
    x = normal(300, seed=1)
    radius = rule_radius("lscv", x, "fourier1")
    power = abs(np.exp(1j * radius * x[:, 0]).mean()) ** 2
    assert power == pytest.approx(2.0 / 301.0, rel=2e-3)


def test_radii_per_dimension_follow_the_shape_of_the_data() -> None:
    """Two narrow modes, five times narrower than the Gaussian beside them."""
    rng = np.random.default_rng(0)
    modes = rng.choice([-2.0, 2.0], size=4000) + 0.2 * rng.normal(size=4000)
    x = np.column_stack([modes, rng.normal(size=4000)])
    for rule in ("lscv", "plugin"):
        radius = rule_radius(rule, x, "fourier4")
        assert 3.0 < radius[0] / radius[1] < 8.0


@pytest.mark.parametrize("rule", ["lscv", "plugin"])
def test_rules_come_near_the_optimum_in_three_dimensions(rule: str) -> None:
    scale = np.array([1.0, 20.0, 0.1])
    radius = rule_radius(rule, normal(600, 3) * scale, "fourier4") * scale
    np.testing.assert_allclose(
        radius, optimal_radius("gaussian", "fourier4", n=600, dim=3), rtol=0.3
    )


# --- plug-in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier3", "fourier4", "fourier6"])
@pytest.mark.parametrize("target", ["gaussian", "mw6", "mw10"])
def test_plug_in_radius_approaches_the_exact_optimum(name: str, target: str) -> None:
    """Within 12 % at n = 1e3 in the median of seven seeds, within 3 % at n = 3e4 in each of two."""
    density = as_density(target)

    def ratio(n: int, seed: int) -> float:
        x = density.sample(n, np.random.default_rng(seed))
        return float(rule_radius("plugin", x, name)[0] / optimal_radius(density, name, n=n))

    assert np.median([ratio(1000, seed) for seed in range(7)]) == pytest.approx(1.0, abs=0.12)
    for seed in range(2):
        assert ratio(30_000, seed) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(("target", "n"), [("gaussian", 1000), ("cauchy", 200), ("mw10", 1000)])
def test_plug_in_error_of_the_sinc_kernel_is_near_the_least(target: str, n: int) -> None:
    density = as_density(target)
    best = mise(density, "fourier1", n=n, radius=optimal_radius(density, "fourier1", n=n)).total
    x = [density.sample(n, np.random.default_rng(seed)) for seed in range(5)]
    radii = [rule_radius("plugin", sample, "fourier1") for sample in x]
    excess = [mise(density, "fourier1", n=n, radius=radius).total / best for radius in radii]
    assert 1.0 <= np.median(excess) < 1.25


def test_plug_in_radius_of_the_sinc_kernel_is_the_cut() -> None:
    x = normal(400, seed=2)
    radius = rule_radius("plugin", x, "fourier1")
    sample = standardise(x, np.ones(400))
    np.testing.assert_allclose(radius, pilot(sample)[1] / sample.scale, rtol=2e-3)
    assert abs(np.exp(1j * radius * x[:, 0]).mean()) ** 2 == pytest.approx(NOISE / 400, rel=1e-2)


def test_cut_passes_over_zeros_of_the_characteristic_function() -> None:
    """Two narrow modes: p̂ vanishes at t = π/4, far before it is noise."""
    rng = np.random.default_rng(0)
    x = rng.choice([-2.0, 2.0], size=2000) + 0.2 * rng.normal(size=2000)
    radius = rule_radius("plugin", x, "fourier1")
    assert radius[0] > 8.0


# --- bad input -------------------------------------------------------------------------------


def test_a_few_ties_are_harmless() -> None:
    x = normal(300)
    plain = rule_radius("lscv", x, "fourier4")
    tied = rule_radius("lscv", np.vstack([x, x[:6]]), "fourier4")  # too few to be called copies
    assert tied[0] == pytest.approx(plain[0], rel=0.2)


def test_data_beyond_the_grid_is_refused() -> None:
    x = np.append(normal(500), [[1e9]], axis=0)
    with pytest.raises(ValueError, match="X must have a range that 2\\^23 frequencies resolve"):
        rule_radius("lscv", x, "fourier4")
    with pytest.raises(ValueError, match=r"X must have one column for .*, got 2"):
        rule_radius("improved_sheather_jones", normal(50, 2), "gaussian")


# --- more than three columns -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
def test_scores_from_pairs_are_those_of_the_transform(name: str) -> None:
    x, kernel = np.random.default_rng(0).normal(size=(40, 2)), as_kernel(name)
    sample, _ = settled(x, np.ones(40), 1.2, "lscv")
    ends = kernel.cutoff * np.array([6.0, 6.0])
    for cut in (None, np.array([3.0, 2.5])):
        grid = KernelScore(SampleSpectrum(sample, ends, rule="lscv"), kernel, cut)
        pairs = KernelScore(PairSpectrum(sample, ends, rule="lscv"), kernel, cut)
        for radius in (np.array([1.0, 2.0]), np.array([4.0, 5.0])):
            assert pairs(radius) == pytest.approx(grid(radius), abs=3e-7)


@pytest.mark.parametrize("rule", ["lscv", "plugin"])
def test_rules_are_near_the_best_radius_in_four_columns(rule: str) -> None:
    """They were refused; the error is the exact one, for normal data."""
    x = np.random.default_rng(0).normal(size=(150, 4))
    model = KernelDensity("gaussian", radius=rule).fit(x)
    best = KernelDensity("gaussian").fit(x).radius_
    errors = [
        mise("gaussian", "gaussian", n=150, radius=radius, dim=4).total
        for radius in (model.radius_, best)
    ]
    assert errors[0] < 1.25 * errors[1]
    np.testing.assert_allclose(model.radius_ / best, model.radius_[0] / best[0])  # one factor


def test_pairs_that_are_too_many_are_refused_in_a_line() -> None:
    x = np.zeros((12_000, 4))
    x[:] = np.random.default_rng(0).normal(size=x.shape)
    with pytest.raises(ValueError, match=r"at most 5792 samples in 4 columns for radius='lscv'"):
        KernelDensity(radius="lscv").fit(x)
