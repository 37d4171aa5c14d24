"""Exact errors on a circle, compared with quadrature in x, closed forms and a simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from fourierkernels import KernelDensity
from fourierkernels.kernels import PeriodicKernel, as_kernel
from fourierkernels.theory import circle_mise, circle_optimum, mise, optimum
from fourierkernels.theory.densities import Beta
from fourierkernels.theory.densities.circular import CIRCULAR, Arc, Wrapped, as_circular

TURN = 2 * math.pi
KERNELS = ["fourier1", "fourier2", "fourier3", "fourier4", "gaussian"]
Pdf = Callable[[np.ndarray], np.ndarray]


def images(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.mod(x[..., None], TURN) + TURN * np.arange(-8, 9))


#: Closed forms or sums over images on [0, 2π], which know no Fourier coefficients, and breaks.
PDFS: dict[str, tuple[Pdf, list[float]]] = {
    "wrapped_normal": (
        lambda x: np.exp(-2.0 * images(x) ** 2).sum(-1) * math.sqrt(2 / math.pi),
        [],
    ),
    "wrapped_cauchy": (lambda x: math.sinh(0.5) / (math.cosh(0.5) - np.cos(x)) / TURN, []),
    "wrapped_laplace": (
        lambda x: np.cosh((np.mod(x, TURN) - math.pi) / 0.5) / math.sinh(TURN),
        [0.0],
    ),
    "von_mises": (lambda x: np.exp(4.0 * np.cos(x)) / (TURN * np.i0(4.0)), []),
    "cardioid": (lambda x: (1 + 0.6 * np.cos(x)) / TURN, []),
    "arc": (lambda x: (np.mod(x, TURN) < 0.4 * TURN) / (0.4 * TURN), [0.4 * TURN]),
}


def nodes(breaks: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 2π] in panels that end at the breaks."""
    ends = np.unique([*np.linspace(0.0, TURN, 25), *breaks])
    u, weight = np.polynomial.legendre.leggauss(24)
    half = 0.5 * np.diff(ends)[:, None]
    return (ends[:-1, None] + half * (u + 1.0)).ravel(), (half * weight).ravel()


@pytest.mark.parametrize("name", PDFS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("radius", [0.7, 2.3, 4.0])
def test_error_is_the_quadrature_of_bias_and_variance(
    name: str, kernel: str, radius: float
) -> None:
    """E p̂ is the convolution of kernel and density, n var p̂ that of K² less (E p̂)²."""
    pdf, breaks = PDFS[name]
    x, weight = nodes(breaks)
    density = pdf(x)
    assert weight @ density == pytest.approx(1.0, rel=1e-13)
    shape = PeriodicKernel(as_kernel(kernel), radius * TURN)
    smoother = radius * shape.value(radius * (x[:, None] - x))
    mean, second = smoother @ (weight * density), smoother**2 @ (weight * density)
    error = circle_mise(name, kernel, n=50, radius=radius)
    assert error.bias2 == pytest.approx(weight @ (mean - density) ** 2, rel=1e-10, abs=1e-14)
    assert error.variance == pytest.approx(weight @ (second - mean**2) / 50, rel=1e-10)


def line_grid() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a grid of the line, its step as weights, and a normal density there."""
    x = np.linspace(-12.0, 12.0, 1201)
    return x, np.full_like(x, x[1] - x[0]), np.exp(-0.5 * x * x) / math.sqrt(TURN)


@pytest.mark.parametrize("other", ["wrapped_cauchy", "gaussian"])
@pytest.mark.parametrize("kernel", ["fourier4", "gaussian"])
def test_error_of_a_product_is_the_quadrature_over_both(other: str, kernel: str) -> None:
    """Circle times circle, and circle times line: E p̂, E p̂_K² and p are products at each x."""
    factors, weights, radii = [], [], [2.3, 1.6]
    for name, radius in zip(["von_mises", other], radii, strict=True):
        if name == "gaussian":
            x, weight, density = line_grid()
            smoother = radius * as_kernel(kernel).value(radius * (x[:, None] - x))
        else:
            x, weight = nodes(PDFS[name][1])
            density = PDFS[name][0](x)
            shape = PeriodicKernel(as_kernel(kernel), radius * TURN)
            smoother = radius * shape.value(radius * (x[:, None] - x))
        factors.append((density, smoother @ (weight * density), smoother**2 @ (weight * density)))
        weights.append(weight)
    density, mean, second = (np.multiply.outer(*pair) for pair in zip(*factors, strict=True))
    weight = np.multiply.outer(*weights)
    error = circle_mise(["von_mises", other], kernel, n=50, radius=radii)
    tail = 1e-8 if (other, kernel) == ("gaussian", "fourier4") else 1e-10  # K beyond the grid
    assert error.bias2 == pytest.approx((weight * (mean - density) ** 2).sum(), rel=tail)
    assert error.variance == pytest.approx((weight * (second - mean**2)).sum() / 50, rel=tail)


def test_products_of_lines_alone_are_those_of_the_line() -> None:
    found = circle_mise(["gaussian", "laplace"], "fourier2", n=9, radius=[3.0, 2.0])
    assert found == mise("normal × laplace", "fourier2", n=9, radius=[3.0, 2.0])


def test_factors_are_on_a_circle_or_a_line() -> None:
    with pytest.raises(ValueError, match="factor"):
        circle_mise([], "fourier4", n=9, radius=1.0)
    with pytest.raises(ValueError, match="circles and lines"):
        circle_mise(["arc", "correlated"], "fourier4", n=9, radius=1.0)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        circle_mise(["arc", "arc"], "fourier4", n=9, radius=[1.0, 2.0, 3.0])


def test_every_density_has_a_quadrature() -> None:
    assert set(PDFS) == set(CIRCULAR)


@pytest.mark.parametrize("name", CIRCULAR)
def test_draws_have_the_coefficients(name: str) -> None:
    density, n = as_circular(name), 40_000
    draws = density.sample(n, np.random.default_rng(0))
    assert draws.shape == (n,)
    assert ((draws >= 0.0) & (draws < TURN)).all()
    for m in (1, 2, 3):
        found = abs(np.exp(1j * m * draws).mean())
        assert found == pytest.approx(math.sqrt(density.power_at(np.array([m])).kept[0]), abs=0.015)


@pytest.mark.parametrize("name", ["wrapped_laplace", "arc", "arc(0.5)", "arc(0.25)"])
def test_energy_beyond_is_what_a_closed_form_leaves(name: str) -> None:
    """P∫p² = 1 + 2 Σ |c_m|², with ∫p² of the arc 1/(2πs) and of the wrapped Laplace by tanh."""
    density = as_circular(name)
    laplace = 0.5 * (1 / math.tanh(TURN) + TURN / math.sinh(TURN) ** 2) * TURN / 1.0
    total = 1.0 / density.share if isinstance(density, Arc) else laplace
    m = 5000
    kept = math.fsum(density.power_at(np.arange(1, m + 1)).kept)
    assert density.energy_beyond(m) == pytest.approx(0.5 * (total - 1.0) - kept, abs=2e-14)


@pytest.mark.parametrize("kernel", ["fourier1", "fourier4"])
def test_error_of_simulated_samples_has_it_in_its_interval(kernel: str) -> None:
    rng, x = np.random.default_rng(1), np.linspace(0.0, TURN, 400, endpoint=False)
    truth, density = PDFS["wrapped_cauchy"][0](x), as_circular("wrapped_cauchy")
    errors = []
    for _ in range(400):
        sample = density.sample(60, rng)[:, None]
        model = KernelDensity(kernel, radius=2.5, period=TURN).fit(sample)
        errors.append(TURN * np.square(model.density(x[:, None]) - truth).mean())
    standard_error = np.std(errors) / 20.0
    exact = circle_mise("wrapped_cauchy", kernel, n=60, radius=2.5).total
    assert abs(np.mean(errors) - exact) < 3.5 * standard_error
    assert standard_error < 0.05 * exact


@pytest.mark.parametrize("name", CIRCULAR)
@pytest.mark.parametrize("kernel", ["fourier1", "fourier2", "fourier4", "gaussian"])
def test_no_radius_of_a_fine_grid_is_better(name: str, kernel: str) -> None:
    for n in (5, 300, 10_000):
        best = circle_optimum(name, kernel, n=n)
        radii = best.radius * np.exp(np.linspace(-3.0, 1.0, 301))
        others = [circle_mise(name, kernel, n=n, radius=radius).total for radius in radii]
        assert best.mise.total <= min(others) * (1 + 1e-12)
        assert best.mise.total <= circle_mise(name, kernel, n=n, radius=1e-3).total


def test_a_frequency_of_dirichlet_is_kept_where_it_is_above_the_noise() -> None:
    for n in (10, 1000, 10**6):
        best = circle_optimum("von_mises(2)", "fourier1", n=n)
        kept = as_circular("von_mises(2)").power_at(np.arange(1, 50)).kept
        assert best.frequencies == (kept > 1.0 / (n + 1)).sum()


def test_slope_is_the_derivative_of_the_best_error() -> None:
    for name in ("wrapped_laplace", "arc", "von_mises"):
        best, more = (circle_optimum(name, "fourier4", n=n) for n in (10**6, 1_010_000))
        slope = math.log(more.mise.total / best.mise.total) / math.log(1.01)
        assert slope == pytest.approx(0.5 * (best.slope + more.slope), abs=2e-4)


@pytest.mark.parametrize(
    ("name", "kernel", "slope"),
    [
        ("cardioid", "fourier1", -1.0),
        ("wrapped_normal", "fourier2", -2 / 3),
        ("wrapped_normal", "fourier4", -4 / 5),
        ("wrapped_laplace", "fourier4", -3 / 4),
        ("arc", "fourier1", -1 / 2),
        ("arc", "fourier4", -1 / 2),
    ],
)
def test_slopes_tend_to_those_of_the_line(name: str, kernel: str, slope: float) -> None:
    assert circle_optimum(name, kernel, n=10**8).slope == pytest.approx(slope, abs=0.006)


def test_a_narrow_density_has_the_error_of_the_line() -> None:
    around = circle_optimum("wrapped_normal(0.02)", "fourier4", n=1000)
    line = optimum("normal(0, 0.02)", "fourier4", n=1000)
    assert around.mise.total == pytest.approx(line.mise.total, rel=1e-6)
    assert around.radius == pytest.approx(line.radius, rel=1e-4)


def test_wrong_densities_are_refused() -> None:
    with pytest.raises(ValueError, match=r"density must be one of wrapped_normal, .*, got 'gamma'"):
        as_circular("gamma")
    with pytest.raises(ValueError, match=r"cardioid: rho must be at most 0\.5, got 0\.7"):
        as_circular("cardioid(0.7)")
    with pytest.raises(ValueError, match="density must be on the line, and without waves"):
        Wrapped(Beta())
    with pytest.raises(TypeError, match="density must be one on a circle or its name, got 3"):
        circle_mise(3, "fourier1", n=1, radius=1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="radius must make at most 1048576 frequencies"):
        circle_mise("arc", "fourier1", n=1, radius=2e6)


@pytest.mark.parametrize(("name", "n"), [("arc(0.4)", 10**13), ("wrapped_laplace(0.5)", 10**25)])
def test_a_best_number_of_frequencies_beyond_the_last_is_refused(name: str, n: int) -> None:
    """|c_m|² = 1/(n+1) at m = 1.8e6 and 3.6e6, in the mean over waves."""
    with pytest.raises(ValueError, match=f"n must be small enough .*, got {n}"):
        circle_optimum(name, "fourier1", n=n)
