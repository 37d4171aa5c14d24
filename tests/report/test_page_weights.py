"""Weights in one byte each: the error is the stated one, and a page holds no more than it may."""

import numpy as np
import pytest

from fourierkernels.report.page import MOST_WEIGHTS, kept_shapes, pack_weights, unpack_weights


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4, 5)])
def test_stored_weights_are_off_by_no_more_than_the_stated_bound(shape: tuple[int, ...]) -> None:
    weights = np.random.default_rng(0).random(shape) ** 8
    weights.flat[:2] = 0.0, 1.0
    text, scale = pack_weights(weights)
    assert scale == 1.0
    bound = np.sqrt(weights) / 255 + 1 / 510**2
    assert (np.abs(unpack_weights(text, shape) - weights) <= bound).all()


def test_bound_of_stored_weights_is_reached() -> None:
    """Half way between two steps of the root the error is the stated one: no finer bound holds."""
    codes = np.arange(254)
    halfway = ((codes + 0.5) / 255) ** 2
    text, _ = pack_weights(halfway)
    worst = np.abs(unpack_weights(text, halfway.shape) - halfway)
    at_most = np.sqrt(halfway) / 255 + 1 / 510**2
    assert worst == pytest.approx(at_most, abs=2.1 / 510**2)


def test_weights_above_one_are_stored_by_their_largest() -> None:
    text, scale = pack_weights([0.0, 1.0, 4.0])
    assert scale == 4.0
    assert unpack_weights(text, (3,), scale=scale) == pytest.approx([0, 1, 4], abs=4 / 255)


def test_maps_are_cut_to_the_weights_a_page_may_hold() -> None:
    long, short = (6, 12, 512, 512), (6, 12, 40, 40)
    kept = kept_shapes([short, long, short])
    assert kept[0] == kept[2] == short
    assert kept[1][:2] == (6, 12)
    assert kept[1][2] == kept[1][3] == 257
    assert sum(int(np.prod(shape)) for shape in kept) <= MOST_WEIGHTS
    assert 6 * 12 * 258**2 + 2 * np.prod(short) > MOST_WEIGHTS  # not one more token fits


@pytest.mark.parametrize("most", [1, 100, 10_000])
def test_cut_maps_never_hold_more_than_they_may(most: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        shapes = [tuple(int(size) for size in rng.integers(1, 40, size=4)) for _ in range(5)]
        kept = kept_shapes(shapes, most=most)
        assert sum(int(np.prod(shape)) for shape in kept) <= most
        for before, after in zip(shapes, kept, strict=True):
            assert after[:2] == before[:2]
            assert all(small <= large for small, large in zip(after, before, strict=True))
