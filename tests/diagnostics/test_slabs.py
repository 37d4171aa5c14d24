"""Slabs of maps add up to what whole maps give: every metric, every statistic, every slab size."""

import numpy as np
import pytest

from fourierkernels.diagnostics import METRICS, STATISTICS, head_distances, head_statistics
from fourierkernels.diagnostics.distances import MAPS
from fourierkernels.diagnostics.maps import InapplicableError, RowSums
from fourierkernels.diagnostics.outputs import cka
from fourierkernels.diagnostics.slabs import MapSlab, SlabDistances, SlabStatistics, padded
from fourierkernels.diagnostics.statistic_summary import check_tokens, token_distances
from fourierkernels.diagnostics.statistics import Heads

N, HEADS, DIM = 13, 4, 3
SIZES = [1, 5, N]  # one row, a prime that does not divide n, all rows
OF_MAPS = [name for name, row in METRICS.items() if row.of == MAPS]
# Sums of as many terms in another order differ by a few roundings of the largest.
ROUNDING = 1e-13


def maps_of(seed: int, dtype: type = np.float64, *, layers: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    maps = rng.dirichlet(np.full(N, 0.3), size=(layers, HEADS, N)).astype(dtype)
    maps[:, 1] = maps[:, 0]  # a pair of equal heads: the Gram matrix alone would lose them
    return maps.astype(np.float64)


def slabs_of(maps: np.ndarray, size: int) -> list[MapSlab]:
    return [
        MapSlab(layer, np.ascontiguousarray(whole[:, first : first + size]), first)
        for layer, whole in enumerate(maps)
        for first in range(0, whole.shape[1], size)
    ]


def distances_of(maps: np.ndarray, metric: str, size: int) -> np.ndarray:
    slabs = SlabDistances(metric)
    for slab in slabs_of(maps, size):
        slabs.take(slab)
    return np.stack(slabs.finish())


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("metric", OF_MAPS)
def test_distances_of_slabs_are_those_of_whole_maps(metric: str, size: int, dtype: type) -> None:
    maps = maps_of(7, dtype)
    found = distances_of(maps, metric, size)
    np.testing.assert_allclose(
        found, head_distances(maps, metric=metric), atol=ROUNDING, rtol=1e-12
    )
    assert found[:, 0, 1] == pytest.approx(0.0, abs=1e-7 if metric == "cosine" else ROUNDING)
    assert found[:, 0, 2].min() > 1e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_slabs_are_those_of_whole_maps(name: str, size: int, dtype: type) -> None:
    maps, rng = maps_of(11, dtype), np.random.default_rng(3)
    keys, special = rng.standard_normal((2, HEADS, N, DIM)), np.arange(N) % 4 == 0
    positions = rng.standard_normal((N, 2))
    whole = head_statistics(
        maps, names=[name], positions=positions, special=special, keys=keys, scale=0.7
    )
    places, marks = check_tokens(N, positions, special)
    slabs = SlabStatistics([name])
    for slab in slabs_of(maps, size):
        distances = token_distances(places, slab.first, slab.stop)
        slabs.take(
            slab.layer, Heads(slab.maps, distances, marks, keys[slab.layer], 0.7, slab.first)
        )
    np.testing.assert_allclose(slabs.finish()[name], whole[name], rtol=1e-12)


def test_metric_that_is_no_sum_over_rows_gets_whole_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    row = METRICS["frobenius"]
    largest = type(row)(
        **{**vars(row), "name": "largest", "function": lambda m: np.abs(m[:, None] - m).max((2, 3))}
    )
    monkeypatch.setitem(METRICS, "largest", largest)
    maps = maps_of(2)
    assert not isinstance(largest.function, RowSums)
    expected = head_distances(maps, metric="largest")
    np.testing.assert_array_equal(distances_of(maps, "largest", 5), expected)


def test_layers_of_unequal_shape_have_the_distances_of_each() -> None:
    rng = np.random.default_rng(5)
    shapes = [(2, 6, 4), (3, 2, 5), (1, 3, 3)]
    layers = [rng.dirichlet(np.ones(m), size=(heads, n)) for heads, n, m in shapes]
    slabs = SlabDistances("total_variation")
    for number, maps in enumerate(layers):
        slabs.take(MapSlab(number, maps[:, :1]))
        slabs.take(MapSlab(number, maps[:, 1:], 1))
    found = slabs.finish()
    for maps, distances in zip(layers[:2], found, strict=False):
        expected = head_distances(maps, metric="total_variation")
        np.testing.assert_allclose(distances, expected, rtol=1e-12)
    assert found[2].tolist() == [[0.0]]
    assert [layer.shape for layer in padded(found)] == [(2, 3), (3, 3), (1, 3)]


def test_windows_of_a_layer_count_as_its_rows() -> None:
    rng = np.random.default_rng(6)
    windows = rng.dirichlet(np.ones(4), size=(3, 2, 4))  # (windows, heads, n, m)
    slabs, statistics = SlabDistances("frobenius_per_sqrt_n"), SlabStatistics(["own_token"])
    for number, maps in enumerate(windows):
        slabs.take(MapSlab(0, maps, window=number))
        none = np.zeros((2, 4, 0))
        statistics.take(0, Heads(maps, np.zeros((4, 4)), np.zeros(4, dtype=bool), none, 1.0))
    joined = windows.swapaxes(0, 1).reshape(2, 12, 4)
    np.testing.assert_allclose(slabs.finish()[0], head_distances(joined), rtol=1e-12)
    own = np.diagonal(windows, axis1=2, axis2=3).mean(axis=(0, 2))
    np.testing.assert_allclose(statistics.finish()["own_token"][0], own, rtol=1e-12)


def test_values_that_are_not_finite_are_named_by_their_place() -> None:
    maps = maps_of(1)
    maps[1, 2, 7, 3] = np.nan
    with pytest.raises(ValueError, match=r"finite, got nan at index \(1, 2, 7, 3\) \(1 such"):
        distances_of(maps, "jensen_shannon", 5)


def test_rows_that_are_no_probabilities_rule_out_what_needs_them() -> None:
    maps = 0.5 * maps_of(1)
    with pytest.raises(InapplicableError, match="probabilities for jensen_shannon"):
        distances_of(maps, "jensen_shannon", 5)
    assert np.isfinite(distances_of(maps, "frobenius", 5)).all()
    with pytest.raises(InapplicableError, match=r"at least 2 heads .* got 1"):
        distances_of(maps[:, :1], "frobenius", 5)


def test_cka_by_some_rows_of_the_kernels_is_that_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = np.random.default_rng(0).standard_normal((HEADS, N, DIM))
    whole = cka(outputs)
    monkeypatch.setattr("fourierkernels.diagnostics.outputs._KERNELS", 3 * HEADS * N)
    np.testing.assert_allclose(cka(outputs), whole, atol=ROUNDING)


def test_distances_of_tokens_are_those_of_their_rows() -> None:
    places = np.random.default_rng(0).standard_normal((9, 2))
    whole = np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose(token_distances(places, 3, 8), whole[3:8], rtol=1e-14)
    line = np.arange(9.0)[:, None]
    np.testing.assert_array_equal(token_distances(line, 3, 8), np.abs(line[3:8] - line.T))
