"""Training images as a run has them: their order, what is done to them, how they are mixed."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from image_runs import mini, noise
from PIL import Image

from fourierkernels.studies.images.augmentation import (
    Augmentation,
    Blend,
    draw_blend,
    soft_cross_entropy,
    soft_targets,
)
from fourierkernels.studies.images.batches import ImageUpdates, preprocessing, read_batch
from fourierkernels.studies.images.distortions import DISTORTIONS, Distortion, distort
from fourierkernels.studies.images.labelled import LabelledImages, Pixels

SIDE, N = 8, 50
PLAIN = Augmentation()


@pytest.fixture(scope="module")
def data() -> LabelledImages:
    """Fifty images whose first pixel is their number."""
    pixels = noise(N, SIDE, SIDE)
    pixels[:, 0, 0] = np.arange(N)
    labels = np.arange(N, dtype=np.int64) % 5
    return Pixels({"train": pixels}, {"train": labels}).labelled("x", "x", tuple("abcde"))


def updates(data: LabelledImages, **changes: Any) -> ImageUpdates:
    given: dict[str, Any] = {"side": SIDE, "steps": 9, "batch": 16, "seed": 3}
    return ImageUpdates(data, **given | {"augmentation": PLAIN} | changes)


def test_every_image_comes_at_most_once_in_an_epoch(data: LabelledImages) -> None:
    found = updates(data)
    assert (len(found), found.updates_per_epoch) == (144, 50 / 16)
    epochs = [[found.place(i) for i in range(48 * e, 48 * e + 48)] for e in range(3)]
    assert all(len(set(epoch)) == 48 for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert [updates(data, seed=3).place(i) for i in range(48)] == epochs[0]
    assert [updates(data, seed=4).place(i) for i in range(48)] != epochs[0]


def test_images_without_augmentation_are_those_of_the_files(data: LabelledImages) -> None:
    found = updates(data)
    batch = found.__getitems__(range(16))
    places = [found.place(i) for i in range(16)]
    expected = read_batch(data, "train", places, SIDE)
    assert torch.equal(batch["images"], expected["images"])
    assert torch.equal(batch["labels"], expected["labels"])
    raw = np.asarray(data.open("train", places[0])) / 255
    torch.testing.assert_close(
        batch["images"][0, 0].double(), torch.tensor((raw - data.mean[0]) / data.std[0])
    )
    assert torch.equal(batch["shares"], torch.ones(16))
    every = read_batch(data, "train", range(N), SIDE)["images"]
    assert (float(every.mean()), float(every.std(correction=0))) == pytest.approx((0, 1), abs=1e-6)


def sampled(n: int, processes: int, repeats: int, order: list[int]) -> list[list[int]]:
    """What each process reads by ``samplers.py`` of DeiT, from an order of the images."""
    repeated = [place for place in order for _ in range(repeats)]
    return [repeated[rank::processes] for rank in range(processes)]


def test_repetitions_are_spread_as_the_published_sampler_spreads_them(
    data: LabelledImages,
) -> None:
    found = updates(data, augmentation=replace(PLAIN, repeats=3, group=4))
    order = np.random.default_rng([3, 1, 0]).permutation(N).tolist()
    expected = sampled(N, 4, 3, order)
    for update in range(3):
        for group in range(4):
            first = 16 * update + 4 * group
            places = [found.place(i) for i in range(first, first + 4)]
            assert places == expected[group][4 * update : 4 * update + 4]
            assert len(set(places)) == 4
    assert set(Counter(found.place(i) for i in range(48)).values()) == {3}


def test_image_depends_on_its_number_alone(data: LabelledImages) -> None:
    """Not on the batch it is made in, the process, or what was made before."""
    given = {"augmentation": mini().augmentation}
    whole = updates(data, **given).__getitems__(range(32, 48))
    assert len({float(share) for share in whole["shares"]}) == 2
    for size in (1, 4, 8):
        other = updates(data, **given)
        parts = [other.__getitems__(range(i, i + size)) for i in reversed(range(32, 48, size))]
        for name, tensor in whole.items():
            assert torch.equal(torch.cat([part[name] for part in reversed(parts)]), tensor)
    another = updates(data, **given, seed=4).__getitems__(range(32, 48))
    assert not torch.equal(another["images"], whole["images"])


def test_probe_is_a_part_of_an_update(data: LabelledImages) -> None:
    batch, times = updates(data).probe(4)
    assert (len(batch["images"]), times) == (4, 4.0)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"batch": 51}, "must have at least the 51 training images of an update, got 50"),
        ({"augmentation": Augmentation(group=5)}, "group must divide batch = 16, got 5"),
    ],
)
def test_updates_that_cannot_be_filled_are_refused(
    changes: dict[str, Any], rule: str, data: LabelledImages
) -> None:
    with pytest.raises(ValueError, match=rule):
        updates(data, **changes)


# --- mixing -----------------------------------------------------------------------------------


def test_mixup_is_a_weighted_sum_pixel_by_pixel() -> None:
    one, other = (np.random.default_rng(i).normal(size=(2, 3, 3)) for i in range(2))
    mixed = Blend(0.3).apply(one.astype(np.float32), other.astype(np.float32))
    for place in np.ndindex(2, 3, 3):
        assert mixed[place] == pytest.approx(0.3 * one[place] + 0.7 * other[place], rel=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_share_of_cutmix_is_that_of_the_pixels_that_stay(seed: int) -> None:
    blend = draw_blend(9, 0.0, 1.0, np.random.default_rng(seed))
    one, other = np.zeros((2, 9, 9), np.float32), np.ones((2, 9, 9), np.float32)
    mixed = blend.apply(one, other)
    assert blend.share == pytest.approx(1 - float(mixed.mean()))
    assert one.max() == 0
    rows, columns = np.nonzero(mixed[0])
    if len(rows):  # what comes from the partner is one rectangle
        assert len(rows) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)


def test_mixing_is_drawn_as_asked() -> None:
    def drawn(mixup: float, cutmix: float) -> list[Blend]:
        return [draw_blend(32, mixup, cutmix, np.random.default_rng(i)) for i in range(400)]

    assert drawn(0, 0)[0] == Blend()
    assert all(blend.box is None for blend in drawn(1.0, 0))
    assert all(blend.box is not None for blend in drawn(0, 1.0))
    both = drawn(1.0, 1.0)
    assert 0.4 < sum(blend.box is None for blend in both) / 400 < 0.6
    shares = [blend.share for blend in drawn(1.0, 0)]  # Beta(1, 1): even
    assert np.mean(shares) == pytest.approx(0.5, abs=4 / math.sqrt(12 * 400))


def test_labels_are_mixed_as_their_images_and_no_probability_is_lost() -> None:
    labels, partners = torch.tensor([0, 1, 2]), torch.tensor([2, 1, 0])
    shares = torch.tensor([0.25, 0.5, 1.0])
    found = soft_targets(labels, partners, shares, classes=4, smoothing=0.1)
    for row, (own, other, share) in enumerate(zip(labels, partners, shares, strict=True)):
        expected = [0.1 / 4] * 4
        expected[own] += 0.9 * float(share)
        expected[other] += 0.9 * (1 - float(share))
        assert found[row].tolist() == pytest.approx(expected)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(3))


def test_loss_is_the_mixed_loss_of_both_labels() -> None:
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    labels, partners = torch.arange(5), torch.arange(5).flip(0)
    shares = torch.linspace(0, 1, 5)
    targets = soft_targets(labels, partners, shares, classes=7, smoothing=0.2)
    losses = [
        torch.nn.functional.cross_entropy(logits, one, label_smoothing=0.2, reduction="none")
        for one in (labels, partners)
    ]
    expected = (shares * losses[0] + (1 - shares) * losses[1]).mean()
    torch.testing.assert_close(soft_cross_entropy(logits, targets), expected)


def test_images_are_mixed_with_those_of_their_group_in_reverse(data: LabelledImages) -> None:
    plain = updates(data).__getitems__(range(16))
    does = Augmentation(mixup=1.0, group=8)
    # The order of a plain run with groups of 8 is that of a run that repeats nothing.
    ordered = updates(data, augmentation=replace(PLAIN, group=8)).__getitems__(range(16))
    mixed = updates(data, augmentation=does).__getitems__(range(16))
    assert sorted(plain["labels"]) == sorted(ordered["labels"])
    for i in range(16):
        partner = i // 8 * 8 + 7 - i % 8
        share = mixed["shares"][i]
        expected = share * ordered["images"][i] + (1 - share) * ordered["images"][partner]
        torch.testing.assert_close(mixed["images"][i], expected)
        assert mixed["partners"][i] == ordered["labels"][partner]


# --- augmentation -----------------------------------------------------------------------------


def test_shift_moves_an_image_and_brings_black_in() -> None:
    array = noise(5, 5) | 1
    seen = set()
    for seed in range(40):
        does = Augmentation(shift=2)
        moved = np.asarray(does.moved(Image.fromarray(array), 5, np.random.default_rng(seed)))
        places = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-2, 3)
            if np.array_equal(moved, np.pad(array, 2)[2 - down : 7 - down, 2 - right : 7 - right])
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) > 12


def test_reflection_is_from_left_to_right_and_half_as_often_as_not() -> None:
    array, count = noise(4, 4), 0
    for seed in range(200):
        moved = Augmentation(flip=0.5).moved(Image.fromarray(array), 4, np.random.default_rng(seed))
        flipped = np.array_equal(np.asarray(moved), array[:, ::-1])
        assert flipped or np.array_equal(np.asarray(moved), array)
        count += flipped
    assert 70 < count < 130


def test_random_crop_has_the_area_and_the_ratio_asked_for() -> None:
    """Read off an image whose pixels tell their place."""
    rows, columns = np.meshgrid(np.arange(120), np.arange(100), indexing="ij")
    image = Image.fromarray(np.stack([2 * rows, 2 * columns, 0 * rows], -1).astype(np.uint8))
    areas = []
    for seed in range(60):
        does = Augmentation(least_area=0.2)
        found = np.asarray(does.moved(image, 32, np.random.default_rng(seed)), dtype=float) / 2
        assert found.shape == (32, 32, 3)
        high = (found[-1, 0, 0] - found[0, 0, 0]) * 32 / 31 + 1
        wide = (found[0, -1, 1] - found[0, 0, 1]) * 32 / 31 + 1
        assert 0.65 < wide / high < 1.5
        areas.append(high * wide / 12_000)
    assert min(areas) > 0.15
    assert max(areas) < 1.1
    assert np.std(areas) > 0.1


def test_image_too_long_for_a_crop_is_cut_in_its_middle() -> None:
    """As a random crop of the whole area does not fit into it."""
    array = np.zeros((4, 400, 3), np.uint8)
    array[:, 195:205] = 255
    does = Augmentation(least_area=1.0)
    found = np.asarray(does.moved(Image.fromarray(array), 8, np.random.default_rng(0)))
    assert found.mean() > 200


def test_erasing_puts_noise_in_place_of_a_rectangle() -> None:
    pixels, erased = np.full((3, 20, 20), 9, np.float32), []
    for seed in range(200):
        found = Augmentation(erase=0.25).erased(pixels, np.random.default_rng(seed))
        if found is not pixels:
            changed = (found != 9).all(axis=0)
            rows, columns = np.nonzero(changed)
            assert changed.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
            erased.append((changed.mean(), found[:, changed].std()))
    assert 30 < len(erased) < 70
    shares, spreads = np.array(erased).T
    assert 0.01 < shares.min() < shares.max() < 0.36
    assert spreads.mean() == pytest.approx(1, abs=0.05)
    assert pixels.min() == 9


@pytest.mark.parametrize("name", DISTORTIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_distortions_keep_size_and_mode(name: str, channels: int) -> None:
    image = Image.fromarray(noise(6, 9, 3)).convert("RGB" if channels == 3 else "L")
    row = DISTORTIONS[name]
    for level in (0.0, 0.9, 1.0):
        found = row.apply(image, row.setting(level, -1))
        assert (found.size, found.mode) == (image.size, image.mode)


NOTHING_AT_ZERO = {  # the others have no level, or reduce 8 bits to 4 at the least
    *("rotate", "solarize", "solarize_add", "color", "contrast", "brightness", "sharpness"),
    *("shear_x", "shear_y", "translate_x", "translate_y"),
}


@pytest.mark.parametrize("name", sorted(NOTHING_AT_ZERO))
def test_distortions_grow_with_their_level_from_nothing(name: str) -> None:
    waves = np.sin(np.add.outer(np.add.outer(np.arange(24) / 8, np.arange(24) / 6), range(3)))
    array = (128 + 120 * waves).astype(np.uint8)
    row, image = DISTORTIONS[name], Image.fromarray(array)

    def change(level: float) -> float:
        found = np.asarray(row.apply(image, row.setting(level, 1)), dtype=float)
        return float(np.abs(found - array).mean())

    assert change(0.0) < 0.5
    assert change(0.0) < change(0.4) < change(0.9)


def test_distortions_of_pixels_are_those_of_their_formulas() -> None:
    array = noise(5, 5, 3)

    def found(name: str, level: float, sign: int = 1) -> np.ndarray:
        row = DISTORTIONS[name]
        return np.asarray(row.apply(Image.fromarray(array), row.setting(level, sign)))

    assert np.array_equal(found("invert", 0.5), 255 - array)
    assert np.array_equal(found("posterize", 0.9), array & 0b1000_0000)
    assert not found("posterize", 1.0).any()
    threshold = 256 - int(0.9 * 256)
    assert np.array_equal(found("solarize", 0.9), np.where(array < threshold, array, 255 - array))
    more = np.where(array < 128, np.minimum(array.astype(int) + 99, 255), array)
    assert np.array_equal(found("solarize_add", 0.9), more)
    dark = found("brightness", 1.0, -1)
    assert np.abs(dark - 0.1 * array).max() <= 1
    moved = found("translate_x", 1 / 2.25)  # a fifth of the width
    assert np.array_equal(moved[:, :-1], array[:, 1:])
    assert (moved[:, -1] == (124, 116, 104)).all()


def test_half_of_two_distortions_are_applied() -> None:
    """So a quarter of the images is left as it is, and a few more by chance."""
    image = Image.fromarray(noise(8, 8, 3))
    same = sum(
        np.array_equal(np.asarray(distort(image, 9.0, np.random.default_rng(seed))), image)
        for seed in range(300)
    )
    assert 0.18 < same / 300 < 0.35


def test_distortion_can_be_added_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    black = Distortion(lambda image, setting: image.point([0] * 768))
    for name in list(DISTORTIONS):
        monkeypatch.delitem(DISTORTIONS, name)
    monkeypatch.setitem(DISTORTIONS, "black", black)
    image = Image.fromarray(noise(4, 4, 3))
    found = [distort(image, 9.0, np.random.default_rng(seed)) for seed in range(20)]
    assert 10 <= sum(not np.asarray(one).any() for one in found) < 20


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"flip": 1.5}, r"flip must be in \[0, 1\], got 1.5"),
        ({"erase": -0.1}, r"erase must be in \[0, 1\], got -0.1"),
        ({"mixup": -1.0}, "mixup must be at least 0, got -1.0"),
        ({"least_area": 0.0}, r"least_area must be in \(0, 1\], got 0.0"),
        ({"distortion": -1.0}, "distortion must be at least 0, got -1.0"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"group": 0}, "group must be at least 1, got 0"),
        ({"cutmix": float("nan")}, "cutmix must be finite, got nan"),
    ],
)
def test_augmentation_refuses_what_is_no_probability(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Augmentation(**changes)


def test_photographs_are_read_around_their_middle_in_validation(data: LabelledImages) -> None:
    """The shorter side is resized to 256 for 224, as DeiT's ``datasets.py`` does."""
    photographs = replace(data, side=None, channels=3, mean=(0.5,) * 3, std=(0.5,) * 3)
    reads = preprocessing(photographs, 224)
    assert (reads.size, reads.crop) == (256, (224, 224))
    assert reads.shaped(Image.fromarray(noise(300, 400, 3))).size == (224, 224)
