"""The image study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.2.

:mod:`fourierkernels.studies.images.presets` has its sizes, with the source of each detail.
Images need pillow, which other studies do not: it is loaded when they are read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import CLASSES, PREPROCESSING
from fourierkernels.models import VisionTransformer, vision_config
from fourierkernels.models.vision import VisionConfig
from fourierkernels.studies.engine.classification import (
    Classification,
    Examples,
    logistic_regression,
)
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.data_sets import DataSet, evenly_spread
from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.study import Measured, Terms
from fourierkernels.studies.images.augmentation import soft_cross_entropy, soft_targets
from fourierkernels.studies.images.labelled import LabelledImages
from fourierkernels.studies.images.presets import PRESETS, ImagePreset
from fourierkernels.studies.images.sets import IMAGE_SETS, read_labelled

TOPS = (1, 5)
LARGEST_READ, MOST_READ = 64, 3_000  # side, and training images that a baseline reads
_IMAGENET = {"train": 1_281_167, "valid": 50_000, "test": 0}  # images


class ImageStudy(Classification[ImagePreset, LabelledImages, VisionTransformer]):
    """Vision transformers, measured by top-1 and top-5 accuracy."""

    presets = PRESETS
    default = "digits"
    terms = Terms("classes", "classes", "training images", "images", "a folder of images")
    packages = ("pillow",)
    experiment = "images_small"
    baseline_metric = "top-1"
    labels = "labels"

    def data_sets(self) -> Mapping[str, DataSet[LabelledImages]]:
        """Return the sets of labelled images."""
        return IMAGE_SETS

    def read(
        self, preset: ImagePreset, data: str | Path | None, *, cache: Path | None = None
    ) -> LabelledImages:
        """Return the images of a run, which have to be of the size that the preset reads."""
        import fourierkernels.foundation.image_files  # noqa: F401 - before a training that needs it

        images, side = read_labelled(self.named(preset, data)), side_of(preset)
        if images.side not in (None, side):
            raise ValueError(
                f"data must have images of {side} x {side} pixels, which this preset reads, "
                f"got {images.side} x {images.side} in {images.source}"
            )
        return images

    def build(
        self, preset: ImagePreset, data: LabelledImages, mixer: ChosenMixer
    ) -> VisionTransformer:
        """Return a model with random weights for the classes and the channels of a data set."""
        return VisionTransformer(
            replace(
                _config(preset),
                channels=data.channels,
                classes=len(data.vocabulary),
                mixer=mixer.name,
                mixer_options=mixer.over(preset).options,
            )
        )

    def batches(self, preset: ImagePreset, data: LabelledImages, recipe: Recipe) -> Epochs:
        """Return the training images, in the order of the run."""
        from fourierkernels.studies.images.batches import ImageUpdates

        return ImageUpdates(
            data,
            side=side_of(preset),
            steps=recipe.steps,
            batch=recipe.batch,
            seed=recipe.seed,
            augmentation=preset.augmentation,
        )

    def logits(self, model: VisionTransformer, batch: Batch) -> Tensor:
        """Return the logits of images."""
        weight = next(model.parameters())
        logits: Tensor = model(batch["images"].to(device=weight.device, dtype=weight.dtype))
        return logits

    def examples(
        self, preset: ImagePreset, data: LabelledImages, split: str, members: Sequence[int]
    ) -> Batch:
        """Return images of a split as they are."""
        from fourierkernels.studies.images.batches import read_batch

        return read_batch(data, split, members, side_of(preset))

    def loss(self, model: VisionTransformer, batch: Batch, smoothing: float) -> Tensor:
        """Return the cross-entropy with mixed and smoothed labels."""
        logits = self.logits(model, batch)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        shared = (batch["labels"], batch["partners"], batch["shares"].to(logits.dtype))
        targets = soft_targets(*shared, classes=logits.shape[1], smoothing=smoothing)
        return soft_cross_entropy(logits, targets)

    @torch.no_grad()
    def sums(
        self,
        model: VisionTransformer,
        preset: ImagePreset,
        data: LabelledImages,
        split: str,
        members: Sequence[int],
    ) -> tuple[float, ...]:
        """Return sums over images: of -log p of the label, and of hits among 1 and 5."""
        sums, device = np.zeros(1 + len(TOPS)), next(model.parameters()).device
        model.eval()
        for first in range(0, len(members), self.at_a_time):
            batch = self.examples(preset, data, split, members[first : first + self.at_a_time])
            labels = batch["labels"].to(device)
            logits = self.logits(model, batch).double()
            losses = functional.cross_entropy(logits, labels, reduction="sum")
            sums += (float(losses), *(float(hits(logits, labels, k).sum()) for k in TOPS))
        return tuple(sums.tolist())

    def measure(
        self,
        preset: ImagePreset,
        data: LabelledImages,
        mixer: str,
        model: VisionTransformer,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return accuracies in percent, and the loss, on each split that there is.

        Top-5 is left out where there are no more than five classes.

        Raises
        ------
        ValueError
            If the data have none of these splits.
        """
        there = [split for split in splits if split in data.labels]
        if not there:
            raise ValueError(
                f"split must be one of {', '.join(data.counts)} for these images, "
                f"got {', '.join(splits)}"
            )
        if folder is not None:
            _write_preprocessing(folder / PREPROCESSING, data, side_of(preset))
        rows = []
        for split in there:
            members = measured_places(len(data.labels[split]), positions)
            total, *correct = self.sums(model, preset, data, split, members)
            count = len(members)
            values = {f"top-{k}": 100 * n / count for k, n in zip(TOPS, correct, strict=True)}
            if len(data.vocabulary) <= max(TOPS):
                del values[f"top-{max(TOPS)}"]
            paper = published(preset, data, mixer, split) if positions is None else {}
            rows += [
                Measured(split, metric, value, count, paper.get(metric))
                for metric, value in (values | {"cross-entropy": total / count}).items()
            ]
        return rows

    def prepare(self, folder: Path, data: LabelledImages) -> None:
        """Write the classes of a run into its folder."""
        write_text(folder / CLASSES, "".join(f"{name}\n" for name in data.vocabulary))

    def check(self, folder: Path, data: LabelledImages) -> None:
        """Refuse images of other classes than those of a run."""
        written = (folder / CLASSES).read_text(encoding="utf-8").splitlines()
        if written != list(data.vocabulary):
            raise ValueError(
                f"data must have the {len(written)} classes of {folder / CLASSES}, "
                f"got {len(data.vocabulary)} in {data.source}"
            )

    def baselines(self, preset: ImagePreset, data: LabelledImages) -> list[Baseline]:
        """Return what a logistic regression gets on the pixels of small images."""
        if data.side is None or data.side > LARGEST_READ:
            return []
        splits = {}
        for name, count in data.counts.items():
            places = evenly_spread(count, MOST_READ if name == "train" else None)
            pixels = [np.asarray(data.open(name, place)).ravel() for place in places]
            splits[name] = Examples(np.array(pixels, dtype=np.float64), data.labels[name][places])
        return [logistic_regression("pixels", splits)] if "test" in splits else []

    def facts(self, preset: ImagePreset, data: LabelledImages) -> Mapping[str, Any]:
        """Return how images are normalised, and what is done to those of the training."""
        does = asdict(preset.augmentation)
        return {"mean": data.mean, "std": data.std, "augmentation": does}


STUDY = ImageStudy()


def hits(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Return the probability that the label is among the k largest logits, ``(B,)``.

    It is 0 or 1, unless logits equal to the label's decide; those are put in random order. A logit
    that is not a number is larger than all others.

    Parameters
    ----------
    logits : Tensor
        ``(B, K)``.
    labels : Tensor
        ``(B,)``.

    Examples
    --------
    >>> hits(torch.tensor([[2.0, 1.0, 1.0], [0.0, 1.0, 0.0]]), torch.tensor([1, 1]), 2)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    of_label = logits.gather(1, labels[:, None])
    above = (~(logits <= of_label)).sum(dim=1).double()
    equal = (logits == of_label).sum(dim=1).clamp(min=1).double()
    return ((k - above) / equal).clamp(0, 1)


def measured_places(count: int, most: int | None) -> list[int]:
    """Return at most so many places of a split, evenly spread."""
    size = count if most is None else min(most, count)
    places: list[int] = (np.arange(size) * count // size).tolist()
    return places


def side_of(preset: ImagePreset) -> int:
    """Return the height and width of the images that a preset reads."""
    return _config(preset).image


def published(
    preset: ImagePreset, data: LabelledImages, mixer: str, split: str
) -> Mapping[str, float]:
    """Return the paper's numbers, which are of ImageNet's validation images."""
    same = {**data.counts, "test": 0} == _IMAGENET and split == "valid"
    return preset.published.get(mixer, {}) if same else {}


def _write_preprocessing(file: Path, data: LabelledImages, side: int) -> None:
    """Write how images are read, as image processors of transformers do, for other commands."""
    from fourierkernels.studies.images.batches import preprocessing

    does, square = preprocessing(data, side), {"height": side, "width": side}
    rules = {
        "size": square if does.crop is None else {"shortest_edge": does.size},
        "resample": int(does.resample),
        "do_center_crop": does.crop is not None,
        "crop_size": square,
        "image_mean": does.mean,
        "image_std": does.std,
    }
    write_text(file, json.dumps(rules, indent=2) + "\n")


def _config(preset: ImagePreset) -> VisionConfig:
    sizes = dict(preset.model)
    return vision_config(sizes.pop("preset"), **sizes)
