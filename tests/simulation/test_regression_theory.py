"""Large-sample regression error: against quadrature, closed forms, and the simulation."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from tolerances import MONTE_CARLO_SIGMAS

from fourierkernels.kernels import KERNELS, FourierKernel
from fourierkernels.simulation import RegressionError, mse
from fourierkernels.theory import regression_moments
from fourierkernels.theory.densities import (
    REGRESSION_FUNCTIONS,
    Beta,
    Density,
    Gamma,
    RegressionFunction,
    as_density,
)
from fourierkernels.theory.densities.regression_functions import Bump, Doppler, Sine
from fourierkernels.theory.regression_asymptotics import regression_asymptotics
from fourierkernels.theory.regression_error import (
    regression_at_radius,
    regression_next_order,
    regression_radius,
)

ALL = list(KERNELS)
AT = [[0.5]]
FINITE_ORDER = [name for name, kernel in KERNELS.items() if math.isfinite(kernel.order)]
NOISE = 0.3


def setting(n: int, radius: float, at: object = AT) -> dict[str, Any]:
    return {"n": n, "radius": radius, "at": at, "noise_variance": NOISE**2}


def simulated(
    kernel: str, n: int, radius: float, replicates: int, **options: Any
) -> RegressionError:
    """Simulate the error of a sine with a normal design, unless told otherwise."""
    known = {"at": AT, "noise": NOISE, **options}
    seed = known.pop("seed", 0)
    target = known.pop("density", "gaussian"), known.pop("function", "sine")
    rng = np.random.default_rng(seed)
    return mse(*target, kernel, n=n, radius=radius, replicates=replicates, rng=rng, **known)


def by_gauss(density: str, function: str, kernel: str, x: float, r: float) -> tuple[float, float]:
    """Bias and n times the variance at one point, by 30 nodes of Gauss on panels of 1/2 at most."""
    p, f, k = as_density(density).pdf, REGRESSION_FUNCTIONS[function].value, KERNELS[kernel].value
    ends = np.unique([*np.linspace(x - 30.0, x + 30.0, 121), 0.0, 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = 0.5 * np.diff(ends)[:, None]
    y, dy = ends[:-1, None] + half * (1.0 + nodes), half * weights
    shape, rise = r * k(r * (x - y)), f(y) - f(x)
    mass = np.sum(shape * p(y) * dy)
    bias = np.sum(shape * p(y) * rise * dy) / mass
    second = np.sum(shape**2 * p(y) * (NOISE**2 + (rise - bias) ** 2) * dy)
    return bias, second / mass**2


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize(
    ("density", "function"), [("gaussian", "sine"), ("laplace", "kink"), ("beta", "jump")]
)
def test_fixed_radius_terms_agree_with_quadrature(density: str, function: str, kernel: str) -> None:
    terms = regression_at_radius(
        density, function, kernel, n=1, radius=3.0, at=[[0.4]], noise_variance=NOISE**2
    )
    bias, variance = by_gauss(density, function, kernel, 0.4, 3.0)
    assert terms.bias[0] == pytest.approx(bias, rel=1e-7, abs=1e-9)
    assert terms.variance[0] == pytest.approx(variance, rel=1e-7)


def by_power(
    density: Density, edges: dict[float, float], kernel: str, x: float, r: float
) -> tuple[float, float]:
    """Bias and n times the variance; y = edge ± v^40 near the edges leaves no power there."""
    k, f = KERNELS[kernel].value, REGRESSION_FUNCTIONS["sine"].value
    nodes, weights = np.polynomial.legendre.leggauss(30)
    v, dv = ((np.arange(400)[:, None] + 0.5 * (1.0 + nodes)) / 400).ravel(), np.tile(weights, 400)
    parts = [(edge + 0.3 * side * v**40, 12.0 * v**39 * dv / 800) for edge, side in edges.items()]
    ends = np.linspace(0.3, 0.7 if len(edges) > 1 else 40.3, 801)
    half = 0.5 * np.diff(ends)[:, None]
    parts.append(((ends[:-1, None] + half * (1.0 + nodes)).ravel(), (half * weights).ravel()))
    y, dy = (np.concatenate(each) for each in zip(*parts, strict=True))
    p = np.where(dy > 0.0, density.pdf(y), 0.0)
    shape, rise = r * k(r * (x - y)), f(y) - f(x)
    mass = np.sum(shape * p * dy)
    bias = np.sum(shape * p * rise * dy) / mass
    return bias, np.sum(shape**2 * p * (NOISE**2 + (rise - bias) ** 2) * dy) / mass**2


@pytest.mark.parametrize("kernel", ["fourier1", "fourier4"])
@pytest.mark.parametrize(
    ("density", "edges"),
    [(Gamma(0.6), {0.0: 1.0}), (Gamma(1.5), {0.0: 1.0}), (Beta(0.7, 0.7), {0.0: 1.0, 1.0: -1.0})],
    ids=str,
)
def test_terms_of_designs_with_singular_edges(
    density: Density, edges: dict[float, float], kernel: str
) -> None:
    terms = regression_at_radius(
        density, "sine", kernel, n=1, radius=20.0, at=[[0.4]], noise_variance=NOISE**2
    )
    bias, variance = by_power(density, edges, kernel, 0.4, 20.0)
    assert terms.bias[0] == pytest.approx(bias, rel=1e-7)
    assert terms.variance[0] == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("density", [Gamma(0.6), Beta(0.7, 0.7), Beta(0.7, 2.5)], ids=str)
def test_leading_bias_of_power_two_sees_singular_edges(density: Density) -> None:
    options = {"n": 1, "radius": 3e4, "at": [[0.4]], "noise_variance": 0.09}
    leading = regression_asymptotics(density, "sine", "fourier2", **options).bias[0]
    exact = regression_at_radius(density, "sine", "fourier2", **options).bias[0]
    assert leading == pytest.approx(exact, rel=5e-3)


def test_an_infinite_variance_is_refused_not_truncated() -> None:
    """K² f² p ~ |y|^{-2 + 4 - 2} for the sinc: no integral; one power more has it."""
    options = {"n": 9, "radius": 2.0, "at": AT, "noise_variance": 0.09}
    with pytest.raises(ValueError, match=r"function must grow slowly enough .* quadratic"):
        regression_at_radius("cauchy", "quadratic", "fourier1", **options)
    assert regression_at_radius("cauchy", "quadratic", "fourier2", **options).variance[0] < 1.0
    assert regression_at_radius("cauchy", "linear", "fourier1", **options).variance[0] < 1.0


def gaps(found: RegressionError, terms: object, n: int, order: float) -> dict[str, float]:
    """Simulated less exact total in standard errors, next order of size `order` allowed."""
    total = terms.total[0]  # type: ignore[attr-defined]
    allowed = order * total
    bias_error = found.bias[:, 0].std() / math.sqrt(len(found.bias))
    shift = abs(found.bias[:, 0].mean() - terms.bias[0])  # type: ignore[attr-defined]
    return {
        "total": max(0.0, abs(found.mean[0] - total) - allowed) / found.standard_error[0],
        "bias": max(0.0, shift - order * math.sqrt(total)) / bias_error,
    }


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kernel", ALL)
def test_simulation_agrees_with_the_fixed_radius_terms(kernel: str, dim: int) -> None:
    radius, n = {1: (6.0, 20_000), 2: (3.0, 20_000), 3: (2.0, 20_000)}[dim]
    at = np.full((1, dim), 0.5)
    found = simulated(kernel, n, radius, 150, dim=dim, at=at, seed=dim)
    terms = regression_at_radius("gaussian", "sine", kernel, **setting(n, radius, at))
    peak = radius**dim / (n * float(as_density("gaussian").pdf(0.5)) ** dim)  # R^D/(n p)
    for name, sigmas in gaps(found, terms, n, peak).items():
        assert sigmas < MONTE_CARLO_SIGMAS, name


@pytest.mark.parametrize("noise", ["heteroscedastic", "student"])
@pytest.mark.parametrize("function", ["kink", "jump", "quadratic"])
def test_simulation_agrees_for_other_functions_and_noise(function: str, noise: str) -> None:
    at = np.array([[0.2]])
    target = {"density": "laplace", "function": function, "noise": noise}
    found = simulated("fourier4", 20_000, 8.0, 200, at=at, **target)
    level = {"heteroscedastic": 0.09 * 1.04, "student": 0.27}[noise]
    terms = regression_at_radius(
        "laplace", function, "fourier4", n=20_000, radius=8.0, at=at, noise_variance=level
    )
    # σ² varies over the kernel by its second moment: 0.09 · μ₂/R² of 0.0936
    order = 8.0 / (20_000 * 0.4) + (0.012 if noise == "heteroscedastic" else 0.0)
    for name, sigmas in gaps(found, terms, 20_000, order).items():
        assert sigmas < MONTE_CARLO_SIGMAS, name


def test_what_is_left_beyond_the_fixed_radius_terms_falls_like_one_over_n() -> None:
    left = []
    for n in (60, 240):
        found = simulated("fourier4", n, 4.0, 40_000, seed=1)
        terms = regression_at_radius("gaussian", "sine", "fourier4", **setting(n, 4.0))
        left.append(found.mean[0] / terms.total[0] - 1.0)
    assert 0.02 < left[0] < 0.1
    assert left[0] / left[1] == pytest.approx(4.0, rel=0.3)


@pytest.mark.parametrize("kernel", ["fourier2", "fourier6"])
@pytest.mark.parametrize(("radius", "part"), [(4.0, "bias"), (10.0, "variance")])
def test_one_per_cent_in_bias_or_variance_is_seen(kernel: str, radius: float, part: str) -> None:
    n = 20_000
    found = simulated(kernel, n, radius, 500, seed=5)
    low, high = (
        regression_at_radius(
            "gaussian", "sine", kernel, n=n, radius=radius, at=AT, noise_variance=level
        )
        for level in (NOISE**2, 2 * NOISE**2)
    )
    exact = low.bias[0] if part == "bias" else (high.variance - low.variance)[0]  # linear in σ²
    values = found.bias[:, 0] if part == "bias" else found.variance[:, 0]
    error = MONTE_CARLO_SIGMAS * values.std() / math.sqrt(len(values))
    assert abs(values.mean() - exact) < error
    assert abs(values.mean() - 0.99 * exact) > error
    assert abs(values.mean() - 1.01 * exact) > error


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("kernel", FINITE_ORDER)
def test_leading_terms_are_the_limit_of_the_fixed_radius_terms(kernel: str, dim: int) -> None:
    at = np.array([[0.5, -0.3][:dim]])
    gap = []
    for radius in (8.0, 32.0, 128.0):
        options = {"n": 10**9, "radius": radius, "at": at, "noise_variance": NOISE**2}
        exact = regression_at_radius("gaussian", "sine", kernel, **options)
        leading = regression_asymptotics("gaussian", "sine", kernel, **options)
        ratios = (exact.bias[0] / leading.bias[0], exact.variance[0] / leading.variance[0])
        gap.append([abs(ratio - 1.0) for ratio in ratios])
    assert np.all(np.array(gap[1]) < 0.5 * np.array(gap[0]) + 1e-6)
    assert np.all(np.array(gap[2]) < 0.5 * np.array(gap[1]) + 1e-6)
    assert np.all(np.array(gap[2]) < (0.05 if kernel == "fourier2" else 0.02))


def test_bias_of_power_two_has_its_closed_form_at_the_centre() -> None:
    """f = x² and N(0, 1) at 0: ∫ 2 t² p(t)/t² dt = 1, so the bias is √(2π)/(2πR)."""
    terms = regression_asymptotics(
        "gaussian", "quadratic", "fourier2", n=10, radius=7.0, at=[[0.0]], noise_variance=1.0
    )
    expected = math.sqrt(2 * math.pi) / (2 * math.pi * 7.0)
    assert terms.bias[0] == pytest.approx(expected, rel=1e-9)
    assert terms.variance[0] == pytest.approx(
        2 / (3 * math.pi) * 7.0 / 10 * math.sqrt(2 * math.pi), rel=1e-12
    )


def test_bias_of_power_two_is_not_local() -> None:
    """A kink of f at 1 changes the leading bias at -1; with power 4 it does not."""
    at = [[-1.0]]

    def bias(function: str, kernel: str) -> float:
        terms = regression_asymptotics(
            "gaussian", function, kernel, n=10, radius=7.0, at=at, noise_variance=1.0
        )
        return float(terms.bias[0])

    assert bias("linear", "fourier4") == pytest.approx(-bias("kink", "fourier4"), rel=1e-12)
    assert abs(bias("linear", "fourier2") + bias("kink", "fourier2")) > 0.01


@pytest.mark.parametrize(
    ("kernel", "exponent"), [("fourier2", 1 / 3), ("fourier4", 1 / 5), ("gaussian", 1 / 5)]
)
def test_best_radius_grows_at_its_rate(kernel: str, exponent: float) -> None:
    at = np.linspace(-1.5, 1.5, 9)[:, None]
    radii = [
        regression_radius("gaussian", "sine", kernel, n=n, at=at, noise_variance=0.09)
        for n in (10**5, 10**7)
    ]
    assert math.log(radii[1] / radii[0]) / math.log(100) == pytest.approx(exponent, abs=0.01)


def test_best_radius_of_the_sinc_grows_like_the_root_of_the_logarithm() -> None:
    at = np.linspace(-1.5, 1.5, 21)[:, None]
    for n in (10**3, 10**6):
        radius = regression_radius("gaussian", "sine", "fourier1", n=n, at=at, noise_variance=0.09)
        assert radius == pytest.approx(2.0 + math.sqrt(math.log(n)), rel=0.15)


@pytest.mark.parametrize("kernel", ["fourier2", "fourier4"])
def test_a_wrong_transform_is_seen(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretching the argument of the kernel by 1 % moves the fixed-radius bias by 1 or 2 %."""
    options = {"n": 10, "radius": 30.0, "at": [[0.5]], "noise_variance": 0.09}
    before = regression_at_radius("gaussian", "sine", kernel, **options).bias[0]
    plain = FourierKernel.value
    monkeypatch.setattr(FourierKernel, "value", lambda self, u: plain(self, 1.01 * np.asarray(u)))
    after = regression_at_radius("gaussian", "sine", kernel, **options).bias[0]
    assert after / before == pytest.approx(1.01 ** -KERNELS[kernel].order, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "fourier1"}, "kernel must have order 1 or 2, got fourier1 of order inf"),
        ({"function": "kink", "at": [[0.0]]}, r"at must avoid the break of f at 0\.0"),
        ({"density": "correlated"}, "density must be on the line, got one in 2 dimensions"),
        ({"density": "beta", "at": [[1.5]]}, r"at must have a positive density, got 0 at 1\.5"),
        ({"radius": 0.0}, "radius must be positive"),
        ({"noise_variance": 0.0}, "noise_variance must be positive"),
        ({"n": 0}, "n must be at least 1"),
    ],
)
def test_bad_input_is_refused(options: dict[str, object], message: str) -> None:
    known = {
        "density": "gaussian",
        "function": "sine",
        "kernel": "fourier4",
        "n": 10,
        "radius": 4.0,
        "at": [[0.5]],
        "noise_variance": 0.09,
    }
    with pytest.raises(ValueError, match=message):
        regression_asymptotics(**{**known, **options})


def test_quadrature_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"n": 10, "radius": 5.0, "at": [[0.5], [1.2]], "noise_variance": 0.09}
    coarse = regression_at_radius("mw3", "doppler", "fourier3", **options)
    monkeypatch.setattr(regression_moments, "PHASE", 4.0)
    fine = regression_at_radius("mw3", "doppler", "fourier3", **options)
    np.testing.assert_allclose(coarse.total, fine.total, rtol=1e-9)


# --- the next order ----------------------------------------------------------------------------


@functools.cache
def laplace_transforms(function: str, kernel: str, r: float, x: float) -> list[tuple[float, ...]]:
    """t with φ(t) = E e^{-tk}, E k² V e^{-tk} and E k Δ e^{-tk}, V = Δ² + σ², for t = e^v."""
    p, f, k = (
        as_density("gaussian").pdf,
        REGRESSION_FUNCTIONS[function].value,
        KERNELS[kernel].value,
    )
    y = np.linspace(-12.0, 12.0, 24_001)
    mass, weight = p(y) * (y[1] - y[0]), k(r * (x - y)) / k(0.0)
    rise = f(y) - f(x)
    spread, slope = weight**2 * (rise**2 + NOISE**2), weight * rise
    found = []
    for t in np.exp(np.arange(-18.0, 30.0, 0.1)):
        decay = np.exp(-t * weight)
        found.append((t, decay @ mass, (spread * decay) @ mass, (slope * decay) @ mass))
    return found


def exact_error(function: str, kernel: str, n: int, r: float, x: float) -> float:
    """Exact MSE for a kernel that is not negative: 1/B² = ∫ t e^{-tB} dt, the sample independent.

    ∫ t [n E(k² V e^{-tk}) φ^{n-1} + n (n-1) (E k Δ e^{-tk})² φ^{n-2}] dt; the transforms are the
    same for all n.
    """
    total = 0.0
    for t, phi, spread, slope in laplace_transforms(function, kernel, r, x):
        first = n * spread * phi ** (n - 1)
        second = n * (n - 1) * slope**2 * phi ** (n - 2)
        total += 0.1 * t * t * (first + second)
    return total


def test_the_exact_error_of_positive_kernels_is_that_of_the_simulation() -> None:
    exact = exact_error("sine", "fourier4", 30, 4.0, 0.5)
    found = simulated("fourier4", 30, 4.0, 20_000)
    assert abs(found.mean[0] - exact) < MONTE_CARLO_SIGMAS * found.standard_error[0]
    assert found.standard_error[0] < 0.01 * exact


@pytest.mark.parametrize("kernel", ["fourier2", "fourier4", "fourier6", "gaussian"])
@pytest.mark.parametrize("function", ["sine", "quadratic"])
def test_what_is_left_beyond_the_next_order_falls_like_one_over_n_cubed(
    function: str, kernel: str
) -> None:
    left = []
    for n in (200, 800):
        options = setting(n, 4.0)
        exact = exact_error(function, kernel, n, 4.0, 0.5)
        first = regression_at_radius("gaussian", function, kernel, **options).total[0]
        extra = regression_next_order("gaussian", function, kernel, **options)[0]
        left.append(exact - first - extra)
        assert abs(left[-1]) < 0.03 * abs(exact - first)
    assert left[0] / left[1] == pytest.approx(64.0, rel=0.3)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kernel", ALL)
def test_simulation_of_small_samples_agrees_with_both_orders(kernel: str, dim: int) -> None:
    radius, n = {1: (4.0, 300), 2: (2.5, 1_000), 3: (2.0, 3_000)}[dim]
    at = np.full((1, dim), 0.5)
    found = simulated(kernel, n, radius, 3_000, dim=dim, at=at, seed=dim)
    options = setting(n, radius, at)
    first = regression_at_radius("gaussian", "sine", kernel, **options).total[0]
    extra = regression_next_order("gaussian", "sine", kernel, **options)[0]
    assert abs(found.mean[0] - first - extra) < MONTE_CARLO_SIGMAS * found.standard_error[0]


@pytest.mark.parametrize("kernel", ["fourier1", "fourier4"])
@pytest.mark.parametrize(
    "function", [Sine(60.0), Bump(0.5, 0.005), Doppler(width=0.2)], ids=lambda f: f.name
)
def test_fixed_radius_terms_of_fast_functions_agree_with_a_fine_sum(
    function: RegressionFunction, kernel: str
) -> None:
    k = KERNELS[kernel].value
    y = np.linspace(-12.0, 12.0, 2**20 + 1)  # all terms vanish at both ends
    shape, rise = k(y - 0.5), function.value(y) - function.value(0.5)
    p = as_density("gaussian").pdf(y)
    mass, square = shape @ p, np.square(shape) * p
    bias = shape @ (p * rise) / mass
    variance = square @ (NOISE**2 + np.square(rise - bias)) / (mass**2 * (y[1] - y[0]) * 100)
    seen = regression_at_radius("gaussian", function, kernel, **setting(100, 1.0))
    assert seen.bias[0] == pytest.approx(bias, rel=1e-9)
    assert seen.variance[0] == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("name", ["gamma(1)", "laplace"])
@pytest.mark.parametrize("x", [1e-5, 5e-4, 1e-3])
def test_leading_bias_close_to_a_break_of_the_design_does_not_see_it(name: str, x: float) -> None:
    """p'/p = -1 to the right of 0 for both."""
    terms = regression_asymptotics(name, "linear", "fourier4", **setting(100, 50.0, [[x]]))
    assert terms.bias[0] == pytest.approx(-0.75 / 50.0**2, rel=1e-8)


@pytest.mark.parametrize("noise", [[0.1], [[0.1], [0.2], [0.3]], [0.1, 0.2]])
@pytest.mark.parametrize(
    "error", [regression_at_radius, regression_next_order, regression_asymptotics]
)
def test_variances_of_the_noise_are_one_or_one_per_point(error: Any, noise: Any) -> None:
    options = {**setting(100, 5.0, [[0.1], [0.2], [0.3]]), "noise_variance": noise}
    with pytest.raises(ValueError, match=r"noise_variance must be a number or have shape \(3,\)"):
        error("gaussian", "sine", "fourier4", **options)


def test_points_of_no_weight_do_not_count_for_the_best_radius() -> None:
    at, options = np.array([[0.3], [0.9]]), {"n": 500, "noise_variance": NOISE**2}
    one = regression_radius("gaussian", "sine", "fourier4", at=at[:1], **options)
    both = regression_radius("gaussian", "sine", "fourier4", at=at, weights=[1.0, 0.0], **options)
    assert both == pytest.approx(one, rel=1e-12)
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\), got shape \(3,\)"):
        regression_radius("gaussian", "sine", "fourier4", at=at, weights=[1.0] * 3, **options)


def test_a_small_best_radius_is_found_and_one_of_zero_refused() -> None:
    at = np.linspace(-1.5, 1.5, 5)[:, None]
    options: dict[str, Any] = {"n": 10, "at": at, "noise_variance": 1e3}
    best = regression_radius("gaussian", "linear", "gaussian", **options)

    def error(radius: float) -> float:
        terms = regression_at_radius("gaussian", "linear", "gaussian", radius=radius, **options)
        return float(terms.total.mean())

    assert error(best) < min(error(factor * best) for factor in (0.5, 0.9, 1.1, 2.0, 4.0))
    options |= {"n": 2, "noise_variance": NOISE**2}
    with pytest.raises(ValueError, match="n must be large enough for a best radius, got 2"):
        regression_radius("gaussian", "bump", "fourier1", **options)
