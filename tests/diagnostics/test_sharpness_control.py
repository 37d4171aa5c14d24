"""Random heads with the entropies of trained rows: the control of every distance between maps."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiles
import pytest

from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.diagnostics import head_distances, head_samples, profile_heads, sharpened_maps
from fourierkernels.diagnostics.maps import row_entropies

Tiny = Callable[[str], Path]
TEXTS = ["a b c d e", "f g", "h i j a b c"]
METRIC = "frobenius_per_sqrt_n"


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
