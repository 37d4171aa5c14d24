"""Regressions and densities lose no digits to a mean, a neighbour, an outlier or a difference."""

import numpy as np
import pytest
from scipy import stats

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.kernels import KERNELS
from fourierkernels.sums.result import Units

METHODS = ["reference", "direct", "bandlimited"]
EPS = float(np.finfo(float).eps)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 1))
Y = np.sin(3 * X[:, 0])
AT = np.linspace(-1.5, 1.5, 21)[:, None]
READINGS = {
    "predict": lambda model: model.predict(AT),
    "leave_one_out": lambda model: model.leave_one_out(),
    "derivative": lambda model: model.derivative(AT),
}


def fitted(y: np.ndarray, method: str) -> NadarayaWatson:
    name = method if method != "direct" else "auto"  # derivatives need another method
    return NadarayaWatson("fourier4", radius=5.0, method=name).fit(X, y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("shift", "factor"), [(1e6, 1.0), (-1e9, 1e3), (0.0, 1e12), (5.0, -1e-9)])
def test_regression_follows_a_shift_and_a_factor(
    shift: float, factor: float, reading: str, method: str
) -> None:
    """What is left is the rounding of a + b y itself, a few times over."""
    moved = READINGS[reading](fitted(shift + factor * Y, method))
    own = READINGS[reading](fitted(Y, method))
    offset = 0.0 if reading == "derivative" else shift
    slope = 100.0 if reading == "derivative" else 1.0
    rounding = 20 * EPS * (abs(shift) + abs(factor)) + 1e-11 * abs(factor)
    np.testing.assert_allclose(moved, offset + factor * own, rtol=0, atol=slope * rounding)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("size", [1e9, 1e15, 1e300])
def test_a_large_column_costs_its_neighbours_nothing(
    size: float, reading: str, method: str
) -> None:
    columns = np.column_stack([Y, size * np.cos(X[:, 0])])
    both = READINGS[reading](fitted(columns, method))[:, 0]
    alone = READINGS[reading](fitted(Y, method))
    np.testing.assert_allclose(both, alone.reshape(both.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_small_responses_keep_their_digits_beside_large_ones_far_away(method: str) -> None:
    y = np.append(np.linspace(1, 2, 50), 1e15 * np.linspace(1, 2, 50))
    x = np.append(np.linspace(0, 1, 50), np.linspace(100, 101, 50))[:, None]
    model = NadarayaWatson("gaussian", radius=4.0, method=method).fit(x, y)
    alone = NadarayaWatson("gaussian", radius=4.0, method=method).fit(x[:50], y[:50])
    tolerance = 1e-10 if method != "bandlimited" else 1e4  # its error is relative to the largest
    np.testing.assert_allclose(model.predict(x[:50]), alone.predict(x[:50]), atol=tolerance)


def test_constant_responses_are_predicted_as_they_are() -> None:
    assert (
        NadarayaWatson(radius=5.0).fit(X, np.full(len(X), 1e6 / 3)).predict(AT) == 1e6 / 3
    ).all()


def test_units_hold_any_column_and_round_none_that_is_not_centred() -> None:
    y = np.column_stack([np.full(5, 3.0), np.zeros(5), [0, 1, 2, 3, 5], 1e6 + np.arange(5)])
    y = np.column_stack([y, [1.7e308, -1.7e308, 0, 0, 0], [5e-324, 0, 0, 0, 0]])
    units = Units.of(y)
    z = units.removed(y)
    assert (np.abs(z) <= 2).all()
    assert list(units.centre) == [3.0, 0.0, 0.0, 1e6 + 2, 0.0, 0.0]
    np.testing.assert_array_equal(units.restored(z, 1.0), y)


@pytest.mark.parametrize("method", METHODS)
def test_leave_one_out_of_distant_samples_is_that_of_the_others(method: str) -> None:
    """The other sample has a share of e^-32, of which a difference keeps no digit."""
    model = NadarayaWatson("gaussian", radius=1.0, method=method).fit([[0.0], [8.0]], [1000.0, 1.0])
    np.testing.assert_allclose(model.leave_one_out(), [1.0, 1000.0], rtol=1e-12)


def test_leave_one_out_is_exact_in_ten_dimensions() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 10))
    log = -0.5 * 2.5**2 * np.square(x[:, None] - x).sum(axis=2)
    np.fill_diagonal(log, -np.inf)
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    expected = weights @ x[:, 0] / weights.sum(axis=1)
    left = NadarayaWatson("gaussian", radius=2.5).fit(x, x[:, 0]).leave_one_out()
    np.testing.assert_allclose(left, expected, rtol=0, atol=1e-11)


def test_leave_one_out_density_of_distant_samples_has_all_digits() -> None:
    left = KernelDensity("gaussian", radius=1.0).fit([[0.0], [8.0]]).leave_one_out()
    np.testing.assert_allclose(left, stats.norm.pdf(8.0), rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
def test_an_outlier_costs_the_other_samples_nothing(name: str) -> None:
    x = np.append(RNG.normal(size=300), 1e14)[:, None]
    dense = KernelDensity(name, radius=3.0).fit(x).density(AT)
    alone = KernelDensity(name, radius=3.0).fit(x[:-1]).density(AT) * 300 / 301
    np.testing.assert_allclose(dense, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, row in KERNELS.items() if row.nonnegative])
def test_densities_of_nonnegative_kernels_are_nonnegative(name: str) -> None:
    grid = np.linspace(-30, 30, 5_001)[:, None]
    model = KernelDensity(name, radius=3.0, method="bandlimited").fit(X)
    assert model.density(grid).min() >= 0.0


@pytest.mark.parametrize("name", [name for name, row in KERNELS.items() if row.nonnegative])
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_draws_between_two_bounds_follow_the_estimate(name: str, radius: float) -> None:
    """A wide kernel reaches beyond both: each draw is folded once, or drawn again."""
    model = KernelDensity(name, radius=radius, bounds=[(0.0, 1.0)]).fit([[0.1], [0.3], [0.9]])
    draws = model.sample(20_000, rng=np.random.default_rng(3))[:, 0]
    test = stats.kstest(draws, lambda x: model.cdf(np.reshape(x, (-1, 1))))
    assert test.pvalue > 1e-3
