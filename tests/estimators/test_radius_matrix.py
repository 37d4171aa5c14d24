"""Radius matrices: the estimate of mapped data, invariance, the rules, and what is refused."""

import numpy as np
import pytest

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import ConditionalDensity
from fourierkernels.estimators.modes import density_contours, highest_density_contours, modes
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.kernels import KERNELS, as_kernel
from fourierkernels.theory.densities import CorrelatedGaussian
from fourierkernels.theory.normal import full_covariance_optimum

R = np.array([[2.0, -1.0], [0.3, 1.5]])
A = np.array([[1.0, 0.7], [-0.4, 2.0]])
NAMES = ["gaussian", "fourier1", "fourier2", "fourier4"]


def data(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=n)
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


AT = data(9, seed=1)[0]


def direct(name: str, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """|det R| ∏ K((R (x - x_i))_d), by its formula; shape (m, n)."""
    u = np.einsum("de,mne->mnd", R, at[:, None] - x[None])
    return abs(np.linalg.det(R)) * KERNELS[name].value(u).prod(axis=2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["reference", "direct", "bandlimited"])
def test_density_and_regression_are_their_formulas(name: str, method: str) -> None:
    x, y = data()
    weights = np.linspace(0.0, 2.0, 60)
    kernels = direct(name, x, AT) * weights
    density = KernelDensity(name, radius=R, method=method).fit(x, sample_weight=weights)
    expected = kernels.sum(axis=1) / weights.sum()
    np.testing.assert_allclose(density.density(AT), expected, rtol=1e-8, atol=1e-10)
    model = NadarayaWatson(name, radius=R, method=method).fit(x, y, sample_weight=weights)
    rows = kernels / kernels.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.weights(AT), rows, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.predict(AT), rows @ y, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_diagonal_matrices_are_vectors(name: str) -> None:
    x, y = data()
    one = KernelDensity(name, radius=[1.5, 2.5]).fit(x)
    other = KernelDensity(name, radius=np.diag([1.5, 2.5])).fit(x)
    options = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(other.density(AT), one.density(AT), **options)
    np.testing.assert_allclose(other.derivative(AT), one.derivative(AT), **options)
    np.testing.assert_allclose(other.leave_one_out(), one.leave_one_out(), **options)
    line = NadarayaWatson(name, radius=[0.5, 0.7]).fit(x, y)
    matrix = NadarayaWatson(name, bandwidth=np.diag([2.0, 1 / 0.7])).fit(x, y)
    np.testing.assert_allclose(matrix.derivative(AT), line.derivative(AT), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(matrix.leave_one_out(), line.leave_one_out(), rtol=1e-8)
    np.testing.assert_allclose(matrix.interval(AT).error, line.interval(AT).error, rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_linearly_mapped_data_has_the_mapped_density(name: str) -> None:
    """X Aᵀ + b with R A^{-1}: the density at A x + b is that at x over |det A|."""
    x, y = data()
    inverse = np.linalg.inv(A)
    plain = KernelDensity(name, radius=R).fit(x)
    mapped = KernelDensity(name, radius=R @ inverse).fit(x @ A.T + 1e4)
    at = AT @ A.T + 1e4
    expected = plain.density(AT) / abs(np.linalg.det(A))
    np.testing.assert_allclose(mapped.density(at), expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(mapped.derivative(at) @ A * np.linalg.det(A), plain.derivative(AT),
                               rtol=1e-6, atol=1e-8)  # fmt: skip
    line = NadarayaWatson(name, radius=0.4 * R).fit(x, y)
    other = NadarayaWatson(name, radius=0.4 * R @ inverse).fit(x @ A.T + 1e4, y)
    np.testing.assert_allclose(other.predict(at), line.predict(AT), rtol=1e-6)
    np.testing.assert_allclose(other.derivative(at) @ A, line.derivative(AT), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_differences(name: str) -> None:
    x, y = data()
    step = 1e-5
    for model in (KernelDensity(name, radius=R), NadarayaWatson(name, radius=0.4 * R)):
        model.fit(x, y)
        value = model.density if isinstance(model, KernelDensity) else model.predict
        for d in range(2):
            ahead = step * np.eye(2)[d]
            slope = (value(AT + ahead) - value(AT - ahead)) / (2 * step)
            np.testing.assert_allclose(model.derivative(AT)[:, d], slope, rtol=1e-4, atol=1e-6)


def test_several_responses_have_a_derivative_each() -> None:
    x, y = data()
    both = NadarayaWatson(radius=0.4 * R).fit(x, np.column_stack([y, -2 * y])).derivative(AT)
    one = NadarayaWatson(radius=0.4 * R).fit(x, y).derivative(AT)
    assert both.shape == (9, 2, 2)
    np.testing.assert_allclose(both, np.stack([one, -2 * one], axis=1), rtol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_is_refitting_without_the_sample(name: str) -> None:
    x, _ = data(25)
    left = KernelDensity(name, radius=R).fit(x).leave_one_out()
    for i in (0, 11, 24):
        again = KernelDensity(name, radius=R).fit(np.delete(x, i, axis=0))
        assert left[i] == pytest.approx(again.density(x[[i]])[0], abs=1e-12)


def test_draws_have_the_covariance_of_the_estimate() -> None:
    """Of one sample with the Gaussian: (RᵀR)^{-1}, within 4 standard errors."""
    model = KernelDensity("gaussian", radius=R).fit([[1.0, 2.0]])
    draws = model.sample(20_000, rng=np.random.default_rng(0))
    expected = np.linalg.inv(R.T @ R)
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) + expected**2)
    assert (np.abs(np.cov(draws.T) - expected) < 4 * spread / np.sqrt(20_000)).all()
    assert np.isfinite(model.score_samples(draws[:5])).all()


def mapped(name: str) -> tuple[KernelDensity, KernelDensity]:
    """An estimate with the matrix R, and that of the data mapped by it with radius 1."""
    x, weights = data()[0], np.linspace(0.0, 2.0, 60)
    options = {"weighting": "importance"}
    one = KernelDensity(name, radius=R, **options).fit(x, None, weights)
    return one, KernelDensity(name, radius=1.0, **options).fit(x @ R.T, None, weights)


@pytest.mark.parametrize("name", ["gaussian", "fourier3", "fourier4"])
@pytest.mark.parametrize("bias", ["ignore", "corrected"])
def test_limits_of_densities_are_those_of_the_mapped_data(name: str, bias: str) -> None:
    """They ended in a TypeError of numpy."""
    one, other = mapped(name)
    factor = abs(np.linalg.det(R))
    options = {"bias": bias, "undersmooth": 1.3}
    mine, peer = one.interval(AT, **options), other.interval(AT @ R.T, **options)
    np.testing.assert_allclose(mine.centre, factor * peer.centre, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(mine.error, factor * peer.error, rtol=1e-6)
    draws = [
        model.band(at, rng=np.random.default_rng(0), replicates=40, **options).critical
        for model, at in ((one, AT), (other, AT @ R.T))
    ]
    assert draws[0] == pytest.approx(draws[1], rel=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
def test_modes_and_contours_are_those_of_the_mapped_data(name: str) -> None:
    """Modes ended in an error of broadcasting, contours in a grid of 6e8 places."""
    one, other = mapped(name)
    factor = abs(np.linalg.det(R))
    mine, peer = modes(one), modes(other)
    np.testing.assert_allclose(mine.points @ R.T, peer.points, atol=1e-7)
    np.testing.assert_allclose(mine.densities, factor * peer.densities, rtol=1e-7)
    np.testing.assert_allclose(one.density(mine.points), mine.densities, rtol=1e-7)
    np.testing.assert_array_equal(mine.labels, peer.labels)
    region, there = (highest_density_contours(each, 0.5, steps=6) for each in (one, other))
    assert region.level == pytest.approx(factor * there.level, rel=1e-3)
    assert region.area == pytest.approx(there.area / factor, rel=1e-2)
    assert region.probability == pytest.approx(0.5)
    for line in region.lines:
        np.testing.assert_allclose(one.density(line), region.level, rtol=1e-2)
    again = density_contours(one, region.level, steps=6)
    assert again.area == pytest.approx(region.area, rel=1e-6)


def test_outlines_keep_the_region_on_their_left_under_a_reflection() -> None:
    x = np.array([[0.0, 0.0]])
    for matrix in (np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [2.0, 1.0]])):
        region = density_contours(KernelDensity("gaussian", radius=matrix).fit(x), 0.05, steps=6)
        (line,) = region.lines
        ahead = np.roll(line, -1, axis=0)
        signed = 0.5 * float((line[:, 0] * ahead[:, 1] - line[:, 1] * ahead[:, 0]).sum())
        assert signed == pytest.approx(region.area, rel=0.05)


@pytest.mark.parametrize("name", ["radius", "bandwidth"])
def test_the_matrix_of_one_column_is_a_number(name: str) -> None:
    x = data()[0][:, :1]
    one = KernelDensity("gaussian", **{name: [[-2.0]]}).fit(x)
    other = KernelDensity("gaussian", **{name: 2.0}).fit(x)
    assert one.radius_.tolist() == other.radius_.tolist()
    assert modes(one).points.tolist() == modes(other).points.tolist()
    np.testing.assert_array_equal(one.interval(x).low, other.interval(x).low)


# --- rules -----------------------------------------------------------------------------------


def rule(name: str, x: np.ndarray, kernel: str = "gaussian") -> np.ndarray:
    ones = np.ones(len(x))
    return choose_radius(x, ones, as_kernel(kernel), radius=name, bandwidth=None)


def test_normal_reference_is_the_optimum_in_closed_form() -> None:
    """(RᵀR)^{-1} is the best covariance of a Gaussian kernel for a normal with that of the data."""
    x, _ = data(400)
    covariance = np.cov(x.T, bias=True)
    scale = np.sqrt(np.diag(covariance))
    x = x / scale  # a CorrelatedGaussian has unit variances
    density = CorrelatedGaussian(float(covariance[0, 1] / scale.prod()))
    found = rule("normal_reference_full", x)
    best = full_covariance_optimum(density, n=400).covariance
    np.testing.assert_allclose(np.linalg.inv(found.T @ found), best, rtol=1e-4)


def test_normal_reference_is_equivariant_under_linear_maps() -> None:
    x, _ = data(100)
    found, mapped = rule("normal_reference_full", x), rule("normal_reference_full", x @ A.T + 3)
    expected = np.linalg.inv(A).T @ (found.T @ found) @ np.linalg.inv(A)
    np.testing.assert_allclose(mapped.T @ mapped, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["normal_reference_full", "lscv_full"])
def test_rules_of_matrices_follow_units_and_the_order_of_columns(name: str) -> None:
    x, _ = data(100)
    found = rule(name, x, "fourier4")
    scaled = rule(name, (x * [1e-3, 50.0])[:, ::-1], "fourier4")
    np.testing.assert_allclose(scaled[::-1, ::-1] * [1e-3, 50.0], found, rtol=1e-5)


def test_rules_of_matrices_are_diagonal_without_correlation() -> None:
    x, _ = data(100)
    x = np.vstack([x, x * [1, -1]])
    for name in ("normal_reference_full", "lscv_full"):
        found = rule(name, x, "fourier4")
        assert np.abs(found[[0, 1], [1, 0]]).max() < 1e-9 * found.max()


@pytest.mark.parametrize("kernel", ["gaussian", "fourier4"])
def test_a_matrix_sees_the_correlation_that_a_vector_does_not(kernel: str) -> None:
    """Mean square error at draws of the density, weighted by 1/p: the ISE by importance."""
    density = CorrelatedGaussian(0.9)
    x, at = (density.sample(n, np.random.default_rng(seed)) for n, seed in ((300, 0), (2000, 1)))
    truth = density.pdf(at)
    errors = {
        name: np.mean((KernelDensity(kernel, radius=name).fit(x).density(at) - truth) ** 2 / truth)
        for name in ("normal_reference", "normal_reference_full", "lscv", "lscv_full")
    }
    assert errors["normal_reference_full"] < 0.3 * errors["normal_reference"]
    assert errors["lscv_full"] < 0.8 * errors["lscv"]


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 2)), np.ones((2, 2)), [[1.0, 1.0], [1.0, 1.0 + 1e-9]]]
)
def test_singular_matrices_are_refused(matrix: np.ndarray) -> None:
    for name in ("radius", "bandwidth"):
        with pytest.raises(ValueError, match=f"{name} must be a matrix far from singular"):
            KernelDensity(**{name: matrix}).fit(data()[0])


def test_units_do_not_make_a_matrix_singular() -> None:
    x, _ = data()
    scale = np.array([1e-9, 1e9])
    model = KernelDensity("gaussian", radius=R / scale).fit(x * scale)
    plain = KernelDensity("gaussian", radius=R).fit(x)
    np.testing.assert_allclose(model.density(AT * scale), plain.density(AT), rtol=1e-9)


def test_shapes_and_values_that_do_not_fit_are_refused() -> None:
    x, y = data()
    with pytest.raises(ValueError, match=r"radius must be a number or have shape .* got shape"):
        KernelDensity(radius=np.eye(3)).fit(x)
    with pytest.raises(ValueError, match="radius must be finite, got nan"):
        KernelDensity(radius=[[1.0, np.nan], [0.0, 1.0]]).fit(x)
    with pytest.raises(ValueError, match="bounds must be None with a radius matrix"):
        KernelDensity(radius=R, bounds=[(-9, None), None]).fit(x)
    with pytest.raises(ValueError, match="radius must be a vector for ConditionalDensity, got a m"):
        ConditionalDensity(radius=R).fit(x[:, :1], y)
    collinear = np.column_stack([x[:, 0], 2 * x[:, 0]])
    with pytest.raises(ValueError, match="X must have no column that is nearly a linear comb"):
        KernelDensity(radius="normal_reference_full").fit(collinear)


def test_what_needs_a_kernel_per_column_is_refused() -> None:
    model = KernelDensity("gaussian", radius=R).fit(data()[0])
    for call in (
        lambda: model.cdf(AT),
        lambda: model.probability(0.0, 1.0),
        lambda: model.ise("correlated"),
    ):
        with pytest.raises(ValueError, match=r"radius must be a vector for .*, got a matrix"):
            call()
