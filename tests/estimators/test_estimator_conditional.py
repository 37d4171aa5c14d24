"""Conditional density: identities with the joint, the marginal and the regression; bad input."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import ConditionalDensity, UndefinedWarning
from fourierkernels.kernels import KERNELS


def data(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("method", ["reference", "bandlimited"])
@pytest.mark.parametrize("name", KERNELS)
def test_conditional_density_is_joint_over_marginal(name: str, method: str) -> None:
    x, y = data()
    weights = np.linspace(0, 2, 150)
    radius = [1.5, 2.0]
    model = ConditionalDensity(name, radius=radius, method=method)
    at, to = np.linspace(-1, 1, 9).reshape(-1, 1), np.linspace(-0.5, 0.5, 9)
    mine = model.fit(x, y, sample_weight=weights).density(at, to)
    joint = KernelDensity(name, radius=radius).fit(np.column_stack([x, y]), sample_weight=weights)
    marginal = KernelDensity(name, radius=radius[0]).fit(x, sample_weight=weights)
    expected = joint.density(np.column_stack([at, to])) / marginal.density(at)
    np.testing.assert_allclose(mine, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "fourier3", "fourier4", "fourier6"])
def test_conditional_density_integrates_to_one_and_its_mean_is_the_regression(name: str) -> None:
    x, y = data()
    model = ConditionalDensity(name, radius=[2.0, 8.0]).fit(x, y)
    grid = np.arange(-60.0, 60.0, 0.05)
    density = model.density(np.full((len(grid), 1), 0.3), grid)
    assert density.sum() * 0.05 == pytest.approx(1.0, abs=1e-5)
    mean = NadarayaWatson(name, radius=2.0).fit(x, y).predict([[0.3]])[0]
    assert (density * grid).sum() * 0.05 == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize("name", KERNELS)
def test_conditional_density_is_the_marginal_where_x_is_irrelevant(name: str) -> None:
    """Every response occurs at every design point."""
    levels, y = np.linspace(-1, 1, 7), data(40)[1]
    x, pairs = np.repeat(levels, 40).reshape(-1, 1), np.tile(y, 7)
    model = ConditionalDensity(name, radius=[1.5, 3.0]).fit(x, pairs)
    to = np.linspace(-1, 1, 11)
    marginal = KernelDensity(name, radius=3.0).fit(y.reshape(-1, 1)).density(to.reshape(-1, 1))
    mine = model.density(np.linspace(-0.5, 0.5, 11).reshape(-1, 1), to)
    np.testing.assert_allclose(mine, marginal, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", KERNELS)
def test_derivative_of_the_conditional_cdf_is_the_density(name: str) -> None:
    x, y = data()
    model = ConditionalDensity(name, radius=[2.0, 3.0]).fit(x, y)
    at, to, step = np.full((9, 1), 0.2), np.linspace(-1, 1, 9), 1e-4
    slope = (model.cdf(at, to + step) - model.cdf(at, to - step)) / (2 * step)
    np.testing.assert_allclose(slope, model.density(at, to), atol=1e-5)
    assert model.cdf([[0.2]], [1e8])[0] == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("method", ["auto", "bandlimited"])
def test_cdf_and_quantiles_far_out_are_those_of_the_weights(method: str) -> None:
    """Sums of integrals have the accuracy of the largest, and the denominator there is 1e-14."""
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    y, step = x[:, 0], 0.3
    model = ConditionalDensity("gaussian", bandwidth=[0.1, step], method=method).fit(x, y)
    at, to = x.max() + np.array([[0.2], [0.6], [0.8]]), np.linspace(3.0, 5.0, 400)
    weights = np.exp(-0.5 * np.square((at - y) / 0.1))
    weights /= weights.sum(axis=1, keepdims=True)
    levels = weights @ ndtr((to - y[:, None]) / step)  # (3, 400)
    found = model.cdf(np.repeat(at, 400, axis=0), np.tile(to, 3)).reshape(3, 400)
    np.testing.assert_allclose(found, levels, atol=2e-6)
    quantiles = model.quantile(at, [0.1, 0.5])
    back = (weights[:, :, None] * ndtr((quantiles[:, None] - y[:, None]) / step)).sum(axis=1)
    np.testing.assert_allclose(back, np.tile([0.1, 0.5], (3, 1)), atol=2e-6)


def test_score_prefers_a_sensible_radius_and_parameters_survive_cloning() -> None:
    x, y = data(400)
    new = data(400, seed=1)
    scores = [ConditionalDensity("gaussian", radius=r).fit(x, y).score(*new) for r in (0.3, 5.0)]
    assert scores[1] > scores[0]
    again = clone(ConditionalDensity(radius=[1.0, 2.0], tol=1e-9))
    assert again.get_params()["tol"] == 1e-9
    assert "bounds" not in again.get_params()


def test_several_responses_have_a_joint_density() -> None:
    x, y = data()
    model = ConditionalDensity(radius=2.0).fit(x, np.column_stack([y, y**2]))
    assert model.density(x[:5], np.column_stack([y, y**2])[:5]).shape == (5,)


def test_undefined_and_bad_input() -> None:
    x, y = data()
    model = ConditionalDensity(radius=2.0, method="direct").fit(x, y)
    lattice = np.pi / 2.0 * np.arange(20.0).reshape(-1, 1)
    zero = ConditionalDensity("fourier2", radius=2.0).fit(lattice[:9], np.arange(9.0))
    with pytest.warns(UndefinedWarning, match="1 of 2 queries"):
        assert np.isnan(zero.density([lattice[15], [0.3]], [1.0, 1.0])).tolist() == [True, False]
    with pytest.raises(ValueError, match="y must have one row per query, 2, got 3"):
        model.density(x[:2], y[:3])
    with pytest.raises(ValueError, match=r"y must have 1 columns, got shape \(2, 2\)"):
        model.density(x[:2], np.ones((2, 2)))
    with pytest.raises(ValueError, match="y must be finite, got nan"):
        model.density(x[:1], [np.nan])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ConditionalDensity().fit(x, y[:-1])


def test_only_estimators_that_can_stream_offer_it() -> None:
    assert not hasattr(ConditionalDensity, "stream")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.masked_array([0.0, 1.0], [True, False]), "y must not be masked, got 1 masked"),
        (np.array([0.0, 1.0j]), "y must be real, got complex data"),
        (
            np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"),
            "y must be numeric, got date",
        ),
    ],
    ids=["masked", "complex", "dates"],
)
def test_responses_that_are_no_numbers_are_no_queries(y: np.ndarray, message: str) -> None:
    """They were answered as the numbers that numpy makes of them."""
    x = np.linspace(0.0, 1.0, 20)[:, None]
    model = ConditionalDensity("gaussian", radius=[3.0, 3.0]).fit(x, x[:, 0])
    for call in (model.density, model.cdf, model.score):
        with pytest.raises((ValueError, TypeError), match=message):
            call(x[:2], y)
