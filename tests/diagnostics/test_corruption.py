"""Corruptions of inputs, and how far a changed input moves maps and predictions."""

from typing import Any

import numpy as np
import pytest

from fourierkernels.diagnostics import (
    CORRUPTIONS,
    METRICS,
    Alphabet,
    Corrupted,
    corrupt,
    head_changes,
    head_distances,
    output_changes,
)
from fourierkernels.diagnostics.corruption import NUMBERS, TOKENS, Corruption

ALPHABET = Alphabet(50, 3)
RATES = (0.0, 0.1, 0.35, 0.8)
OF = {kind: [n for n, row in CORRUPTIONS.items() if row.of == kind] for kind in (NUMBERS, TOKENS)}


def example(kind: str) -> np.ndarray:
    rng = np.random.default_rng(8)
    if CORRUPTIONS[kind].of == NUMBERS:
        return 3 * rng.normal(size=(40, 6))
    return rng.integers(4, 50, 120)


def corrupted(kind: str, rate: float, seed: int = 1) -> Corrupted:
    rng = np.random.default_rng(seed)
    return corrupt(example(kind), kind=kind, rate=rate, rng=rng, alphabet=ALPHABET)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_rate_of_zero_changes_nothing(kind: str) -> None:
    found, x = corrupted(kind, 0.0), example(kind)
    assert np.array_equal(found.values, x)
    assert np.array_equal(found.places, np.arange(len(x)))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_input_is_left_alone_and_the_seed_decides(kind: str) -> None:
    x = example(kind)
    kept = x.copy()
    first, again, other = (
        corrupt(x, kind=kind, rate=0.5, rng=np.random.default_rng(s), alphabet=ALPHABET)
        for s in (1, 1, 2)
    )
    assert np.array_equal(x, kept)
    assert np.array_equal(first.values, again.values)
    assert not np.array_equal(first.values, other.values)


@pytest.mark.parametrize("kind", sorted({*CORRUPTIONS} - {"noise", "deleted"}))
def test_places_hit_are_nested_and_as_many_as_the_rate_says(kind: str) -> None:
    x, before = example(kind), np.zeros(example(kind).shape, dtype=bool)
    values = x
    for rate in RATES:
        found = corrupted(kind, rate).values
        hit = found != x
        assert hit.sum() == round(rate * x.size)
        assert np.all(hit[before])
        assert np.array_equal(found[before], values[before])
        before, values = hit, found


def test_noise_has_one_direction_and_the_size_of_its_rate() -> None:
    x = example("noise")
    one, other = (corrupted("noise", rate).values - x for rate in (0.2, 0.6))
    assert np.allclose(3 * one, other, rtol=1e-9, atol=1e-12)
    size = np.sqrt(np.mean(other**2)) / np.sqrt(np.mean(x**2))
    assert size == pytest.approx(0.6, rel=0.1)
    assert np.std(example("noise")) > 2


def test_fewer_tokens_are_left_at_a_larger_rate_and_they_keep_their_order() -> None:
    x, left = example("deleted"), set(range(120))
    for rate in RATES:
        found = corrupted("deleted", rate)
        assert np.array_equal(found.values, x[found.places])
        assert len(found.places) == 120 - round(120 * rate)
        assert set(found.places) <= left
        left = set(found.places)


def test_replaced_tokens_are_never_themselves_and_any_other() -> None:
    x = np.zeros(5_000, dtype=np.int64)
    rng = np.random.default_rng(0)
    found = corrupt(x, kind="replaced", rate=1.0, rng=rng, alphabet=(4, 0)).values
    assert set(found.tolist()) == {1, 2, 3}
    assert np.bincount(found)[1:] / 5_000 == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize(
    ("kind", "values", "rate", "alphabet", "message"),
    [
        ("wrong", [1.0], 0.1, None, "kind must be one of noise"),
        ("noise", [1.0], -0.1, None, r"rate must be finite and in \[0, inf\] for noise, got -0.1"),
        ("noise", [1.0], np.nan, None, "rate must be finite"),
        ("noise", [1.0, np.inf], 0.1, None, "values must be finite, got inf"),
        ("zeroed", [1.0], 1.1, None, r"in \[0, 1\] for zeroed, got 1.1"),
        ("blanked", [1, 2], 0.1, None, "alphabet must be given for tokens, got None"),
        ("blanked", [1.0, 2.0], 0.1, ALPHABET, "integer token ids"),
        ("blanked", [[1, 2]], 0.1, ALPHABET, "integer token ids"),
        ("blanked", [1, 50], 0.1, ALPHABET, r"must lie in 0, …, 49, got 1 to 50"),
        ("blanked", [1, 2], 0.1, (1, 0), "size of the alphabet must be at least 2"),
        ("deleted", [1, 2], 1.0, ALPHABET, "rate must leave at least one of 2 tokens, got 1.0"),
    ],
)
def test_wrong_arguments_are_refused(
    kind: str, values: Any, rate: float, alphabet: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        corrupt(values, kind=kind, rate=rate, rng=np.random.default_rng(0), alphabet=alphabet)


def test_row_from_outside_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(x: np.ndarray, rate: float, rng: np.random.Generator, alphabet: object) -> Corrupted:
        return Corrupted((1 - 2 * rate) * x, np.arange(len(x)))

    monkeypatch.setitem(CORRUPTIONS, "turned", Corruption("turned", NUMBERS, turned, "a sign"))
    found = corrupt([1.0, 2.0], kind="turned", rate=1.0, rng=np.random.default_rng(0))
    assert found.values.tolist() == [-1.0, -2.0]


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
