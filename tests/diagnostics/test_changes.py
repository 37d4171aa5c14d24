"""Changes of maps and of predictions: the distances of the metrics, on tokens that are left."""

from typing import Any

import numpy as np
import pytest

from fourierkernels.diagnostics import METRICS, head_changes, head_distances, output_changes


def maps_of(seed: int, n: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n), size=(2, 3, n))


@pytest.mark.parametrize("metric", [name for name, row in METRICS.items() if row.of == "maps"])
def test_change_is_the_distance_of_a_head_from_itself_before(metric: str) -> None:
    before, after = maps_of(0), maps_of(1)
    found = head_changes(before, after, metric=metric)
    assert found.shape == (2, 3)
    expected = head_distances(np.stack([before[1, 2], after[1, 2]]), metric=metric)[0, 1]
    assert found[1, 2] == pytest.approx(expected, rel=1e-12)
    assert np.all(head_changes(before, before, metric=metric) < 1e-7)


def test_total_variation_is_half_the_absolute_differences_averaged_over_rows() -> None:
    before, after = maps_of(0), maps_of(1)
    expected = np.abs(before - after).sum(axis=(-2, -1)) / 2 / 7
    assert head_changes(before, after) == pytest.approx(expected, rel=1e-12)


def test_weight_on_tokens_that_are_gone_has_moved() -> None:
    """Maps that keep their ratios among the tokens left change by what the others had."""
    before, places = maps_of(2), np.array([0, 2, 3, 6])
    cut = before[..., places, :][..., places]
    after = cut / cut.sum(axis=-1, keepdims=True)
    gone = 1 - cut.sum(axis=-1).mean(axis=-1)
    assert head_changes(before, after, places=places) == pytest.approx(gone, rel=1e-12)


def test_change_of_an_output_is_the_largest_difference_of_an_event() -> None:
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(6), size=(2, 4))
    events = np.array([[bool(i >> k & 1) for k in range(6)] for i in range(64)])
    largest = np.abs((p - q) @ events.T).max(axis=-1)
    assert output_changes(np.log(p), np.log(q)) == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize(
    ("after", "options", "message"),
    [
        (maps_of(1), {"metric": "cka"}, "metric must compare maps, got cka"),
        (maps_of(1, 6), {}, "after must have the shape of before"),
        (maps_of(1, 6), {"places": [0, 1]}, "after must have maps of 2 of 7 tokens"),
        (maps_of(1, 2), {"places": [1, 1]}, r"places must increase within 0, …, 6, got \[1, 1\]"),
        (maps_of(1, 2), {"places": [1, 7]}, "places must increase"),
        (2 * maps_of(1), {}, "rows that are probabilities for total_variation"),
        (np.where(maps_of(1) > 0, np.nan, 0), {}, "after must be finite"),
    ],
)
def test_maps_that_do_not_fit_are_refused(
    after: np.ndarray, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        head_changes(maps_of(0), after, **options)


def test_outputs_must_be_logarithms_of_probabilities() -> None:
    logs = np.log([[0.5, 0.5]])
    with pytest.raises(ValueError, match="after must be log-probabilities"):
        output_changes(logs, np.ones((1, 2)))
    with pytest.raises(ValueError, match="before must be log-probabilities"):
        output_changes(np.full((1, 2), np.nan), logs)
    with pytest.raises(ValueError, match=r"after must have the shape of before, \(1, 2\), got"):
        output_changes(logs, logs[0])
