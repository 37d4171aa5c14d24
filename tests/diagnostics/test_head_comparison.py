"""Two networks compared: intervals of differences, and matches of heads."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, ttest_ind

from fourierkernels.diagnostics import (
    METRICS,
    HeadSummary,
    comparison,
    head_difference,
    head_distances,
)
from fourierkernels.diagnostics.comparison import match_heads
from fourierkernels.diagnostics.distances import MAPS
from fourierkernels.diagnostics.summary import HeadAccumulator

Make = Callable[..., np.ndarray]
OF_MAPS = [row.name for row in METRICS.values() if row.of == MAPS]


def summary(
    texts: np.ndarray, metric: str = "frobenius_per_sqrt_n", order: np.ndarray | None = None
) -> HeadSummary:
    """Of maps (T, L, H, n, n), taken in in some order."""
    accumulator = HeadAccumulator(metric=metric)
    for number in range(len(texts)) if order is None else order:
        accumulator.add(texts[number], number=int(number))
    return accumulator.summary()


def draw(
    texts: int = 30, layers: int = 2, n: int = 4, seed: int = 0, peak: float = 1.0
) -> np.ndarray:
    rng = np.random.default_rng(seed)
    logits = (
        peak * rng.normal(size=(texts, layers, 3, n, n)) * rng.uniform(0.5, 2, (texts, *[1] * 4))
    )
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_network_against_itself_differs_by_nothing_whatever_the_order_of_texts() -> None:
    maps = draw()
    order = np.random.default_rng(1).permutation(len(maps))
    found = head_difference(summary(maps), summary(maps, order=order))
    assert found.paired
    np.testing.assert_allclose([found.average, found.low, found.high], 0, atol=1e-14)
    np.testing.assert_allclose(found.layers_low, 0, atol=1e-14)


def test_difference_is_that_of_the_means_and_lies_in_its_interval() -> None:
    first, second = summary(draw(peak=2.0)), summary(draw(seed=1))
    found = head_difference(first, second)
    np.testing.assert_allclose(found.layers, first.mean - second.mean, rtol=1e-12)
    assert found.average == pytest.approx(first.layer_average - second.layer_average)
    assert (found.layers_low < found.layers).all()
    assert (found.layers < found.layers_high).all()
    assert 0 < found.low < found.average < found.high


def test_pairing_removes_what_the_texts_have_in_common() -> None:
    maps = draw(60, peak=2.0)
    blurred = 0.9 * maps + 0.1 / maps.shape[-1]  # every distance is 0.9 times the other
    first, second = summary(maps), summary(blurred)
    found = head_difference(first, second)
    loose = head_difference(first, summary(blurred[:-1]))
    assert not loose.paired
    assert found.high - found.low < 0.2 * (loose.high - loose.low)
    assert found.low > 0


def test_unequal_numbers_of_windows_are_compared_unpaired() -> None:
    found = head_difference(summary(draw(30)), summary(draw(20)))
    assert not found.paired
    assert found.low < found.high


def test_interval_holds_a_difference_of_nothing_as_often_as_it_says() -> None:
    held = 0
    for trial in range(60):
        one, other = (summary(draw(25, 1, 3, seed=2 * trial + side)) for side in (0, 1))
        found = head_difference(one, other)
        held += found.low <= 0 <= found.high
    assert binom(60, 0.95).ppf(1e-3) <= held


def test_unpaired_interval_of_what_does_not_vary_is_a_point() -> None:
    same = np.broadcast_to(np.eye(4), (5, 2, 3, 4, 4))  # heads that are one another
    found = head_difference(summary(same), summary(same[:4]))
    assert not found.paired
    assert (found.low, found.high) == (0.0, 0.0)
    assert not found.layers_low.any()
    assert not found.layers_high.any()


def test_unpaired_interval_is_that_of_welch() -> None:
    first, second = summary(draw(9)), summary(draw(6, seed=1))
    found = head_difference(first, second)
    expected = ttest_ind(first.average_texts, second.average_texts, equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_networks_of_different_depth_are_compared_by_their_averages() -> None:
    found = head_difference(summary(draw(layers=2)), summary(draw(layers=3)))
    assert found.layers.size == found.layers_low.size == 0
    assert np.isfinite([found.average, found.low, found.high]).all()


def test_single_text_has_a_difference_and_no_interval() -> None:
    found = head_difference(summary(draw(1)), summary(draw(1, seed=1)))
    assert np.isfinite(found.average)
    assert np.isnan([found.low, found.high]).all()


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="metric must be the same, got frobenius and cosine"):
        head_difference(summary(draw(), "frobenius"), summary(draw(), "cosine"))
    with pytest.raises(ValueError, match=r"one length for metric frobenius, .*3"):
        head_difference(summary(draw(), "frobenius"), summary(draw(n=3), "frobenius"))


@pytest.mark.parametrize("metric", OF_MAPS)
def test_match_is_what_a_search_over_all_pairs_finds(make_maps: Make, metric: str) -> None:
    first = [make_maps(2, 3, 4, 4, seed=k) for k in range(2)]
    second = [make_maps(3, 2, 4, 4, seed=10 + k) for k in range(2)]
    found = match_heads(first, second, metric=metric)
    for layer, head in np.ndindex(2, 3):
        between = {
            (a, b): np.mean(
                [
                    head_distances(np.stack([one[layer, head], other[a, b]]), metric=metric)[0, 1]
                    for one, other in zip(first, second, strict=True)
                ]
            )
            for a, b in np.ndindex(3, 2)
        }
        best = min(between, key=between.__getitem__)
        assert (found.layers[layer, head], found.heads[layer, head]) == best
        assert found.distances[layer, head] == pytest.approx(between[best], rel=1e-9)


def test_every_head_finds_itself_wherever_it_was_moved(make_maps: Make) -> None:
    maps = [make_maps(3, 4, 5, 7, seed=k) for k in range(3)]
    places = np.random.default_rng(0).permutation(12)
    moved = [one.reshape(12, 5, 7)[places].reshape(3, 4, 5, 7) for one in maps]
    found = match_heads(maps, moved)
    assert found.distances == pytest.approx(np.zeros((3, 4)), abs=1e-12)
    assert (places[4 * found.layers + found.heads] == np.arange(12).reshape(3, 4)).all()
    assert found.n_texts == 3


def test_maps_of_one_key_are_passed_over(make_maps: Make) -> None:
    first, second = [make_maps(2, 3, 4, 4)], [make_maps(2, 3, 4, 4, seed=1)]
    wanted = match_heads(first, second, metric="frobenius")
    single = [np.ones((2, 3, 1, 1))]
    found = match_heads(single + first, single + second, metric="frobenius")
    assert found.n_texts == 1
    assert np.array_equal(found.distances, wanted.distances)


def test_maps_kept_in_half_precision_are_still_probabilities(make_maps: Make) -> None:
    maps = [make_maps(1, 2, 40, 40).astype(np.float16)]
    found = match_heads(maps, maps, metric="jensen_shannon")
    assert found.heads.tolist() == [[0, 1]]


def test_what_would_take_too_long_is_left_out_and_counted(
    make_maps: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = [make_maps(1, 2, 3, 3, seed=k) for k in range(4)]
    monkeypatch.setattr(comparison, "_MOST_COMPARED", 2 * 8 * 9)
    assert match_heads(maps, maps).n_texts == 2
    monkeypatch.setattr(comparison, "_MOST_COMPARED", 1)
    assert match_heads(maps, maps).n_texts == 1


@pytest.mark.parametrize(
    ("first", "second", "metric", "message"),
    [
        ([], [], "frobenius", "at least one input, got none"),
        (*[[np.ones((1, 2, 1, 1))]] * 2, "frobenius", "got none of two keys"),
        ([np.ones((1, 2, 3, 3))], [np.ones((1, 2, 3, 4))], "frobenius", "must have shapes"),
        ([np.ones((2, 3, 3))], [np.ones((2, 3, 3))], "frobenius", "must have shapes"),
        ([np.ones((1, 1, 2, 2))], [np.ones((1, 1, 2, 2))], "projected_cka", "must compare maps"),
        (*[[np.ones((1, 1, n, n)) for n in (2, 3)]] * 2, "frobenius", "got n = 2 and 3"),
    ],
)
def test_what_cannot_be_matched_is_refused(
    first: list[np.ndarray], second: list[np.ndarray], metric: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        match_heads(first, second, metric=metric)
