"""The nearest head of another network is the one that a search over all pairs finds."""

from collections.abc import Callable

import numpy as np
import pytest

from fourierkernels.diagnostics import METRICS, comparison, head_distances
from fourierkernels.diagnostics.comparison import match_heads
from fourierkernels.diagnostics.distances import MAPS

Make = Callable[..., np.ndarray]
OF_MAPS = [row.name for row in METRICS.values() if row.of == MAPS]


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
        ([np.ones((1, 2, 3, 3))], [np.ones((1, 2, 3, 4))], "frobenius", "must have shapes"),
        ([np.ones((2, 3, 3))], [np.ones((2, 3, 3))], "frobenius", "must have shapes"),
        ([np.ones((1, 1, 2, 2))], [np.ones((1, 1, 2, 2))], "projected_cka", "must compare maps"),
    ],
)
def test_what_cannot_be_matched_is_refused(
    first: list[np.ndarray], second: list[np.ndarray], metric: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        match_heads(first, second, metric=metric)
