"""The ISE of one sample, from one transform, against slow and obvious ways."""

import math

import numpy as np
import pytest
from sech_kernel import SechKernel

from fourierkernels.kernels import KERNELS, as_kernel
from fourierkernels.simulation import draw, mise
from fourierkernels.theory import IseCurve, ise, optimal_radius
from fourierkernels.theory import mise as exact_mise
from fourierkernels.theory.densities import (
    CorrelatedGaussian,
    Gaussian,
    Laplace,
    MultivariateMixture,
    Product,
    as_density,
)


def pairwise_ise(name: str, sample: np.ndarray, radius: float) -> float:
    """Gaussian kernel and data: all three integrals are sums of normal densities."""
    density = as_density(name)
    h2, n = 1.0 / radius**2, len(sample)
    variance, mean = density.std**2, density.mean  # type: ignore[attr-defined]
    peak = lambda x, v: np.exp(-0.5 * x * x / v) / np.sqrt(2 * math.pi * v)  # noqa: E731
    pairs = peak(sample - sample.T, 2 * h2).sum() / n**2
    return float(pairs - 2 * peak(sample - mean, variance + h2).mean() + density.roughness)


@pytest.mark.parametrize("radius", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("density", ["gaussian", "gaussian(30, 0.5)"])
def test_ise_agrees_with_sums_over_pairs(density: str, radius: float) -> None:
    sample = draw(as_density(density), 300, np.random.default_rng(1))
    seen = ise(density, "gaussian", sample, radius=radius)
    assert seen == pytest.approx(pairwise_ise(density, sample, radius), rel=1e-10, abs=0.0)


@pytest.mark.parametrize("radius", [1.0, 2.7, 4.0])
def test_points_at_the_ends_of_the_range_are_resolved(radius: float) -> None:
    """Panels too long for the range of the sample fail here first: all pairs are a range apart."""
    sample = np.repeat([[-25.0], [25.0]], 10, axis=0)
    curve = IseCurve("gaussian", "gaussian", sample, largest=4.0)
    exact = pairwise_ise("gaussian", sample, radius)
    assert curve(radius) == pytest.approx(exact, rel=1e-10, abs=0.0)


@pytest.mark.parametrize("radius", [0.4, 1.7, 5.3])
def test_a_kernel_of_ones_own_is_integrated_to_its_end(radius: float) -> None:
    """Against the trapezoidal rule over x, which is exact to rounding for analytic functions."""
    kernel, x = SechKernel(), np.linspace(-120.0, 120.0, 24001)
    sample = draw(as_density("gaussian"), 20, np.random.default_rng(3))
    estimate = (radius * kernel.value(radius * (x - sample))).mean(axis=0)
    direct = np.trapezoid(np.square(estimate - as_density("gaussian").pdf(x)), x)
    curve = IseCurve("gaussian", kernel, sample, largest=5.3)
    assert curve(radius) == pytest.approx(float(direct), rel=1e-9, abs=0.0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("density", ["laplace", "mw8", "beta", "gamma", "cauchy"])
def test_one_transform_serves_all_radii(density: str, kernel: str) -> None:
    """The value does not depend on the panels: another largest radius moves every knot."""
    sample = draw(as_density(density), 200, np.random.default_rng(2))
    curve = IseCurve(density, kernel, sample, largest=5.3)
    assert curve.resolved
    for radius in (0.4, 1.7, 3.111, 5.3):
        exact = ise(density, kernel, sample, radius=radius)
        assert curve(radius) == pytest.approx(exact, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(
    ("kernel", "dim"), [("fourier1", 2), ("fourier4", 2), ("gaussian", 2), ("fourier1", 3)]
)
def test_one_transform_serves_all_radii_in_more_dimensions(kernel: str, dim: int) -> None:
    density = CorrelatedGaussian(0.6, dim)
    sample = density.sample(100, np.random.default_rng(3))
    curve = IseCurve(density, kernel, sample, largest=2.0)
    for radius in (0.7, np.linspace(1.1, 1.9, dim)):
        exact = ise(density, kernel, sample, radius=radius)
        assert curve(radius) == pytest.approx(exact, rel=1e-7, abs=0.0)


@pytest.mark.parametrize("n", [70, 3000])
def test_transform_and_matrix_product_agree(n: int) -> None:
    """Weights repeat samples: three for one, below and above where direct sums end."""
    rng = np.random.default_rng(4)
    density = Product((Gaussian(), Laplace()))
    sample, weights = density.sample(n, rng), rng.integers(1, 4, n).astype(float)
    repeated = np.repeat(sample, weights.astype(int), axis=0)
    seen = ise(density, "fourier4", sample, radius=2.0, weights=weights)
    assert seen == pytest.approx(ise(density, "fourier4", repeated, radius=2.0), rel=1e-10, abs=0.0)


def test_ise_of_a_mixture_in_the_plane_agrees_with_a_grid_in_space() -> None:
    twin = MultivariateMixture([0.5, 0.5], [[-1, 0], [1, 0]], [np.eye(2), 0.5 * np.eye(2)])
    sample = twin.sample(60, np.random.default_rng(5))
    axis = np.arange(-9.0, 9.0, 0.1)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    kernel = as_kernel("gaussian")
    estimate = np.zeros(grid.shape[:2])
    for point in sample:
        estimate += kernel.value(1.5 * (grid - point)).prod(axis=-1) * 1.5**2 / len(sample)
    expected = np.square(estimate - twin.pdf(grid)).sum() * 0.01
    assert ise(twin, "gaussian", sample, radius=1.5) == pytest.approx(expected, rel=1e-9, abs=0.0)


def test_heavy_tails_keep_the_mean_where_a_sample_is_not_resolved() -> None:
    n, radius = 60, 3.0
    rng = np.random.default_rng(6)
    values, resolved = np.empty(300), np.empty(300, bool)
    for i in range(300):
        sample = draw(as_density("cauchy"), n, rng)
        curve = IseCurve("cauchy", "fourier4", sample, largest=radius, most=2**14, clip=True)
        values[i], resolved[i] = curve(radius), curve.resolved
    exact = exact_mise("cauchy", "fourier4", n=n, radius=radius).total
    assert 0 < resolved.mean() < 1
    assert abs(values.mean() - exact) < 4 * values.std(ddof=1) / math.sqrt(len(values))


def test_estimated_radii_are_simulated_sample_by_sample() -> None:
    options = {"n": 200, "replicates": 30}
    found = mise("gaussian", "fourier4", radius="lscv", rng=np.random.default_rng(7), **options)  # type: ignore[arg-type]
    fixed = mise(
        "gaussian",
        "fourier4",
        radius=optimal_radius("gaussian", "fourier4", n=200),
        rng=np.random.default_rng(7),
        **options,  # type: ignore[arg-type]
    )
    assert found.radii.shape == (30, 1)
    assert len(np.unique(found.radii)) == 30
    assert len(np.unique(fixed.radii)) == 1
    assert fixed.mean < found.mean < 4 * fixed.mean
    assert found.resolved.all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 5.0}, "radius must be at most"),
        ({"radius": [1.0, 2.0]}, r"radius must be a number or have shape \(1,\)"),
        ({"sample": np.zeros((3, 2)), "density": "correlated(0.5, 3)"}, "dim must be 3"),
        ({"sample": np.zeros((3, 4))}, "columns at most for the ISE"),
        ({"sample": np.array([[0.0], [1e9]])}, "sample must span a shorter range"),
        ({"sample": np.zeros((0, 1))}, "sample must not be empty"),
        ({"density": "gamma(0.4)"}, "density must be square integrable"),
    ],
)
def test_bad_input_is_refused(options: dict[str, object], message: str) -> None:
    known: dict[str, object] = {
        "density": "gaussian",
        "sample": np.zeros((3, 1)),
        "radius": 1.0,
        "largest": 2.0,
    }
    given = {**known, **options}

    def ask() -> float:
        curve = IseCurve(given["density"], "fourier4", given["sample"], largest=given["largest"])  # type: ignore[arg-type]
        return curve(given["radius"])  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=message):
        ask()


def test_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="radius must be one of"):
        mise("gaussian", "fourier4", n=9, radius="best", replicates=2, rng=np.random.default_rng(0))
