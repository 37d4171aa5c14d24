"""ImageNet's archives as they are distributed, read without being unpacked, or unpacked.

The archive of training images has an archive for each class; that of validation images has files
in the order of the labels, which the development kit holds, as numbers. Classes are in the order of
their WordNet numbers, as folders of them are. The heads of all members are read at each start,
which takes minutes for 1.3 million of them; an image is read where a batch needs it.

Where the archives have been unpacked, the validation images lie side by side in one folder, and the
development kit has their labels, too.
"""

import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fourierkernels.studies.images.labelled import (
    SUFFIXES,
    FileList,
    LabelledImages,
    class_names,
    digest_of,
    entries_of,
    has_classes,
    home_of,
    images_of,
    list_files,
    read_image,
)

if TYPE_CHECKING:
    from PIL.Image import Image

TRAIN, VALID = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"
KIT = "ILSVRC2012_devkit_t12.tar.gz"
_LABELS = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
_CLASSES = "ILSVRC2012_devkit_t12/data/meta.mat"
_UNPACKED = "ILSVRC2012_devkit_t12"
_NUMBERED = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")
_MOST = 2**24  # bytes of a file of the kit


@dataclass(frozen=True)
class Members(FileList):
    """Files in an archive that is not packed.

    Attributes
    ----------
    offsets : list of int
        Where the bytes of each begin.
    """

    offsets: list[int]

    def add(self, name: str, label: int, member: tarfile.TarInfo, offset: int) -> None:
        """Take note of a file, whose archive begins at an offset."""
        self.names.append(name)
        self.labels.append(label)
        self.sizes.append(member.size)
        self.offsets.append(offset + member.offset_data)

    def open(self, place: int) -> "Image":
        """Return an image."""
        with self.folder.open("rb") as archive:
            archive.seek(self.offsets[place])
            content = archive.read(self.sizes[place])
        return read_image(self.folder / self.names[place], io.BytesIO(content))


def has_archives(folder: Path) -> bool:
    """Return whether a folder has one of ImageNet's archives."""
    return any((folder / name).is_file() for name in (TRAIN, VALID))


def open_archives(folder: Path) -> LabelledImages:
    """Return the training and validation images of ImageNet.

    Raises
    ------
    ValueError
        If an archive is missing, cut off or another one, or its labels do not fit its images.
    """
    missing = [name for name in (TRAIN, VALID, KIT) if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} must have {TRAIN}, {VALID} and {KIT}, got no {missing[0]}")
    kit = _kit(folder / KIT)
    names = _class_names(kit[_CLASSES], folder / KIT)
    classes = tuple(sorted(names.values()))
    labels = [classes.index(names[n]) for n in _label_numbers(kit[_LABELS], names, folder / KIT)]
    lists = {
        "train": _training(folder / TRAIN, classes),
        "valid": _validation(folder / VALID, labels),
    }
    return LabelledImages(
        "imagenet",
        folder.resolve().name,
        digest_of(lists),
        classes,
        {split: np.array(found.labels, dtype=np.int64) for split, found in lists.items()},
        lambda split, place: lists[split].open(place),
    )


def has_flat_validation(folder: Path) -> bool:
    """Return whether training images are in folders and validation images side by side."""
    home = home_of(folder, "valid")
    return has_classes(folder) and home is not None and any(map(_flat, entries_of(home)))


def open_flat_validation(folder: Path) -> LabelledImages:
    """Return the images under train/WNID and those of val, whose labels the development kit has.

    Raises
    ------
    ValueError
        If there is no development kit, its classes are not those of train, or the validation
        images are not those that it has labels of.
    """
    train, valid = home_of(folder, "train"), home_of(folder, "valid")
    place = next((p for p in (folder / KIT, folder / _UNPACKED) if p.exists()), None)
    if train is None or valid is None or place is None:
        raise ValueError(
            f"{folder} must have {KIT} or {_UNPACKED}, which has the labels of the images in val, "
            "got neither"
        )
    kit = _unpacked_kit(folder) if place.is_dir() else _kit(place)
    names = _class_names(kit[_CLASSES], place)
    classes = class_names(train)
    if set(classes) != set(names.values()):
        raise ValueError(f"{train} must have a folder for each class of {place}, got others")
    labels = [classes.index(names[n]) for n in _label_numbers(kit[_LABELS], names, place)]
    lists = {"train": list_files(train, classes), "valid": _numbered(valid, labels)}
    return images_of("imagenet", folder, classes, lists)


def _flat(entry: os.DirEntry[str]) -> bool:
    return entry.is_file() and entry.name.lower().endswith(SUFFIXES)


def _numbered(home: Path, labels: list[int]) -> FileList:
    """Return validation images, of which the one numbered n has label n of the kit."""
    found = FileList(home, [], [], [])
    for entry in entries_of(home):
        known = _NUMBERED.fullmatch(entry.name)
        if known is None or not 1 <= int(known[1]) <= len(labels):
            raise ValueError(
                f"{home} must have ILSVRC2012_val_00000001.JPEG to {len(labels):08}.JPEG alone, "
                f"got {entry.name}"
            )
        found.names.append(entry.name)
        found.sizes.append(entry.stat().st_size)
        found.labels.append(labels[int(known[1]) - 1])
    if len(found.names) != len(labels):
        raise ValueError(
            f"{home} must have an image for each label, got {len(found.names)} images and "
            f"{len(labels)} labels"
        )
    return found


def _unpacked_kit(folder: Path) -> dict[str, bytes]:
    """Return the two files of the development kit where it has been unpacked."""
    for name in (_LABELS, _CLASSES):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} must have {name}, got none")
    return {name: (folder / name).read_bytes() for name in (_LABELS, _CLASSES)}


def _kit(file: Path) -> dict[str, bytes]:
    """Return the two files of the development kit that are needed."""
    found: dict[str, bytes] = {}
    with _whole(file), tarfile.open(file, "r:gz") as archive:
        for member in archive:
            if member.name in (_LABELS, _CLASSES) and member.isfile():
                if member.size > _MOST:
                    raise ValueError(f"{file}: {member.name} must have at most {_MOST} bytes")
                found[member.name] = _content(archive, member).read()
    for name in (_LABELS, _CLASSES):
        if name not in found:
            raise ValueError(f"{file} must have {name}, got none")
    return found


def _class_names(content: bytes, file: Path) -> Mapping[int, str]:
    """Return WordNet numbers by the numbers of the labels.

    The table also has classes of classes, which no image has.
    """
    from scipy.io import loadmat

    try:
        file_like: Any = io.BytesIO(content)  # the stubs know paths alone
        table = np.atleast_1d(loadmat(file_like, squeeze_me=True)["synsets"])
        names = {
            int(row["ILSVRC2012_ID"]): str(row["WNID"])
            for row in table
            if int(row["num_children"]) == 0
        }
    except Exception as error:
        raise ValueError(f"{file} must have the table of classes, got {error!r}") from error
    return names


def _label_numbers(content: bytes, names: Mapping[int, str], file: Path) -> list[int]:
    """Return the numbers of the labels of the validation images."""
    lines = content.decode("ascii", errors="replace").split()
    wrong = [line for line in lines if not line.isdigit() or int(line) not in names]
    if wrong:
        raise ValueError(f"{file} must have labels of its classes, got {wrong[0]!r}")
    return list(map(int, lines))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Return what a member has; a link into nothing has nothing."""
    content = archive.extractfile(member)
    if content is None:
        raise ValueError(f"{member.name} of an archive must be a file, got a link into nothing")
    return content


def _training(file: Path, classes: tuple[str, ...]) -> Members:
    """Return the images of the archive of archives, class by class."""
    found = Members(file, [], [], [], [])
    with _whole(file), tarfile.open(file, "r:") as outer:
        for member in sorted(outer, key=lambda member: member.name):
            name = member.name.removesuffix(".tar")
            if name not in classes or not member.isfile():
                raise ValueError(f"{file} must have archives of its classes, got {member.name}")
            label = classes.index(name)
            with tarfile.open(fileobj=_content(outer, member), mode="r:") as inner:
                for image in _images(inner, member.size, file):
                    found.add(f"{name}/{image.name}", label, image, member.offset_data)
    lacking = set(range(len(classes))) - set(found.labels)
    if lacking:
        raise ValueError(f"{file} must have images of {classes[min(lacking)]}, got none")
    return found


def _validation(file: Path, labels: list[int]) -> Members:
    """Return the images of an archive, in the order of their names, which is that of the labels."""
    found = Members(file, [], [], [], [])
    with _whole(file), tarfile.open(file, "r:") as archive:
        images = list(_images(archive, file.stat().st_size, file))
    if len(images) != len(labels):
        raise ValueError(
            f"{file} must have an image for each label, got {len(images)} images and "
            f"{len(labels)} labels"
        )
    for image, label in zip(images, labels, strict=True):
        found.add(image.name, label, image, 0)
    return found


def _images(archive: tarfile.TarFile, size: int, file: Path) -> list[tarfile.TarInfo]:
    """Return the files in an archive of so many bytes, in the order of their names."""
    members = sorted((member for member in archive if member.isfile()), key=lambda m: m.name)
    for member in members:
        if member.offset_data + member.size > size:
            raise ValueError(f"{file} must be whole, got it cut off in {member.name}")
    return members


@contextmanager
def _whole(file: Path) -> Iterator[None]:
    """Turn errors of an archive into a ValueError with its path."""
    try:
        yield
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{file} must be a whole archive, got {error}") from error
