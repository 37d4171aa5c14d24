"""Modes, regions and the test of modes on a circle: rotations change nothing, slow counts agree."""

import numpy as np
import pytest

from fourierkernels import KernelDensity
from fourierkernels.estimators.modes import (
    critical_bandwidth,
    highest_density_contours,
    highest_density_intervals,
    modes,
    number_of_modes,
    silverman_test,
)

DAY = 24.0
KERNELS = ["gaussian", "fourier2", "fourier4", "fourier6"]
FINE = np.linspace(0.0, DAY, 48_000, endpoint=False)


def hours(n: int = 300) -> np.ndarray:
    """Two rush hours, one of them around midnight."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(8.5, 1.0, n // 2), rng.normal(23.8, 2.0, n - n // 2)])
    return x[:, None]


def fitted(kernel: str, radius: float, shift: float = 0.0) -> KernelDensity:
    return KernelDensity(kernel, radius=radius, period=DAY).fit(hours() + shift)


def maxima(values: np.ndarray) -> np.ndarray:
    """Return the places of maxima among values around a circle."""
    return np.flatnonzero((values > np.roll(values, 1)) & (values >= np.roll(values, -1)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("radius", [0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("shift", [0.0, 0.3, -8.5])
def test_modes_are_the_maxima_of_a_fine_grid(kernel: str, radius: float, shift: float) -> None:
    model = fitted(kernel, radius, shift)
    found = modes(model, floor=1e-6)
    values = model.density(FINE[:, None])
    places = FINE[[place for place in maxima(values) if values[place] > 1e-6 * values.max()]]
    assert len(found) == len(places)
    np.testing.assert_allclose(np.sort(found.points[:, 0]), places, atol=DAY / 48_000)
    assert ((found.points >= 0.0) & (found.points < DAY)).all()
    assert found.densities[0] == pytest.approx(values.max(), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("radius", [0.5, 1.0])
def test_basins_end_at_the_lowest_places_between_modes(kernel: str, radius: float) -> None:
    model = fitted(kernel, radius)
    found = modes(model, floor=0.3)
    assert len(found) == 2
    values = model.density(FINE[:, None])
    first, second = sorted(np.searchsorted(FINE, found.points[:, 0]))
    low = first + int(values[first:second].argmin())
    high = second + int(np.roll(values, -second)[: first - second].argmin())
    assert high > len(FINE)  # a basin goes over midnight
    between = (FINE[low] < model.points_[:, 0]) | (model.points_[:, 0] < FINE[high - len(FINE)])
    second_is = int(np.argmax(found.points[:, 0]))
    np.testing.assert_array_equal(found.labels == second_is, between)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("radius", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("probability", [0.3, 0.9, 0.99])
def test_region_is_the_highest_part_of_a_fine_grid(
    kernel: str, radius: float, probability: float
) -> None:
    model = fitted(kernel, radius)
    region = highest_density_intervals(model, probability)
    values = np.sort(model.density(FINE[:, None]))[::-1]
    count = np.searchsorted(np.cumsum(values) * DAY / len(FINE), probability)
    length = float(np.diff(region.ends, axis=1).sum())
    assert length == pytest.approx(count * DAY / len(FINE), abs=0.01)
    assert region.level == pytest.approx(values[count], rel=0.01)
    inside = sum(model.probability(low, high) for low, high in region.ends)
    assert inside == pytest.approx(probability, abs=1e-10)
    np.testing.assert_allclose(model.density(region.ends.reshape(-1, 1)), region.level, rtol=1e-8)
    assert ((region.ends[:, 0] >= 0.0) & (region.ends[:, 0] < DAY)).all()


@pytest.mark.parametrize("shift", [0.17, 7.3, -8.4, 240.0])
def test_rotations_move_modes_and_regions_and_nothing_else(shift: float) -> None:
    plain, moved = (fitted("fourier4", 1.0, by) for by in (0.0, shift))
    before, after = modes(plain), modes(moved)
    np.testing.assert_array_equal(before.labels, after.labels)
    gaps = after.points - before.points - shift
    np.testing.assert_allclose(gaps - DAY * np.round(gaps / DAY), 0.0, atol=1e-9)
    first, second = (highest_density_intervals(model, 0.9) for model in (plain, moved))
    assert first.level == pytest.approx(second.level, rel=1e-9)
    turned = np.sort((second.ends - shift) % DAY, axis=0)
    np.testing.assert_allclose(turned, np.sort(first.ends % DAY, axis=0), atol=1e-8)


def test_a_mode_at_midnight_is_one_mode_with_one_interval() -> None:
    x = np.array([[23.0], [23.5], [0.0], [0.5], [25.0]])
    model = KernelDensity("gaussian", bandwidth=1.0, period=DAY).fit(x)
    found = modes(model)
    assert min(found.points[0, 0], DAY - found.points[0, 0]) < 1e-9
    assert found.labels.tolist() == [0] * 5
    (arc,) = highest_density_intervals(model, 0.9).ends
    assert arc[0] < DAY < arc[1]
    assert arc.sum() == pytest.approx(2 * DAY)
    assert len(modes(KernelDensity("gaussian", bandwidth=1.0).fit(x % DAY))) == 2


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_density_without_frequencies_has_no_mode_and_the_whole_circle(kernel: str) -> None:
    model = fitted(kernel, 0.02)
    found = modes(model)
    assert len(found) == 0
    assert (found.labels == -1).all()
    region = highest_density_intervals(model, 0.5)
    assert region.ends.tolist() == [[0.0, DAY]]
    assert region.probability == 1.0


@pytest.mark.parametrize("bandwidth", [0.1, 0.3, 1.0, 2.0, 5.0])
def test_modes_are_counted_around_the_circle(bandwidth: float) -> None:
    model = KernelDensity("gaussian", bandwidth=bandwidth, period=DAY).fit(hours())
    values = model.density(FINE[:, None])
    expected = (values[maxima(values)] > 1e-9 * values.max()).sum()
    assert number_of_modes(hours()[:, 0], bandwidth, period=DAY) == expected


def test_critical_bandwidth_is_where_modes_appear_whatever_the_rotation() -> None:
    x = hours()[:, 0]
    for most in (1, 2, 3):
        found = [critical_bandwidth(x + shift, most, period=DAY) for shift in (0.0, 5.0, -24.0)]
        np.testing.assert_allclose(found, found[0], rtol=1e-5)
        assert number_of_modes(x, 1.001 * found[0], period=DAY) <= most
        assert number_of_modes(x, 0.999 * found[0], period=DAY) > most
    narrow = x[:150]  # far from the other half of the circle: a line
    assert critical_bandwidth(narrow, 2, period=DAY) == pytest.approx(
        critical_bandwidth(narrow, 2), rel=1e-4
    )


def test_one_mode_at_midnight_is_not_rejected_as_two_on_a_line_are() -> None:
    x = np.random.default_rng(1).normal(0.0, 2.0, 200) % DAY
    rng = np.random.default_rng(0)
    around = silverman_test(x, rng=rng, replicates=60, period=DAY)
    line = silverman_test(x, rng=rng, replicates=60)
    assert around.p_value > 0.1
    assert line.p_value < 0.05
    assert silverman_test(hours()[:, 0], rng=rng, replicates=60, period=DAY).p_value < 0.05


def test_an_interval_on_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"within must be None on a circle, got \(0, 12\)"):
        number_of_modes([1.0, 2.0], 1.0, within=(0, 12), period=DAY)
    with pytest.raises(ValueError, match="period must be finite and greater than 0, got -24"):
        critical_bandwidth([1.0, 2.0], period=-24)


def torus(shift: float = 0.0) -> KernelDensity:
    """Hours and a direction, around midnight north and at noon south."""
    rng = np.random.default_rng(2)
    night = np.column_stack([rng.normal(0.0, 1.5, 60), rng.normal(0.0, 25.0, 60)])
    noon = np.column_stack([rng.normal(12.0, 1.5, 40), rng.normal(180.0, 25.0, 40)])
    data = np.vstack([night, noon]) + shift * np.array([1.0, 15.0])
    return KernelDensity("fourier4", radius=[0.5, 0.03], period=[DAY, 360.0]).fit(data)


def test_modes_on_a_torus_are_the_maxima_of_a_fine_grid() -> None:
    model, size = torus(), 240
    axes = np.meshgrid(*(np.linspace(0, p, size, endpoint=False) for p in (DAY, 360.0)))
    places = np.column_stack([axis.ravel() for axis in axes])
    values = model.density(places).reshape(size, size)
    around = [np.roll(values, move, (0, 1)) for move in ((0, 1), (1, 0), (0, -1), (-1, 0))]
    top = (values > np.max(around, axis=0)) & (values > 0.01 * values.max())
    found = modes(model)
    assert len(found) == top.sum() == 2
    order = np.argsort(-values[top])
    np.testing.assert_allclose(found.points, places[top.ravel()][order], atol=1.5)
    np.testing.assert_array_equal(found.labels, [0] * 60 + [1] * 40)


def test_modes_and_contours_on_a_torus_turn_with_it() -> None:
    plain, turned = torus(6.0), torus(0.0)
    before, after = modes(plain), modes(turned)
    np.testing.assert_array_equal(before.labels, after.labels)
    gaps = before.points - after.points - np.array([6.0, 90.0])
    np.testing.assert_allclose(
        gaps - np.array([DAY, 360.0]) * np.round(gaps / [DAY, 360]), 0, atol=1e-6
    )
    whole, cut = (highest_density_contours(model, 0.8) for model in (plain, turned))
    assert cut.level == pytest.approx(whole.level, rel=0.01)
    assert cut.area == pytest.approx(whole.area, rel=0.01)
    assert cut.probability == pytest.approx(0.8, abs=1e-6)
    assert len(whole.lines) == 2
    assert len(cut.lines) == 5  # the one at midnight north lies in all four corners
    for line in cut.lines:
        np.testing.assert_allclose(turned.density(line), cut.level, rtol=1e-6)
