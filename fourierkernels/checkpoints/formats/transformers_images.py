"""How a network of Hugging Face transformers is run on images."""

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.image_networks import ImageCheckpoint, read_preprocessing
from fourierkernels.checkpoints.formats.request import as_pair

UNMASKED = "masking is off: the network reads all patches of an image, in their order"


@dataclass(frozen=True, eq=False, kw_only=True)
class PixelCheckpoint(ImageCheckpoint):
    """A network of transformers that reads images.

    Attributes
    ----------
    order : Tensor or None
        Places of the patches, for a network that would hide a random part of them otherwise.
    """

    order: Tensor | None = None

    def call(self, images: Tensor) -> Any:
        """Run the model on images."""
        if self.order is None:
            return self.model(pixel_values=images)
        return self.model(pixel_values=images, noise=self.order.expand(len(images), -1))


def vision_checkpoint(model: Any, files: CheckpointFiles) -> Checkpoint:
    """Return a model of transformers that reads images, with its preprocessing."""
    config = model.config
    if not hasattr(config, "image_size"):
        raise ValueError(
            f"checkpoint must say the image_size of its images, got {type(model).__name__}"
        )
    height, width = as_pair(config.image_size)
    channels = int(getattr(config, "num_channels", 3))
    patch = as_pair(config.patch_size) if hasattr(config, "patch_size") else None
    patches = 0 if patch is None else (height // patch[0]) * (width // patch[1])
    order = unmasked(model, patches)
    return PixelCheckpoint(
        files=files,
        model=model,
        preprocess=read_preprocessing(files.folder, height=height, width=width, channels=channels),
        shape=(channels, height, width),
        patch=patch,
        order=order,
        notes=() if order is None else (UNMASKED,),
    ).counted()


def unmasked(model: Any, patches: int) -> Tensor | None:
    """Switch off the masking of a network that hides a random part of every image in training.

    Parameters
    ----------
    patches : int
        Of an image.

    Returns
    -------
    Tensor or None
        The noise by which patches are ordered, their own order; None where images are not masked.
    """
    hides = any(
        hasattr(module, "random_masking") and getattr(module, "is_mae", True)
        for module in model.modules()
    )
    if not hides or "noise" not in inspect.signature(model.forward).parameters:
        return None
    model.config.mask_ratio = 0.0
    return torch.arange(patches, dtype=torch.float32)
