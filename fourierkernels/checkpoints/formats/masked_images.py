"""Networks that hide a random part of every image as in their training: all of it is read here."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

_NOTE = "masking is off: the network reads all patches of an image, in their order"


def unmasked(model: Any, patches: int) -> tuple[Callable[[int], dict[str, Any]], tuple[str, ...]]:
    """Switch the random masking of an image network off.

    Parameters
    ----------
    patches : int
        Of an image.

    Returns
    -------
    callable
        From the number of images in a batch to further arguments of the forward pass.
    tuple of str
        What has to be said; nothing where images are not masked.
    """
    hides = any(
        hasattr(module, "random_masking") and getattr(module, "is_mae", True)
        for module in model.modules()
    )
    if not hides or "noise" not in inspect.signature(model.forward).parameters:
        return lambda images: {}, ()
    model.config.mask_ratio = 0.0
    order = torch.arange(patches, dtype=torch.float32)  # patches are kept in the order of the noise
    return lambda images: {"noise": order.expand(images, -1)}, (_NOTE,)
