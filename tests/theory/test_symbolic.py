"""Symbolic derivations against the package's numeric kernels and its exact MISE."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import sympy
from scipy.integrate import quad

from fourierkernels.kernels import FourierKernel, GaussianKernel, as_kernel
from fourierkernels.theory import mise, optimum, regression_at_radius, sharp_rate, symbolic
from fourierkernels.theory.densities import as_density, as_regression_function
from fourierkernels.theory.symbolic.splines import lost_energy

POWERS = range(1, 9)


# --- kernels: exact rationals ------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
def test_constants_agree_with_the_kernel_and_with_their_series(power: int) -> None:
    derived = symbolic.constant(power)
    assert sympy.simplify(derived.expression - symbolic.constant_series(power).expression) == 0
    assert float(derived()) == pytest.approx(FourierKernel(power).constant, rel=1e-15)


def test_constants_are_the_known_multiples_of_pi() -> None:
    """π, π, 3π/4, 2π/3, 115π/192, 11π/20."""
    shares = [symbolic.constant(power).expression / sympy.pi for power in range(1, 7)]
    known = [1, 1, Fraction(3, 4), Fraction(2, 3), Fraction(115, 192), Fraction(11, 20)]
    assert [Fraction(int(share.p), int(share.q)) for share in shares] == known


@pytest.mark.parametrize("power", POWERS)
def test_constants_are_the_integrals_of_the_powers(power: int) -> None:
    """sinc^l summed over periods; the tail beyond X is at most X^{1-l}/(l-1), or 2/X for l = 1."""
    end = 200 * math.pi
    total = sum(
        quad(lambda x: np.sinc(x / math.pi) ** power, k * math.pi, (k + 1) * math.pi)[0]
        for k in range(200)
    )
    tail = 2 / end if power == 1 else 2 * end ** (1 - power) / (power - 1)
    assert abs(2 * total - float(symbolic.constant(power)())) <= tail + 1e-12


@pytest.mark.parametrize("power", POWERS)
def test_transform_is_the_kernel_s(power: int) -> None:
    """At rational points, in rational arithmetic."""
    s = sympy.Symbol("s", real=True)
    points = [Fraction(k, 7) for k in range(1, 7 * power + 4, 2)]
    derived = symbolic.transform(power).expression
    exact = [float(derived.subs(s, sympy.Rational(p.numerator, p.denominator))) for p in points]
    computed = FourierKernel(power).transform([float(p) for p in points])
    np.testing.assert_allclose(computed, exact, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("power", POWERS)
def test_sum_of_uniforms_is_a_density(power: int) -> None:
    s = sympy.Symbol("s", real=True)
    pieces = symbolic.uniform_sum(power)
    moments = [
        sum(sympy.integrate(s**k * piece, (s, left, left + 2)) for left, piece in pieces)
        for k in (0, 1, 2)
    ]
    assert moments == [1, 0, sympy.Rational(power, 3)]  # variance of one uniform: 1/3


@pytest.mark.parametrize("power", POWERS)
def test_order_moment_and_roughness_are_the_kernel_s(power: int) -> None:
    kernel = FourierKernel(power)
    assert float(symbolic.order(power)) == kernel.order
    assert float(symbolic.second_moment(power)()) == pytest.approx(kernel.second_moment, rel=1e-15)
    assert float(symbolic.roughness(power)()) == pytest.approx(kernel.roughness, rel=1e-15)


def test_roughness_is_the_ratio_of_constants() -> None:
    """Plancherel against the definition: ∫K² = A_{2l}/A_l², exactly."""
    for power in range(1, 7):
        ratio = symbolic.constant(2 * power).expression / symbolic.constant(power).expression ** 2
        assert sympy.simplify(symbolic.roughness(power).expression - ratio) == 0


@pytest.mark.parametrize(("power", "beta"), [(1, 2), (2, 1), (3, 2), (4, 2), (4, 1), (6, 1.5)])
def test_lost_energy_is_its_integral(power: int, beta: float) -> None:
    kernel = FourierKernel(power)

    def integrand(s: float) -> float:
        return float(s ** (-2 * beta) * (1 - kernel.transform(s)) ** 2)

    knots = [0.0, *kernel.knots]
    inside = sum(quad(integrand, a, b)[0] for a, b in pairwise(knots))
    expected = inside + power ** (1 - 2 * beta) / (2 * beta - 1)
    assert float(lost_energy(power, beta)) == pytest.approx(expected, rel=1e-9)


# --- the Fourier integral theorem ----------------------------------------------------------------


@pytest.mark.parametrize("density", ["gaussian", "cauchy", "laplace"])
def test_the_fourier_integral_theorem_returns_the_density(density: str) -> None:
    theorem = symbolic.reproduction(density)
    assert theorem.holds
    x = np.array([-1.5, 0.3, 2.0])
    np.testing.assert_allclose(theorem.limit(x=x), as_density(density).pdf(x), rtol=1e-14)


@pytest.mark.parametrize("density", ["gaussian", "cauchy", "laplace"])
def test_energy_beyond_the_radius_is_the_exact_squared_bias(density: str) -> None:
    lost = symbolic.reproduction(density).lost
    for radius in (0.5, 2.0, 5.0):
        expected = mise(density, "fourier1", n=10, radius=radius).bias2
        assert float(lost(R=radius)) / expected == pytest.approx(1, rel=1e-10)


def test_mean_of_the_cauchy_estimate_is_the_convolution() -> None:
    mean = symbolic.reproduction("cauchy").mean
    kernel, density = FourierKernel(1), as_density("cauchy")
    y = np.linspace(-4000, 4000, 8_000_001)
    expected = np.trapezoid(3.0 * kernel.value(3.0 * (0.7 - y)) * density.pdf(y), y)
    assert float(mean(R=3.0, x=0.7)) == pytest.approx(expected, abs=1e-8)


def test_the_band_identity_is_the_kernel_and_its_mass_is_one() -> None:
    identity = symbolic.band_identity()
    u = np.array([-2.0, 0.1, 0.9])
    np.testing.assert_allclose(identity(R=3.0, u=u), 3.0 * FourierKernel(1).value(3.0 * u))
    assert symbolic.dirichlet_integral().expression == sympy.pi


@pytest.mark.parametrize("power", [1, 2, 4])
def test_waves_pass_at_the_transform(power: int) -> None:
    response = symbolic.wave_response(power)
    frequencies = np.array([0.2, 0.9, 2.3, 9.0])
    expected = FourierKernel(power).transform(frequencies / 2.0)
    np.testing.assert_allclose(response(R=2.0, omega=frequencies), expected, rtol=1e-12, atol=1e-15)


# --- best radius and error ---------------------------------------------------------------------

CELLS = [
    (density, kernel)
    for density in ("gaussian", "cauchy", "laplace", "gamma", "gamma(4)", "beta")
    for kernel in ("gaussian", *(f"fourier{power}" for power in range(1, 7)))
]


def test_balance_is_the_minimum() -> None:
    result = symbolic.balance()
    values = {"B": 0.3, "V": 0.2, "q": 4.0, "n": 1e4, "D": 2.0}
    radius = float(result.radius(**values))
    best = float(result.error(R=radius, **values))
    assert float(result.best(**values)) == pytest.approx(best, rel=1e-12)
    assert min(float(result.error(R=radius * f, **values)) for f in (0.99, 1.01)) > best


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_leading_order_meets_the_exact_optimum_within_one_percent(cell: tuple[str, str]) -> None:
    """The next order, R^{-1} or less, is below 0.5 % there; a constant off by 1 % shows."""
    density, kernel = cell
    n = 10**14 if density == "beta" else 10**18  # its spectrum oscillates: more nodes
    leading = symbolic.asymptotics(density, kernel)
    best = optimum(density, kernel, n=n)
    assert float(leading.error(n=float(n))) / best.mise.total == pytest.approx(1, rel=0.005)
    assert float(leading.radius(n=float(n))) / best.radius == pytest.approx(1, rel=0.005)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier2", "fourier4"])
@pytest.mark.parametrize("density", ["gaussian", "laplace"])
def test_leading_order_approaches_the_exact_error_in_more_dimensions(
    density: str, kernel: str, dim: int
) -> None:
    """Slowly for l = 1 and a Gaussian: the next order is a power of log n smaller."""
    leading = symbolic.asymptotics(density, kernel, dim=dim)
    gaps = [
        abs(
            float(leading.error(n=float(n))) / optimum(density, kernel, n=n, dim=dim).mise.total - 1
        )
        for n in (10**12, 10**24)
    ]
    assert gaps[1] < min(0.1 if kernel == "fourier1" else 0.05, gaps[0])


@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.parametrize("dim", [1, 3])
def test_exponents_are_those_of_the_sharp_rates(cell: tuple[str, str], dim: int) -> None:
    density, kernel = cell
    if (density, kernel, dim) == ("beta", "fourier2", 3):
        pytest.skip("needs an energy of half order, which Beta has in no closed form")
    leading, rate = (
        symbolic.asymptotics(density, kernel, dim=dim),
        sharp_rate(density, kernel, dim=dim),
    )
    assert float(leading.exponent) == pytest.approx(rate.exponent, rel=1e-12)
    assert float(leading.log_power) == pytest.approx(rate.log_power, rel=1e-12)


@pytest.mark.parametrize("density", ["gaussian", "cauchy"])
def test_optimum_of_the_sinc_kernel_is_exact_for_supersmooth_densities(density: str) -> None:
    leading = symbolic.asymptotics(density, "fourier1")
    for n in (10, 1000, 10**8):
        best = optimum(density, "fourier1", n=n)
        assert float(leading.radius(n=float(n))) == pytest.approx(best.radius, rel=1e-6)
        assert float(leading.error(n=float(n))) / best.mise.total == pytest.approx(1, rel=1e-9)


def test_gaussian_constants_have_their_closed_form() -> None:
    """R* of l = 1, and ∫p'² = 1/(4√π), ∫p''² = 3/(8√π) in the others."""
    n = sympy.Symbol("n", positive=True)
    best = symbolic.asymptotics("gaussian", "fourier1").radius.expression
    assert sympy.simplify(best - sympy.sqrt(sympy.log(n + 1))) == 0
    fejer = symbolic.asymptotics("gaussian", "fourier2").radius.expression
    assert sympy.simplify(fejer**3 - 3 * sympy.sqrt(sympy.pi) * n / 16) == 0
    jackson = symbolic.asymptotics("gaussian", "fourier4").radius.expression
    rough = sympy.Rational(151, 315) / sympy.Rational(4, 9) / sympy.pi
    curvature = 3 / (8 * sympy.sqrt(sympy.pi))
    assert sympy.simplify(jackson**5 - sympy.Rational(9, 16) * curvature * n / rough) == 0


# --- regression ----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [3, 4, 5, 6])
def test_regression_bias_has_the_textbook_form(power: int) -> None:
    """(μ₂/R²)(f''/2 + f'p'/p), the leading bias of a kernel of order 2."""
    f1, f2, p1 = sympy.symbols("f1 f2 p1", real=True)
    p0, R = sympy.symbols("p0 R", positive=True)
    moment = symbolic.second_moment(power).expression
    expected = moment / R**2 * (f2 / 2 + f1 * p1 / p0)
    assert sympy.simplify(symbolic.regression_bias(power).expression - expected) == 0


def test_regression_variance_uses_the_roughness() -> None:
    for power in (1, 2, 4):
        value = symbolic.regression_variance(power, dim=2)(R=3.0, n=100, p0=0.2, sigma=0.5)
        rough = as_kernel(f"fourier{power}").roughness
        assert float(value) == pytest.approx(0.25 * (3.0 * rough) ** 2 / (100 * 0.2), rel=1e-12)


@pytest.mark.parametrize("power", [2, 3, 4, 5, 6])
def test_expansion_meets_the_error_at_a_large_radius(power: int) -> None:
    """f = sin 2x, N(0, 1), at x = 1/2, noise 0.3: within 0.5 %, so that 1 % would show."""
    f, p, x, radius, n = as_regression_function("sine"), as_density("gaussian"), 0.5, 300.0, 10**9
    exact = regression_at_radius(
        p, f, f"fourier{power}", n=n, radius=radius, at=[[x]], noise_variance=0.09
    )
    terms, p0 = symbolic.expansion(power), float(p.pdf(x))
    variance = terms.variance(R=radius, n=n, p0=p0, sigma=0.3)
    assert exact.variance[0] / float(variance) == pytest.approx(1, rel=0.005)
    if power > 2:  # the singular integral of l = 2 has its own test
        values = {"f1": f.slope(x), "f2": f.curvature(x), "p0": p0, "p1": -x * p0}
        bias = float(terms.bias(R=radius, **values))
        assert exact.bias[0] / bias == pytest.approx(1, rel=0.005)


def test_best_radius_of_regression_is_the_minimum() -> None:
    values = {"b": 0.7, "n": 1e5, "p0": 0.3, "sigma": 0.4}
    terms = symbolic.expansion(4)
    radius = float(terms.radius(**values))

    def error(at: float) -> float:
        variance = terms.variance(R=at, n=1e5, p0=0.3, sigma=0.4)
        return 0.49 / at**4 + float(variance)

    assert float(terms.best(**values)) / error(radius) == pytest.approx(1, rel=1e-12)
    assert min(error(0.99 * radius), error(1.01 * radius)) > error(radius)


def test_singular_bias_of_the_fejer_kernel_is_the_limit_of_the_exact_one() -> None:
    """R times the bias of E a/E p̂ for f = sin 2x, N(0, 1), at x = 1/2: the integral evaluated."""
    f, p, x = as_regression_function("sine"), as_density("gaussian"), 0.5
    integral = symbolic.regression_bias(2).expression
    assert isinstance(integral, sympy.Integral)
    u, R = sympy.symbols("u", real=True), sympy.Symbol("R", positive=True)
    functions = {
        sympy.Function("f"): sympy.Lambda(u, sympy.sin(2 * u)),
        sympy.Function("p"): sympy.Lambda(u, sympy.exp(-(u**2) / 2) / sympy.sqrt(2 * sympy.pi)),
    }
    integrand = (R * integral.function).subs(functions).subs(sympy.Symbol("x", real=True), x)
    density = sympy.lambdify(u, integrand.doit(), "numpy")
    size = 0.5 * np.diff(np.linspace(0, 12, 4001)).mean()
    nodes = size + np.arange(4000) * 2 * size
    predicted = float(np.sum(density(nodes) + density(-nodes)) * 2 * size)

    radius, kernel = 400.0, FourierKernel(2)
    y = x + np.arange(-12 * 2**15, 12 * 2**15 + 1) / 2**15
    weight = radius * kernel.value(radius * (x - y)) * p.pdf(y) / 2**15
    bias = (weight @ (f.value(y) - f.value(x))) / weight.sum()
    assert radius * bias == pytest.approx(predicted, rel=0.01)


def test_expansion_is_refused_for_the_sinc_kernel() -> None:
    with pytest.raises(ValueError, match="power must be at least 2 for an expansion in 1/R, got 1"):
        symbolic.expansion(1)


# --- formulas --------------------------------------------------------------------------------


def test_formulas_speak_latex_and_refuse_missing_values() -> None:
    formula = symbolic.roughness(2)
    assert formula.latex() == r"\int K_{2}^2 = \frac{2}{3 \pi}"
    radius = symbolic.balance().radius
    with pytest.raises(ValueError, match="values must name B, D, V, n, q, got n"):
        radius(n=3)


@pytest.mark.parametrize(
    ("density", "kernel", "message"),
    [
        ("mw3", "gaussian", r"density must have a spectrum.*Gaussian, Cauchy.*got GaussianMixture"),
        ("gamma(0.4)", "fourier4", "density must be square integrable, got β = 2/5"),
    ],
)
def test_densities_without_a_formula_are_refused(density: str, kernel: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        symbolic.asymptotics(density, kernel)


def test_gaussian_kernel_is_covered() -> None:
    leading = symbolic.asymptotics("laplace", GaussianKernel())
    assert leading.exponent == sympy.Rational(3, 4)
