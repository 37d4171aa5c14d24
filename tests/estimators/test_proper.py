"""Signed estimates made densities: integral one, never a larger error, draws from what is said."""

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError

from fourierkernels import KernelDensity, PhiKernel
from fourierkernels.estimators import ProperDensity, proper
from fourierkernels.estimators.roots import roots_between
from fourierkernels.theory.densities import as_density

ODD = ["fourier1", "fourier3", "fourier5"]


def fitted(name: str, n: int = 60, seed: int = 0, **options: object) -> KernelDensity:
    x = np.random.default_rng(seed).normal(size=(n, 1))
    return KernelDensity(name, **{"radius": 2.0, **options}).fit(x)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("n", [1, 60, 600])
@pytest.mark.parametrize("bounds", [None, [(-5.0, 5.0)], [(-4.0, None)]])
def test_it_is_the_positive_part_above_a_level_with_integral_one(
    name: str, n: int, bounds: object
) -> None:
    model = fitted(name, n, bounds=bounds)
    density = model.proper()
    assert isinstance(density, ProperDensity)
    assert density.threshold > 0
    pieces = zip(density.start, density.stop, strict=True)
    x = np.concatenate([np.linspace(*ends, 20_001) for ends in pieces])
    values = density.density(x[:, None])
    expected = np.maximum(model.density(x[:, None]) - density.threshold, 0.0)
    np.testing.assert_array_equal(values, expected)
    assert values.min() >= 0
    assert np.trapezoid(values, x) == pytest.approx(1.0, abs=1e-6)
    assert density.probability(-np.inf, np.inf) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", ODD)
def test_it_is_zero_outside_its_intervals_however_far(name: str) -> None:
    model = fitted(name, 200)
    density = model.proper()
    x = np.linspace(-300, 300, 600_001)
    within = np.zeros(len(x), bool)
    for start, stop in zip(density.start, density.stop, strict=True):
        within |= (x > start) & (x < stop)
    np.testing.assert_array_equal(model.density(x[:, None]) > density.threshold, within)
    ends = np.concatenate([density.start, density.stop])
    np.testing.assert_allclose(model.density(ends[:, None]), density.threshold, atol=1e-12)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("target", ["gaussian", "laplace", "mw6", "beta(2, 3)"])
def test_its_squared_error_is_never_larger(name: str, target: str) -> None:
    """Theorem of Glad, Hjort and Ushakov, at small, middling and large radii."""
    density = as_density(target)
    x = density.sample(80, np.random.default_rng(1))[:, None]
    for radius in np.array([0.5, 2.0, 8.0]) / x.std():
        model = KernelDensity(name, radius=radius).fit(x)
        assert model.proper().ise(density) < model.ise(density)


@pytest.mark.parametrize("name", ODD)
def test_squared_error_is_the_integral_written_out(name: str) -> None:
    density = fitted(name, 200).proper()
    x = np.linspace(-400, 400, 800_001)
    gap = density.density(x[:, None]) - stats.norm.pdf(x)
    assert density.ise("gaussian") == pytest.approx(np.trapezoid(gap**2, x), rel=1e-6)


@pytest.mark.parametrize("name", ODD)
def test_distribution_is_the_integral_of_the_density_and_never_falls(name: str) -> None:
    density = fitted(name, 60).proper()
    x = np.linspace(density.start[0] - 1, density.stop[-1] + 1, 100_001)
    cdf = density.cdf(x[:, None])
    values = density.density(x[:, None])
    steps = 0.5 * (values[1:] + values[:-1]) * np.diff(x)
    np.testing.assert_allclose(cdf, np.concatenate([[0.0], np.cumsum(steps)]), atol=1e-5)
    assert np.diff(cdf).min() > -1e-13
    assert (cdf[0], round(cdf[-1], 12)) == (0.0, 1.0)
    assert density.probability(-1.0, 0.5) == pytest.approx(
        float(np.diff(density.cdf([[-1.0], [0.5]]))[0]), abs=1e-14
    )


@pytest.mark.parametrize("name", ODD)
def test_draws_have_its_distribution(name: str) -> None:
    density = fitted(name, 30).proper()
    draws = density.sample(4_000, rng=np.random.default_rng(2))
    assert draws.shape == (4_000, 1)
    assert stats.kstest(draws[:, 0], lambda x: density.cdf(x[:, None])).pvalue > 0.01
    again = density.sample(4_000, rng=np.random.default_rng(2))
    np.testing.assert_array_equal(draws, again)


def test_units_of_the_data_change_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(50, 1))
    mine = KernelDensity("fourier1", radius=2.0).fit(x).proper()
    for scale in (1e-30, 1e30):
        other = KernelDensity("fourier1", radius=2.0 / scale).fit(scale * x).proper()
        assert scale * other.threshold == pytest.approx(mine.threshold, rel=1e-9)


def test_samples_without_weight_and_repetitions_count_as_in_the_estimate() -> None:
    x = np.random.default_rng(0).normal(size=(40, 1))
    counts = np.random.default_rng(1).integers(0, 3, 40)
    mine = KernelDensity("fourier3", radius=2.0).fit(np.append(x, [[1e6]], 0), None, [*counts, 0])
    other = KernelDensity("fourier3", radius=2.0).fit(np.repeat(x, counts, axis=0))
    assert mine.proper().threshold == pytest.approx(other.proper().threshold, rel=1e-8)


def test_a_nonnegative_estimate_is_a_density_already() -> None:
    for model in (
        fitted("gaussian"),
        KernelDensity("fourier4").fit(np.random.default_rng(0).normal(size=(9, 3))),
    ):
        assert model.proper() is model


def test_what_cannot_be_made_a_density_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFittedError):
        KernelDensity("fourier1").proper()
    plane = KernelDensity("fourier1", radius=1.0).fit(np.eye(2))
    with pytest.raises(ValueError, match="X must have 1 column to be made a density, got 2"):
        plane.proper()
    own = KernelDensity(PhiKernel(lambda z: z**3, "cube"), radius=1.0).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="kernel must be a power of sinc to be made a density"):
        own.proper()
    density = fitted("fourier1").proper()
    with pytest.raises(ValueError, match=r"low must not be above high, got 1\.0 and 0\.0"):
        density.probability(1.0, 0.0)
    with pytest.raises(ValueError, match="density must be on the line, got dimension 2"):
        density.ise("correlated")
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        density.sample(3, rng=1)
    monkeypatch.setattr(proper, "_MOST_KNOTS", 100)
    with pytest.raises(ValueError, match="radius must be small enough for 100 knots on the estim"):
        fitted("fourier1").proper()


def test_roots_are_found_in_each_bracket_and_at_its_ends() -> None:
    low, high = np.array([0.0, -1.0, 1.0, 0.0]), np.array([3.0, 1.0, 2.0, 1.0])
    powers = np.array([9.0, 3.0, 1.0, 1.0])
    at = np.array([2.0, 0.0, 1.0, 1.0])
    roots = roots_between(lambda x: np.sign(x - at) * np.abs(x - at) ** powers, low, high)
    np.testing.assert_allclose(roots, at, atol=0.05)
    np.testing.assert_allclose(roots[[2, 3]], at[[2, 3]], atol=1e-15)
