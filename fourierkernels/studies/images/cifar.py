"""CIFAR-10 and CIFAR-100 in their version for Python, pickles of which nothing is run.

https://www.cs.toronto.edu/~kriz/cifar.html: a batch is a dictionary with "data", an array of bytes
``(n, 3072)``, each row the red, the green and the blue pixels of an image of 32 × 32, row by row,
and "labels", a list; CIFAR-100 has "fine_labels", its hundred classes, and "coarse_labels".
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.plain_pickle import Array, read_plain_pickle
from fourierkernels.studies.engine.data_sets import held_out
from fourierkernels.studies.images.labelled import LabelledImages, Labels, Pixels

SIDE, CHANNELS = 32, 3


@dataclass(frozen=True)
class Version:
    """How one of the two sets lies on disk.

    Attributes
    ----------
    name, home : str
        Of the set, and of the folder into which it is unpacked.
    train, test : tuple of str
        Files.
    labels : str
        Entry of a batch that has the labels.
    meta, names : str
        The file that has the names of the classes, and its entry.
    classes : int
        How many there are.
    """

    name: str
    home: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: str
    meta: str
    names: str
    classes: int

    def place(self, folder: Path) -> Path | None:
        """Return the folder that has its files; None if neither does."""
        places = (folder, folder / self.home)
        files = (*self.train, *self.test)
        return next((p for p in places if any((p / f).is_file() for f in files)), None)


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR10 = Version(
    *("cifar10", "cifar-10-batches-py", _BATCHES, ("test_batch",), "labels"),
    *("batches.meta", "label_names", 10),
)
CIFAR100 = Version(
    *("cifar100", "cifar-100-python", ("train",), ("test",), "fine_labels"),
    *("meta", "fine_label_names", 100),
)


def cifar_version(folder: Path) -> Version | None:
    """Return which set a folder has; of CIFAR-100 all three files, whose names say little."""
    if CIFAR10.place(folder) is not None:
        return CIFAR10
    place = CIFAR100.place(folder)
    named = place is not None and all((place / f).is_file() for f in ("train", "test", "meta"))
    return CIFAR100 if named else None


def has_cifar(folder: Path) -> bool:
    """Return whether a folder has one of the sets."""
    return cifar_version(folder) is not None


def open_cifar(folder: Path) -> LabelledImages:
    """Return the coloured images, a tenth of the training images for validation.

    Raises
    ------
    ValueError
        If a file is missing, cut off, no plain pickle or no such batch.
    """
    version = cifar_version(folder)
    home = None if version is None else version.place(folder)
    if version is None or home is None:
        raise ValueError(f"{folder} must have CIFAR-10 or CIFAR-100 for Python, got neither")
    read = {
        split: [read_batch(home / file, version) for file in files]
        for split, files in (("train", version.train), ("test", version.test))
    }
    colours, labels = (
        {split: np.concatenate([batch[side] for batch in own]) for split, own in read.items()}
        for side in (0, 1)
    )
    images = {split: _as_images(rows) for split, rows in colours.items()}
    rest, held = held_out(len(labels["train"]))
    pixels = Pixels(
        {"train": images["train"][rest], "valid": images["train"][held], "test": images["test"]},
        {"train": labels["train"][rest], "valid": labels["train"][held], "test": labels["test"]},
    )
    return pixels.labelled(version.name, home.resolve().name, _names(home, version))


def read_batch(file: Path, version: Version = CIFAR10) -> tuple[NDArray[np.uint8], Labels]:
    """Return the pixels of a batch, ``(n, 3072)``, and its labels, ``(n,)``.

    Raises
    ------
    ValueError
        If there is no such file, or it is no such batch.
    """
    if not file.is_file():
        raise ValueError(f"data must have the file {file.name}, got none in {file.parent}")
    found = read_plain_pickle(file)
    data, labels = (
        found.get(name) if isinstance(found, dict) else None for name in ("data", version.labels)
    )
    values = data.values if isinstance(data, Array) else None
    width = CHANNELS * SIDE**2
    if values is None or values.dtype != np.uint8 or values.ndim != 2 or values.shape[1] != width:
        raise ValueError(f"{file} must have data of bytes, (n, {width}), got {_kind(values)}")
    if not isinstance(labels, list) or len(labels) != len(values) or not len(values):
        count = len(labels) if isinstance(labels, list) else "none"
        raise ValueError(
            f"{file} must have one of its {version.labels} for each image, got {len(values)} "
            f"images and {count} labels"
        )
    wrong = [n for n in labels if type(n) is not int or not 0 <= n < version.classes]
    if wrong:
        raise ValueError(f"{file} must have labels below {version.classes}, got {wrong[0]!r:.40}")
    return values, np.array(labels, dtype=np.int64)


def _kind(values: NDArray[Any] | None) -> str:
    return "no array" if values is None else f"{values.dtype} {values.shape}"


def _as_images(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images ``(n, side, side, 3)`` of rows of three planes."""
    planes = rows.reshape(-1, CHANNELS, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _names(home: Path, version: Version) -> tuple[str, ...]:
    """Return the names of the classes, or their numbers where no file says them."""
    file = home / version.meta
    found = read_plain_pickle(file) if file.is_file() else {}
    names = found.get(version.names) if isinstance(found, dict) else None
    known = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if known and names is not None and len(set(names)) == version.classes:
        return tuple(names)
    return tuple(map(str, range(version.classes)))
