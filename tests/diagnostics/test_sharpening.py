"""Maps sharpened to given entropies, and the controls that are measured beside a network."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiles
import pytest
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import entropy

from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.diagnostics import (
    chance_distances,
    head_distances,
    head_samples,
    profile_heads,
    sharpened_maps,
)
from fourierkernels.diagnostics.chance import OWN
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


ENTROPIES = {
    "entropy": (1, row_entropies),
    "squares": (2, lambda maps: -np.log(np.square(maps).sum(axis=-1))),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_rows_get_entropies_of_either_order(order: int, scale: float) -> None:
    rng, of = np.random.default_rng(2), list(ENTROPIES.values())[order - 1][1]
    wanted = np.maximum(of(causal_maps(rng, 2.0)), 0.0)
    found = sharpened_maps(causal_maps(rng, scale), wanted, order=order)
    np.testing.assert_allclose(of(found), wanted, atol=1e-11)
    with pytest.raises(ValueError, match="order must be 1 or 2, got 3"):
        sharpened_maps(found, wanted, order=3)


@pytest.mark.parametrize("control", ENTROPIES)
@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5"])
def test_control_is_that_of_sharpened_maps_text_by_text(
    kind: str, control: str, tiny: Tiny
) -> None:
    order, of = ENTROPIES[control]
    trained = load_checkpoint(tiny(kind))
    random = load_checkpoint(tiny(kind), random_weights=True, seed=3)
    asked = {"metrics": [METRIC], "statistics": "none", "tokens": "whitespace"}
    found = profile_heads(trained, TEXTS, random=random, controls=[control], **asked)
    items = [sample.item for sample in _samples(trained)]
    expected = [
        head_distances(
            sharpened_maps(drawn.maps, np.maximum(of(own.maps), 0.0), order=order), metric=METRIC
        )
        for own, drawn in zip(
            head_samples(trained, items, batch_size=1),
            head_samples(random, items, batch_size=1),
            strict=True,
        )
    ]
    np.testing.assert_allclose(
        found.controls[control][METRIC].distances, np.mean(expected, axis=0), rtol=1e-5
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
        trained,
        TEXTS,
        metrics=metrics,
        statistics="none",
        tokens="whitespace",
        random=random,
        controls=["rows", "entropy"],
    )
    assert {name: list(one) for name, one in found.controls.items()} == {
        "rows": [METRIC],
        "entropy": [METRIC],
    }
    with pytest.raises(ValueError, match="random must be given for the control entropy, got None"):
        profile_heads(trained, TEXTS, controls=["entropy"], tokens="whitespace")


@pytest.mark.parametrize("control", OWN)
def test_controls_of_own_rows_are_those_of_the_maps_text_by_text(control: str, tiny: Tiny) -> None:
    trained = load_checkpoint(tiny("bert"))
    asked = {"metrics": [METRIC], "statistics": "none", "tokens": "whitespace"}
    found = profile_heads(trained, TEXTS, controls=[control], **asked).controls[control][METRIC]
    expected = []
    for sample in _samples(trained):
        special = np.isin(np.arange(sample.span[1]), [0, sample.span[1] - 1])
        expected.append(chance_distances(sample.maps, control=control, special=special))
    np.testing.assert_allclose(found.distances, np.mean(expected, axis=0), rtol=1e-4, atol=1e-7)


def test_special_tokens_are_counted_only_where_there_are_some(tiny: Tiny) -> None:
    lines = ["1 2 3 4", "5 6 7", "8 9 1 3 2"]
    found = profile_heads(load_checkpoint(tiny("gpt2")), lines, tokens="ids", controls=OWN)
    assert list(found.controls) == ["rows", "position"]
    assert found.left_out == ()


def test_inputs_of_one_token_are_left_out_and_counted(tiny: Tiny) -> None:
    gpt2, lines = load_checkpoint(tiny("gpt2")), ["1 2 3 4", "5 6 7", "8 9 1 3 2"]
    without = profile_heads(gpt2, lines, tokens="ids", controls=["rows"])
    found = profile_heads(gpt2, [*lines, "5"], tokens="ids", controls=["rows"])
    for one, other in ((found, without), (found.controls["rows"], without.controls["rows"])):
        own, wanted = (
            x[METRIC] if isinstance(x, dict) else x.distances[METRIC] for x in (one, other)
        )
        assert own.n_windows == wanted.n_windows == 3
        assert own.layer_average == pytest.approx(wanted.layer_average, rel=1e-5)
    for name, one in found.statistics.items():
        np.testing.assert_allclose(one.mean, without.statistics[name].mean, rtol=1e-4, atol=1e-6)
    assert any("inputs of one key, of which nothing is measured: 1" in note for note in found.notes)
    with pytest.raises(ValueError, match="got none of two keys or more"):
        profile_heads(gpt2, ["5", "6"], tokens="ids", statistics="none")
