"""Maps sharpened to given entropies, and the control that random heads are for trained ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiles
import pytest
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import entropy

from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.diagnostics import head_distances, head_samples, profile_heads, sharpened_maps
from fourierkernels.diagnostics.maps import row_entropies

Tiny = Callable[[str], Path]
TEXTS = ["a b c d e", "f g", "h i j a b c"]
METRIC = "frobenius_per_sqrt_n"


def causal_maps(rng: np.random.Generator, scale: float, shape=(2, 3, 9, 9)) -> np.ndarray:
    scores = rng.normal(scale=scale, size=shape)
    return softmax(np.where(np.tri(shape[-1], dtype=bool), scores, -np.inf), axis=-1)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 3.0, 30.0])
def test_rows_get_the_entropies_of_other_maps(scale: float) -> None:
    rng = np.random.default_rng(0)
    wanted = row_entropies(causal_maps(rng, 2.0))
    found = sharpened_maps(causal_maps(rng, scale), wanted)
    np.testing.assert_allclose(row_entropies(found), wanted, atol=1e-11)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)
    assert np.all(np.triu(found, k=1) == 0)


def test_a_row_is_what_a_plain_search_finds() -> None:
    row = np.array([0.5, 0.3, 0.15, 0.05])

    def powers(beta: float) -> np.ndarray:
        return row**beta / np.sum(row**beta)

    beta = brentq(lambda b: entropy(powers(b)) - 0.4, 1e-3, 50, xtol=1e-14)
    np.testing.assert_allclose(sharpened_maps(row[None, None], [[0.4]])[0, 0], powers(beta))


def test_own_entropies_change_nothing() -> None:
    maps = causal_maps(np.random.default_rng(1), 1.0)
    np.testing.assert_allclose(sharpened_maps(maps, row_entropies(maps)), maps, atol=1e-10)


def test_a_row_is_taken_as_far_as_it_goes() -> None:
    maps = np.array([[[0.4, 0.4, 0.2], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0]]])
    sharp, flat = sharpened_maps(maps, np.zeros((1, 3))), sharpened_maps(maps, np.full((1, 3), 9.0))
    np.testing.assert_allclose(sharp[0], [[0.5, 0.5, 0], [1, 0, 0], [1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(flat[0], [[1 / 3] * 3, [0.5, 0.5, 0], [1, 0, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("maps", "entropies", "message"),
    [
        (np.full((1, 2, 2), 0.5), np.ones((1, 3)), r"entropies must .* shape \(1, 2\), got shape"),
        (np.full((1, 2, 2), 0.5), -np.ones((1, 2)), "entropies must be at least 0"),
        (np.full((1, 2, 2), 0.4), np.ones((1, 2)), "rows that are probabilities"),
        (np.full((1, 2, 2), 0.5), np.full((1, 2), np.nan), "entropies must be finite"),
    ],
)
def test_what_cannot_be_sharpened_is_refused(maps, entropies, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sharpened_maps(maps, entropies)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5"])
def test_control_is_that_of_sharpened_maps_text_by_text(kind: str, tiny: Tiny) -> None:
    trained = load_checkpoint(tiny(kind))
    random = load_checkpoint(tiny(kind), random_weights=True, seed=3)
    asked = {"metrics": [METRIC], "statistics": "none", "tokens": "whitespace"}
    found = profile_heads(trained, TEXTS, random=random, **asked)
    items = [sample.item for sample in _samples(trained)]
    expected = [
        head_distances(sharpened_maps(drawn.maps, row_entropies(own.maps)), metric=METRIC)
        for own, drawn in zip(
            head_samples(trained, items, batch_size=1),
            head_samples(random, items, batch_size=1),
            strict=True,
        )
    ]
    np.testing.assert_allclose(
        found.sharpened[METRIC].distances, np.mean(expected, axis=0), rtol=1e-5
    )
    plain = profiles.distances(trained, TEXTS, tokens="whitespace")
    np.testing.assert_array_equal(found.distances[METRIC].distances, plain.distances)


def _samples(checkpoint: object) -> list:
    ids = {letter: number for number, letter in enumerate("abcdefghij", start=4)}
    texts = [[2, *(ids[word] for word in text.split()), 3] for text in TEXTS]
    return list(head_samples(checkpoint, texts, batch_size=1))


def test_metrics_of_outputs_have_no_control(tiny: Tiny) -> None:
    trained = load_checkpoint(tiny("bert"))
    random = load_checkpoint(tiny("bert"), random_weights=True)
    metrics = ["projected_cka", METRIC]
    found = profile_heads(
        trained, TEXTS, metrics=metrics, statistics="none", tokens="whitespace", random=random
    )
    assert found.sharpened.keys() == {METRIC}
