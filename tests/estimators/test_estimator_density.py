"""What a density estimate offers beside its values: derivative, integral, draws, error, blocks."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from tolerances import MONTE_CARLO_SIGMAS, TOLERANCE

from fourierkernels import KernelDensity, simulation, theory
from fourierkernels.estimators.sampling import draw_from_kernel
from fourierkernels.kernels import KERNELS, FourierKernel
from fourierkernels.kernels.phi_kernel import PhiKernel
from fourierkernels.theory.densities import Gaussian

FAST = TOLERANCE["float64"]["fast"]
EVEN = [name for name, kernel in KERNELS.items() if kernel.nonnegative]
METHODS = ["reference", "bandlimited"]


def data(n: int = 200, dim: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dim", [1, 2])
def test_derivative_is_the_central_difference_of_the_density(
    method: str, name: str, dim: int
) -> None:
    model = KernelDensity(name, radius=np.linspace(2.0, 3.0, dim), method=method)
    model.fit(data(60, dim), sample_weight=np.linspace(0, 2, 60))
    at, step = data(9, dim, seed=1), 1e-5
    slope = model.derivative(at)
    assert slope.shape == (9, dim)
    for d in range(dim):
        move = step * np.eye(dim)[d]
        central = (model.density(at + move) - model.density(at - move)) / (2 * step)
        np.testing.assert_allclose(slope[:, d], central, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_derivative_and_cdf_agree_between_methods(name: str, dim: int) -> None:
    x, at = data(300, dim), data(40, dim, seed=1)
    slow, fast = (KernelDensity(name, radius=1.3, method=method).fit(x) for method in METHODS)
    peak = np.abs(slow.derivative(at)).max()
    np.testing.assert_allclose(fast.derivative(at), slow.derivative(at), atol=1e-10 * peak)
    np.testing.assert_allclose(fast.cdf(at), slow.cdf(at), atol=1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_derivative_of_the_cdf_is_the_density(name: str) -> None:
    model = KernelDensity(name, radius=2.0).fit(data())
    at, step = np.linspace(-3, 3, 13).reshape(-1, 1), 1e-4
    slope = (model.cdf(at + step) - model.cdf(at - step)) / (2 * step)
    np.testing.assert_allclose(slope, model.density(at), atol=1e-7)


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
@pytest.mark.parametrize("method", ["bandlimited", "reference"])
def test_cdf_of_a_nonnegative_kernel_stays_within_bounds_and_falls_by_rounding_alone(
    name: str, method: str
) -> None:
    x = np.random.default_rng(4).normal(size=(300, 1))
    model = KernelDensity(name, radius=3.0, method=method).fit(x)
    at = np.linspace(-60.0, 60.0, 2001 if method == "bandlimited" else 201).reshape(-1, 1)
    found = model.cdf(at)
    assert found.min() >= 0.0
    assert found.max() <= 1.0
    assert np.diff(found).min() >= -4e-12
    np.testing.assert_allclose(model.cdf(at[7:8]), found[7:8], atol=1e-11)  # whatever the batch


@pytest.mark.parametrize("name", EVEN)
def test_cdf_of_a_nonnegative_kernel_rises_from_zero_to_one(name: str) -> None:
    model = KernelDensity(name, radius=2.0).fit(data())
    values = model.cdf(np.concatenate([[-1e7], np.linspace(-9, 9, 400), [1e7]]).reshape(-1, 1))
    assert np.all(np.diff(values) >= -FAST)
    assert values[0] == pytest.approx(0.0, abs=1e-6)
    assert values[-1] == pytest.approx(1.0, abs=1e-6)


def test_gaussian_probabilities_agree_with_scipy() -> None:
    x, h = data(300), 0.37
    model = KernelDensity("gaussian", bandwidth=h).fit(x)
    peer = stats.gaussian_kde(x[:, 0], bw_method=h / math.sqrt(float(np.cov(x[:, 0]))))
    for low, high in ((-1.0, 0.5), (-np.inf, 1.0), (0.3, np.inf)):
        expected = peer.integrate_box_1d(low, high)
        assert model.probability(low, high) == pytest.approx(expected, abs=1e-10)
    assert model.probability(-np.inf, np.inf) == 1.0


@pytest.mark.parametrize("name", KERNELS)
def test_probability_of_a_box_is_the_integral_of_the_density(name: str) -> None:
    model = KernelDensity(name, radius=[1.5, 2.0]).fit(data(40, 2))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    x, y = np.meshgrid(-0.2 + nodes, 0.4 + 0.7 * nodes, indexing="ij")
    values = model.density(np.column_stack([x.ravel(), y.ravel()])).reshape(40, 40)
    expected = weights @ values @ (0.7 * weights)
    assert model.probability([-1.2, -0.3], [0.8, 1.1]) == pytest.approx(expected, abs=1e-10)
    half = KernelDensity(name, radius=1.5).fit(data(40, 2)[:, :1])
    marginal = model.probability([-1.2, -np.inf], [0.8, np.inf])
    assert marginal == pytest.approx(half.probability(-1.2, 0.8), abs=1e-10)


@pytest.mark.parametrize("name", [*EVEN, "fourier10"])
def test_draws_from_a_kernel_follow_its_distribution(name: str) -> None:
    kernel = KERNELS.get(name) or FourierKernel(10)
    draws = draw_from_kernel(kernel, 20_000, np.random.default_rng(0))
    assert stats.kstest(draws, kernel.cumulative).pvalue > 1e-3


def test_draws_from_fejers_kernel_keep_its_heavy_tail() -> None:
    """P(|U| > u) is about 1/(πu): the share beyond 1000 within its binomial error."""
    kernel, n = FourierKernel(2), 200_000
    draws = np.abs(draw_from_kernel(kernel, n, np.random.default_rng(1)))
    for end in (10.0, 100.0, 1000.0):
        p = 2.0 * float(1.0 - kernel.cumulative(end))
        assert abs((draws > end).sum() - n * p) < MONTE_CARLO_SIGMAS * math.sqrt(n * p)


@pytest.mark.parametrize("name", EVEN)
def test_samples_follow_the_cdf_of_the_estimate(name: str) -> None:
    model = KernelDensity(name, radius=3.0, bounds=[(-3.0, None)])
    model.fit(np.abs(data(30)) - 1, sample_weight=np.arange(30.0))
    draws = model.sample(5000, rng=np.random.default_rng(2))
    assert draws.shape == (5000, 1)
    test = stats.kstest(draws[:, 0], lambda x: model.cdf(np.reshape(x, (-1, 1))))
    assert test.pvalue > 1e-3


def test_signed_and_unknown_kernels_are_not_sampled_from() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="kernel must be nonnegative to be sampled from, got four"):
        KernelDensity("fourier3").fit(data()).sample(5, rng=rng)
    phi = PhiKernel(lambda z: z**2)
    rule = r"kernel must offer sample\(n, rng\) or be one of GaussianKernel, FourierKernel to"
    with pytest.raises(ValueError, match=rule):
        KernelDensity(phi, radius=1.0).fit(data()).sample(5, rng=rng)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        KernelDensity().fit(data()).sample(0, rng=rng)


@pytest.mark.parametrize("name", KERNELS)
def test_ise_is_the_integral_of_the_squared_error(name: str) -> None:
    """A Gaussian of scale s has ∫ p² = 1/(2s√π); the rest by quadrature of p̂ p and of p̂²."""
    x, weights = data(30), np.arange(30.0)
    model = KernelDensity(name, radius=2.0).fit(x, sample_weight=weights)
    grid = np.linspace(-400, 400, 200_001).reshape(-1, 1)
    gap = np.square(model.density(grid) - stats.norm.pdf(grid[:, 0]))
    tolerance = {"fourier1": 2e-4}.get(name, 1e-8)
    assert model.ise("gaussian") == pytest.approx(np.trapezoid(gap, grid[:, 0]), abs=tolerance)


def test_ise_with_equal_weights_is_that_of_the_simulation() -> None:
    x = data(100, 2)
    value = KernelDensity("fourier4", radius=[2.0, 3.0]).fit(x).ise(Gaussian())
    assert value == simulation.ise("gaussian", "fourier4", x, radius=[2.0, 3.0])
    halves = theory.ise("gaussian", "fourier4", x, radius=[2.0, 3.0], weights=np.full(100, 0.5))
    assert value == pytest.approx(halves, rel=1e-12)


@pytest.mark.parametrize("bounds", [None, [(-4.0, 4.0), None]])
@pytest.mark.parametrize("name", KERNELS)
def test_leave_one_out_is_refitting_without_the_sample(name: str, bounds: object) -> None:
    x, weights = data(25, 2), np.linspace(0.5, 2, 25)
    options = {"radius": 1.2, "bounds": bounds, "weighting": "importance"}
    left = KernelDensity(name, **options).fit(x, sample_weight=weights).leave_one_out()
    for i in (0, 11, 24):
        rest = np.delete(np.arange(25), i)
        again = KernelDensity(name, **options).fit(x[rest], sample_weight=weights[rest])
        assert left[i] == pytest.approx(again.density(x[[i]])[0], abs=1e-12)


def test_one_sample_has_no_leave_one_out_density() -> None:
    assert np.isnan(KernelDensity(radius=1.0).fit([[0.0]]).leave_one_out()).all()


# --- bounds ------------------------------------------------------------------------------------

BOUNDS = [[(0.0, None)], [(None, 2.5)], [(0.0, 2.5)]]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_reflected_density_integrates_to_one_on_its_box(
    name: str, bounds: list[tuple[float | None, float | None]]
) -> None:
    x = np.random.default_rng(0).uniform(0, 2.5, (50, 1))
    model = KernelDensity(name, radius=4.0, bounds=bounds).fit(x)
    assert model.probability(-np.inf, np.inf) == pytest.approx(1.0, abs=1e-10)
    if None not in bounds[0]:
        nodes, weights = np.polynomial.legendre.leggauss(80)
        total = model.density(1.25 + 1.25 * nodes.reshape(-1, 1)) @ (1.25 * weights)
        assert total == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_reflected_density_is_zero_outside_and_flat_at_the_bound(name: str) -> None:
    x = np.random.default_rng(0).exponential(size=(80, 1))
    model = KernelDensity(name, radius=3.0, bounds=[(0.0, None)]).fit(x)
    assert model.density([[-1e-9]])[0] == 0.0
    assert model.score_samples([[-1.0]])[0] == -np.inf
    assert model.cdf([[-1.0], [0.0]]) == pytest.approx([0.0, 0.0], abs=FAST)
    np.testing.assert_allclose(model.derivative([[0.0], [-1.0]]), 0.0, atol=1e-9)
    plain = KernelDensity(name, radius=3.0).fit(x)
    expected = plain.density([[0.3]]) + plain.density([[-0.3]])
    np.testing.assert_allclose(model.density([[0.3]]), expected, rtol=1e-10)


def test_reflection_halves_the_error_of_an_exponential_density_at_least() -> None:
    rng = np.random.default_rng(5)
    grid = np.linspace(0, 6, 400).reshape(-1, 1)
    errors = np.zeros(2)
    for _ in range(20):
        x = rng.exponential(size=(500, 1))
        for k, bounds in enumerate((None, [(0.0, None)])):
            fit = KernelDensity("fourier4", radius=4.0, bounds=bounds).fit(x).density(grid)
            errors[k] += np.trapezoid(np.square(fit - np.exp(-grid[:, 0])), grid[:, 0])
    assert errors[1] < 0.5 * errors[0]


def test_corners_of_a_box_are_reflected_in_every_dimension() -> None:
    x = np.random.default_rng(0).uniform(0, 1, (40, 2))
    model = KernelDensity("gaussian", radius=5.0, bounds=[(0, 1), (0, None)]).fit(x)
    assert len(model._images.points) == 40 * 3 * 2
    nodes, weights = np.polynomial.legendre.leggauss(60)
    a, b = np.meshgrid(0.5 + 0.5 * nodes, 1.5 + 1.5 * nodes, indexing="ij")
    values = model.density(np.column_stack([a.ravel(), b.ravel()])).reshape(60, 60)
    assert 0.5 * weights @ values @ (1.5 * weights) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([(0.0, 1.0), None], "bounds must have a pair .low, high. per dimension, 1, got"),
        ([(5.0, 5.0)], "bounds must have low < high in every dimension"),
        ([(math.nan, 5.0)], "bounds must have low < high in every dimension"),
        ([(0.0, None)], "bounds must contain all samples, got .*: 1 lie outside"),
    ],
)
def test_bad_bounds_are_refused(bounds: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelDensity(radius=1.0, bounds=bounds).fit([[-1.0], [2.0]])


def test_bad_queries_of_a_density_are_refused() -> None:
    model = KernelDensity(radius=2.0).fit(data())
    with pytest.raises(ValueError, match=r"low must not be above high, got 1\.0 and 0\.0"):
        model.probability(1.0, 0.0)
    with pytest.raises(ValueError, match="low must not be above high"):
        model.probability(math.nan, 0.0)
    bounded = KernelDensity(radius=2.0, bounds=[(-9.0, 9.0)]).fit(data())
    with pytest.raises(ValueError, match="bounds and period must be None for the ISE"):
        bounded.ise("gaussian")


# --- blocks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [None, [(-6.0, None)]])
def test_stream_gives_what_density_gives(bounds: object) -> None:
    model = KernelDensity("fourier4", radius=3.0, bounds=bounds).fit(data(3000))
    at = np.linspace(-8, 8, 1000).reshape(-1, 1)
    blocks = list(model.stream(np.array_split(at, 7)))
    assert len(blocks) == 7
    np.testing.assert_allclose(np.concatenate(blocks), model.density(at), atol=1e-11)


def test_stream_holds_one_block_of_queries_at_a_time() -> None:
    model = KernelDensity("fourier4", radius=3.0).fit(data(1000))
    rng = np.random.default_rng(0)
    size, blocks = 20_000, 40
    list(model.stream(rng.normal(size=(size, 1)) for _ in range(2)))  # compile and import first
    tracemalloc.start()
    total = sum(len(p) for p in model.stream(rng.normal(size=(size, 1)) for _ in range(blocks)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == size * blocks
    assert peak < 25 * 8 * size  # all queries alone would take twice that


def test_cdf_inverts_to_quantiles() -> None:
    model = KernelDensity("gaussian", bandwidth=0.2).fit(data(500))
    median = brentq(lambda x: float(model.cdf([[x]])[0]) - 0.5, -2, 2)
    assert abs(median) < 0.2
