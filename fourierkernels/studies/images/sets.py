"""The table of labelled images, with the readers of digits and of IDX files.

IDX files, the format of MNIST and of what has taken its place: Fashion-MNIST, KMNIST, ….

A file is two zero bytes, the type of its numbers (8: bytes), the number of dimensions, each
dimension as four bytes, most significant first, and then the numbers
(http://yann.lecun.com/exdb/mnist/).
"""

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.engine.data_sets import DataSet, find_row, held_out
from fourierkernels.studies.images.cifar import has_cifar, open_cifar
from fourierkernels.studies.images.imagenet import (
    has_archives,
    has_flat_validation,
    open_archives,
    open_flat_validation,
)
from fourierkernels.studies.images.labelled import (
    LabelledImages,
    Labels,
    Pixels,
    has_classes,
    open_classes,
)
from fourierkernels.studies.texts.source import open_bytes

_DEEPEST = 16  # value of a pixel that is wholly ink


def open_digits(folder: Path) -> LabelledImages:
    """Return the digits, a tenth of them for validation and a tenth for the test.

    They are those of ``sklearn.datasets.load_digits``, which scale from 0 to 16; here from 0 to
    255, rounded.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits().images, load_digits().target.astype(np.int64)
    grey = np.rint(images * (255 / _DEEPEST)).astype(np.uint8)
    splits = dict(zip(("train", "valid", "test"), held_out(len(labels), 2), strict=True))
    pixels = Pixels(
        {split: grey[places] for split, places in splits.items()},
        {split: labels[places] for split, places in splits.items()},
    )
    return pixels.labelled("digits", "sklearn.datasets.load_digits", tuple("0123456789"))


_BYTES = 8  # the type of numbers that images and labels have
_MOST = 2**31  # numbers of a file; MNIST's largest has 2^26
_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
_PARTS = {"train": "train", "test": "t10k"}  # split -> how its files' names begin
# Of Fashion-MNIST's labels, https://github.com/zalandoresearch/fashion-mnist, README.
_FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def has_idx(folder: Path) -> bool:
    """Return whether a folder has a file named as those of MNIST, packed or not."""
    return any(_find(folder, part, kind) for part in _PARTS for kind in (_IMAGES, _LABELS))


def open_idx(folder: Path) -> LabelledImages:
    """Return the images of four IDX files, a tenth of the training images for validation.

    Raises
    ------
    ValueError
        If a file is missing, cut off, too long or of another kind, if images and labels differ in
        number, or if the images are not square or of two sizes.
    """
    images, labels = {}, {}
    for split, part in _PARTS.items():
        images[split], labels[split] = _read_part(folder, part)
    sizes = {array.shape[1:] for array in images.values()}
    if len(sizes) > 1 or len(set(images["train"].shape[1:])) > 1:
        raise ValueError(f"{folder} must have square images of one size, got {sorted(sizes)}")
    if len(labels["train"]) < 2:
        raise ValueError(f"{folder} must have at least 2 training images, got 1")
    rest, held = held_out(len(labels["train"]))
    pixels = Pixels(
        {name: images[s][p] for name, s, p in _splits(rest, held)},
        {name: labels[s][p] for name, s, p in _splits(rest, held)},
    )
    classes = 1 + max(int(array.max()) for array in labels.values())
    return pixels.labelled("idx", folder.resolve().name, _names(folder, classes))


def read_idx(file: Path) -> NDArray[np.uint8]:
    """Return the array of an IDX file, unpacked if its name ends in .gz.

    Raises
    ------
    ValueError
        If it is not an IDX file of bytes, or has fewer or more of them than its head says.
    """
    try:
        with open_bytes(file) as content:
            head = content.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] != _BYTES or not 1 <= head[3] <= 4:
                raise ValueError(
                    f"{file} must be an IDX file of bytes (00 00 08 and its dimensions), "
                    f"got {head.hex(' ') or 'nothing'}"
                )
            dimensions = content.read(4 * head[3])
            shape = tuple(np.frombuffer(dimensions[: len(dimensions) // 4 * 4], ">u4").tolist())
            count = int(np.prod(shape, dtype=object)) if len(shape) == head[3] else 0
            if not 0 < count <= _MOST:
                raise ValueError(f"{file} must have 1 to {_MOST} numbers, got the shape {shape}")
            numbers = content.read(count)
            if len(numbers) < count or content.read(1):
                found = f"{len(numbers)}" if len(numbers) < count else "more"
                raise ValueError(f"{file} must have {count} numbers, as {shape} says, got {found}")
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{file} must be a whole gzip file, got {error}") from error
    return np.frombuffer(numbers, np.uint8).reshape(shape)


def _read_part(folder: Path, part: str) -> tuple[NDArray[np.uint8], Labels]:
    """Return images ``(n, height, width)`` and labels ``(n,)`` of one split."""
    arrays = []
    for kind, dimensions in ((_IMAGES, 3), (_LABELS, 1)):
        file = _find(folder, part, kind)
        if file is None:
            raise ValueError(f"{folder} must have {part}-{kind} or {part}-{kind}.gz, got neither")
        array = read_idx(file)
        if array.ndim != dimensions:
            raise ValueError(f"{file} must have {dimensions} dimensions, got shape {array.shape}")
        arrays.append(array)
    if len(arrays[0]) != len(arrays[1]):
        raise ValueError(
            f"{folder} must have a label for each {part} image, "
            f"got {len(arrays[0])} images and {len(arrays[1])} labels"
        )
    return arrays[0], arrays[1].astype(np.int64)


def _find(folder: Path, part: str, kind: str) -> Path | None:
    names = (f"{part}-{kind}", f"{part}-{kind}.gz", f"{part}-{kind.replace('-idx', '.idx')}")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _splits(
    rest: NDArray[np.int64], held: NDArray[np.int64]
) -> tuple[tuple[str, str, NDArray[np.int64] | slice], ...]:
    """Return the splits of a run, the file each is of, and its places there."""
    return ("train", "train", rest), ("valid", "train", held), ("test", "test", slice(None))


def _names(folder: Path, classes: int) -> tuple[str, ...]:
    """Return the names of the classes: those of Fashion-MNIST in a folder of that name."""
    if "fashion" in folder.resolve().name.lower() and classes == len(_FASHION):
        return _FASHION
    return tuple(map(str, range(classes)))


IMAGE_SETS: dict[str, DataSet[LabelledImages]] = {
    "imagenet": DataSet(
        title="ImageNet (ILSVRC2012), the set of the paper, in the archives that are distributed",
        source="https://image-net.org (an account is needed)",
        layout="ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz",
        recognises=has_archives,
        open=open_archives,
    ),
    "imagenet-unpacked": DataSet(
        title="ImageNet, its training images in folders and its validation images side by side",
        source="as above, unpacked",
        layout="train/WNID/*.JPEG, val/ILSVRC2012_val_*.JPEG, and ILSVRC2012_devkit_t12.tar.gz or "
        "its folder ILSVRC2012_devkit_t12, which has the labels",
        recognises=has_flat_validation,
        open=open_flat_validation,
    ),
    "folder": DataSet(
        title="a folder of JPEG or PNG files for each class, as ImageNet is unpacked for DeiT",
        source="your own",
        layout="train/CLASS/*.JPEG, val/CLASS/*.JPEG and, if there is one, test/CLASS/*.JPEG",
        recognises=has_classes,
        open=open_classes,
    ),
    "cifar": DataSet(
        title="CIFAR-10 or CIFAR-100, coloured images of 32 × 32 pixels",
        source="https://www.cs.toronto.edu/~kriz/cifar.html, the version for Python",
        layout="data_batch_1 to data_batch_5, test_batch and batches.meta; or train, test and meta "
        "(pickles, of which nothing is run)",
        recognises=has_cifar,
        open=open_cifar,
    ),
    "idx": DataSet(
        title="Fashion-MNIST, MNIST and others in their format",
        source="https://github.com/zalandoresearch/fashion-mnist, or Debian's package "
        "dataset-fashion-mnist, which experiments/data_images.py fetches",
        layout="train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
        "t10k-labels-idx1-ubyte (or .gz)",
        recognises=has_idx,
        open=open_idx,
    ),
    "digits": DataSet(
        title="handwritten digits of 8 × 8 pixels",
        source="in scikit-learn",
        layout="no folder",
        open=open_digits,
        needs_folder=False,
    ),
}


def read_labelled(data: str | Path) -> LabelledImages:
    """Return the images of a folder, or of a set that needs none.

    Raises
    ------
    ValueError
        If there is no such folder, no reader knows its files, or a file is missing, truncated or
        foreign.
    """
    name, place = find_row(IMAGE_SETS, data)
    return IMAGE_SETS[name].open(place)
