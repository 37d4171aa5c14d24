"""Kernel sums on circles: equal to sums over the images of every sample."""

import math

import numpy as np
import pytest
from image_sums import image_sum

from fourierkernels.kernels import FourierKernel, Kernel, PeriodicKernel, as_kernel
from fourierkernels.kernels.periodic import gaps, harmonics
from fourierkernels.sums import KernelSums, kernel_sum

NAMES = ["gaussian", *(f"fourier{power}" for power in range(1, 8))]
METHODS = ["bandlimited", "reference"]
REACHED = 1e-13  # of the total weight times the largest value of the kernel
PERIODS = [(2, 1), (6, 1), (20, 3), (46, 7)]  # of u, in multiples a/b of π


def data(dim: int, period: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples and queries in several periods, and weights."""
    rng = np.random.default_rng(dim)
    points, at = (rng.uniform(-2.0, 3.0, (n, dim)) * period for n in (150, 40))
    return points, at, rng.random(150)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("dim", "times"), [*((1, times) for times in PERIODS), (2, (6, 1)), (3, (20, 3))]
)
def test_sum_is_that_over_all_images(
    dim: int, times: tuple[int, int], name: str, method: str
) -> None:
    radius = np.linspace(1.7, 2.3, dim)
    period = math.pi * times[0] / times[1] / radius
    points, at, weights = data(dim, period)
    sums = kernel_sum(
        points, at, kernel=name, radius=radius, weights=weights, method=method, period=list(period)
    )
    u = radius * (at[:, None] - points)
    exact = image_sum(as_kernel(name), u, *times).prod(axis=2) @ weights
    peak = float(image_sum(as_kernel(name), np.zeros(1), *times)[0]) ** dim
    error = np.abs(sums.totals() - exact).max()
    assert error <= REACHED * peak * weights.sum()
    assert np.all(np.abs(sums.denominator - np.ldexp(exact, -sums.exponent)) <= 2 * sums.error)


@pytest.mark.parametrize("method", METHODS)
def test_lines_and_circles_go_together(method: str) -> None:
    radius, period = np.array([2.0, 1.0]), [6 * math.pi / 2.0, None]
    points, at, weights = data(2, np.ones(2))
    options = {"kernel": "fourier4", "radius": radius, "weights": weights, "method": method}
    sums = kernel_sum(points, at, period=period, **options)
    u = radius * (at[:, None] - points)
    kernel = FourierKernel(4)
    line = kernel.constant * kernel.value(u[:, :, 1])
    exact = (image_sum(kernel, u[:, :, 0], 6, 1) * line) @ weights
    np.testing.assert_allclose(sums.totals(), exact, atol=1e-12 * weights.sum())


@pytest.mark.parametrize("part", ["slope", "cumulative", "moment1", "moment2", "slope_of_moment3"])
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4"])
def test_parts_of_the_series_are_those_of_the_reference(name: str, part: str) -> None:
    points, at, weights = data(1, np.array([24.0]))
    options = {"kernel": name, "radius": 0.9, "weights": weights, "period": 24.0, "parts": [part]}
    fast, slow = (
        kernel_sum(points, at, method=method, refine=False, **options) for method in METHODS
    )
    size = 1.0 + 24.0 * 0.9 if "moment" in part else 1.0
    powers = size ** int(part[-1]) if "moment" in part else 1.0
    gap = np.abs(fast.totals() - slow.totals()).max()
    assert gap <= 1e-12 * powers * weights.sum()


@pytest.mark.parametrize("name", NAMES)
def test_slope_integral_and_moments_of_a_periodic_kernel(name: str) -> None:
    """By differences and quadrature of its values; the integral leaves the mean out."""
    kernel = PeriodicKernel(as_kernel(name), 7.3)
    u, step = np.linspace(-9.0, 9.0, 41), 1e-4
    log, sign = kernel.log_slope(u)
    differences = (kernel.value(u + step) - kernel.value(u - step)) / (2.0 * step)
    np.testing.assert_allclose(sign * np.exp(log) / kernel.constant, differences, atol=1e-6)
    gained = (kernel.cumulative(u + step) - kernel.cumulative(u - step)) / (2.0 * step)
    np.testing.assert_allclose(gained, kernel.value(u) - 1.0 / 7.3, atol=1e-6)
    around = np.linspace(0.0, 7.3, 2000, endpoint=False)
    assert 7.3 * kernel.value(around).mean() == pytest.approx(1.0, rel=1e-13)
    assert kernel.cumulative(around).mean() == pytest.approx(0.0, abs=1e-13)
    turned = (kernel.chord(u + step) - kernel.chord(u - step)) / (2.0 * step)
    np.testing.assert_allclose(turned, kernel.chord_slope(u), atol=1e-6)


def test_dirichlet_and_fejer_kernels_at_their_own_radii() -> None:
    """With R P = 2π(M + 1/2) the first is sin((2M+1)πx/P)/sin(πx/P), with 2π(M+1)/2 the other."""
    x = np.linspace(0.01, 0.99, 50)
    ratio = np.sin(7 * math.pi * x) / np.sin(math.pi * x)
    dirichlet = PeriodicKernel(FourierKernel(1), 7 * math.pi)
    np.testing.assert_allclose(dirichlet.value(7 * math.pi * x) * 7 * math.pi, ratio, atol=1e-13)
    fejer = PeriodicKernel(FourierKernel(2), 4 * math.pi)
    squares = (np.sin(4 * math.pi * x) / np.sin(math.pi * x)) ** 2 / 4.0
    np.testing.assert_allclose(fejer.value(4 * math.pi * x) * 4 * math.pi, squares, atol=1e-13)


@pytest.mark.parametrize("m", [1, 3, 7, 49])
def test_a_frequency_on_the_edge_of_the_band_counts_half(m: int) -> None:
    """However the radius was rounded; 1 - K̂ agrees."""
    for period in (24.0, 360.0, 1.0, 2 * math.pi):
        radius = 2.0 * math.pi * m / period
        assert harmonics(FourierKernel(1), radius * period).tolist() == [1.0] * m + [0.5]
        assert gaps(FourierKernel(1), radius * period).tolist() == [0.0] * m + [0.5]
    inner = harmonics(FourierKernel(1), 2 * math.pi * (m + 1e-9))
    assert inner.tolist() == [1.0] * (m + 1)


def test_values_of_the_gaussian_far_away_keep_their_digits() -> None:
    kernel, far = PeriodicKernel(as_kernel("gaussian"), 200.0), np.array([60.0, 100.0])
    log, _ = kernel.log_shape(far)
    np.testing.assert_allclose(log, [-1800.0, -5000.0 + math.log(2.0)], rtol=1e-15)


@pytest.mark.parametrize("period", [2.4, 2.5, 2.6, 3.0, 8.0])
def test_images_and_series_of_the_gaussian_agree(period: float) -> None:
    kernel = PeriodicKernel(as_kernel("gaussian"), period)
    u = np.linspace(0.0, period, 30)
    log, _ = kernel.log_shape(u)
    images = np.exp(-0.5 * np.square(u[:, None] + period * np.arange(-30, 31))).sum(axis=1)
    np.testing.assert_allclose(np.exp(log), images, rtol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_whole_periods_change_nothing(method: str) -> None:
    points, at, weights = data(2, np.array([1.0, 5.0]))

    def sums(shift: float) -> KernelSums:
        moved = points + shift * np.array([1.0, 5.0])
        options = {"weights": weights, "method": method, "period": [1.0, 5.0]}
        return kernel_sum(moved, at, kernel="fourier3", radius=4.0, **options)

    np.testing.assert_allclose(sums(7.0).totals(), sums(0.0).totals(), atol=1e-12 * weights.sum())


@pytest.mark.parametrize("method", ["direct", "direct_float32", "split"])
def test_methods_without_images_say_so(method: str) -> None:
    with pytest.raises(ValueError, match="has no sums over images on a circle"):
        kernel_sum([[0.0]], [[1.0]], kernel="fourier4", radius=1.0, method=method, period=2.0)


@pytest.mark.parametrize("period", [0, -1.0, math.inf, math.nan, [1.0, 2.0], "24", True])
def test_wrong_periods_are_refused(period: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^period must be"):
        kernel_sum([[0.0]], [[1.0]], kernel="fourier4", radius=1.0, period=period)


def test_a_radius_of_millions_of_frequencies_is_refused() -> None:
    kernel: Kernel = as_kernel("fourier4")
    with pytest.raises(ValueError, match="radius must be such that at most"):
        harmonics(kernel, 1e8)
