"""Modes are all maxima, and nothing else, for every kernel and in any dimension."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators.modes import modes
from fourierkernels.estimators.modes.mode_seeking import hessian

BMI = load_diabetes(scaled=False).data[:, [2]]
RNG = np.random.default_rng(0)
CLOUDS = np.vstack([RNG.normal(m, 0.5, (80, 2)) for m in ([0, 0], [3, 0], [0, 3])])


def maxima_on_a_fine_grid(model: KernelDensity, floor: float) -> np.ndarray:
    pad = 1.0 / model.radius_[0]
    grid = np.linspace(model.points_.min() - pad, model.points_.max() + pad, 100_001)
    p = model.density(grid[:, None])
    inner = (p[1:-1] > p[:-2]) & (p[1:-1] >= p[2:]) & (p[1:-1] >= floor * p.max())
    return grid[1:-1][inner]


@pytest.mark.parametrize("factor", [1, 3, 10])
@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier2", "fourier4", "fourier5"])
def test_modes_on_the_line_are_the_maxima_of_a_fine_grid(kernel: str, factor: int) -> None:
    radius = factor * KernelDensity(kernel).fit(BMI).radius_
    model = KernelDensity(kernel, radius=radius).fit(BMI)
    found, expected = modes(model), maxima_on_a_fine_grid(model, 0.01)
    spacing = np.ptp(BMI) / 90_000
    np.testing.assert_allclose(np.sort(found.points[:, 0]), expected, atol=spacing)
    assert np.all(np.diff(found.densities) <= 0)
    assert np.abs(model.derivative(found.points)).max() < 1e-11 * radius[0] ** 2
    again = model.density(found.points)  # a direct sum, as they are few
    rtol = 0 if model.plan_.method == "direct" else 1e-12
    np.testing.assert_allclose(found.densities, again, rtol=rtol)


@settings(max_examples=40)
@given(st.lists(st.floats(-8, 8), min_size=1, max_size=6), st.floats(0.05, 3))
def test_gaussian_has_at_most_a_mode_per_sample_and_alternating_extrema(
    x: list[float], bandwidth: float
) -> None:
    model = KernelDensity("gaussian", bandwidth=bandwidth).fit(np.array(x)[:, None])
    found = modes(model, floor=0.0)
    assert 1 <= len(found) <= len(set(x))
    assert found.points.min() >= min(x) - 1e-9
    assert found.points.max() <= max(x) + 1e-9
    here = model.density(found.points)
    for step in (-1e-4, 1e-4):
        assert np.all(model.density(found.points + step * bandwidth) <= here * (1 + 1e-15))


def test_two_normals_merge_where_theory_says() -> None:
    """Of equal weight at -1 and 1, they have one mode exactly if h >= 1."""
    for bandwidth, count in ((0.99, 2), (1.01, 1)):
        model = KernelDensity("gaussian", bandwidth=bandwidth).fit([[-1.0], [1.0]])
        assert len(modes(model)) == count


def test_samples_are_labelled_by_the_basin_they_lie_in() -> None:
    x = np.concatenate([RNG.normal(-3, 0.5, 50), RNG.normal(3, 0.5, 30)])
    found = modes(KernelDensity("gaussian", bandwidth=0.5).fit(x[:, None]))
    assert len(found) == 2
    np.testing.assert_array_equal(found.labels, (x > 0).astype(int))


def test_a_bound_where_the_density_falls_inwards_is_a_mode() -> None:
    x = np.random.default_rng(1).exponential(size=(400, 1))
    for bounds, place in (([(0.0, None)], 0.0), ([(None, 0.0)], 0.0)):
        sign = 1.0 if bounds[0][1] is None else -1.0
        model = KernelDensity("gaussian", bounds=bounds).fit(sign * x)
        assert modes(model).points[0, 0] == place  # the highest; its tail has others
    inside = KernelDensity("gaussian", bandwidth=0.3, bounds=[(0.0, 9.0)]).fit(2.0 + 0.1 * x)
    assert 2.0 < modes(inside).points[0, 0] < 2.2


def test_all_equal_samples_and_one_sample_have_one_mode() -> None:
    for x in ([[3.0]], [[3.0]] * 5):
        for kernel in ("gaussian", "fourier1", "fourier4"):
            found = modes(KernelDensity(kernel, radius=2.0).fit(x))
            np.testing.assert_allclose(found.points, [[3.0]], atol=1e-9)
            assert found.labels.tolist() == [0] * len(x)


def test_samples_of_no_weight_make_no_mode() -> None:
    model = KernelDensity("gaussian", bandwidth=0.2).fit(
        [[0.0], [5.0], [9.0]], sample_weight=[1.0, 1.0, 0.0]
    )
    np.testing.assert_allclose(np.sort(modes(model).points[:, 0]), [0.0, 5.0], atol=1e-9)


def test_an_outlier_far_away_is_a_mode_without_a_floor() -> None:
    x = np.append(RNG.normal(size=500), 1e4)[:, None]
    model = KernelDensity("gaussian", bandwidth=0.6).fit(x)
    assert modes(model, floor=0.01).points.max() < 10
    assert modes(model, floor=0.0).points.max() == pytest.approx(1e4)


@pytest.mark.parametrize("kernel", ["gaussian", "fourier2", "fourier3", "fourier4"])
def test_modes_in_the_plane_are_maxima_that_label_the_clouds(kernel: str) -> None:
    model = KernelDensity(kernel, radius=2.0).fit(CLOUDS)
    found = modes(model)
    assert len(found) == 3
    assert np.abs(model.derivative(found.points)).max() < 1e-12
    for x in found.points:
        assert np.linalg.eigvalsh(hessian(model, x)).max() < 0
    cloud = np.repeat([0, 1, 2], 80)
    agree = [np.mean(found.labels[cloud == c] == found.labels[cloud == c][0]) for c in range(3)]
    assert min(agree) > 0.95


def test_a_saddle_is_not_a_mode() -> None:
    """Ascents from the middle of two samples stop there: the gradient is zero."""
    model = KernelDensity("gaussian", bandwidth=0.5)
    model.fit([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], sample_weight=[1.0, 1.0, 0.0])
    found = modes(model)
    assert len(found) == 2
    assert found.labels[2] == -1
    np.testing.assert_allclose(np.abs(found.points[:, 0]), 0.999, atol=2e-3)


def test_product_of_two_lines_has_the_product_of_their_modes() -> None:
    side = np.array([-1.5, 1.5])
    x = np.array([[a, b] for a in side for b in side])
    line = modes(KernelDensity("fourier4", radius=2.0).fit(side[:, None])).points[:, 0]
    found = modes(KernelDensity("fourier4", radius=2.0).fit(x))
    assert len(found) == len(line) ** 2
    for place in found.points.ravel():
        assert np.abs(place - line).min() < 1e-8


def test_modes_in_three_dimensions() -> None:
    x = np.vstack([RNG.normal(m, 0.4, (40, 3)) for m in ([0, 0, 0], [3, 3, 3])])
    found = modes(KernelDensity("gaussian", bandwidth=0.6).fit(x))
    assert len(found) == 2
    assert np.abs(np.sort(found.points.mean(axis=1)) - [0, 3]).max() < 0.3


def test_a_mode_at_a_bound_of_the_plane() -> None:
    x = np.random.default_rng(3).exponential(size=(150, 2))
    model = KernelDensity("gaussian", bandwidth=0.5, bounds=[(0, None), (0, None)]).fit(x)
    np.testing.assert_allclose(modes(model).points[0], 0.0, atol=0.35)


@pytest.mark.parametrize("floor", [-0.1, 1.0, np.nan])
def test_a_floor_out_of_range_is_refused(floor: float) -> None:
    model = KernelDensity("gaussian", bandwidth=1.0).fit([[0.0]])
    with pytest.raises(ValueError, match="floor must be"):
        modes(model, floor=floor)


def test_more_bandwidths_than_can_be_searched_are_refused() -> None:
    model = KernelDensity("gaussian", bandwidth=1e-9).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="length scales of its kernel"):
        modes(model)


def test_numbers_far_from_zero_have_their_modes_or_are_refused() -> None:
    x = np.round(np.random.default_rng(0).normal(50.0, 10.0, 300)) / 8  # exact below 2^50
    near, far = (KernelDensity("gaussian").fit(x[:, None] + shift) for shift in (0.0, 2.0**40))
    assert far.radius_ == pytest.approx(near.radius_, rel=1e-6)
    moved = modes(far).points - 2.0**40
    np.testing.assert_allclose(moved, modes(near).points, atol=8 * np.spacing(2.0**40))
    farther = KernelDensity("gaussian").fit(8 * x[:, None] + 1e15)  # varies, to 80 roundings
    with pytest.raises(ValueError, match=r"X must be near enough to 0 .* subtract a constant"):
        modes(farther)


def test_a_regression_has_no_modes() -> None:
    with pytest.raises(TypeError, match="model must be a KernelDensity, got NadarayaWatson"):
        modes(NadarayaWatson(radius=1.0).fit([[0.0], [1.0]], [1.0, 2.0]))


def test_one_sample_in_the_plane_and_many_equal_have_one_mode() -> None:
    for x in ([[0.0, 1.0]], [[0.0, 1.0]] * 4):
        found = modes(KernelDensity("fourier4", radius=1.0).fit(x))
        np.testing.assert_allclose(found.points, [[0.0, 1.0]], atol=1e-9)
        assert found.labels.tolist() == [0] * len(x)


def test_a_table_is_asked_without_a_warning() -> None:
    """Warnings are errors in these tests."""
    import pandas as pd

    frame = pd.DataFrame({"bmi": BMI[:, 0]})
    model = KernelDensity("gaussian").fit(frame)
    plain = KernelDensity("gaussian").fit(BMI)
    np.testing.assert_array_equal(modes(model).points, modes(plain).points)
    assert model.feature_names_in_.tolist() == ["bmi"]
