"""Labelled images that are opened one at a time, by split and place, and folders of them.

Folders of images, one for each class: the layout of ImageNet after unpacking.

No image is held in memory: a folder is listed, and a file is read where a batch needs it.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# Of ImageNet's pixels in [0, 1]: timm/data/constants.py, which DeiT's datasets.py takes.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledImages:
    """A data set of images, each of one class.

    Attributes
    ----------
    corpus : str
        The reader's name.
    source : str
        What was read, for messages and results.
    digest : str
        SHA-256 of what decides the images, their labels and their splits.
    vocabulary : tuple of str
        Names of the classes, in the order of their numbers.
    labels : mapping of str to ndarray
        From a split to the classes of its images, ``(n,)``; there may be no "test".
    open : callable
        From a split and a place to an image; it raises ValueError, with the path, for a file that
        is damaged.
    channels : int
        1 for grey, 3 for colour.
    side : int or None
        Height and width where all images have the same; None where they are cut to a size.
    mean, std : tuple of float
        By which pixels in [0, 1] are normalised, one per channel or one for all.
    """

    corpus: str
    source: str
    digest: str
    vocabulary: tuple[str, ...]
    labels: Mapping[str, Labels] = field(repr=False)
    open: Callable[[str, int], "Image"] = field(repr=False)
    channels: int = 3
    side: int | None = None
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    @property
    def counts(self) -> Mapping[str, int]:
        """Images of each split."""
        return {split: len(labels) for split, labels in self.labels.items()}


@dataclass(frozen=True)
class Pixels:
    """Images of one size that are held in memory, in splits.

    Attributes
    ----------
    images : mapping of str to ndarray
        From a split to its images, in 0, …, 255: grey ones ``(n, side, side)``, coloured ones
        ``(n, side, side, 3)``.
    labels : mapping of str to ndarray
        From a split to their classes, ``(n,)``.
    """

    images: Mapping[str, NDArray[np.uint8]]
    labels: Mapping[str, Labels]

    def open(self, split: str, place: int) -> "Image":
        """Return an image."""
        from PIL import Image

        return Image.fromarray(self.images[split][place])

    def labelled(self, corpus: str, source: str, classes: tuple[str, ...]) -> LabelledImages:
        """Return them as a data set, normalised by mean and deviation of the training images."""
        train = self.images["train"]
        train = train.reshape(*train.shape[:3], -1)  # (n, side, side, channels)
        means, deviations = (
            np.array([function(train[..., c]) for c in range(train.shape[3])]) / 255
            for function in (_mean, _deviation)
        )
        digest = hashlib.sha256()
        for split in self.images:
            for array in (self.images[split], self.labels[split]):
                digest.update(f"{split} {array.shape} {array.dtype.str}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        return LabelledImages(
            corpus,
            source,
            digest.hexdigest(),
            classes,
            self.labels,
            self.open,
            channels=train.shape[3],
            side=train.shape[1],
            mean=tuple(means.tolist()),
            std=tuple(value or 1.0 for value in deviations.tolist()),
        )


def _mean(values: NDArray[np.uint8]) -> float:
    return float(values.mean(dtype=np.float64))


def _deviation(values: NDArray[np.uint8]) -> float:
    return float(values.std(dtype=np.float64))


_NAMES = {"train": ("train",), "valid": ("val", "valid", "validation"), "test": ("test",)}
# A few of ImageNet's .JPEG files are PNG.
FORMATS = ("JPEG", "PNG")
SUFFIXES = (".jpeg", ".jpg", ".png")


@dataclass(frozen=True)
class FileList:
    """Files of one split.

    Attributes
    ----------
    folder : Path
        That of the split, or the archive that has it.
    names : list of str
        Paths in it, ``CLASS/FILE``.
    sizes : list of int
        Bytes of each.
    labels : list of int
        Class of each.
    """

    folder: Path
    names: list[str]
    sizes: list[int]
    labels: list[int]


def has_classes(folder: Path) -> bool:
    """Return whether a folder has a folder of training images that are sorted by class."""
    train = folder / "train"
    return train.is_dir() and any(path.is_dir() for path in train.iterdir())


def open_classes(folder: Path) -> LabelledImages:
    """Return the images under train/CLASS, val/CLASS and, if there is one, test/CLASS.

    Classes are numbered in the order of their names. The digest is that of the paths and sizes of
    the files, whose bytes are not read.

    Raises
    ------
    ValueError
        If there is no validation folder, a class has no training image, a class is not among those
        of the training images, or a file is no image by its suffix.
    """
    homes = {split: home_of(folder, split) for split in _NAMES}
    train, valid = homes["train"], homes["valid"]
    if train is None or valid is None:
        raise ValueError(f"{folder} must have train and val, got {_some_names(folder)}")
    classes = class_names(train)
    lists = {s: list_files(home, classes) for s, home in homes.items() if home is not None}
    return images_of("folder", folder, classes, lists)


def class_names(train: Path) -> tuple[str, ...]:
    """Return the names of the folders of training images, in their order."""
    return tuple(sorted(entry.name for entry in entries_of(train) if entry.is_dir()))


def images_of(
    corpus: str, folder: Path, classes: tuple[str, ...], lists: Mapping[str, FileList]
) -> LabelledImages:
    """Return the images of lists of files.

    Raises
    ------
    ValueError
        If a class has no training image.
    """
    missing = set(range(len(classes))) - set(lists["train"].labels)
    if missing:
        raise ValueError(
            f"{lists['train'].folder / classes[min(missing)]} must have images, got none"
        )

    def open_place(split: str, place: int) -> "Image":
        return read_image(lists[split].folder / lists[split].names[place])

    return LabelledImages(
        corpus,
        folder.resolve().name,
        digest_of(lists),
        classes,
        {split: np.array(found.labels, dtype=np.int64) for split, found in lists.items()},
        open_place,
    )


def read_image(file: Path, content: IO[bytes] | None = None) -> "Image":
    """Return an image upright and in colour, all of it read.

    Parameters
    ----------
    content : file, optional
        Its bytes, where they do not lie in a file of that name.

    Raises
    ------
    ValueError
        If the file is damaged or no JPEG or PNG; the message has its path.
    """
    from PIL import ImageOps

    from fourierkernels.foundation.image_files import open_image

    with open_image(file, content=content, formats=FORMATS) as image:
        return ImageOps.exif_transpose(image).convert("RGB")


def list_files(home: Path, classes: Sequence[str]) -> FileList:
    """Return the files of one split.

    Raises
    ------
    ValueError
        If a folder is no class, or a file no image by its suffix; hidden ones are left out.
    """
    numbers = {name: number for number, name in enumerate(classes)}
    found = FileList(home, [], [], [])
    for entry in entries_of(home):
        if entry.name not in numbers:
            raise ValueError(
                f"{home} must have folders of the {len(classes)} classes in train only, "
                f"got {entry.name}"
            )
        for file in entries_of(entry.path):
            if not file.name.lower().endswith(SUFFIXES) or not file.is_file():
                raise ValueError(f"{file.path} must be a file in {', '.join(SUFFIXES)}, got none")
            found.names.append(f"{entry.name}/{file.name}")
            found.sizes.append(file.stat().st_size)
            found.labels.append(numbers[entry.name])
    if not found.names:
        raise ValueError(f"{home} must have images in folders of classes, got none")
    return found


def digest_of(lists: Mapping[str, FileList]) -> str:
    """Return the SHA-256 of the names and sizes of files."""
    digest = hashlib.sha256()
    for split, found in lists.items():
        for name, size in zip(found.names, found.sizes, strict=True):
            digest.update(f"{split}/{name} {size}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def entries_of(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """Yield what lies in a folder, in the order of names, without what is hidden."""
    try:
        with os.scandir(folder) as entries:
            yield from sorted(
                (entry for entry in entries if not entry.name.startswith(".")),
                key=lambda entry: entry.name,
            )
    except NotADirectoryError as error:
        raise ValueError(f"{folder} must be the folder of a class, got a file") from error


def home_of(folder: Path, split: str) -> Path | None:
    """Return the folder of a split, by one of its names; None if there is none."""
    return next((folder / name for name in _NAMES[split] if (folder / name).is_dir()), None)


def _some_names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing in it"
