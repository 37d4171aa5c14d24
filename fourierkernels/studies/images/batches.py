"""The training images of a run, in its order, as they are after augmentation and mixing."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.foundation.image_files import Preprocessing, Resampling
from fourierkernels.studies.engine.epochs import Batch, DrawnOrder, Epochs
from fourierkernels.studies.images.augmentation import Augmentation, Blend, draw_blend
from fourierkernels.studies.images.labelled import LabelledImages

_CROPPED = 0.875  # of the shorter side, in validation: eval_crop_ratio of DeiT's main.py
_ORDER, _IMAGE, _GROUP = 1, 2, 3  # what a generator is of


def preprocessing(data: LabelledImages, side: int) -> Preprocessing:
    """Return how images are read where nothing is random: the middle of each, normalised."""
    cut = data.side is None
    return Preprocessing(
        data.channels,
        int(side / _CROPPED) if cut else None,
        Resampling.BICUBIC,
        (side, side) if cut else None,
        mean=data.mean,
        std=data.std,
    )


def read_batch(data: LabelledImages, split: str, places: Iterable[int], side: int) -> Batch:
    """Return images ``(B, C, side, side)`` of a split as they are, and their labels ``(B,)``."""
    reads, chosen = preprocessing(data, side), list(places)
    pixels = [reads.normalised(reads.shaped(data.open(split, place))) for place in chosen]
    labels = torch.from_numpy(data.labels[split][chosen])
    return {"images": torch.from_numpy(np.stack(pixels)), "labels": labels}


class ImageUpdates(Epochs):
    """Training images in the order of a run, epoch after epoch.

    Which image comes where, and all that is done to it, follow from the seed and its number in the
    run alone: not from the process that makes it, the images beside it, or where a run is resumed.
    A partner that is not in the same batch is read as well.

    Parameters
    ----------
    data : LabelledImages
        Of which "train" is read.
    side : int
        Height and width that the model reads.
    steps, batch : int
        Updates of the run, and images of each. What does not fill the last update of an epoch is
        left out.
    seed : int
        Of the order and of all that is random.
    augmentation : Augmentation
        What is done to the images. Groups follow each other in an update; repetitions of an image
        are spread over them, so that they are not mixed with each other, as ``samplers.py`` of
        https://github.com/facebookresearch/deit spreads them over the processes.

    Raises
    ------
    ValueError
        If there are fewer images than an update has, or groups do not fill an update.
    """

    def __init__(
        self,
        data: LabelledImages,
        *,
        side: int,
        steps: int,
        batch: int,
        seed: int,
        augmentation: Augmentation,
    ) -> None:
        self._images, self._data = len(data.labels["train"]), data
        super().__init__(self._collated, examples=self._images, steps=steps, batch=batch)
        self._side, self._seed, self._does = side, seed, augmentation
        self._group = augmentation.group or batch
        if batch % self._group:
            raise ValueError(f"group must divide batch = {batch}, got {self._group}")
        self._epoch = self._images // batch * batch
        if not self._epoch:
            raise ValueError(
                f"data must have at least the {batch} training images of an update, "
                f"got {self._images}"
            )
        self._reads = preprocessing(data, side)
        self.place = DrawnOrder(self._draw, self._epoch)  # which image comes at a place of the run

    def _collated(self, places: list[int]) -> Batch:
        """Return mixed images ``(B, C, side, side)``, labels, those of partners, and shares."""
        blends = {group: self._blend(group) for group in {p // self._group for p in places}}
        mixed = [blends[place // self._group] for place in places]
        partners = [self._partner(place) for place in places]
        needed = {*places, *(p for p, b in zip(partners, mixed, strict=True) if b.share < 1)}
        made = {place: self._augmented(place) for place in needed}
        images = [
            blend.apply(made[place], made.get(partner, made[place]))
            for place, partner, blend in zip(places, partners, mixed, strict=True)
        ]
        return {
            "images": torch.from_numpy(np.stack(images)),
            "labels": self._labels(places),
            "partners": self._labels(partners),
            "shares": torch.tensor([blend.share for blend in mixed]),
        }

    def _draw(self, epoch: int) -> NDArray[np.int64]:
        """Return the images of an epoch, repetitions spread over the groups of each update."""
        update, within = np.divmod(np.arange(self._epoch), self.batch)
        group, slot = np.divmod(within, self._group)
        listed = update * self.batch + slot * (self.batch // self._group) + group
        order = np.random.default_rng([self._seed, _ORDER, epoch]).permutation(self._images)
        images: NDArray[np.int64] = order[listed // self._does.repeats]
        return images

    def _labels(self, indices: Iterable[int]) -> torch.Tensor:
        return torch.from_numpy(self._data.labels["train"][[self.place(i) for i in indices]])

    def _partner(self, index: int) -> int:
        """Return the place that mirrors another one in its group."""
        first = index // self._group * self._group
        return first + self._group - 1 - (index - first)

    def _blend(self, group: int) -> Blend:
        rng = np.random.default_rng([self._seed, _GROUP, group])
        return draw_blend(self._side, self._does.mixup, self._does.cutmix, rng)

    def _augmented(self, index: int) -> NDArray[np.float32]:
        """Return the image at a place of the run, ``(C, side, side)``, before it is mixed."""
        rng = np.random.default_rng([self._seed, _IMAGE, index])
        image = self._data.open("train", self.place(index))
        if self._does.least_area is None:
            image = self._reads.shaped(image)
        moved = self._does.moved(image, self._side, rng)
        return self._does.erased(self._reads.normalised(moved), rng)
