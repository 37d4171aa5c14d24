"""Kernels: the contract every registered kernel keeps, and the closed forms of the theory."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from sech_kernel import SechKernel
from tolerances import TOLERANCE

from fourierkernels.kernels import (
    KERNELS,
    FourierKernel,
    GaussianKernel,
    Kernel,
    PolynomialKernel,
    as_kernel,
    kernel_of_order,
)
from fourierkernels.kernels import kernel as kernels
from fourierkernels.kernels.phi_kernel import PhiKernel
from fourierkernels.kernels.sinc import sinc_integral

EXACT = TOLERANCE["float64"]["exact"]
PHIS = {
    "phi-z4": PhiKernel(lambda z: z**4),
    "phi-mixed": PhiKernel(lambda z: 3 * z**4 - 2 * z**6),
    "phi-tanh": PhiKernel(lambda z: np.tanh(3 * z) ** 4),
}
POWERS = {f"fourier{power}": FourierKernel(power) for power in (7, 12)}
SUMS = {name: as_kernel(name) for name in ("order4", "order6", "2z^5 - 1/3 z^4", "z")}
CONTRACT = {**KERNELS, **POWERS, "sech": SechKernel(), **PHIS, **SUMS}


@pytest.fixture(params=CONTRACT, ids=str)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return CONTRACT[request.param]


def panels(kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes in s between the knots, none longer than one."""
    ends = np.unique([0.0, *kernel.knots, *np.arange(1.0, kernel.cutoff)])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = 0.5 * np.diff(ends)[:, None]
    return (ends[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def inverse_transform(kernel: Kernel, u: float, factor: int = 1) -> float:
    """(1/2π) ∫ K̂(s)^factor cos(su) ds over the line."""
    s, weight = panels(kernel)
    return float(weight @ (kernel.transform(s) ** factor * np.cos(s * u))) / math.pi


def test_kernel_satisfies_the_protocol(kernel: Kernel) -> None:
    assert isinstance(kernel, Kernel)
    assert hash(kernel) == hash(kernel)


def test_transform_is_one_at_zero_even_and_vanishes_beyond_the_support(kernel: Kernel) -> None:
    s = np.linspace(0, 15, 301)
    assert kernel.transform(0.0) == pytest.approx(1.0, rel=EXACT)
    np.testing.assert_array_equal(kernel.transform(s), kernel.transform(-s))
    assert np.all(kernel.transform(s[s > kernel.support]) == 0)


@pytest.mark.parametrize("u", [0.0, 0.3, 1.7, 4.0])
def test_value_is_the_inverse_transform(kernel: Kernel, u: float) -> None:
    assert float(kernel.value(u)) == pytest.approx(inverse_transform(kernel, u), abs=1e-10)


def test_roughness_is_the_integral_of_the_squared_transform(kernel: Kernel) -> None:
    stated = 10 * kernel.error / kernel.constant if isinstance(kernel, PhiKernel) else 0.0
    integral = inverse_transform(kernel, 0.0, 2)
    assert kernel.roughness == pytest.approx(integral, rel=1e-12 + stated)


def test_sixteen_nodes_between_knots_resolve_the_transform(kernel: Kernel) -> None:
    """On these panels the errors of theory and the rules of radii are integrated."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    ends = np.array([0.0, *kernel.knots])
    half = 0.5 * np.diff(ends)[:, None]
    s = ends[:-1, None] + half * (1 + nodes)
    value = float((kernel.transform(s) @ weights) @ half[:, 0]) / math.pi
    assert value == pytest.approx(float(kernel.value(0.0)), rel=1e-9)


def test_a_steep_phi_states_the_rounding_of_its_splitting() -> None:
    """Nothing cancels in its own sum over panels, whose tail is that of 81 z^4 beyond 4000 π."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.pi / 4
    u = half * (1 + nodes + 2 * np.arange(8000)[:, None])
    direct = 2 * half * float((PHIS["phi-tanh"].phi(np.sinc(u / np.pi)) @ weights).sum())
    for scale in (1.0, 1.0 + 1e-15, 1.0 - 3e-15):  # as other processors round
        kernel = PhiKernel(lambda z, scale=scale: scale * np.tanh(3 * z) ** 4)
        assert abs(kernel.constant - direct) < kernel.error < 3e-10


def test_log_shape_agrees_with_value(kernel: Kernel) -> None:
    u = np.linspace(-9, 9, 400)
    log, sign = kernel.log_shape(u)
    np.testing.assert_allclose(sign * np.exp(log) / kernel.constant, kernel.value(u), rtol=1e-12)


def test_second_moment_is_the_curvature_of_the_transform_at_zero(kernel: Kernel) -> None:
    s = 1e-4
    curvature = float(2 * (1 - kernel.transform(s)) / s**2)
    if math.isinf(kernel.second_moment):
        assert curvature > 100
    else:
        assert curvature == pytest.approx(kernel.second_moment, abs=2e-3)


def test_order_is_the_slope_of_one_minus_the_transform(kernel: Kernel) -> None:
    s = np.array([2e-3, 1e-3])
    gap = 1 - kernel.transform(s) if kernel.order <= 2 else kernel.gap(s)
    if math.isinf(kernel.order):
        assert np.all(gap == 0)
    else:
        assert math.log2(gap[0] / gap[1]) == pytest.approx(kernel.order, abs=5e-3)


def test_nonnegative_says_whether_a_value_is_negative(kernel: Kernel) -> None:
    assert kernel.nonnegative == bool(np.all(kernel.value(np.linspace(0, 40, 4001)) >= 0))


def test_noise_bounds_the_change_of_the_shape(kernel: Kernel) -> None:
    u, step = np.linspace(-9, 9, 333), 1e-7
    log, _ = kernel.log_shape(u)
    moved, _ = kernel.log_shape(u + step)
    safe = np.abs(np.sin(u)) > 1e-3  # the bound is for errors small against the distance to a zero
    change = np.abs(np.expm1(moved - log))
    assert np.all(change[safe] <= 1.01 * kernel.noise(u, step)[safe] + 1e-12)


# A kernel made of φ has a slope and an integral only if φ is a polynomial.
with_calculus = pytest.mark.parametrize(
    "kernel", [name for name in CONTRACT if name != "phi-tanh"], indirect=True
)


@with_calculus
def test_log_slope_is_the_derivative_of_the_shape(kernel: Kernel) -> None:
    u, step = np.concatenate([np.linspace(-9, 9, 333), [0.0, 1e-9, 0.5]]), 1e-5
    log, sign = kernel.log_slope(u)
    central = (kernel.value(u + step) - kernel.value(u - step)) / (2 * step)
    np.testing.assert_allclose(sign * np.exp(log) / kernel.constant, central, atol=2e-10)


@with_calculus
def test_cumulative_is_the_integral_of_the_value(kernel: Kernel) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.linspace(-30.0, 30.0, 121)
    inside = kernel.value(ends[:-1, None] + 0.25 * (1 + nodes)) @ (0.25 * weights)
    lost = 1.0
    if isinstance(kernel, PolynomialKernel):  # its terms cancel
        lost = sum(
            abs(float(c)) * FourierKernel(power).constant for power, c in kernel.coefficients
        )
    lost = max(1.0, lost / kernel.constant)
    np.testing.assert_allclose(np.diff(kernel.cumulative(ends)), inside, atol=2e-14 * lost)


@pytest.mark.parametrize("power", [*range(1, 40), 63, 64, 65, 100, 127, 200, 256, 333, 511, 512])
def test_cumulative_keeps_its_digits_at_every_power(power: int) -> None:
    """High powers are narrow: against quadrature on panels far shorter than they are."""
    kernel = FourierKernel(power)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends, step = np.linspace(-4.0, 4.0, 801, retstep=True)
    places = ends[:-1, None] + 0.5 * step * (1 + nodes)
    inside = np.cumsum(kernel.value(places) @ (0.5 * step * weights))
    change = kernel.cumulative(ends[1:]) - kernel.cumulative(ends[0])
    np.testing.assert_allclose(change, inside, atol=3e-14)


@with_calculus
def test_cumulative_goes_from_zero_to_one(kernel: Kernel) -> None:
    u = np.linspace(0, 12, 200)
    np.testing.assert_allclose(kernel.cumulative(u) + kernel.cumulative(-u), 1.0, atol=EXACT)
    far = kernel.cumulative([-1e6, 0.0, 1e6])
    np.testing.assert_allclose(far, [0.0, 0.5, 1.0], atol=1e-6)


@with_calculus
def test_cumulative_is_the_integral_of_the_transform(kernel: Kernel) -> None:
    """Gil-Pelaez: 1/2 + (1/π) ∫ K̂(s) sin(su)/s ds."""
    s, weight = panels(kernel)
    for u in (-7.0, -1.3, 0.2, 4.0, 11.0):
        direct = 0.5 + weight @ (kernel.transform(s) * np.sin(s * u) / s) / math.pi
        assert float(kernel.cumulative(u)) == pytest.approx(direct, abs=2e-12)


def test_squared_kernel_is_the_square_of_the_shape(kernel: Kernel) -> None:
    other, factor = kernel.squared
    u = np.linspace(-9, 9, 101)
    square = np.square(kernel.value(u) * kernel.constant)
    np.testing.assert_allclose(other.value(factor * u) * other.constant, square, atol=EXACT)


def test_integral_of_a_sinc_power_is_exact_on_both_sides_of_its_switch() -> None:
    """Reference values: adaptive quadrature with 30 digits (mpmath)."""
    known = {(1, 0.3): 0.29850404380704315, (4, 9.43): 1.047054055474307}
    for (power, u), value in known.items():
        assert float(sinc_integral(u, power)) == pytest.approx(value, rel=EXACT)
    for power in range(1, 31):
        below, above = sinc_integral([3 * math.pi * (1 - 1e-12), 3 * math.pi], power)
        assert below == pytest.approx(above, abs=2e-14)


def test_phi_that_is_no_polynomial_has_no_slope() -> None:
    with pytest.raises(ValueError, match="phi must be a polynomial of degree at most 12"):
        PHIS["phi-tanh"].log_slope(0.5)


# --- constants and moments in closed form ------------------------------------------------------

CONSTANTS_OVER_PI = {1: 1, 2: 1, 3: 3 / 4, 4: 2 / 3, 5: 115 / 192, 6: 11 / 20}
SECOND_MOMENTS = {1: 0, 2: math.inf, 3: 2 / 3, 4: 3 / 4, 5: 12 / 23, 6: 5 / 11}


@pytest.mark.parametrize("power", CONSTANTS_OVER_PI)
def test_constant_and_second_moment_match_the_published_table(power: int) -> None:
    kernel = FourierKernel(power)
    assert kernel.constant == pytest.approx(math.pi * CONSTANTS_OVER_PI[power], rel=1e-15)
    assert kernel.second_moment == pytest.approx(SECOND_MOMENTS[power], rel=1e-15)


def test_constant_is_the_integral_of_the_sinc_power() -> None:
    for power in range(2, 13):
        x = np.linspace(0, 4000 * math.pi, 2_000_001)  # the trapezoid rule is exact here
        total = 2 * np.trapezoid(np.sinc(x / math.pi) ** power, x)
        assert FourierKernel(power).constant == pytest.approx(total, abs=2e-4 / power)


def test_roughness_of_the_first_kernels() -> None:
    assert FourierKernel(1).roughness == pytest.approx(1 / math.pi, rel=1e-15)
    assert FourierKernel(2).roughness == pytest.approx(2 / (3 * math.pi), rel=1e-15)
    expected = (151 * math.pi / 315) / (4 * math.pi**2 / 9)
    assert FourierKernel(4).roughness == pytest.approx(expected, rel=1e-15)
    assert GaussianKernel().roughness == pytest.approx(1 / (2 * math.sqrt(math.pi)), rel=1e-15)


@given(st.integers(1, 60), st.floats(-70, 70))
def test_transform_is_between_zero_and_one_for_every_power(power: int, s: float) -> None:
    value = float(FourierKernel(power).transform(s))
    assert 0.0 <= value <= 1.0 + EXACT
    assert value == 0.0 or abs(s) <= power


@given(st.integers(1, 40))
def test_transform_of_a_sum_is_the_convolution_of_uniforms(power: int) -> None:
    """The variance of a sum of l uniforms on (-1, 1) is l/3; K̂ is its density, unnormalised."""
    kernel = FourierKernel(power)
    s, weight = panels(kernel)
    density = weight * kernel.transform(s)
    assert density @ s**2 / density.sum() == pytest.approx(power / 3, rel=1e-12)


# --- a kernel from a user's own phi ----------------------------------------------------------


@pytest.mark.parametrize("power", [1, 2, 3, 4, 6])
def test_phi_kernel_of_a_power_is_the_fourier_kernel(power: int) -> None:
    mine, theirs = PhiKernel(lambda z: z**power), FourierKernel(power)
    s = np.linspace(0, 8, 200)
    assert mine.constant == pytest.approx(theirs.constant, rel=1e-12)
    assert mine.order == theirs.order
    assert mine.support == theirs.support
    assert mine.roughness == pytest.approx(theirs.roughness, rel=1e-10)
    np.testing.assert_allclose(mine.transform(s), theirs.transform(s), atol=1e-12)


@pytest.mark.parametrize("power", [41, 42, 60])
def test_large_powers_agree_with_their_splines(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above l = 40 a sum over a lattice replaces the B-spline: sinc^l has no frequency above l."""
    s = np.linspace(0.01, 1.1 * power, 301)
    fast = FourierKernel(power)
    found = (fast.constant, fast.second_moment, fast.roughness)
    transform, gap = fast.transform(s), fast.gap(s)
    monkeypatch.setattr(kernels, "_LARGEST_SPLINE", 100)
    slow = FourierKernel(power)
    assert found == pytest.approx((slow.constant, slow.second_moment, slow.roughness), rel=1e-14)
    np.testing.assert_allclose(transform, slow.transform(s), rtol=0, atol=5e-15)
    np.testing.assert_allclose(gap, slow.gap(s), rtol=1e-12)


ONE_SIDED = {
    "two-sided": lambda z, p: np.abs(z) ** p,
    "one-sided": lambda z, p: np.maximum(z, 0) ** p,
}


def exact_power_integral(kind: str, p: float, twice_s: int) -> float:
    """∫ φ(sinc u) cos(su) du for half-integer s: lobes 4π apart add up to Hurwitz' zeta."""
    s, total = 0.5 * twice_s, 0.0
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t = 0.5 * (1.0 + nodes)
    v = math.pi * t**4 * (35 - 84 * t + 70 * t**2 - 20 * t**3)  # flat at both ends: no power left
    dv = 0.5 * weights * math.pi * 140 * (t * (1 - t)) ** 3
    for lobe in range(4):
        if kind == "one-sided" and lobe % 2:
            continue
        u = lobe * math.pi + v
        sums = special.zeta(p, u / (4 * math.pi)) * (4 * math.pi) ** -p
        total += float(np.sum(np.sin(v) ** p * sums * np.cos(s * u) * dv))
    return 2.0 * total


@pytest.mark.parametrize("kind", ONE_SIDED)
@pytest.mark.parametrize("p", [1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0])
def test_phi_that_is_a_power_next_to_zero_keeps_its_stated_error(kind: str, p: float) -> None:
    """|z|^p and max(z, 0)^p, at frequencies where tails resonate (s = 1, 2) and do not."""
    kernel = PhiKernel(lambda z: ONE_SIDED[kind](z, p))
    assert kernel.error < 1e-6
    for twice_s in (0, 1, 2, 4):
        exact = exact_power_integral(kind, p, twice_s)
        found = float(kernel.transform(0.5 * twice_s)) * kernel.constant
        assert abs(found - exact) <= kernel.error + 1e-12


@pytest.mark.parametrize("kind", ONE_SIDED)
@pytest.mark.parametrize("p", [1.2, 1.5, 2.0, 2.5, 3.5, 4.0])
def test_order_of_a_power_is_that_of_its_tail(kind: str, p: float) -> None:
    """φ(sinc u) ~ u^{-p} in the mean: 1 - K̂ starts like |s|^{p - 1}, from p = 3 on like s²."""
    kernel = PhiKernel(lambda z: ONE_SIDED[kind](z, p))
    assert kernel.order == pytest.approx(min(p - 1.0, 2.0), abs=1e-9)
    gap = kernel.gap(np.array([2e-4, 1e-4]))
    assert math.log2(gap[0] / gap[1]) == pytest.approx(kernel.order, abs=0.03)
    assert math.isinf(kernel.second_moment) == (p < 3.0)
    if p == 3.5:
        assert kernel.second_moment == pytest.approx(2.0 * gap[1] / 1e-8, rel=0.05)


def test_odd_power_without_a_mean_has_order_two() -> None:
    kernel = PhiKernel(lambda z: np.sign(z) * np.abs(z) ** 1.5)
    assert kernel.order == 2.0
    gap = float(kernel.gap(1e-3))
    assert kernel.second_moment == pytest.approx(2.0 * gap / 1e-6, rel=1e-3)


@pytest.mark.parametrize("kind", ONE_SIDED)
@pytest.mark.parametrize("p", [0.3, 0.8, 1.0])
def test_powers_that_are_not_integrable_are_refused(kind: str, p: float) -> None:
    with pytest.raises(ValueError, match="phi must vanish at 0 fast enough"):
        PhiKernel(lambda z: ONE_SIDED[kind](z, p))


def test_phi_kernel_states_an_error_that_holds() -> None:
    """∫ |sinc|³ = 2 Σ_k of the half-periods, summed here to 2e6 of them with its tail."""
    kernel = PhiKernel(lambda z: np.abs(z) ** 3)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    k = np.arange(20_000)
    u = math.pi * (k[:, None] + 0.5 + 0.5 * nodes)
    total = 2 * float((np.abs(np.sinc(u / math.pi)) ** 3 @ (0.5 * math.pi * weights)).sum())
    tail = 2 * (4 / (3 * math.pi)) / (2 * (20_000 * math.pi) ** 2)  # mean of |sin|³ is 4/(3π)
    assert abs(kernel.constant - total - tail) <= kernel.error


@pytest.mark.parametrize(
    "phi",
    [
        lambda z: np.maximum(z - 0.1, 0) ** 2,
        lambda z: np.maximum(z, 0) ** 4,
        lambda z: np.where(z > 0.5, z, 0.0),
        lambda z: np.abs(z) ** 2.5,
    ],
)
def test_phi_kernel_with_a_kink_states_an_error_that_holds(phi: object) -> None:
    kernel = PhiKernel(phi)  # type: ignore[arg-type]
    u = (np.arange(4_000_000) + 0.5) * 5e-4  # midpoints up to 2000
    total = 1e-3 * float(np.sum(phi(np.sinc(u / math.pi))))  # type: ignore[operator]
    assert abs(kernel.constant - total) <= kernel.error + 2e-5
    assert kernel.error < 0.05 * kernel.constant


@pytest.mark.parametrize("power", [80, 400])
def test_a_narrow_peak_has_the_frequencies_that_it_needs(power: int) -> None:
    """Their transforms are 2e-5 and 0.1 at s = 24."""
    kernel, exact = PhiKernel(lambda z: z**power), FourierKernel(power)
    s = np.linspace(0.0, 1.2 * kernel.cutoff, 50)
    np.testing.assert_allclose(kernel.transform(s), exact.transform(s), atol=1e-12)
    with pytest.raises(
        ValueError, match=r"half of its value at 1 up to u = 0\.0052, got u = 0\.002"
    ):
        PhiKernel(lambda z: np.abs(z) ** 1e6)


@pytest.mark.parametrize("power", [10, 14, 20])
def test_second_moment_of_a_high_power_is_that_of_the_fourier_kernel(power: int) -> None:
    kernel = PhiKernel(lambda z: z**power)
    assert kernel.second_moment == pytest.approx(FourierKernel(power).second_moment, rel=1e-6)


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (lambda z: z + 1, "phi must be 0 at 0"),
        (np.abs, "phi must vanish at 0 fast enough"),
        (lambda z: -(z**2), "phi must give a positive integral"),
        (lambda z: np.log(z), "phi must be finite"),
    ],
)
def test_phi_that_makes_no_kernel_is_refused(phi: object, message: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        PhiKernel(phi)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("power", "error", "message"),
    [
        (0, ValueError, "power must be at least 1, got 0"),
        (-3, ValueError, "power must be at least 1, got -3"),
        (2.0, TypeError, "power must be an integer, got 2.0"),
        (True, TypeError, "power must be an integer, got True"),
        ("4", TypeError, "power must be an integer, got '4'"),
    ],
)
def test_bad_power_is_refused(power: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FourierKernel(power)  # type: ignore[arg-type]


def test_unknown_kernel_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"kernel must be one of gaussian, fourier1.*got 'epanech'"
    ):
        as_kernel("epanech")
    with pytest.raises(TypeError, match="kernel must be a kernel or its name, got 3"):
        as_kernel(3)  # type: ignore[arg-type]


def test_an_incomplete_kernel_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(TypeError, match=r"kernel must be a kernel or its name, got 3, which lacks"):
        as_kernel(3)  # type: ignore[arg-type]


# --- polynomials of sinc, and kernels of any order ----------------------------------------------


@pytest.mark.parametrize("order", [2, 4, 6, 8, 10])
def test_a_kernel_of_order_r_has_vanishing_moments_below_and_not_at_r(order: int) -> None:
    """∫ u^j K by quadrature, where ∫ |K| |u|^r is finite; the rest beyond 4000 π is negligible."""
    kernel = kernel_of_order(order)
    assert (kernel.order, kernel.lowest_power) == (order, order + 2)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    u = (0.5 * np.pi * (1 + nodes + 2 * np.arange(4000)[:, None])).ravel()
    mass = np.pi * np.tile(weights, 4000) * kernel.value(u)
    moments = [float(mass @ u**j) for j in range(0, order + 1, 2)]
    expected = [1.0, *[0.0] * (order // 2)]
    expected[-1] += kernel.flatness * math.factorial(order) * (-1) ** (order // 2 + 1)
    if order == 2:
        expected = [1.0, kernel.second_moment]
    np.testing.assert_allclose(moments, expected, rtol=2e-3, atol=2e-3 * abs(expected[-1]))


@pytest.mark.parametrize("name", ["order4", "order6", "order8"])
def test_the_gap_of_a_high_order_keeps_its_digits_near_zero(name: str) -> None:
    """1 - K̂(s) = b s^r (1 + O(s)): at s = 1e-4 a difference of floats would have no digit."""
    kernel = as_kernel(name)
    s = np.array([1e-4, 1e-3])
    np.testing.assert_allclose(kernel.gap(s), kernel.flatness * s**kernel.order, rtol=2e-3)
    assert kernel.gap(1.0 - 1e-12) == pytest.approx(float(kernel.gap(1.0)), rel=1e-9)


@pytest.mark.parametrize("order", [10, 14, 20])
def test_the_gap_of_a_high_order_keeps_its_digits_up_to_the_first_knot(order: int) -> None:
    """Against the same sum of splines in fractions: 1 - K̂ loses 7 digits at order 10."""
    kernel = kernel_of_order(order)
    for s in (Fraction(1), Fraction(7, 4), Fraction(kernel.knots[0]) - Fraction(1, 2**30)):
        parts = [(c, kernels.sinc_series(power)) for power, c in kernel.coefficients]
        whole = sum(c * series[0] for c, series in parts)
        exact = 1 - sum(c * a * s**j for c, part in parts for j, a in enumerate(part)) / whole
        assert float(kernel.gap(float(s))) == pytest.approx(float(exact), rel=1e-14)


def test_powers_and_coefficients_of_numpy_are_exact() -> None:
    """Their products overflowed: a constant of 0.000317 for 0.9635."""
    twenty = PolynomialKernel(((np.int64(20), np.int8(100)),))  # type: ignore[arg-type]
    assert twenty.constant == pytest.approx(100 * FourierKernel(20).constant, rel=1e-15)
    chosen = kernel_of_order(np.int64(6), np.array([7, 9, 11]))  # type: ignore[arg-type]
    assert chosen == kernel_of_order(6, (7, 9, 11))
    assert chosen.roughness == kernel_of_order(6, (7, 9, 11)).roughness
    assert PolynomialKernel(((4, np.float32(0.5)),)) == as_kernel("1/2z^4")  # type: ignore[arg-type]


def test_a_polynomial_is_the_phi_kernel_of_its_function() -> None:
    exact, numeric = as_kernel("1.5z^8 - z^6"), PhiKernel(lambda z: 1.5 * z**8 - z**6)
    s = np.linspace(0.0, 9.0, 91)
    np.testing.assert_allclose(exact.transform(s), numeric.transform(s), atol=1e-14)
    assert exact.roughness == pytest.approx(numeric.roughness, rel=1e-13)
    assert (exact.order, exact.lowest_power) == (numeric.order, numeric.lowest_power) == (4.0, 6.0)
    assert as_kernel(exact.name) == exact
    np.testing.assert_allclose(kernel_of_order(4).transform(s), exact.transform(s), atol=1e-15)


def test_a_single_power_is_the_fourier_kernel() -> None:
    single, power = PolynomialKernel(((5, 3),)), FourierKernel(5)
    s = np.linspace(0.0, 6.0, 61)
    np.testing.assert_array_equal(single.transform(s), power.transform(s))
    assert (single.order, single.second_moment) == (power.order, power.second_moment)
    assert single.roughness == power.roughness


@pytest.mark.parametrize(
    ("powers", "order"), [((3, 5), 4), ((3, 5, 7), 6), ((8, 9, 10), 6), ((6, 8), 4), ((3, 39), 4)]
)
def test_powers_may_be_chosen(powers: tuple[int, ...], order: int) -> None:
    kernel = kernel_of_order(order, powers)
    assert kernel.order == order
    assert [power for power, _ in kernel.coefficients] == list(powers)
    assert float(kernel.phi(1.0)) == pytest.approx(1.0)


def test_above_order_two_a_kernel_is_signed() -> None:
    assert kernel_of_order(2).nonnegative
    assert not any(kernel_of_order(order).nonnegative for order in (4, 6, 8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_of_order(5), "order must be even, got 5"),
        (lambda: kernel_of_order(6, (8, 10)), "powers must be 3 different ones for order 6"),
        (lambda: kernel_of_order(4, (4, 6)), r"powers must give order 4, got \(4, 6\) of order 3"),
        (lambda: kernel_of_order(42), "phi must have powers from 1 to 40"),
        (lambda: as_kernel("3y^8 - 2z^6"), "kernel must be one of gaussian, fourier1"),
        (lambda: as_kernel("3z^8 2z^6"), "phi must be a sum like .*, got '3z.8 2z.6'"),
        (lambda: as_kernel("3z^8/2"), "phi must be a sum like"),
        (lambda: as_kernel("z^0"), r"phi must have powers from 1 to 40, each once, got \[0\]"),
        (lambda: as_kernel("z + z"), r"each once, got \[1, 1\]"),
        (lambda: as_kernel("-z^4"), "phi must give a positive integral, got -0.666"),
        (lambda: as_kernel("z - z^0"), "phi must have powers from 1"),
        (lambda: PolynomialKernel(()), r"got \[\]"),
        (lambda: as_kernel("3/0z^2"), "phi must be a sum like .*, got '3/0z.2'"),
        (lambda: kernel_of_order(4, (1, 3)), r"give order 4, got \(1, 3\) of order inf"),
        (lambda: kernel_of_order(6, (1, 3, 5)), "powers must give order 6, .* of order inf"),
        (lambda: kernel_of_order(8, (7, 17, 18, 19)), "phi must give a positive integral"),
        (lambda: PolynomialKernel(((4, math.nan),)), "coefficients must be finite, got nan"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_such_kernel_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PolynomialKernel(((20.0, 1),)), "powers must be an integer, got 20.0"),  # type: ignore[arg-type]
        (lambda: PolynomialKernel(((4, "a"),)), "coefficients must be a number, got 'a'"),  # type: ignore[arg-type]
        (lambda: PolynomialKernel((3, 4)), r"must be pairs \(power, coefficient\), got 3"),  # type: ignore[arg-type]
        (lambda: kernel_of_order(4, (3.0, 5)), "powers must be an integer, got 3.0"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_number_is_named(call: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()  # type: ignore[operator]
