"""CIFAR's pickles, read without running them, and ImageNet's flat folder of validation images."""

import io
import pickle  # noqa: TID251 - written and read by the tests alone
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from image_runs import CLASSES, jpeg, kit_bytes, train_images, write_archives
from training_runs import error_of

from fourierkernels.studies.engine.data_sets import find_row, held_out
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.images import imagenet
from fourierkernels.studies.images.labelled import LabelledImages
from fourierkernels.studies.images.sets import IMAGE_SETS, read_labelled
from fourierkernels.studies.lra.sets import read_arena

NUMPY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
KIND = (
    b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
)


def old(value: object) -> bytes:
    """Return what Python 2 wrote for a value, with its strings of bytes, in protocol 2."""
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, int):
        return b"K" + bytes([value])
    if isinstance(value, list):
        return b"](" + b"".join(map(old, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(old(k) + old(v) for k, v in value.items()) + b"u"
    assert isinstance(value, np.ndarray)
    sides = b"".join(b"J" + struct.pack("<i", side) for side in value.shape)
    content = b"T" + struct.pack("<i", value.nbytes) + value.tobytes()
    return NUMPY + b"(K\x01(" + sides + b"t" + KIND + b"\x89" + content + b"tb"


def write_old(file: Path, value: object) -> None:
    file.write_bytes(b"\x80\x02" + old(value) + b".")


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def write_cifar10(folder: Path, each: int = 4) -> Path:
    folder.mkdir(parents=True)
    for place, name in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        labels = [(place + i) % 10 for i in range(each)]
        write_old(folder / name, {"batch_label": name, "data": rows(each, place), "labels": labels})
    write_old(folder / "batches.meta", {"label_names": [f"kind {n}" for n in range(10)]})
    return folder


def write_cifar100(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate((("train", 20), ("test", 6))):
        labels = {"fine_labels": [5 * i for i in range(count)], "coarse_labels": [0] * count}
        write_old(folder / name, {"data": rows(count, seed), **labels})
    write_old(folder / "meta", {"fine_label_names": [f"{n}" for n in range(100)]})
    return folder


def colours(data: LabelledImages, split: str) -> np.ndarray:
    return np.stack([np.asarray(data.open(split, i)) for i in range(data.counts[split])])


def test_what_the_tests_write_is_what_python_reads(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "x")
    found = pickle.loads((tmp_path / "x/data_batch_2").read_bytes(), encoding="latin1")
    assert np.array_equal(found["data"], rows(4, 1))
    assert found["labels"] == [1, 2, 3, 4]


def test_cifar_10_for_python_is_read_in_colour(tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path / "cifar-10-batches-py")
    data = read_labelled(folder)
    assert (data.corpus, data.side, data.channels, data.vocabulary[3]) == (
        "cifar10",
        32,
        3,
        "kind 3",
    )
    assert dict(data.counts) == {"train": 18, "valid": 2, "test": 4}
    pixels = np.concatenate([rows(4, place) for place in range(5)]).reshape(-1, 3, 32, 32)
    rest, held = held_out(20)
    for split, own in (("train", pixels[rest]), ("valid", pixels[held])):
        assert np.array_equal(colours(data, split), own.transpose(0, 2, 3, 1))
    labels = np.array([(n // 4 + n % 4) % 10 for n in range(20)])
    assert np.array_equal(data.labels["train"], labels[rest])
    train = pixels[rest] / 255
    assert data.mean == pytest.approx(train.mean(axis=(0, 2, 3)).tolist())
    assert data.std == pytest.approx(train.std(axis=(0, 2, 3)).tolist())
    assert read_labelled(tmp_path).digest == data.digest


def test_cifar_100_has_its_hundred_classes(tmp_path: Path) -> None:
    data = read_labelled(write_cifar100(tmp_path / "x"))
    assert (data.corpus, len(data.vocabulary)) == ("cifar100", 100)
    assert data.labels["test"].tolist() == [0, 5, 10, 15, 20, 25]


def test_a_small_model_trains_on_cifar(tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path / "x")
    few = {"steps": 2, "batch": 4, "evaluate_every": 2, "save_every": 2, "log_every": 1}
    run = setup("images", preset="cifar", mixer="softmax", data=folder, **few, warmup=1)
    found = {(row.split, row.metric): row for row in train_images(run, tmp_path / "run")}
    assert found["test", "top-1"].positions == 4


def test_the_arena_reads_the_same_pixels_of_both_versions(tmp_path: Path) -> None:
    python, binary = write_cifar10(tmp_path / "python"), tmp_path / "binary"
    binary.mkdir()
    for place, name in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        labels = np.array([[(place + i) % 10] for i in range(4)], dtype=np.uint8)
        (binary / f"{name}.bin").write_bytes(np.hstack([labels, rows(4, place)]).tobytes())
    one, other = (read_arena(folder) for folder in (python, binary))
    for split in ("train", "valid", "test"):
        ours, theirs = one.splits[split], other.splits[split]
        assert np.array_equal(ours.labels, theirs.labels)
        for place in range(len(ours.labels)):
            assert np.array_equal(ours.open(place)[0], theirs.open(place)[0])


class Harm:
    """Writes a file where a pickle is run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path: Path) -> None:
    folder, trap = write_cifar10(tmp_path / "x"), tmp_path / "trap"
    (folder / "data_batch_3").write_bytes(pickle.dumps({"data": Harm(trap)}))
    assert "must hold arrays, lists and dictionaries alone, got" in error_of(
        lambda: read_labelled(folder)
    )
    assert not trap.exists()


@pytest.mark.parametrize(
    ("batch", "rule"),
    [
        ([1], r"must have data of bytes, \(n, 3072\), got no array"),
        ({"labels": [1]}, "got no array"),
        ({"data": rows(2, 0)[:, :9], "labels": [1, 2]}, r"got uint8 \(2, 9\)"),
        ({"data": rows(2, 0), "labels": [1]}, "labels for each image, got 2 images and 1 labels"),
        ({"data": rows(2, 0), "labels": [1, 10]}, "must have labels below 10, got 10"),
        ({"data": rows(1, 0), "labels": ["a"]}, "must have labels below 10, got 'a'"),
    ],
)
def test_other_pickles_are_one_clear_error(batch: object, rule: str, tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path / "x")
    write_old(folder / "data_batch_4", batch)
    with pytest.raises(ValueError, match=rule):
        read_labelled(folder)
    (folder / "data_batch_4").unlink()
    with pytest.raises(ValueError, match="data must have the file data_batch_4, got none in"):
        read_labelled(folder)


# --- ImageNet, unpacked ------------------------------------------------------------------------


def unpack(folder: Path, *, kit: bool = False) -> Path:
    """Unpack the archives of the tests: folders of classes, and validation images in one."""
    archives = write_archives(folder / "archives")
    home = folder / "imagenet"
    (home / "val").mkdir(parents=True)
    with tarfile.open(archives / imagenet.TRAIN) as outer:
        for member in outer:
            (home / "train" / member.name.removesuffix(".tar")).mkdir(parents=True)
            content = io.BytesIO(outer.extractfile(member).read())  # type: ignore[union-attr]
            with tarfile.open(fileobj=content) as inner:
                inner.extractall(home / "train" / member.name.removesuffix(".tar"), filter="data")
    with tarfile.open(archives / imagenet.VALID) as outer:
        outer.extractall(home / "val", filter="data")
    if kit:
        with tarfile.open(archives / imagenet.KIT) as outer:
            outer.extractall(home, filter="data")
    else:
        (archives / imagenet.KIT).rename(home / imagenet.KIT)
    return home


@pytest.mark.parametrize("kit", [False, True], ids=["packed kit", "unpacked kit"])
def test_a_flat_validation_folder_has_the_labels_of_the_kit(kit: bool, tmp_path: Path) -> None:
    home = unpack(tmp_path, kit=kit)
    assert find_row(IMAGE_SETS, home)[0] == "imagenet-unpacked"
    data, packed = read_labelled(home), read_labelled(write_archives(tmp_path / "packed"))
    assert (data.corpus, data.vocabulary) == ("imagenet", tuple(CLASSES))
    for split in ("train", "valid"):
        assert data.labels[split].tolist() == packed.labels[split].tolist()
        for place in range(data.counts[split]):
            ours, theirs = (np.asarray(each.open(split, place)) for each in (data, packed))
            assert np.array_equal(ours, theirs)


def test_a_flat_validation_folder_that_is_not_whole_is_told(tmp_path: Path) -> None:
    home = unpack(tmp_path)
    (home / "val/ILSVRC2012_val_00000003.JPEG").rename(home / "val/photograph.JPEG")
    assert "ILSVRC2012_val_00000001.JPEG to 00000004.JPEG alone, got photograph.JPEG" in error_of(
        lambda: read_labelled(home)
    )
    (home / "val/photograph.JPEG").unlink()
    assert "an image for each label, got 3 images and 4 labels" in error_of(
        lambda: read_labelled(home)
    )
    (home / "val/ILSVRC2012_val_00000003.JPEG").write_bytes(jpeg(1))
    (home / imagenet.KIT).write_bytes(kit_bytes([3, 1, 1, 9]))
    assert "must have labels of its classes, got '9'" in error_of(lambda: read_labelled(home))
    (home / "train/ant").rename(home / "train/wasp")
    assert "must have a folder for each class of" in error_of(lambda: read_labelled(home))
    (home / imagenet.KIT).unlink()
    assert "which has the labels of the images in val, got neither" in error_of(
        lambda: read_labelled(home)
    )
