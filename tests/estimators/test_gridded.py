"""Estimates on a grid are those at its places, and a table's columns take one call."""

import numpy as np
import pandas as pd
import pytest

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators.gridded import meeting_places
from fourierkernels.estimators.tables import describe_grid

X = np.random.default_rng(0).normal(size=(400, 3))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("method", ["bandlimited", "direct"])
def test_values_are_the_densities_at_the_places(dim: int, method: str) -> None:
    model = KernelDensity("gaussian", radius=2.0, method=method).fit(X[:, :dim])
    grid = model.on_grid(list(range(9, 9 + dim)))
    places = meeting_places(grid.axes)
    exact = KernelDensity("gaussian", radius=2.0, method="reference").fit(X[:, :dim])
    expected = exact.density(places)
    assert grid.values.shape == tuple(range(9, 9 + dim))
    np.testing.assert_allclose(grid.values.ravel(), expected, atol=1e-11 * expected.max())


def test_a_grid_lies_within_the_bounds_and_where_it_is_asked_for() -> None:
    model = KernelDensity("gaussian", bounds=[(0.0, None), None]).fit(np.abs(X[:, :2]))
    grid = model.on_grid(8, within=[None, (-1.0, 1.0)])
    assert grid.axes[0][0] == 0.0
    assert (grid.axes[1][0], grid.axes[1][-1]) == (-1.0, 1.0)


def test_a_grid_covers_a_circle() -> None:
    model = KernelDensity("gaussian", radius=2.0, period=[6.0, None]).fit(X[:, :2])
    grid = model.on_grid(9)
    assert (grid.axes[0][0], grid.axes[0][-1]) == (0.0, 6.0)
    np.testing.assert_allclose(grid.values[0], grid.values[-1], atol=1e-11)
    expected = model.density(meeting_places(grid.axes)[::-1])[::-1]
    np.testing.assert_allclose(grid.values.ravel(), expected, atol=1e-11)


def test_a_regression_on_a_grid_is_its_prediction() -> None:
    model = NadarayaWatson("gaussian", radius=1.0).fit(X[:, :2], X[:, 2])
    grid = model.on_grid(7)
    predicted = model.predict(meeting_places(grid.axes))
    np.testing.assert_array_equal(grid.values.ravel(), predicted)


@pytest.mark.parametrize("points", [1, [4], [4, 4, 4], 10**5])
def test_bad_lengths_are_refused(points: int | list[int]) -> None:
    with pytest.raises(ValueError, match="points must"):
        KernelDensity().fit(X[:, :2]).on_grid(points)


def test_columns_of_a_table_take_one_call_and_have_a_figure() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = describe_grid(frame, ["a", "b"], "c", radius=1.0, points=16)
    assert found.figure().axes[1].get_ylabel() == "c"
    rows = found.curves()
    assert list(rows[0]) == ["a", "b", "c"]
    assert len(rows) == 256
    with pytest.raises(ValueError, match="one or two axes"):
        describe_grid(frame, ["a", "b", "c"], points=4).figure()
