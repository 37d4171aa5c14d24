"""The image study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.2.

:mod:`fourierkernels.studies.images.presets` has its sizes, with the source of each detail.
Images need pillow, which other studies do not: it is loaded when they are read.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import CLASSES, PREPROCESSING
from fourierkernels.mixing.registry import check_options, mixer_names
from fourierkernels.models import VisionTransformer, vision_config
from fourierkernels.models.vision import VisionConfig
from fourierkernels.studies.engine.objective import Objective
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.engine.study import Measured, Preset, Study, Terms, Updates
from fourierkernels.studies.images.augmentation import Augmentation
from fourierkernels.studies.images.blending import soft_cross_entropy, soft_targets
from fourierkernels.studies.images.labelled import LabelledImages
from fourierkernels.studies.images.presets import PRESETS
from fourierkernels.studies.images.sets import IMAGE_SETS, read_labelled

_IMAGENET = {"train": 1_281_167, "valid": 50_000, "test": 0}  # images


def read(preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> LabelledImages:
    """Return the images of a run.

    Raises
    ------
    ValueError
        If none are named for a preset that needs some, they cannot be read, or have another size
        than the preset's model reads.
    ImportError
        If pillow is missing.
    """
    import fourierkernels.foundation.image_files  # noqa: F401 - before a training that needs it

    named = preset.data if data is None else data
    if named is None:
        raise ValueError(
            "data must be a folder of images for this preset: --data FOLDER (--help says where "
            "they are had), got none"
        )
    found, side = read_labelled(named), _side(preset)
    if found.side not in (None, side):
        raise ValueError(
            f"data must have images of {side} x {side} pixels, which this preset reads, "
            f"got {found.side} x {found.side} in {found.source}"
        )
    return found


def build(
    preset: Preset, data: LabelledImages, mixer: str, options: Mapping[str, Any]
) -> VisionTransformer:
    """Return a model with random weights for the classes and the channels of a data set."""
    return VisionTransformer(
        _config(
            preset,
            channels=data.channels,
            classes=len(data.vocabulary),
            mixer=mixer,
            mixer_options={**preset.mixer_options.get(mixer, {}), **options},
        )
    )


def batches(preset: Preset, data: LabelledImages, recipe: Recipe) -> Updates:
    """Return the training images, in the order of the run."""
    from fourierkernels.studies.images.updates import ImageUpdates

    return ImageUpdates(
        data,
        side=_side(preset),
        steps=recipe.steps,
        batch=recipe.batch,
        seed=recipe.seed,
        augmentation=preset.augmentation or Augmentation(),
    )


def objective(preset: Preset, data: LabelledImages, recipe: Recipe) -> Objective:
    """Return the cross-entropy with mixed and smoothed labels, and its plain validation."""
    from fourierkernels.studies.images.image_measures import accuracy_sums

    classes = len(data.vocabulary)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits = model(batch["images"].to(next(model.parameters()).dtype))
        shared = (batch["labels"], batch["partners"], batch["shares"].to(logits.dtype))
        targets = soft_targets(*shared, classes=classes, smoothing=recipe.label_smoothing)
        return soft_cross_entropy(logits, targets)

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, ...]:
        part = (process, processes)
        total, count, first, _ = accuracy_sums(model, data, "valid", side=_side(preset), part=part)
        return total, count, first

    return Objective(loss, validate, math.log(classes), further=("accuracy",))


def measure(
    preset: Preset,
    data: LabelledImages,
    mixer: str,
    model: nn.Module,
    *,
    splits: tuple[str, ...] = ("valid", "test"),
    positions: int | None = None,
    folder: Path | None = None,
) -> list[Measured]:
    """Return the accuracies of a trained model in percent, and its loss, on each split there is.

    Top-5 is left out where there are no more than five classes.

    Raises
    ------
    ValueError
        If the data have none of these splits.
    """
    from fourierkernels.studies.images.image_measures import TOPS, accuracy_sums

    there = [split for split in splits if split in data.labels]
    if not there:
        raise ValueError(
            f"split must be one of {', '.join(data.counts)} for these images, "
            f"got {', '.join(splits)}"
        )
    if folder is not None:
        _write_preprocessing(folder / PREPROCESSING, data, _side(preset))
    rows = []
    for split in there:
        total, count, *found = accuracy_sums(model, data, split, side=_side(preset), most=positions)
        values = {f"top-{k}": 100 * hits / count for k, hits in zip(TOPS, found, strict=True)}
        if len(data.vocabulary) <= max(TOPS):
            del values[f"top-{max(TOPS)}"]
        paper = _published(preset, data, mixer, split) if positions is None else {}
        rows += [
            Measured(split, metric, value, int(count), paper.get(metric))
            for metric, value in (values | {"cross-entropy": total / count}).items()
        ]
    return rows


def prepare(folder: Path, data: LabelledImages) -> None:
    """Write the classes of a run into its folder."""
    write_text(folder / CLASSES, "".join(f"{name}\n" for name in data.vocabulary))


def check(folder: Path, data: LabelledImages) -> None:
    """Refuse images of other classes than those of a run."""
    written = (folder / CLASSES).read_text(encoding="utf-8").splitlines()
    if written != list(data.vocabulary):
        raise ValueError(
            f"data must have the {len(written)} classes of {folder / CLASSES}, "
            f"got {len(data.vocabulary)} in {data.source}"
        )


def facts(preset: Preset, data: LabelledImages) -> Mapping[str, Any]:
    """Return how images are normalised, and what is done to those of the training."""
    does = preset.augmentation or Augmentation()
    return {"mean": data.mean, "std": data.std, "augmentation": asdict(does)}


STUDY = Study(
    title="Image classification: the FourierFormer paper's table 2",
    presets=PRESETS,
    mixers=lambda: mixer_names(causal=False),
    read=read,
    build=build,
    batches=batches,
    objective=objective,
    measure=measure,
    facts=facts,
    check_options=check_options,
    prepare=prepare,
    check=check,
    packages=("pillow",),
    default="digits",
    terms=Terms("classes", "classes", "training images", "images"),
    data=lambda: IMAGE_SETS,
    experiment="images_small",
)


def _write_preprocessing(file: Path, data: LabelledImages, side: int) -> None:
    """Write how images are read, as image processors of transformers do, for other commands."""
    from fourierkernels.studies.images.updates import preprocessing

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


def _config(preset: Preset, **changes: Any) -> VisionConfig:
    own = dict(preset.model)
    return vision_config(own.pop("preset"), **own, **changes)


def _side(preset: Preset) -> int:
    return _config(preset).image


def _published(preset: Preset, data: LabelledImages, mixer: str, split: str) -> Mapping[str, float]:
    """Return the paper's numbers, which are of ImageNet's validation images."""
    same = {**data.counts, "test": 0} == _IMAGENET and split == "valid"
    return preset.published.get(mixer, {}) if same else {}
