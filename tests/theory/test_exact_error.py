"""Exact errors to ten digits, for small and large radii, in one to ten dimensions."""

import math
from functools import lru_cache
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from fourierkernels import PhiKernel
from fourierkernels.kernels import KERNELS, FourierKernel, GaussianKernel, as_kernel
from fourierkernels.theory import (
    frequency_integrals,
    full_covariance_mise,
    full_covariance_optimum,
    mise,
    mise_error,
    optimum,
)
from fourierkernels.theory.densities import (
    DENSITIES,
    Beta,
    Cauchy,
    CorrelatedGaussian,
    Density,
    Gaussian,
    GaussianMixture,
    Laplace,
    MultivariateMixture,
    Product,
)
from fourierkernels.theory.frequency_integrals import line_integrals
from fourierkernels.theory.joint_integrals import factor_parts, joint_parts
from fourierkernels.theory.normal import normal_parts

ON_THE_LINE = [name for name, row in DENSITIES.items() if row.dim == 1]
DIGITS = 1e-10  # the promise: relative error of bias and variance, separately
RADII = (1e-4, 2.5, 1e4)
POWERS = {"gaussian": lambda t: mp.exp(-t * t), "laplace": lambda t: (1 + t * t) ** -2}
WHOLE = {"gaussian": lambda: 1 / (2 * mp.sqrt(mp.pi)), "laplace": lambda: mp.mpf(1) / 4}


TRANSFORMS = {"gaussian": lambda s: mp.exp(-s * s / 2)}  # of kernels that are no powers of sinc
CLOSED = [name for name in KERNELS if name in TRANSFORMS or name.startswith("fourier")]


def exact_transform(name: str, s: mp.mpf) -> mp.mpf:
    """The B-spline from its truncated powers, or a row of `TRANSFORMS`, in working precision."""
    if name in TRANSFORMS:
        return TRANSFORMS[name](s)
    power = as_kernel(name).power  # type: ignore[attr-defined]
    terms = [((-1) ** k * math.comb(power, k), power - 2 * k) for k in range(power // 2 + 1)]
    value = mp.fsum(c * (knot - s) ** (power - 1) for c, knot in terms if knot >= s)
    return value / sum(c * knot ** (power - 1) for c, knot in terms if knot >= 0)


@lru_cache(maxsize=256)
def exact_integrals(density: str, name: str, radius: float) -> tuple[mp.mpf, ...]:
    """∫|p̂|², ∫|p̂|²K̂, ∫|p̂|²K̂² and ∫K̂² over 2π, to 30 digits, by 24 nodes a panel."""
    with mp.workdps(45):
        r, power = mp.mpf(radius), POWERS[density]
        edge = r * (20 if name == "gaussian" else as_kernel(name).cutoff)
        knots = (
            [r * k for k in range(1, 21)]
            if name == "gaussian"
            else [r * mp.mpf(k) for k in as_kernel(name).knots]
        )
        grid = sorted({mp.mpf(0), *(mp.mpf(2) ** k for k in range(-2, 14)), *knots})
        grid = [t for t in grid if t <= edge]
        once = twice = noise = mp.mpf(0)
        for low, high in pairwise(grid):
            half = (high - low) / 2
            for x, weight in nodes():
                t = low + half * (1 + x)
                kept, energy = exact_transform(name, t / r), power(t)
                once += half * weight * energy * kept
                twice += half * weight * energy * kept**2
                noise += half * weight * kept**2
        return WHOLE[density](), once / mp.pi, twice / mp.pi, noise / mp.pi


@lru_cache(maxsize=1)
def nodes() -> list[tuple[mp.mpf, mp.mpf]]:
    return list(mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(4, mp.mp.prec))


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("kernel", CLOSED)
@pytest.mark.parametrize("density", POWERS)
def test_bias_and_variance_have_ten_digits_up_to_ten_dimensions(
    density: str, kernel: str, radius: float
) -> None:
    """∏A - 2∏B + ∏C and ∏V - ∏C in 45 digits, where their cancellation does no harm."""
    a, b, c, v = exact_integrals(density, kernel, radius)
    lost = kernel == "fourier1" and density == "gaussian" and radius > 26  # exp(-R²) underflows
    for dim in (1, 3, 10):
        with mp.workdps(45):
            bias2, noise = a**dim - 2 * b**dim + c**dim, v**dim - c**dim
        error = mise(density, kernel, n=7, radius=radius, dim=dim)
        assert error.variance == pytest.approx(float(noise / 7), rel=DIGITS, abs=0.0)
        if not lost:
            assert error.bias2 == pytest.approx(float(bias2), rel=DIGITS, abs=0.0)


@pytest.mark.parametrize("radius", [6.0, 9.0, 14.0, 24.0])
def test_the_sinc_bias_keeps_its_digits_where_it_all_but_vanishes(radius: float) -> None:
    exact = float(mp.erfc(radius) / (2 * mp.sqrt(mp.pi)))
    assert mise("gaussian", "fourier1", n=1, radius=radius).bias2 == pytest.approx(
        exact, rel=DIGITS
    )
    exact = math.exp(-2 * radius) / (2 * math.pi)
    assert mise("cauchy", "fourier1", n=1, radius=radius).bias2 == pytest.approx(
        exact, rel=DIGITS, abs=0.0
    )


@pytest.mark.parametrize("kernel", [*CLOSED, "fourier12", "fourier31"])
def test_gap_is_one_minus_the_transform_and_exact_near_zero(kernel: str) -> None:
    k = as_kernel(kernel)
    s = np.linspace(0.0, 1.2 * k.cutoff, 401)
    np.testing.assert_allclose(k.gap(s), 1.0 - k.transform(s), rtol=0, atol=1e-14)
    for point in (1e-9, 1e-5, 0.01, 0.4):
        with mp.workdps(60):
            exact = 1 - exact_transform(kernel, mp.mpf(point))
        assert float(k.gap(point)) == pytest.approx(float(exact), rel=1e-13, abs=0)


def test_gap_of_a_kernel_from_phi_does_not_cancel() -> None:
    polynomial = PhiKernel(lambda z: z**4)
    assert float(polynomial.gap(1e-7)) == pytest.approx(
        float(FourierKernel(4).gap(1e-7)), rel=1e-12
    )
    smooth = PhiKernel(lambda z: z**4 * np.exp(z))
    assert float(smooth.gap(1e-7)) == pytest.approx(
        0.5e-14 * smooth.second_moment, rel=1e-6, abs=0.0
    )


# --- products ----------------------------------------------------------------------------------


def test_a_product_of_equal_marginals_is_the_density_on_the_line_in_d_dimensions() -> None:
    same = Product((Laplace(),) * 4)
    expected = mise("laplace", "fourier4", n=20, radius=[1.0, 2.0, 3.0, 4.0], dim=4)
    assert mise(same, "fourier4", n=20, radius=[1.0, 2.0, 3.0, 4.0]) == expected
    assert same.roughness == pytest.approx(Laplace().roughness ** 4, rel=1e-14, abs=0.0)


@pytest.mark.parametrize("kernel", ["fourier1", "fourier2", "fourier4", "gaussian"])
def test_a_product_agrees_with_the_sum_over_the_plane(kernel: str) -> None:
    """The same density without its marginals goes through the tensor grid."""
    product = Product((Gaussian(0.5, 0.7), Cauchy()))

    class Joint:
        def __getattr__(self, name: str) -> object:
            if name == "marginals":
                raise AttributeError(name)
            return getattr(product, name)

    radii = (2.0, 1.5)
    exact = mise(product, kernel, n=1, radius=radii)
    seen = joint_parts(Joint(), as_kernel(kernel), radii)  # type: ignore[arg-type]
    assert seen.noise == pytest.approx(exact.variance, rel=1e-8, abs=0.0)
    assert seen.bias == pytest.approx(exact.bias2, rel=1e-6, abs=0.0)


def test_best_radii_per_dimension_follow_the_scales() -> None:
    narrow = optimum(Product((Gaussian(), Gaussian())), "fourier4", n=500, per_dimension=True)
    wide = optimum(Product((Gaussian(), Gaussian(0, 8.0))), "fourier4", n=500, per_dimension=True)
    assert wide.radii[0] == pytest.approx(narrow.radii[0], rel=1e-5, abs=0.0)
    assert wide.radii[1] == pytest.approx(narrow.radii[1] / 8.0, rel=1e-5, abs=0.0)
    assert wide.mise.total == pytest.approx(narrow.mise.total / 8.0, rel=1e-9, abs=0.0)
    assert wide.radius == pytest.approx(math.sqrt(math.prod(wide.radii)), rel=1e-12, abs=0.0)
    shared = optimum(Product((Gaussian(), Gaussian(0, 8.0))), "fourier4", n=500)
    assert shared.mise.total > 1.5 * wide.mise.total
    assert shared.radii == (shared.radius, shared.radius)


def test_best_radii_per_dimension_of_unequal_kinds_are_not_beaten_nearby() -> None:
    density = Product((Gaussian(), Laplace(scale=0.5), Cauchy()))
    best = optimum(density, "fourier1", n=2000, per_dimension=True)
    for d in range(3):
        for factor in (0.9, 0.99, 1.01, 1.1):
            radii = np.array(best.radii)
            radii[d] *= factor
            assert mise(density, "fourier1", n=2000, radius=radii).total > best.mise.total


# --- joint densities ---------------------------------------------------------------------------

TWIN = MultivariateMixture(
    [0.4, 0.6], [[-1.0, 0.5], [1.0, 0.0]], [[[1.0, 0.6], [0.6, 0.8]], [[0.3, -0.1], [-0.1, 0.5]]]
)
TWIN3 = MultivariateMixture(
    [0.5, 0.5],
    [[0.0, 0.0, 0.0], [1.5, 0.0, -1.0]],
    [np.eye(3).tolist(), (0.5 * np.eye(3) + 0.2).tolist()],
)
JOINT = {
    "rho=0.8": CorrelatedGaussian(0.8, 2),
    "rho=0.98": CorrelatedGaussian(0.98, 2),
    "rho=-0.3, D=3": CorrelatedGaussian(-0.3, 3),
    "rho=0.9, D=3": CorrelatedGaussian(0.9, 3),
    "two humps": TWIN,
    "two humps, D=3": TWIN3,
}


@pytest.mark.parametrize("radius", [0.05, 3.0, 50.0])
@pytest.mark.parametrize(
    "density", [name for name in JOINT if name not in {"rho=0.9, D=3", "two humps, D=3"}]
)
def test_closed_form_and_nodes_agree_for_the_gaussian_kernel(density: str, radius: float) -> None:
    target = JOINT[density]
    radii = tuple(radius * np.linspace(0.8, 1.2, target.dim))
    seen = joint_parts(target, GaussianKernel(), radii)
    matrix = np.diag(1.0 / np.square(radii))
    exact = full_covariance_mise(target, n=1, covariance=matrix)
    assert seen.bias == pytest.approx(exact.bias2, rel=1e-9, abs=0.0)
    assert seen.noise == pytest.approx(exact.variance, rel=1e-9, abs=0.0)
    assert mise(target, "gaussian", n=1, radius=radii).total == pytest.approx(
        exact.total, rel=1e-13
    )


@pytest.mark.parametrize("kernel", ["fourier1", "fourier2", "fourier3", "fourier6"])
@pytest.mark.parametrize("density", [name for name in JOINT if "D=3" not in name])
def test_two_rules_agree_to_ten_digits(density: str, kernel: str) -> None:
    target = JOINT[density]
    for radius in (0.4, 3.0):
        error = mise(target, kernel, n=10, radius=radius)
        change = mise_error(target, kernel, n=10, radius=radius)
        assert change.bias2 <= DIGITS * error.bias2
        assert change.variance <= DIGITS * error.variance


@pytest.mark.parametrize(("kernel", "radius"), [("fourier1", 2.0), ("fourier4", 3.0)])
def test_two_rules_agree_to_ten_digits_in_three_dimensions(kernel: str, radius: float) -> None:
    target = CorrelatedGaussian(0.5, 3)
    error = mise(target, kernel, n=10, radius=radius)
    change = mise_error(target, kernel, n=10, radius=radius)
    assert change.bias2 <= DIGITS * error.bias2
    assert change.variance <= DIGITS * error.variance


def test_closed_form_and_nodes_agree_for_two_humps_in_three_dimensions() -> None:
    seen = joint_parts(TWIN3, GaussianKernel(), (3.0, 3.0, 3.0))
    exact = full_covariance_mise(TWIN3, n=1, covariance=np.eye(3) / 9.0)
    assert seen.bias == pytest.approx(exact.bias2, rel=DIGITS, abs=0.0)
    assert seen.noise == pytest.approx(exact.variance, rel=DIGITS, abs=0.0)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier2", "fourier5"])
@pytest.mark.parametrize("dim", [2, 3])
def test_joint_nodes_agree_with_the_product_at_no_correlation(kernel: str, dim: int) -> None:
    for radius in (1e-4, 3.0, 200.0):
        seen = joint_parts(CorrelatedGaussian(0.0, dim), as_kernel(kernel), (radius,) * dim)
        exact = mise("gaussian", kernel, n=1, radius=radius, dim=dim)
        assert seen.noise == pytest.approx(exact.variance, rel=DIGITS, abs=0.0)
        if not (kernel == "fourier1" and radius == 200.0):  # exp(-200²)
            assert seen.bias == pytest.approx(exact.bias2, rel=DIGITS, abs=0.0)


def test_rotation_by_45_degrees_of_a_full_gaussian_kernel_changes_nothing() -> None:
    """N(0, Σ) with a kernel of covariance H has the error of its principal axes."""
    density = CorrelatedGaussian(0.6, 2)
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / math.sqrt(2.0)
    axes = Product((Gaussian(0.0, math.sqrt(1.6)), Gaussian(0.0, math.sqrt(0.4))))
    radii = np.array([1.3, 2.9])
    matrix = turn.T @ np.diag(1.0 / radii**2) @ turn
    seen = full_covariance_mise(density, n=50, covariance=matrix)
    exact = mise(axes, "gaussian", n=50, radius=radii)
    assert seen.bias2 == pytest.approx(exact.bias2, rel=1e-12, abs=0.0)
    assert seen.variance == pytest.approx(exact.variance, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("dim", [2, 3])
def test_best_bandwidth_matrix_of_a_normal_is_a_multiple_of_its_covariance(dim: int) -> None:
    density = CorrelatedGaussian(0.9, dim)
    best = full_covariance_optimum(density, n=1000)
    sphere = optimum("gaussian", "gaussian", n=1000, dim=dim)
    np.testing.assert_allclose(best.covariance, density.covariance / sphere.radius**2, rtol=2e-4)
    volume = math.sqrt(np.linalg.det(density.covariance))
    assert best.mise.total == pytest.approx(sphere.mise.total / volume, rel=1e-8, abs=0.0)


def test_best_bandwidth_matrix_of_a_mixture_beats_one_radius_per_dimension() -> None:
    full = full_covariance_optimum(TWIN, n=1000).mise.total
    axes = optimum(TWIN, "gaussian", n=1000, per_dimension=True).mise.total
    assert full < axes < optimum(TWIN, "gaussian", n=1000).mise.total


def test_multivariate_mixture_keeps_the_contract_of_densities() -> None:
    assert isinstance(TWIN, Density)
    grid = np.linspace(-10, 10, 401)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    values, cell = TWIN.pdf(points), 0.05**2
    assert values.sum() * cell == pytest.approx(1.0, abs=1e-10)
    assert np.square(values).sum() * cell == pytest.approx(TWIN.roughness, rel=1e-10, abs=0.0)
    t = np.array([0.7, -1.1])
    assert complex((values * np.exp(1j * points @ t)).sum() * cell) == pytest.approx(
        complex(TWIN.cf(t)), abs=1e-10
    )
    sample = TWIN.sample(100_000, np.random.default_rng(0))
    assert abs(np.exp(1j * sample @ t).mean() - complex(TWIN.cf(t))) < 0.013
    rest = np.linspace(-9, 9, 37)[:, None]
    _, high = TWIN.spectral_window(rest)
    beyond = np.hstack([rest, np.maximum(high, -40)[:, None] + 1e-9])
    assert np.all(TWIN.power(beyond).kept < 1e-31)
    assert hash(TWIN) == hash(MultivariateMixture(TWIN.weights, TWIN.means, TWIN.covariances))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product((Gaussian(),)), "marginals must be two or more densities on the line"),
        (lambda: Product((Gaussian(), CorrelatedGaussian())), r"on the line, got \[1, 2\]"),
        (lambda: mise(Product((Gaussian(),) * 2), "fourier4", n=2, radius=[1.0] * 3), r"shape \(2"),
        (lambda: mise(Product((Gaussian(),) * 2), "fourier4", n=2, radius=1.0, dim=3), "must be 2"),
        (lambda: mise_error("gaussian", "fourier4", n=2, radius=1.0), "joint density"),
        (lambda: full_covariance_mise("laplace", n=2, covariance=[[1.0]]), "mixture of normals"),
        (lambda: full_covariance_mise(TWIN, n=2, covariance=[[1.0]]), r"must have shape \(2, 2\)"),
        (lambda: full_covariance_mise(TWIN, n=2, covariance=[[1, 2], [2, 1]]), "positive definite"),
        (lambda: full_covariance_mise(TWIN, n=0, covariance=np.eye(2)), "n must be at least 1"),
        (lambda: MultivariateMixture([1.0], [[0.0]], [[[1.0]]]), "with D >= 2"),
        (lambda: MultivariateMixture([0.5], [[0, 0]], [np.eye(2)]), "weights must sum to 1"),
        (lambda: MultivariateMixture([1.0], [[0, 0]], [[[1, 0.5], [0, 1]]]), "be symmetric"),
        (lambda: MultivariateMixture([1.0], [[0, 0]], [[[1, 1], [1, 1]]]), "positive definite"),
        (lambda: mise(CorrelatedGaussian(0.999999, 3), "fourier1", n=9, radius=1.0), "nodes in"),
    ],
)
def test_bad_input_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("scale", [0.5, 50.0])
@pytest.mark.parametrize("name", ON_THE_LINE)
def test_what_is_kept_and_what_is_lost_make_up_the_roughness(name: str, scale: float) -> None:
    density = DENSITIES[name]
    parts = line_integrals(density, GaussianKernel(), scale * density.spectral_scale)
    whole = parts.kept + 2 * parts.cross + parts.bias
    assert whole == pytest.approx(density.roughness, rel=1e-9)


def test_an_infinite_spectrum_without_a_tail_is_refused() -> None:
    class Tailless:
        spectral_range, spectral_scale, spectral_span = math.inf, 1.0, 0.0

        def power(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return (1 + t * t) ** -2.0, 1 - (1 + t * t) ** -2.0

        def __repr__(self) -> str:
            return "Tailless()"

    with pytest.raises(ValueError, match=r"must have a spectral_tail .* got Tailless\(\)"):
        line_integrals(Tailless(), GaussianKernel(), 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("power", [1, 2, 4])
def test_error_of_beta_at_a_radius_whose_waves_are_faded_out(
    power: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faded from 2^18 radians on; with the limit moved it agrees with the waves followed."""
    density, kernel, radius = Beta(0.6, 0.9), FourierKernel(power), 3e4
    followed = line_integrals.__wrapped__(density, kernel, radius)
    monkeypatch.setattr(frequency_integrals, "_LONGEST_WAVE", 2.0**12)
    faded = line_integrals.__wrapped__(density, kernel, radius)
    np.testing.assert_allclose(faded, followed, rtol=1e-9, atol=1e-300)


def test_error_of_beta_is_cheap_and_tends_to_its_limits_at_any_radius() -> None:
    """At R -> ∞ the bias is |p̂|²'s tail, ~ R^{-2β+1}, and the variance R ∫K²/n."""
    density = Beta(0.75, 3.0)
    errors = [mise(density, "fourier4", n=10, radius=radius) for radius in (1e8, 1e12)]
    assert errors[0].bias2 / errors[1].bias2 == pytest.approx(1e2, rel=1e-6)
    whole = [r * as_kernel("fourier4").roughness / 10 for r in (1e8, 1e12)]
    assert [e.variance for e in errors] == pytest.approx(whole, rel=1e-6)


def test_mise_refuses_waves_that_need_too_many_nodes() -> None:
    far = GaussianMixture((0.5, 0.5), (0.0, 1e7), (1.0, 1.0))
    with pytest.raises(ValueError, match="radius must be small enough"):
        mise(far, "fourier4", n=10, radius=10.0)


@pytest.mark.parametrize("kernel", ["fourier1", "fourier2", "fourier4"])
@pytest.mark.parametrize("dim", [2, 3])
def test_one_factor_agrees_with_the_tensor_grid(kernel: str, dim: int) -> None:
    """Given one normal variable the coordinates of an equicorrelated normal separate."""
    density, shape = CorrelatedGaussian(0.7, dim), as_kernel(kernel)
    radii = (1.7, 2.3, 2.0)[:dim]
    slow = joint_parts(density, shape, radii)
    fast = factor_parts(density, shape, np.array(radii))
    assert fast.bias == pytest.approx(slow.bias, rel=1e-9)
    assert fast.noise == pytest.approx(slow.noise, rel=1e-10)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_one_factor_agrees_with_closed_forms_in_five_dimensions(correlation: float) -> None:
    density = CorrelatedGaussian(correlation, 5)
    fast = factor_parts(density, GaussianKernel(), np.full(5, 1.5))
    exact = normal_parts(density.components, np.eye(5) / 1.5**2)
    assert fast.bias == pytest.approx(exact.bias, rel=1e-9)
    assert fast.noise == pytest.approx(exact.noise, rel=1e-9)
    if correlation == 0.0:
        for kernel in ("fourier1", "fourier4"):
            product = mise("gaussian", kernel, n=100, radius=1.5, dim=5)
            assert mise(density, kernel, n=100, radius=1.5).total == pytest.approx(product.total)
    best = optimum(density, "fourier4", n=1000)
    assert best.mise.total < density.roughness


@pytest.mark.parametrize(
    ("correlation", "dim", "radius"), [(0.99, 20, 30.0), (0.999, 4, 300.0), (1 - 1e-6, 4, 2.0)]
)
def test_one_factor_keeps_its_digits_close_to_perfect_correlation(
    correlation: float, dim: int, radius: float
) -> None:
    """Given the factor, the product is a curve of width √((1-ρ)/(ρD)): 0.02 and less here.

    With a small radius the curve is wider, and needs no more nodes: a second instead of minutes.
    """
    density = CorrelatedGaussian(correlation, dim)
    fast = factor_parts(density, GaussianKernel(), np.full(dim, radius))
    exact = normal_parts(density.components, np.eye(dim) / radius**2)
    assert fast.bias == pytest.approx(exact.bias, rel=1e-9, abs=1e-12 * density.roughness)
    assert fast.noise == pytest.approx(exact.noise, rel=1e-9)
