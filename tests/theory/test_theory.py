"""Exact error theory: closed forms, identities, published rates."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf, erfc

from fourierkernels.kernels import KERNELS, as_kernel
from fourierkernels.theorems import paper_rate, rate_table
from fourierkernels.theory import (
    mise,
    optimal_radius,
    optimum,
    sharp_radius,
    sharp_rate,
    sharp_regression_rate,
)
from fourierkernels.theory.densities import DENSITIES, Beta, CorrelatedGaussian, Gaussian
from fourierkernels.theory.densities.contract import Power

LINE = [name for name, density in DENSITIES.items() if density.dim == 1]


# --- exact MISE ------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5, 6.0])
def test_gaussian_with_the_sinc_kernel_has_its_closed_form(radius: float) -> None:
    """bias² = erfc(R)/(2√π), variance = (R - √π/2 erf R)/(πn)."""
    error = mise("gaussian", "fourier1", n=100, radius=radius)
    assert error.bias2 == pytest.approx(erfc(radius) / (2 * math.sqrt(math.pi)), rel=1e-12)
    variance = (radius - 0.5 * math.sqrt(math.pi) * erf(radius)) / (math.pi * 100)
    assert error.variance == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("radius", [0.5, 2.0, 30.0, 1e3])
def test_gaussian_with_the_gaussian_kernel_has_its_closed_form(radius: float) -> None:
    """Wand and Jones (1995), section 2.6: all integrals are Gaussians of summed variances."""
    n, h = 50, 1 / radius
    peak = lambda variance: 1 / math.sqrt(2 * math.pi * variance)  # noqa: E731
    bias2 = peak(2 + 2 * h * h) - 2 * peak(2 + h * h) + peak(2)
    variance = (peak(2 * h * h) - peak(2 + 2 * h * h)) / n
    error = mise("gaussian", "gaussian", n=n, radius=radius)
    assert error.variance == pytest.approx(variance, rel=1e-10)
    assert error.bias2 == pytest.approx(bias2, rel=1e-6, abs=1e-15)  # the closed form cancels


@pytest.mark.parametrize("density", ["laplace", "gamma(2)"])
def test_power_tails_have_their_closed_form(density: str) -> None:
    """β = 2: bias² of the sinc kernel is (1/π) ∫_R^∞ (1+t²)^{-2} dt."""
    radius = 3.0
    tail = 0.5 * (0.5 * math.pi - math.atan(radius) - radius / (1 + radius**2)) / math.pi
    assert mise(density, "fourier1", n=10, radius=radius).bias2 == pytest.approx(tail, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("density", LINE)
def test_limits_of_small_and_large_radius(density: str, kernel: str) -> None:
    """No bandwidth to speak of: bias² is ∫p². Too much: variance is R · roughness / n."""
    target = DENSITIES[density]
    flat = mise(density, kernel, n=10, radius=1e-7 * target.spectral_scale)
    assert flat.bias2 == pytest.approx(target.roughness, rel=1e-4)
    radius = 1e6
    rough = mise(density, kernel, n=10, radius=radius)
    roughness = as_kernel(kernel).roughness
    assert rough.variance == pytest.approx((radius * roughness - target.roughness) / 10, rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    density=st.sampled_from(LINE),
    kernel=st.sampled_from(list(KERNELS)),
    radius=st.floats(0.2, 60.0),
    scale=st.floats(0.25, 4.0),
)
def test_error_scales_with_the_units_of_the_data(
    density: str, kernel: str, radius: float, scale: float
) -> None:
    """x -> σx multiplies the MISE by 1/σ at radius R/σ; here with a Gaussian of std σ."""
    del density
    plain = mise("gaussian", kernel, n=30, radius=radius).total
    scaled = mise(Gaussian(0.0, scale), kernel, n=30, radius=radius / scale).total
    assert scaled == pytest.approx(plain / scale, rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_product_densities_agree_with_the_formula_multiplied_out(kernel: str) -> None:
    """∏A - 2∏B + ∏C from one-dimensional integrals by the trapezoid rule."""
    radius, n = 1.7, 40
    t = np.linspace(0, 60, 2_000_001)
    power, kept = np.exp(-t * t), as_kernel(kernel).transform(t / radius)
    a, b, c, v = (
        np.trapezoid(f, t) / math.pi for f in (power, power * kept, power * kept**2, kept**2)
    )
    for dim in (2, 3, 5, 10):
        error = mise("gaussian", kernel, n=n, radius=radius, dim=dim)
        assert error.bias2 == pytest.approx(a**dim - 2 * b**dim + c**dim, rel=1e-4)
        assert error.variance == pytest.approx((v**dim - c**dim) / n, rel=1e-4)


def test_no_cancellation_where_the_bias_is_tiny() -> None:
    """Bias² of the sinc kernel in D dimensions is (∫p²)^D - (inside)^D, here 1e-20 of it."""
    radius, dim = 6.7, 8
    tail, whole = erfc(radius) / (2 * math.sqrt(math.pi)), 1 / (2 * math.sqrt(math.pi))
    expected = dim * tail * whole ** (dim - 1)
    assert mise("gaussian", "fourier1", n=10, radius=radius, dim=dim).bias2 == pytest.approx(
        expected, rel=1e-9
    )


def test_radii_per_dimension_multiply() -> None:
    both = mise("laplace", "fourier4", n=20, radius=[1.0, 3.0], dim=2)
    swapped = mise("laplace", "fourier4", n=20, radius=[3.0, 1.0], dim=2)
    assert both.total == pytest.approx(swapped.total, rel=1e-12)
    assert both.total != pytest.approx(mise("laplace", "fourier4", n=20, radius=2.0, dim=2).total)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier3", "fourier4"])
def test_tensor_grid_agrees_with_the_product_at_no_correlation(kernel: str) -> None:
    tensor = mise(CorrelatedGaussian(1e-12, 2), kernel, n=30, radius=1.4)
    product = mise("gaussian", kernel, n=30, radius=1.4, dim=2)
    assert tensor.bias2 == pytest.approx(product.bias2, rel=1e-9)
    assert tensor.variance == pytest.approx(product.variance, rel=1e-9)


def test_correlated_gaussian_with_the_gaussian_kernel_has_its_closed_form() -> None:
    """All integrals are Gaussians at 0 with covariances 2Σ, 2Σ + h²I, 2Σ + 2h²I."""
    density, radius, n = CorrelatedGaussian(0.8, 2), 2.0, 30
    identity = np.eye(2) / radius**2
    peak = lambda c: 1 / (2 * math.pi * math.sqrt(np.linalg.det(c)))  # noqa: E731
    twice = 2 * density.covariance
    bias2 = peak(twice) - 2 * peak(twice + identity) + peak(twice + 2 * identity)
    variance = (peak(2 * identity) - peak(twice + 2 * identity)) / n
    error = mise(density, "gaussian", n=n, radius=radius)
    assert error.bias2 == pytest.approx(bias2, rel=1e-9)
    assert error.variance == pytest.approx(variance, rel=1e-9)


# --- optimal radius --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 1000, 10**6, 10**8])
def test_best_radius_of_the_sinc_kernel_solves_its_equation(n: int) -> None:
    """|p̂(R)|² = 1/(n+1)."""
    assert optimal_radius("gaussian", "fourier1", n=n) == pytest.approx(
        math.sqrt(math.log(n + 1)), rel=1e-6
    )
    assert optimal_radius("cauchy", "fourier1", n=n) == pytest.approx(
        0.5 * math.log(n + 1), rel=1e-6
    )
    assert optimal_radius("laplace", "fourier1", n=n) == pytest.approx(
        math.sqrt((n + 1) ** 0.5 - 1), rel=1e-6
    )


def test_best_radius_of_the_fejer_kernel_approaches_its_asymptote() -> None:
    """R* ≈ (3πn ∫p'²/4)^{1/3}, for the Gaussian ∫p'² = 1/(4√π)."""
    gap = [
        optimal_radius("gaussian", "fourier2", n=n)
        / (0.75 * math.pi * n / (4 * math.sqrt(math.pi))) ** (1 / 3)
        for n in (10**6, 10**8)
    ]
    assert abs(gap[1] - 1) < 0.02
    assert abs(gap[1] - 1) < abs(gap[0] - 1)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier3", "fourier4", "fourier5", "fourier6"])
def test_best_radius_of_second_order_kernels_approaches_its_asymptote(kernel: str) -> None:
    """R* ≈ (μ₂² ∫p''² n / roughness)^{1/5}, ∫p''² = 3/(8√π)."""
    k = as_kernel(kernel)
    curvature = 3 / (8 * math.sqrt(math.pi))
    gap = [
        optimal_radius("gaussian", k, n=n)
        / (k.second_moment**2 * curvature * n / k.roughness) ** 0.2
        for n in (10**6, 10**9)
    ]
    assert abs(gap[1] - 1) < 0.03
    assert abs(gap[1] - 1) < abs(gap[0] - 1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("density", [*LINE, "beta(1, 1)", "beta(2, 5)"])
def test_optimum_is_not_beaten_on_a_fine_grid(density: str, kernel: str) -> None:
    best = optimum(density, kernel, n=5000)
    grid = best.radius * np.geomspace(0.3, 3.0, 61)
    least = min(mise(density, kernel, n=5000, radius=float(r)).total for r in grid)
    assert best.mise.total <= least * (1 + 1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_local_slope_is_the_derivative_of_the_best_error(kernel: str) -> None:
    low, middle, high = (optimum("laplace", kernel, n=n) for n in (9_900, 10_000, 10_100))
    rise = math.log(high.mise.total / low.mise.total) / math.log(high.n / low.n)
    assert middle.slope == pytest.approx(rise, abs=1e-4)


class Broken(Gaussian):
    def power(self, t: object) -> Power:
        return Power(np.full(np.shape(t), np.nan), np.full(np.shape(t), np.nan))


def test_a_density_whose_cf_is_nan_is_refused_instead_of_searched_for_ever() -> None:
    with pytest.raises(ValueError, match="density must have a finite cf, got NaN at radius"):
        optimum(Broken(), "fourier4", n=10)


# --- rates: slopes of the exact error, sharp rates, rates of the paper ----------------------------

SEEN = {  # (density, kernel, from, to): slope known to three digits
    ("gaussian", "fourier1", 7, 8): -0.965,
    ("cauchy", "fourier1", 7, 8): -0.942,
    ("laplace", "fourier1", 7, 8): -0.748,
    ("gaussian", "fourier2", 7, 8): -0.665,
    ("gaussian", "fourier4", 7, 8): -0.793,
    ("cauchy", "fourier4", 7, 8): -0.795,
    ("gaussian", "fourier3", 7, 8): -0.794,
    ("gaussian", "fourier5", 7, 8): -0.794,
    ("laplace", "fourier4", 7, 8): -0.746,
}


@pytest.mark.parametrize("row", SEEN, ids=str)
def test_slopes_of_the_exact_error_are_the_known_ones(row: tuple[str, str, int, int]) -> None:
    density, kernel, start, end = row
    errors = [optimum(density, kernel, n=10**e).mise.total for e in (start, end)]
    assert math.log10(errors[1] / errors[0]) == pytest.approx(SEEN[row], abs=6e-4)


SHARP = {
    ("gaussian", "fourier1", 1): "(log n)^1/2 n^-1",
    ("cauchy", "fourier1", 1): "(log n) n^-1",
    ("cauchy", "fourier1", 3): "(log n)^3 n^-1",
    ("laplace", "fourier1", 1): "n^-3/4",
    ("laplace", "fourier1", 2): "n^-3/5",
    ("gaussian", "fourier2", 1): "n^-2/3",
    ("laplace", "fourier2", 1): "n^-2/3",
    ("gaussian", "fourier4", 1): "n^-4/5",
    ("gaussian", "fourier3", 2): "n^-2/3",
    ("laplace", "fourier4", 1): "n^-3/4",
    ("gaussian", "gaussian", 1): "n^-4/5",
    ("gamma(2.5)", "fourier4", 1): "(log n)^1/5 n^-4/5",
}
PAPER = {
    ("gaussian", "fourier1", 1): "(log n)^1/2 n^-1",
    ("laplace", "fourier1", 1): "n^-1/2",
    ("laplace", "fourier1", 2): "n^-1/3",
    ("gaussian", "fourier2", 2): "n^-1/2",
    ("gaussian", "fourier4", 1): "n^-2/3",
    ("gaussian", "fourier3", 1): "None",
    ("laplace", "fourier2", 1): "None",
    ("beta(1, 1)", "fourier1", 1): "None",
    ("gaussian", "gaussian", 1): "None",
}


@pytest.mark.parametrize("row", SHARP, ids=str)
def test_sharp_rates(row: tuple[str, str, int]) -> None:
    assert str(sharp_rate(row[0], row[1], dim=row[2])) == SHARP[row]


@pytest.mark.parametrize("row", PAPER, ids=str)
def test_rates_the_paper_states(row: tuple[str, str, int]) -> None:
    assert str(paper_rate(row[0], row[1], dim=row[2])) == PAPER[row]


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "density", ["gaussian", "cauchy", "laplace", "gamma", "gamma(2.5)", "beta"]
)
def test_best_error_falls_at_the_sharp_rate(density: str, kernel: str, dim: int) -> None:
    """Between n = 1e11 and 1e13, where the next order is small; a rate off by 0.05 fails."""
    errors = [optimum(density, kernel, n=10**e, dim=dim).mise.total for e in (11, 13)]
    seen = math.log(errors[1] / errors[0]) / math.log(100)
    rate = sharp_rate(density, kernel, dim=dim)
    expected = math.log(rate(1e13) / rate(1e11)) / math.log(100)
    assert seen == pytest.approx(expected, abs=0.02)


def test_rate_table_has_a_row_per_kernel_and_size() -> None:
    rows = rate_table("laplace", ["fourier1", "gaussian"], sizes=[100, 1000])
    assert [(r.kernel, r.optimum.n) for r in rows] == [
        ("fourier1", 100),
        ("fourier1", 1000),
        ("gaussian", 100),
        ("gaussian", 1000),
    ]
    assert str(rows[0].paper) == "n^-1/2"
    assert rows[2].paper is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"radius": 0.0}, ValueError, "radius must be positive and finite, got 0.0"),
        ({"radius": [1.0, 2.0]}, ValueError, r"radius must be a number or have shape \(1,\)"),
        ({"n": 0}, ValueError, "n must be at least 1, got 0"),
        ({"n": 2.5}, TypeError, "n must be an integer, got 2.5"),
        ({"dim": 0}, ValueError, "dim must be at least 1, got 0"),
        ({"dim": 600}, ValueError, "dim must keep .* within floating point, got 600"),
        ({"density": Beta(0.5, 2.0)}, ValueError, "density must be square integrable"),
        ({"density": CorrelatedGaussian(-0.1, 4)}, ValueError, "at most 3 dimensions of its own"),
        ({"density": CorrelatedGaussian(0.1, 2), "dim": 3}, ValueError, "dim must be 2 for this"),
        ({"density": "nomal"}, ValueError, "density must be one of gaussian"),
        ({"kernel": 4}, TypeError, "kernel must be a kernel or its name, got 4"),
    ],
)
def test_bad_input_is_refused(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    known: dict[str, object] = {"density": "gaussian", "kernel": "fourier1", "n": 10, "radius": 1.0}
    given = {**known, **options}
    with pytest.raises(error, match=message):
        mise(given.pop("density"), given.pop("kernel"), **given)  # type: ignore[arg-type]


def test_rates_are_refused_where_the_error_is_infinite_or_the_dimension_another() -> None:
    for name in ("beta(0.3, 1)", "gamma(0.5)"):  # without: n^--2/3 and n^-0
        for law in (sharp_rate, sharp_radius):
            with pytest.raises(ValueError, match=r"density must be square integrable, got β = 0\."):
                law(name, "fourier4")
    with pytest.raises(ValueError, match="dim must be 2 for this density, got 3"):
        sharp_rate("correlated", "fourier4", dim=3)
    with pytest.raises(ValueError, match="dim must be 2 for this density, got 3"):
        sharp_regression_rate("correlated", "sine", "fourier4", dim=3)
    with pytest.raises(ValueError, match="dim must be 2 for this density, got 3"):
        paper_rate("correlated", "fourier4", dim=3)
