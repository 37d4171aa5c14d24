"""The table of labelled images: where each set is had, how it lies on disk, how it is read.

Adding a set is adding a row: the command line, its help and the tests read the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.datasets.images.digits import open_digits
from fourierkernels.datasets.images.folders import has_classes, open_classes
from fourierkernels.datasets.images.idx import has_idx, open_idx
from fourierkernels.datasets.images.imagenet import has_archives, open_archives
from fourierkernels.datasets.images.labelled import LabelledImages


@dataclass(frozen=True)
class ImageSet:
    """One row of :data:`IMAGE_SETS`.

    Attributes
    ----------
    title : str
        What the images are.
    had : str
        Where they are had.
    layout : str
        How they lie on disk.
    recognises : callable
        Whether a folder has the files of this set.
    open : callable
        From a folder to the images; it raises ValueError for what is missing, truncated or foreign.
        A set that needs no folder ignores it.
    needs_folder : bool
        Whether it lies in a folder that has to be named.
    """

    title: str
    had: str
    layout: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path], LabelledImages]
    needs_folder: bool = True


# The first row that recognises a folder reads it.
IMAGE_SETS: dict[str, ImageSet] = {
    "imagenet": ImageSet(
        title="ImageNet (ILSVRC2012), the set of the paper, in the archives that are distributed",
        had="https://image-net.org (an account is needed)",
        layout="ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz",
        recognises=has_archives,
        open=open_archives,
    ),
    "folder": ImageSet(
        title="a folder of JPEG or PNG files for each class, as ImageNet is unpacked for DeiT",
        had="your own",
        layout="train/CLASS/*.JPEG, val/CLASS/*.JPEG and, if there is one, test/CLASS/*.JPEG",
        recognises=has_classes,
        open=open_classes,
    ),
    "idx": ImageSet(
        title="Fashion-MNIST, MNIST and others in their format",
        had="https://github.com/zalandoresearch/fashion-mnist, or Debian's package "
        "dataset-fashion-mnist, which experiments/data_images.py fetches",
        layout="train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
        "t10k-labels-idx1-ubyte (or .gz)",
        recognises=has_idx,
        open=open_idx,
    ),
    "digits": ImageSet(
        title="handwritten digits of 8 × 8 pixels",
        had="in scikit-learn",
        layout="no folder",
        recognises=lambda folder: False,
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
    place = Path(data)
    if str(data) in IMAGE_SETS and not IMAGE_SETS[str(data)].needs_folder:
        return IMAGE_SETS[str(data)].open(place)
    if not place.is_dir():
        free = ", ".join(name for name, row in IMAGE_SETS.items() if not row.needs_folder)
        raise ValueError(f"data must be a folder or one of {free}, got {data}")
    for row in IMAGE_SETS.values():
        if row.recognises(place):
            return row.open(place)
    layouts = "; ".join(f"{name}: {row.layout}" for name, row in IMAGE_SETS.items())
    names = sorted(path.name for path in place.iterdir())[:5]
    raise ValueError(
        f"data must be a folder that a reader knows ({layouts}), "
        f"got {place} with {', '.join(names) or 'nothing in it'}"
    )
