"""Distances between heads: what every metric promises, and the Gram trick against subtraction."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from claims import BOUND, TRIANGLE, claim
from scipy.spatial.distance import jensenshannon
from tolerances import TOLERANCE

from fourierkernels.diagnostics import METRICS, head_distances

Make = Callable[..., np.ndarray]
EXACT = TOLERANCE["float64"]["exact"]
FAST = TOLERANCE["float64"]["fast"]
every_metric = pytest.mark.parametrize(
    "metric", [name for name, row in METRICS.items() if row.of == "maps"]
)


def subtracted(maps: np.ndarray) -> np.ndarray:
    return np.array([[np.linalg.norm(a - b) for b in maps] for a in maps])


@every_metric
@pytest.mark.parametrize(("heads", "n"), [(2, 1), (3, 5), (8, 40)])
def test_distances_are_symmetric_non_negative_and_zero_on_the_diagonal(
    metric: str, heads: int, n: int, make_maps: Make
) -> None:
    distances = head_distances(make_maps(heads, n, n), metric=metric)
    np.testing.assert_array_equal(distances, distances.T)
    np.testing.assert_array_equal(np.diag(distances), 0.0)
    assert distances.min() >= 0


@every_metric
def test_maps_of_cross_attention_are_compared_too(metric: str, make_maps: Make) -> None:
    maps = make_maps(3, 4, 9)
    square = np.zeros((3, 4, 9 + 4))  # keys without weight change nothing
    square[..., 2:11] = maps
    found = head_distances(maps, metric=metric)
    np.testing.assert_allclose(found, head_distances(square, metric=metric), rtol=FAST)
    assert found[0, 1] > 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_single_value_that_is_no_number_is_named(
    metric: str, bad: float, make_maps: Make
) -> None:
    maps = make_maps(2, 3, 5, 5)
    maps[1, 2, 4, 3] = bad
    place = rf"{METRICS[metric].of} must be finite, got {bad} at index \(1, 2, 4, 3"
    rows = "row sums off by up to inf"  # said before, by metrics of probabilities
    with pytest.raises(ValueError, match=f"{place}|{rows}"):
        head_distances(maps, metric=metric)


@every_metric
def test_renumbering_the_heads_renumbers_the_distances(metric: str, make_maps: Make) -> None:
    maps, order = make_maps(6, 9, 9), np.random.default_rng(1).permutation(6)
    expected = head_distances(maps, metric=metric)[np.ix_(order, order)]
    np.testing.assert_allclose(head_distances(maps[order], metric=metric), expected, rtol=FAST)


@every_metric
def test_triangle_inequality_where_the_metric_claims_it(metric: str, make_maps: Make) -> None:
    d = head_distances(make_maps(8, 12, 12), metric=metric)
    holds = bool((d[:, None, :] <= d[:, :, None] + d[None, :, :] + EXACT).all())
    assert not claim(TRIANGLE, metric) or holds


@every_metric
@pytest.mark.parametrize("n", [1, 2, 17])
def test_opposite_certain_heads_reach_the_bound_and_none_exceeds_it(
    metric: str, n: int, make_maps: Make
) -> None:
    bound = claim(BOUND, metric)(n)
    assert head_distances(make_maps(8, n, n), metric=metric).max() <= bound * (1 + EXACT)
    if n > 1:
        one = np.eye(n)
        opposite = head_distances(np.stack([one, np.roll(one, 1, axis=1)]), metric=metric)
        assert opposite[0, 1] == pytest.approx(bound, rel=EXACT)


@every_metric
def test_layers_are_measured_one_by_one(metric: str, make_maps: Make) -> None:
    maps = make_maps(3, 4, 7, 7)
    expected = [head_distances(layer, metric=metric) for layer in maps]
    np.testing.assert_array_equal(head_distances(maps, metric=metric), expected)


@every_metric
def test_maps_are_not_written_to(metric: str, make_maps: Make) -> None:
    maps = make_maps(3, 4, 4)
    before = maps.copy()
    head_distances(maps, metric=metric)
    np.testing.assert_array_equal(maps, before)


@every_metric
@pytest.mark.parametrize("factor", [2, 5])
def test_metrics_for_any_length_do_not_change_when_a_map_is_repeated(
    metric: str, factor: int, make_maps: Make
) -> None:
    # Block-diagonal copies of a map are a longer text on which the heads do the same thing.
    maps = make_maps(4, 6, 6)
    longer = np.stack([np.kron(np.eye(factor), one) for one in maps])
    ratio = head_distances(longer, metric=metric)[0, 1] / head_distances(maps, metric=metric)[0, 1]
    if METRICS[metric].any_length:
        assert ratio == pytest.approx(1, rel=FAST)
    else:
        assert ratio == pytest.approx(math.sqrt(factor), rel=FAST)


@pytest.mark.parametrize("gap", [1.0, 1e-2, 1e-5, 1e-8, 1e-12])
def test_gram_trick_equals_subtraction_even_for_nearly_equal_heads(
    gap: float, make_maps: Make
) -> None:
    maps = make_maps(6, 30, 30)
    maps[1] = (1 - gap) * maps[0] + gap * maps[1]
    expected = subtracted(maps)
    np.testing.assert_allclose(head_distances(maps, metric="frobenius"), expected, rtol=FAST)


def test_equal_heads_have_distance_zero(make_maps: Make) -> None:
    maps = make_maps(3, 8, 8)
    maps[2] = maps[0]
    assert head_distances(maps, metric="frobenius")[0, 2] == 0


def test_jensen_shannon_equals_scipy_mean_of_squared_distances_over_rows(make_maps: Make) -> None:
    maps = make_maps(3, 11, 11)
    maps[0, :, 3:] = 0  # exact zeros, as a causal mask leaves them
    maps[0] /= maps[0].sum(axis=-1, keepdims=True)
    expected = np.mean(jensenshannon(maps[0], maps[1], axis=-1) ** 2)
    distances = head_distances(maps, metric="jensen_shannon")
    assert distances[0, 1] == pytest.approx(expected, rel=FAST)


@pytest.mark.parametrize(
    ("maps", "error", "message"),
    [
        (np.ones((1, 2, 2)) / 2, ValueError, "at least 2 heads .* got 1"),
        (np.ones((2, 2)) / 2, ValueError, r"shape \(heads, n, m\).*got shape \(2, 2\)"),
        (np.ones((2, 0, 0)), ValueError, r"got shape \(2, 0, 0\)"),
        (np.full((2, 2, 2), np.nan), ValueError, r"maps must be finite, got nan at index"),
        ([["a"]], TypeError, "maps must be numeric"),
    ],
)
def test_bad_maps_are_refused(maps: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        head_distances(maps)


def test_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"metric must be one of frobenius, .*got 'euclid'"):
        head_distances(np.ones((2, 2, 2)) / 2, metric="euclid")


@pytest.mark.parametrize("maps", [np.ones((2, 3, 3)), np.array([[[2.0, -1.0]] * 2] * 2)])
def test_jensen_shannon_refuses_rows_that_are_not_probabilities(maps: np.ndarray) -> None:
    with pytest.raises(ValueError, match="rows that are probabilities for jensen_shannon"):
        head_distances(maps, metric="jensen_shannon")


def test_a_metric_of_another_shape_or_kind_is_named() -> None:
    row = METRICS["frobenius"]
    with pytest.raises(
        ValueError, match="of must be one of maps, outputs, projected, got 'outpts'"
    ):
        replace(row, of="outpts")
    one = replace(row, name="one", function=lambda maps: np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"function of one must return distances \(2, 2\), got"):
        one.between(np.full((2, 3, 3), 1 / 3))
