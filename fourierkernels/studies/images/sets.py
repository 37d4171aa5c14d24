"""The table of labelled images."""

from pathlib import Path

from fourierkernels.studies.engine.data_sets import DataSet, find_row
from fourierkernels.studies.images.digits import open_digits
from fourierkernels.studies.images.folders import has_classes, open_classes
from fourierkernels.studies.images.idx import has_idx, open_idx
from fourierkernels.studies.images.imagenet import has_archives, open_archives
from fourierkernels.studies.images.labelled import LabelledImages

IMAGE_SETS: dict[str, DataSet[LabelledImages]] = {
    "imagenet": DataSet(
        title="ImageNet (ILSVRC2012), the set of the paper, in the archives that are distributed",
        source="https://image-net.org (an account is needed)",
        layout="ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz",
        recognises=has_archives,
        open=open_archives,
    ),
    "folder": DataSet(
        title="a folder of JPEG or PNG files for each class, as ImageNet is unpacked for DeiT",
        source="your own",
        layout="train/CLASS/*.JPEG, val/CLASS/*.JPEG and, if there is one, test/CLASS/*.JPEG",
        recognises=has_classes,
        open=open_classes,
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
