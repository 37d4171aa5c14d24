"""Labelled images that are opened one at a time, by split and place."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# Of ImageNet's pixels in [0, 1]: timm/data/constants.py, which DeiT's datasets.py takes.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HELD_OUT = 10  # one training image in so many is for validation where no file says which
_SPLIT_SEED = 0  # of the draw of these, the same for every run

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
    """Grey images of one size that are held in memory, in splits.

    Attributes
    ----------
    images : mapping of str to ndarray
        From a split to its images, ``(n, side, side)`` in 0, …, 255.
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
            channels=1,
            side=train.shape[1],
            mean=(float(train.mean(dtype=np.float64)) / 255,),
            std=(float(train.std(dtype=np.float64)) / 255 or 1.0,),
        )


def held_out(n: int, parts: int = 1) -> list[NDArray[np.int64]]:
    """Return the places of the training images, and of `parts` tenths that are held out.

    Parameters
    ----------
    n : int
        Images in all.
    """
    drawn = np.random.default_rng(_SPLIT_SEED).permutation(n)
    size = max(n // _HELD_OUT, 1)
    rest, *held = np.split(drawn, [n - (parts - i) * size for i in range(parts)])
    return [np.sort(places) for places in (rest, *held)]
