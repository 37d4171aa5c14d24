"""Readers of labelled images: digits, IDX files, folders of classes; broken files are told."""

import gzip
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_runs import (
    CLASSES,
    few_arrays,
    idx_bytes,
    jpeg,
    kit_bytes,
    noise,
    tar_bytes,
    write_archives,
    write_classes,
    write_idx,
)
from PIL import Image
from sklearn.datasets import load_digits
from training_runs import error_of

from fourierkernels.studies.engine.data_sets import held_out
from fourierkernels.studies.images import imagenet, sets
from fourierkernels.studies.images.labelled import IMAGENET_MEAN, LabelledImages
from fourierkernels.studies.images.sets import IMAGE_SETS, read_idx, read_labelled

SPLITS = ("train", "valid", "test")


def arrays_of(data: LabelledImages, split: str) -> np.ndarray:
    return np.stack([np.asarray(data.open(split, i)) for i in range(data.counts[split])])


def test_digits_are_those_of_scikit_learn() -> None:
    data = read_labelled("digits")
    assert (data.channels, data.side, data.vocabulary) == (1, 8, tuple("0123456789"))
    assert dict(data.counts) == {"train": 1439, "valid": 179, "test": 179}
    pixels = np.concatenate([arrays_of(data, split) for split in SPLITS])
    labels = np.concatenate([data.labels[split] for split in SPLITS])
    raw = load_digits()
    places = np.concatenate(held_out(1797, 2))
    assert sorted(places) == list(range(1797))
    assert np.array_equal(labels, raw.target[places])
    assert np.abs(pixels / 255 - raw.images[places] / 16).max() <= 0.5 / 255
    assert read_labelled("digits").digest == data.digest


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_packed_or_not(packed: bool, tmp_path: Path) -> None:
    arrays = few_arrays()
    data = read_labelled(write_idx(tmp_path / "x", arrays, packed=packed))
    assert (data.corpus, data.side, data.channels) == ("idx", 4, 1)
    assert dict(data.counts) == {"train": 27, "valid": 3, "test": 6}
    rest, held = held_out(30)
    for split, places in (("train", rest), ("valid", held)):
        assert np.array_equal(arrays_of(data, split), arrays["train-images-idx3-ubyte"][places])
        assert np.array_equal(data.labels[split], places % 3)
    assert np.array_equal(arrays_of(data, "test"), arrays["t10k-images-idx3-ubyte"])
    train = arrays_of(data, "train") / 255
    assert data.mean + data.std == pytest.approx((train.mean(), train.std()))
    other = write_idx(tmp_path / "y", arrays, packed=not packed)
    assert read_labelled(other).digest == data.digest


def test_names_of_classes_are_those_of_fashion_mnist_in_its_folder(tmp_path: Path) -> None:
    arrays = few_arrays() | {"train-labels-idx1-ubyte": np.arange(30) % 10}
    assert read_labelled(write_idx(tmp_path / "x", arrays)).vocabulary == tuple("0123456789")
    fashion = read_labelled(write_idx(tmp_path / "fashion-mnist", arrays))
    assert fashion.vocabulary[9] == "Ankle boot"


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda f: (f / IMAGES).unlink(), f"must have {IMAGES} or {IMAGES}.gz, got neither"),
        (lambda f: (f / IMAGES).write_bytes(b""), "must be an IDX file of bytes .* got nothing"),
        (lambda f: (f / IMAGES).write_bytes(b"\x89PNG\r\n"), "got 89 50 4e 47"),
        (lambda f: (f / IMAGES).write_bytes(idx_bytes(noise(3, 4, 4), 13)), "got 00 00 0d 03"),
        (lambda f: (f / IMAGES).write_bytes(b"\0\0\x08\x03\0\0"), "numbers, got the shape"),
        (lambda f: (f / IMAGES).write_bytes(b"\0\0\x08\x03" + b"\xff" * 12), "1 to 2147483648"),
        (lambda f: cut(f / IMAGES, -1), "must have 480 numbers, as .* says, got 479"),
        (
            lambda f: (f / IMAGES).write_bytes(idx_bytes(noise(30, 4, 4)) + b"x"),
            "must have 480 numbers, .* got more",
        ),
        (
            lambda f: (f / IMAGES).write_bytes(idx_bytes(noise(30, 16))),
            r"must have 3 dimensions, got shape \(30, 16\)",
        ),
        (
            lambda f: (f / LABELS).write_bytes(idx_bytes(np.arange(29))),
            "a label for each train image, got 30 images and 29 labels",
        ),
        (
            lambda f: (f / IMAGES).write_bytes(idx_bytes(noise(30, 4, 5))),
            r"square images of one size, got \[\(4, 4\), \(4, 5\)\]",
        ),
        (
            lambda f: (
                (f / IMAGES).rename(f / f"{IMAGES}.gz"),
                (f / f"{IMAGES}.gz").write_bytes(gzip.compress(idx_bytes(noise(30, 4, 4)))[:-9]),
            ),
            "must be a whole gzip file",
        ),
    ],
)
def test_broken_idx_files_are_told_in_one_line(
    damage: Callable[[Path], Any], rule: str, tmp_path: Path
) -> None:
    write_idx(tmp_path, few_arrays())
    damage(tmp_path)
    message = error_of(lambda: read_labelled(tmp_path))
    assert message.startswith("ValueError: ")
    assert re.search(rule, message), message
    assert str(tmp_path) in message
    assert "\n" not in message


def cut(file: Path, end: int) -> None:
    file.write_bytes(file.read_bytes()[:end])


def test_array_of_an_idx_file_is_what_was_written(tmp_path: Path) -> None:
    array = noise(2, 3, 4, 5)
    (tmp_path / "x").write_bytes(idx_bytes(array))
    assert np.array_equal(read_idx(tmp_path / "x"), array)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "pictures", {"train": 3, "val": 2})


def test_folders_of_classes_are_numbered_by_their_names(folder: Path) -> None:
    data = read_labelled(folder)
    assert (data.corpus, data.vocabulary, data.side, data.channels) == ("folder", CLASSES, None, 3)
    assert data.labels["train"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.labels["valid"].tolist() == [0, 0, 1, 1, 2, 2]
    assert "test" not in data.counts
    assert data.mean == IMAGENET_MEAN
    image = data.open("train", 4)
    assert (image.mode, image.size) == ("RGB", (11, 13))
    with Image.open(folder / "train/bee/bee_1.JPEG") as expected:
        assert np.array_equal(np.asarray(image), np.asarray(expected))


def test_digest_of_a_folder_is_that_of_names_and_sizes(folder: Path) -> None:
    before = read_labelled(folder).digest
    assert read_labelled(folder).digest == before
    file = folder / "val/cow/cow_1.JPEG"
    file.write_bytes(file.read_bytes() + b"\0")
    assert read_labelled(folder).digest != before


def test_nothing_but_the_image_asked_for_is_read(folder: Path) -> None:
    for file in folder.rglob("*.JPEG"):
        if file.name != "ant_0.JPEG":
            file.write_bytes(b"no image")
    assert read_labelled(folder).open("train", 0).size == (10, 12)


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA"])
def test_images_of_other_modes_become_colour(mode: str, folder: Path) -> None:
    kind = "PNG" if mode in ("P", "RGBA") else "JPEG"  # a PNG is called .JPEG in ImageNet, too
    Image.fromarray(noise(9, 9, 3)).convert(mode).save(folder / "train/ant/ant_0.JPEG", kind)
    assert read_labelled(folder).open("train", 0).mode == "RGB"


@pytest.mark.parametrize("content", [b"", b"no image", "half"])
def test_damaged_image_is_told_by_its_path(content: bytes | str, folder: Path) -> None:
    file = folder / "train/bee/bee_1.JPEG"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if isinstance(content, str) else content)
    data = read_labelled(folder)
    message = error_of(lambda: data.open("train", 4))
    assert message.startswith("ValueError: images must be whole files")
    assert str(file) in message


def emptied(folder: Path) -> None:
    for file in (folder / "train/bee").iterdir():
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda f: (f / "val").rename(f / "held"), "must have train and val, got held, train"),
        (emptied, r"train/bee must have images, got none"),
        (lambda f: (f / "val/dog").mkdir(), "folders of the 3 classes in train only, got dog"),
        (
            lambda f: (f / "train/ant/notes.txt").write_text("x"),
            r"notes\.txt must be a file in \.jpeg, \.jpg, \.png, got none",
        ),
        (lambda f: (f / "train/list.txt").write_text("x"), "classes in train only, got list.txt"),
        (lambda f: [p.unlink() for p in f.glob("val/*/*")], "must have images in folders of"),
    ],
)
def test_folders_that_lack_something_are_told(
    damage: Callable[[Path], Any], rule: str, folder: Path
) -> None:
    damage(folder)
    message = error_of(lambda: read_labelled(folder))
    assert message.startswith("ValueError: ")
    assert re.search(rule, message), message


def test_archives_of_imagenet_are_read_as_they_are(tmp_path: Path) -> None:
    data = read_labelled(write_archives(tmp_path / "x"))
    assert (data.corpus, data.vocabulary, data.side) == ("imagenet", CLASSES, None)
    assert data.labels["train"].tolist() == [0, 0, 1, 1, 2, 2]
    assert data.labels["valid"].tolist() == [0, 2, 2, 1]  # 3, 1, 1, 2 count from the last
    for split, place, seed in (("train", 0, 0), ("train", 5, 12), ("valid", 3, 104)):
        with Image.open(io.BytesIO(jpeg(seed))) as expected:
            assert np.array_equal(np.asarray(data.open(split, place)), np.asarray(expected))
    assert read_labelled(write_archives(tmp_path / "y")).digest == data.digest


TRAIN, VALID, KIT = imagenet.TRAIN, imagenet.VALID, imagenet.KIT


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda f: (f / VALID).unlink(), f"got no {VALID}"),
        (lambda f: (f / KIT).unlink(), f"got no {KIT}"),
        (lambda f: (f / KIT).write_bytes(b"x"), f"{KIT} must be a whole archive"),
        (lambda f: cut(f / KIT, -60), f"{KIT} must be a whole archive"),
        (lambda f: (f / KIT).write_bytes(tar_bytes({}, "w:gz")), "must have ILSVRC2012_devkit"),
        (lambda f: (f / KIT).write_bytes(kit_bytes([3, 1, 1])), "got 4 images and 3 labels"),
        (
            lambda f: (f / KIT).write_bytes(kit_bytes([3, 1, 4, 2])),
            "labels of its classes, got '4'",
        ),
        (lambda f: cut(f / TRAIN, 4000), f"{TRAIN} must be (a )?whole"),
        (lambda f: cut(f / VALID, 1300), f"{VALID} must be (a )?whole"),
        (lambda f: (f / TRAIN).write_bytes(b"x" * 2000), f"{TRAIN} must be a whole archive"),
        (
            lambda f: (f / TRAIN).write_bytes(tar_bytes({"dog.tar": b""})),
            "archives of its classes, got dog.tar",
        ),
        (
            lambda f: (f / TRAIN).write_bytes(tar_bytes({"ant.tar": tar_bytes({"a": b"x"})})),
            "must have images of bee, got none",
        ),
    ],
)
def test_broken_archives_are_told(damage: Callable[[Path], Any], rule: str, tmp_path: Path) -> None:
    folder = write_archives(tmp_path / "x")
    damage(folder)
    message = error_of(lambda: read_labelled(folder))
    assert message.startswith("ValueError: ")
    assert re.search(rule, message), message
    assert str(folder) in message


def test_table_of_classes_that_is_no_table_is_told(tmp_path: Path) -> None:
    folder = write_archives(tmp_path / "x")
    home = "ILSVRC2012_devkit_t12/data/"
    files = {"meta.mat": b"x" * 200, "ILSVRC2012_validation_ground_truth.txt": b"1\n"}
    packed = tar_bytes({home + name: one for name, one in files.items()}, "w:gz")
    (folder / KIT).write_bytes(packed)
    assert "must have the table of classes" in error_of(lambda: read_labelled(folder))


def test_damaged_image_of_an_archive_is_told_by_its_name(tmp_path: Path) -> None:
    folder = write_archives(tmp_path / "x")
    content = (folder / VALID).read_bytes()
    (folder / VALID).write_bytes(content.replace(jpeg(103), bytes(len(jpeg(103)))))
    data = read_labelled(folder)
    message = error_of(lambda: data.open("valid", 2))
    assert f"{VALID}/ILSVRC2012_val_00000003.JPEG" in message


def test_hidden_files_are_left_out(folder: Path) -> None:
    before = read_labelled(folder)
    (folder / "train/.DS_Store").write_text("x")
    (folder / "train/ant/.DS_Store").write_text("x")
    assert read_labelled(folder).digest == before.digest


@pytest.mark.parametrize(
    ("files", "rule"),
    [((), "with nothing in it"), (("a.csv",), "with a.csv"), (None, "must be a folder or one of")],
)
def test_folders_that_no_reader_knows_are_refused(
    files: tuple[str, ...] | None, rule: str, tmp_path: Path
) -> None:
    place = tmp_path / "x"
    if files is not None:
        place.mkdir()
        for name in files:
            (place / name).write_text("")
    assert rule in error_of(lambda: read_labelled(place))


def test_image_set_can_be_added_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = replace(read_labelled("digits"), corpus="mine")
    row = replace(IMAGE_SETS["idx"], recognises=lambda folder: True, open=lambda folder: mine)
    monkeypatch.setattr(sets, "IMAGE_SETS", {"mine": row, **IMAGE_SETS})
    assert read_labelled(tmp_path) is mine
