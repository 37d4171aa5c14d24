"""Sums of samples that are not kept: modes add up, in any cut and order, to the sum of an array."""

import numpy as np
import pytest
from sum_problems import KERNEL_NAMES, problem
from tolerances import TOLERANCE

from fourierkernels.kernels import as_kernel
from fourierkernels.sums import kernel_sum
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.streamed import ModeGrid, Modes, SamplesNotKeptError, StreamedSum

FAST = TOLERANCE["float64"]["fast"]
N = 240


def grid_of(name: str, dim: int, *points: np.ndarray) -> ModeGrid:
    radius = np.full(dim, 2.0 if dim < 3 else 0.2)
    return ModeGrid.covering(as_kernel(name), radius, Box.around(np.vstack(points)), 1e-12)


def modes_of(
    grid: ModeGrid, points: np.ndarray, weights: np.ndarray, y: np.ndarray, cuts: list[int]
) -> Modes:
    parts = zip(*(np.split(array, cuts) for array in (points, weights, y)), strict=True)
    total, *others = [grid.transform(*part) for part in parts]
    for each in others:
        total = total + each
    return total


def streamed(modes: Modes, grid: ModeGrid) -> StreamedSum:
    open_ends = np.array([[-np.inf], [np.inf]]) * np.ones(len(grid.radius))
    return StreamedSum(modes, grid, open_ends, N)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_sums_over_modes_agree_with_the_reference(name: str, dim: int) -> None:
    points, at, y = problem(N, 30, dim)
    weights = np.random.default_rng(1).random(N)
    grid = grid_of(name, dim, points, at)
    modes = modes_of(grid, points, weights, y, [1, 2, 90, 91])
    found = streamed(modes, grid).at(at)
    options = {"kernel": name, "radius": np.array(grid.radius), "weights": weights}
    slow = kernel_sum(points, at, responses=y, method="reference", **options)
    size = np.ldexp(1.0, slow.exponent)
    peak = np.abs(slow.totals()).max()
    assert np.abs(found.denominator - slow.totals()).max() <= FAST * peak
    assert np.abs(found.numerator - slow.numerator * size[:, None]).max() <= 4 * FAST * peak
    assert np.all(np.abs(found.denominator - slow.totals()) <= found.error)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
@pytest.mark.parametrize(("dim", "kept"), [(2, (0,)), (2, (1,)), (3, (0, 2)), (3, (2,))])
def test_modes_at_frequency_zero_are_those_of_the_other_coordinates(
    name: str, dim: int, kept: tuple[int, ...]
) -> None:
    points, at, y = problem(N, 20, dim)
    grid = grid_of(name, dim, points, at)
    sums = streamed(modes_of(grid, points, np.ones(N), y, [100]), grid)
    some = list(kept)
    found = sums.over(kept, with_responses=True).at(np.ascontiguousarray(at[:, some]))
    radius = np.array(grid.radius)[some]
    slow = kernel_sum(points[:, some], at[:, some], kernel=name, radius=radius, responses=y)
    np.testing.assert_allclose(found.denominator, slow.totals(), rtol=0, atol=FAST * N)
    numerator = slow.numerator * np.ldexp(1.0, slow.exponent)[:, None]
    assert np.abs(found.numerator - numerator).max() <= 4 * FAST * N


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("part", ["slope", "cumulative"])
def test_one_grid_of_modes_serves_slopes_and_integrals(name: str, dim: int, part: str) -> None:
    points, at, y = problem(N, 20, dim)
    grid = grid_of(name, dim, points, at)
    sums = streamed(modes_of(grid, points, np.ones(N), y, [100]), grid)
    found = sums.at(at, parts=(part,) * dim)
    options = {"kernel": name, "radius": np.array(grid.radius), "parts": (part,) * dim}
    slow = kernel_sum(points, at, method="reference", **options)
    assert np.abs(found.denominator - slow.totals()).max() <= 20 * FAST * N


def test_the_integral_of_the_gaussian_in_three_dimensions_is_refused_with_its_reason() -> None:
    points, at, y = problem(N, 20, 3)
    grid = grid_of("gaussian", 3, points, at)
    sums = streamed(modes_of(grid, points, np.ones(N), y, [100]), grid)
    with pytest.raises(SamplesNotKeptError, match="integral of the Gaussian must have samples"):
        sums.at(at, parts=("cumulative",) * 3)


@pytest.mark.parametrize("order", ["as they come", "reversed", "as a tree"])
def test_a_large_mean_and_other_columns_cost_a_response_no_digits(order: str) -> None:
    """Each block has its own centre and scale; the first is far from the others."""
    points, at, _ = problem(N, 20, 1)
    x = points[:, 0]
    y = np.column_stack([1e6 + np.sin(x), 1e-9 * np.cos(x), np.full(N, 7.0), 1e200 * x])
    y[:3] = [0.0, 0.0, 7.0, 0.0]
    grid = grid_of("fourier4", 1, points, at)
    parts = [
        grid.transform(points[rows], np.ones(len(rows)), y[rows])
        for rows in np.split(np.arange(N), [3, 60, 61, 200])
    ]
    if order == "as a tree":
        total = (parts[0] + (parts[1] + parts[2])) + (parts[3] + parts[4])
    else:
        first, *others = parts if order == "as they come" else parts[::-1]
        for part in others:
            first = first + part
        total = first
    found = streamed(total, grid).at(at).ratios()
    slow = kernel_sum(points, at, kernel="fourier4", radius=2.0, responses=y, method="reference")
    assert np.all(slow.denominator * np.ldexp(1.0, slow.exponent) > 0.5)
    sizes = np.array([1e6, 1e-9, 1.0, 1e200])  # of what is summed: the first three are 0, not 1e6
    assert np.all(np.abs(found - slow.ratios()).max(axis=0) <= 10 * FAST * sizes)
    np.testing.assert_allclose(found[:, 2], 7.0, rtol=1e-15)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_bound_of_a_row_does_not_depend_on_the_rows_beside_it(name: str, dim: int) -> None:
    points, at, y = problem(N, 20, dim)
    points[1:] *= 0.02  # a peak far above the mean over the range
    at[0] = points[1]
    grid = grid_of(name, dim, points, at)
    sums = streamed(modes_of(grid, points, np.ones(N), y, [100]), grid)
    together = sums.at(at)
    alone = [sums.at(at[[i]]) for i in range(len(at))]
    np.testing.assert_array_equal(together.error, [each.error[0] for each in alone])
    np.testing.assert_array_equal(together.undefined, [each.undefined[0] for each in alone])
    assert 0.2 * together.denominator[0] < together.error[0] / 1e-12 < 5 * together.denominator[0]


def test_queries_beyond_the_range_are_refused_by_row_and_value() -> None:
    points, at, y = problem(N, 20, 2)
    grid = grid_of("fourier2", 2, points, at)
    sums = streamed(modes_of(grid, points, np.ones(N), y, []), grid)
    at[[4, 7], 1] = 99.0
    with pytest.raises(ValueError, match=r"in column 1, got 99 in row 4 \(2 such rows\)"):
        sums.at(at)


def test_what_cannot_be_band_limited_is_refused_before_anything_is_computed() -> None:
    points = np.array([[0.0], [1e12]])
    grid = ModeGrid.covering(as_kernel("fourier4"), np.array([50.0]), Box.around(points), 1e-12)
    with pytest.raises(ValueError, match="a stream has no other method, an array has"):
        grid.transform(points, np.ones(2), np.zeros((2, 0)))
