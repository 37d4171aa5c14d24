"""Centres and tiles of direct sums: cheap to find, and no digit depends on how."""

import numpy as np
import pytest

from fourierkernels.ops.cpu.pairs import sines, tiles
from fourierkernels.ops.shapes import TILE
from fourierkernels.sums import kernel_sum
from fourierkernels.sums.coordinates import middle
from fourierkernels.sums.result import Units


@pytest.mark.parametrize("n", [1, 2, 5, 4096, 4097, 50_001])
def test_a_middle_is_a_row_near_the_median(n: int) -> None:
    rows = np.random.default_rng(n).normal(size=(n, 2))
    found = middle(rows)
    for column, value in zip(rows.T, found, strict=True):
        assert value in column
        assert abs((column < value).mean() - 0.5) <= max(0.05, 1 / n)


def test_outliers_do_not_move_the_middle() -> None:
    rows = np.random.default_rng(0).normal(size=(50_000, 1))
    rows[::7] = 1e14
    assert abs(middle(rows)[0]) < 0.5


def test_units_of_many_responses_bound_their_size() -> None:
    responses = np.random.default_rng(0).normal(size=(20_001, 1))
    responses[1] = 1e6  # a row that no short look at the column sees
    units = Units.of(responses + 1e7)
    assert np.abs(units.removed(responses + 1e7)).max() <= 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1, 3 * TILE])
def test_tiles_hold_every_column_and_zeros(n: int, dtype: type) -> None:
    columns = sines(np.random.default_rng(n).normal(size=(n, 2)))
    found = tiles(columns, dtype).reshape(-1, len(columns), TILE)
    flat = found.transpose(1, 0, 2).reshape(len(columns), -1)
    np.testing.assert_array_equal(flat[:, :n], np.array(columns).astype(dtype))
    assert not flat[:, n:].any()


@pytest.mark.parametrize("kernel", ["gaussian", "fourier3"])
def test_direct_sums_of_many_samples_with_outliers_keep_their_digits(kernel: str) -> None:
    rng = np.random.default_rng(2)
    points, queries = rng.normal(size=(9_000, 1)), rng.normal(size=(5, 1))
    points[100] = 1e12
    found, exact = (
        kernel_sum(points, queries, kernel=kernel, radius=3.0, method=method).totals()
        for method in ("direct", "reference")
    )
    np.testing.assert_allclose(found, exact, rtol=1e-11)
