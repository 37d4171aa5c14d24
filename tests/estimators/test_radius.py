"""Radius rules of densities: what every rule obeys, and the rules of the Gaussian."""

import math

import numpy as np
import pytest
from scipy import stats

from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, choose_radius
from fourierkernels.estimators.weights import fitted_weights
from fourierkernels.kernels import GaussianKernel, as_kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.theory.densities import as_density

DENSITY_RULES = {**RADIUS_RULES, **GAUSSIAN_RULES}
pytestmark = pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")


def rule_radius(
    rule: str, x: np.ndarray, kernel: object, weights: object = None, weighting: str = "frequency"
) -> np.ndarray:
    x = np.asarray(x, float).reshape(len(x), -1)
    weights = fitted_weights(weights, len(x), weighting)  # type: ignore[arg-type]
    return choose_radius(x, weights, as_kernel(kernel), radius=rule, bandwidth=None)  # type: ignore[arg-type]


def normal(n: int, dim: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim))


# --- the Gaussian's rules --------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("weighted", [False, True])
def test_closed_rules_are_those_of_scipy(rule: str, dim: int, weighted: bool) -> None:
    x = normal(200, dim) * 3.0
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 200) if weighted else np.ones(200)
    peer = stats.gaussian_kde(x.T, bw_method=rule, weights=weights)
    bandwidths = np.sqrt(np.diag(np.atleast_2d(peer.covariance)))
    mine = rule_radius(rule, x, "gaussian", weights, "importance")
    np.testing.assert_allclose(mine, 1 / bandwidths, rtol=1e-9)


def peer_samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2010)
    one = rng.standard_normal(500)
    return one, np.append(rng.standard_normal(250) - 2, 0.4 * rng.standard_normal(250) + 2)


@pytest.mark.parametrize(("sample", "bandwidth"), [(0, 0.1143894), (1, 0.0663203)])
def test_improved_sheather_jones_is_near_that_of_kdepy(sample: int, bandwidth: float) -> None:
    """KDEpy 1.1.12 solves on a mesh 6 longer at both ends, but scales by the range of the data."""
    x = peer_samples()[sample]
    rescaled = bandwidth * (np.ptp(x) + 12.0) / np.ptp(x)
    assert 1.0 / rule_radius("improved_sheather_jones", x, "gaussian")[0] == pytest.approx(
        rescaled, rel=0.05
    )


def test_improved_sheather_jones_solves_its_equation_by_plain_sums() -> None:
    x = peer_samples()[1]
    reach = 1.2 * np.ptp(x)
    t = (1.0 / rule_radius("improved_sheather_jones", x, "gaussian")[0] / reach) ** 2
    k = np.arange(1.0, 400.0)
    place = (x - x.min()) / reach + 1 / 12
    energy = np.cos(math.pi * np.outer(k, place)).mean(axis=1) ** 2

    def norm(s: int, time: float) -> float:
        square = (math.pi * k) ** 2
        return float(2 * np.sum(square**s * energy * np.exp(-square * time)))

    f = norm(7, t)
    for s in range(6, 1, -1):
        odd = math.prod(range(1, 2 * s, 2))
        f = norm(
            s,
            (2 * (1 + 0.5 ** (s + 0.5)) / 3 * odd / math.sqrt(2 * math.pi) / 500 / f)
            ** (2 / (3 + 2 * s)),
        )
    assert t == pytest.approx((1000 * math.sqrt(math.pi) * f) ** -0.4, rel=1e-6)


@pytest.mark.parametrize("x", [[0, 1, 2, 3, 4], [-0.1, 0.1, 0.1, -0.1], [1, 0, -1, 0]], ids=str)
def test_improved_sheather_jones_says_where_its_equation_has_no_root(x: list[float]) -> None:
    with pytest.raises(ValueError, match="X must give the equation of radius='improved_sheather"):
        rule_radius("improved_sheather_jones", np.array(x, float)[:, None], "gaussian")


def test_improved_sheather_jones_resolves_modes_that_silverman_smears() -> None:
    x = as_density("mw7").sample(3000, np.random.default_rng(0))
    best = optimal_radius("mw7", "gaussian", n=3000)
    assert rule_radius("improved_sheather_jones", x, "gaussian")[0] == pytest.approx(best, rel=0.1)
    assert rule_radius("silverman", x, "gaussian")[0] < 0.6 * best


# --- every rule ------------------------------------------------------------------------------


def kernel_of(rule: str) -> str:
    return "gaussian" if DENSITY_RULES[rule].gaussian_only else "fourier4"


@pytest.mark.parametrize("rule", DENSITY_RULES)
@pytest.mark.parametrize("factor", [1e-3, 7.0, 2.0**900])
def test_radius_scales_with_the_data(rule: str, factor: float) -> None:
    x = normal(120)
    plain = rule_radius(rule, x, kernel_of(rule))
    scaled = rule_radius(rule, factor * x, kernel_of(rule))
    np.testing.assert_allclose(scaled * factor, plain, rtol=1e-9)


@pytest.mark.parametrize("rule", DENSITY_RULES)
def test_radius_does_not_depend_on_order_or_place(rule: str) -> None:
    x = normal(120)
    plain = rule_radius(rule, x, kernel_of(rule))
    np.testing.assert_allclose(rule_radius(rule, x[::-1] + 5.0, kernel_of(rule)), plain, rtol=1e-7)


@pytest.mark.parametrize("rule", DENSITY_RULES)
def test_whole_number_weights_are_repetitions(rule: str) -> None:
    x = np.round(normal(150), 2)  # values that can recur
    counts = np.where(np.arange(150) % 10 == 0, 2, 1)
    counts[7] = 0
    kernel = kernel_of(rule)
    repeated = rule_radius(rule, np.repeat(x, counts, axis=0), kernel)
    np.testing.assert_allclose(rule_radius(rule, x, kernel, counts), repeated, rtol=1e-7)


@pytest.mark.parametrize("rule", DENSITY_RULES)
def test_only_the_ratios_of_importances_matter(rule: str) -> None:
    x, weights = normal(120), np.random.default_rng(5).uniform(0.2, 1.0, 120)
    kernel = kernel_of(rule)
    plain = rule_radius(rule, x, kernel, weights, "importance")
    for factor in (0.37, 2.0, 1e-200):
        scaled = rule_radius(rule, x, kernel, factor * weights, "importance")
        np.testing.assert_allclose(scaled, plain, rtol=1e-7)
    equal = rule_radius(rule, x, kernel, np.full(120, 2.0), "importance")
    np.testing.assert_allclose(equal, rule_radius(rule, x, kernel), rtol=1e-7)


@pytest.mark.parametrize("rule", DENSITY_RULES)
@pytest.mark.parametrize("weighting", ["frequency", "importance"])
def test_radius_is_continuous_in_the_weights(rule: str, weighting: str) -> None:
    x, kernel = normal(120), kernel_of(rule)
    weights = np.where(np.arange(120) % 10 == 0, 2.0, 1.0)
    whole = rule_radius(rule, x, kernel, weights, weighting)
    nearly = rule_radius(rule, x, kernel, weights + 1e-6 * np.arange(120), weighting)
    np.testing.assert_allclose(nearly, whole, rtol=1e-3)


@pytest.mark.parametrize("rule", DENSITY_RULES)
def test_shares_taken_for_counts_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=r"at least 2 samples .* got a sum of 1; use weighting="):
        rule_radius(rule, normal(120), kernel_of(rule), np.full(120, 1 / 120))


@pytest.mark.parametrize("rule", DENSITY_RULES)
def test_constant_data_and_one_sample_are_refused(rule: str) -> None:
    for x in (np.ones((5, 1)), np.array([[3.0]])):
        with pytest.raises(ValueError, match=r"X must vary in every column .* column 0 constant"):
            rule_radius(rule, x, kernel_of(rule))
    with pytest.raises(ValueError, match="X must vary in every column"):
        rule_radius(rule, normal(4), kernel_of(rule), [0.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize("rule", ["normal_reference", "lscv", "plugin", "silverman", "scott"])
def test_two_samples_give_a_radius_of_their_distance(rule: str) -> None:
    radius = rule_radius(rule, np.array([0.0, 1.0]), kernel_of(rule))
    assert 0.1 < radius[0] < 20.0


@pytest.mark.parametrize("rule", GAUSSIAN_RULES)
def test_rules_of_the_gaussian_refuse_other_kernels(rule: str) -> None:
    assert GAUSSIAN_RULES[rule].gaussian_only
    with pytest.raises(ValueError, match=f"kernel must be gaussian for radius='{rule}', got"):
        rule_radius(rule, normal(50), "fourier4")
    assert rule_radius(rule, normal(50), GaussianKernel()) > 0
