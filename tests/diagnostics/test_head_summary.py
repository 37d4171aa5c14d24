"""Streaming means, spreads and values of texts, against numpy over everything in memory."""

import gc
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, sem, t
from tolerances import TOLERANCE

from fourierkernels.diagnostics import (
    METRICS,
    SPREADS,
    head_distances,
    match_heads,
    permutation_null,
    summarise_maps,
)
from fourierkernels.diagnostics.chance import permuted_maps
from fourierkernels.diagnostics.moments import RunningMoments
from fourierkernels.diagnostics.summary import HeadAccumulator

Make = Callable[..., np.ndarray]
FAST = TOLERANCE["float64"]["fast"]
LENGTHS = (4, 9, 9, 6, 13)


@pytest.fixture
def texts(make_maps: Make) -> list[np.ndarray]:
    return [make_maps(3, 5, n, n, seed=i) for i, n in enumerate(LENGTHS)]


@pytest.fixture
def distances(texts: list[np.ndarray]) -> np.ndarray:
    """Distances of all texts, layers and pairs: (T, L, P)."""
    above = np.triu_indices(5, k=1)
    return np.array([head_distances(maps)[:, above[0], above[1]] for maps in texts])


def test_means_equal_numpy_over_everything(texts: list[np.ndarray], distances: np.ndarray) -> None:
    summary = summarise_maps(iter(texts))
    np.testing.assert_allclose(summary.mean, distances.mean(axis=(0, 2)), rtol=FAST)
    expected = np.mean([head_distances(maps) for maps in texts], axis=0)
    np.testing.assert_allclose(summary.distances, expected, rtol=FAST)
    assert summary.layer_average == pytest.approx(distances.mean(), rel=FAST)
    np.testing.assert_allclose(summary.texts, distances.mean(axis=2), rtol=FAST)
    np.testing.assert_allclose(summary.powers, np.square(distances).mean(axis=2), rtol=FAST)


def test_interval_is_that_of_student_over_texts(
    texts: list[np.ndarray], distances: np.ndarray
) -> None:
    low, high = summarise_maps(texts).layer_average_interval()
    values = distances.mean(axis=(1, 2))
    expected = t.interval(0.95, len(values) - 1, values.mean(), sem(values))
    assert (low, high) == pytest.approx(expected, rel=1e-9)


def test_each_spread_equals_its_definition(texts: list[np.ndarray], distances: np.ndarray) -> None:
    summary = summarise_maps(texts)
    expected = {
        "pairs-texts": distances.std(axis=(0, 2), ddof=1),
        "pairs": distances.mean(axis=0).std(axis=-1, ddof=1),
        "texts": distances.mean(axis=2).std(axis=0, ddof=1),
    }
    assert set(expected) == set(SPREADS)
    for name, values in expected.items():
        np.testing.assert_allclose(summary.std(name), values, rtol=FAST)
        assert summary.layer_average_std(name) == pytest.approx(values.mean(), rel=FAST)
    layers = distances.mean(axis=(0, 2)).std(ddof=1)
    assert summary.std_layers == pytest.approx(layers, rel=FAST)


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_lengths_and_counts_are_reported(count: int, texts: list[np.ndarray]) -> None:
    summary = summarise_maps(texts[:count])
    expected = LENGTHS[:count]
    assert (summary.n_min, summary.n_max) == (min(expected), max(expected))
    assert summary.n_median == np.median(expected)
    assert summary.n_windows == summary.n_texts == count


def test_order_of_texts_does_not_matter(texts: list[np.ndarray]) -> None:
    forward, backward = summarise_maps(texts), summarise_maps(texts[::-1])
    np.testing.assert_allclose(forward.distances, backward.distances, rtol=FAST)
    np.testing.assert_allclose(forward.std_pairs_texts, backward.std_pairs_texts, rtol=FAST)


def test_spread_over_a_single_value_is_nan(make_maps: Make) -> None:
    summary = summarise_maps([make_maps(1, 2, 4, 4)])  # one text, one layer, one pair
    for name in SPREADS:
        assert np.isnan(summary.std(name)).all()
    assert math.isnan(summary.std_layers)
    assert math.isnan(summary.unknown)


def test_running_moments_keep_their_digits_far_from_zero() -> None:
    values, moments = 1e8 + np.random.default_rng(0).normal(size=(1000, 1)), RunningMoments()
    for value in values:
        moments.add(value)
    np.testing.assert_allclose(moments.std(), values.std(axis=0, ddof=1), rtol=1e-7)


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_that_grow_with_the_length_refuse_mixed_lengths(
    metric: str, texts: list[np.ndarray]
) -> None:
    if METRICS[metric].any_length:
        assert summarise_maps(texts, metric=metric).n_windows == len(texts)
    else:
        with pytest.raises(ValueError, match=r"one length .* got n = 4 and 9; .*--context N"):
            summarise_maps(texts, metric=metric)
    assert summarise_maps(texts[1:3], metric=metric).n_windows == 2


def test_changing_layers_or_heads_are_refused(make_maps: Make) -> None:
    with pytest.raises(ValueError, match=r"same layers and heads .* got \(2, 4\) after \(3, 4\)"):
        summarise_maps([make_maps(3, 4, 5, 5), make_maps(2, 4, 5, 5)])


def test_no_texts_or_a_single_layer_without_its_axis_are_refused(make_maps: Make) -> None:
    with pytest.raises(ValueError, match="at least one attention map, got none"):
        summarise_maps([])
    with pytest.raises(ValueError, match=r"shape \(layers, heads, n, m\), got \(4, 5, 5\)"):
        summarise_maps([make_maps(4, 5, 5)])


def test_masked_maps_are_refused(make_maps: Make) -> None:
    maps = make_maps(2, 3, 5, 5)
    masked = np.ma.masked_less(maps, 0.1)
    with pytest.raises(ValueError, match="maps must not be masked"):
        summarise_maps([masked])
    with pytest.raises(ValueError, match="second must not be masked"):
        match_heads([maps], [masked])


def test_unknown_spread_is_refused(texts: list[np.ndarray]) -> None:
    with pytest.raises(
        ValueError, match="spread must be one of pairs-texts, pairs, texts, got 'all'"
    ):
        summarise_maps(texts).std("all")


def test_memory_grows_by_two_numbers_per_text_and_layer(make_maps: Make) -> None:
    accumulator, maps = HeadAccumulator(), make_maps(3, 5, 8, 8)
    accumulator.add(maps)
    tracemalloc.start()
    try:
        for _ in range(300):
            accumulator.add(maps)
        gc.collect()  # numpy leaves small cycles behind, and when they go is a matter of chance
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 300 * (1 + 2 * 3) * 8 * 1.3  # buffers that grow are an eighth too large


def test_permuted_rows_keep_their_weights_and_their_mask(make_maps: Make) -> None:
    maps = np.tril(make_maps(2, 3, 6, 6))
    maps /= maps.sum(axis=-1, keepdims=True)
    permuted = permuted_maps(maps, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(permuted, axis=-1), np.sort(maps, axis=-1))
    np.testing.assert_array_equal(np.triu(permuted, k=1), 0)
    assert (permuted != maps)[:, :, 2:].any(axis=-1).mean() > 0.8


def test_p_values_of_unrelated_heads_are_uniform(make_maps: Make) -> None:
    rng = np.random.default_rng(2)
    maps = rng.dirichlet(np.ones(5), size=(200, 3, 5))  # 200 layers, each a trial
    p = permutation_null(maps, permutations=19, rng=rng).p_value
    assert binom(200, 0.2).ppf(1e-4) <= (p <= 0.2).sum() <= binom(200, 0.2).ppf(1 - 1e-4)
    assert p.min() >= 1 / 20


def test_heads_that_are_alike_are_told_from_chance(make_maps: Make) -> None:
    maps = make_maps(1, 4, 12, 12)
    alike = 0.8 * maps[:, :1] + 0.2 * maps
    found = permutation_null(alike, permutations=49, rng=np.random.default_rng(0))
    assert found.p_value[0] == 1 / 50
    assert found.observed[0] < 0.5 * found.null.mean()
    assert found.null.shape == (49, 1)


@pytest.mark.parametrize("metric", ["frobenius", "frobenius_per_sqrt_n", "cosine"])
def test_permutations_that_change_no_distance_count_as_alike(metric: str) -> None:
    """Rows of two keys: a permutation of both heads alike is the same distance, rounded anew."""
    for seed in range(20):
        weights = np.random.default_rng(seed).random((1, 2, 2))
        maps = np.stack([weights, 1 - weights], axis=-1)
        rng = np.random.default_rng(seed)
        found = permutation_null(maps, metric=metric, permutations=99, rng=rng)
        gaps = found.null - found.observed
        assert found.p_value[0] == (1 + (gaps < 1e-9).sum()) / 100


def test_null_of_outputs_is_refused(make_maps: Make) -> None:
    with pytest.raises(ValueError, match="metric must compare maps, got cka"):
        permutation_null(make_maps(1, 2, 3, 3), metric="cka", rng=np.random.default_rng(0))
