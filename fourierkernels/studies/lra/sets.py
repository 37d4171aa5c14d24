"""The table of the arena's data sets."""

from pathlib import Path

from fourierkernels.studies.engine.data_sets import DataSet, find_row
from fourierkernels.studies.lra.contours import open_contours
from fourierkernels.studies.lra.drawn import DRAWN_SETS
from fourierkernels.studies.lra.examples import ArenaData
from fourierkernels.studies.lra.listops import has_listops, open_listops, open_small
from fourierkernels.studies.lra.pixels import (
    has_cifar,
    has_pathfinder,
    open_cifar,
    open_digit_pixels,
    open_pathfinder,
)
from fourierkernels.studies.lra.texts import (
    has_pairs,
    has_texts,
    open_pairs,
    open_python_bytes,
    open_texts,
)

_RELEASE = "https://storage.googleapis.com/long-range-arena/lra_release.gz"

ARENA_SETS: dict[str, DataSet[ArenaData]] = {
    "listops": DataSet(
        title="ListOps, nested operations on digits",
        source=f"{_RELEASE}, or experiments/data_listops.py, which draws them",
        layout="basic_train.tsv, basic_val.tsv and basic_test.tsv, with the columns Source, Target",
        recognises=has_listops,
        open=open_listops,
    ),
    "texts": DataSet(
        title="texts as bytes, for instance the reviews of IMDb",
        source="https://ai.stanford.edu/~amaas/data/sentiment",
        layout="train/CLASS/*.txt and test/CLASS/*.txt",
        recognises=has_texts,
        open=open_texts,
    ),
    "aan": DataSet(
        title="pairs of papers of the ACL Anthology Network as bytes",
        source=f"http://aan.how/download (texts), {_RELEASE} (which pairs)",
        layout="new_aan_pairs.train.tsv, .eval.tsv and .test.tsv: label, id1, id2, text1, text2",
        recognises=has_pairs,
        open=open_pairs,
    ),
    "cifar10": DataSet(
        title="pixels of CIFAR-10 in grey",
        source="https://www.cs.toronto.edu/~kriz/cifar.html, the binary version or that for Python",
        layout="data_batch_1.bin to data_batch_5.bin and test_batch.bin, or without .bin",
        recognises=has_cifar,
        open=open_cifar,
    ),
    "pathfinder": DataSet(
        title="Pathfinder, 32 × 32 pixels, and Path-X, 128 × 128",
        source=_RELEASE,
        layout="imgs/*/*.png and metadata/*.npy, in the folder or in its folder "
        "curv_contour_length_14",
        recognises=has_pathfinder,
        open=open_pathfinder,
    ),
    "listops_small": DataSet(
        title="7,500 short expressions of ListOps, at most 4 deep, of 9 to 63 tokens",
        source="drawn when they are read",
        layout="no folder",
        open=open_small,
        needs_folder=False,
    ),
    "python_bytes": DataSet(
        title="bytes of Python's manual for help and of its library",
        source="in every Python",
        layout="no folder",
        open=open_python_bytes,
        needs_folder=False,
    ),
    "digit_pixels": DataSet(
        title="pixels of the handwritten digits, 8 × 8",
        source="in scikit-learn",
        layout="no folder",
        open=open_digit_pixels,
        needs_folder=False,
    ),
    "contours": DataSet(
        title="2,600 images of dashed contours, 16 × 16 pixels, in the manner of Pathfinder",
        source="drawn when they are opened",
        layout="no folder",
        open=open_contours,
        needs_folder=False,
    ),
    **DRAWN_SETS,
}


def read_arena(data: str | Path) -> ArenaData:
    """Return the examples of a folder, or of a set that needs none.

    Raises
    ------
    ValueError
        If there is no such folder, no reader knows its files, or a file is missing, truncated or
        foreign.
    """
    name, place = find_row(ARENA_SETS, data)
    return ARENA_SETS[name].open(place)
