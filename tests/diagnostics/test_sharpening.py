"""Sharpened maps have the entropies asked for, and are what a plain search for β finds."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import entropy

from fourierkernels.diagnostics import sharpened_maps
from fourierkernels.diagnostics.maps import row_entropies


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
