"""RandAugment as DeiT draws it: ``rand-m9-mstd0.5-inc1`` of timm.

Ekin D. Cubuk, Barret Zoph, Jonathon Shlens, Quoc V. Le, "RandAugment: Practical automated data
augmentation with a reduced search space" (NeurIPS 2020); ranges and the normal draw of the
magnitude are those of timm (``timm/data/auto_augment.py`` of
https://github.com/huggingface/pytorch-image-models), whose operations are pillow's, too.

Two operations are drawn, with replacement; each is applied with probability 1/2, at a magnitude
from N(m, 0.5²) that is clipped to 0, …, 10. The farther from 0, the stronger is an operation; signs
are drawn. What comes in from outside the image has the mean colour of ImageNet, and pixels between
pixels are bicubic, as DeiT's ``datasets.py`` asks for.

The table is here because torchvision and timm draw from global generators, and torchvision's wheels
do not load beside a PyTorch without CUDA.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

_LAYERS = 2
_APPLIED = 0.5
_SPREAD = 0.5
_STRONGEST = 10.0
_MIDDLE = 128  # darker values are raised by solarize_add
# What comes in from outside, by the mode of the image.
_FILL: dict[str, float | tuple[float, ...]] = {"RGB": (124, 116, 104), "L": 116}


@dataclass(frozen=True)
class Distortion:
    """One row of :data:`DISTORTIONS`.

    Attributes
    ----------
    apply : callable
        From an image and its setting to the image.
    setting : callable
        From a level in [0, 1] and a sign, 1 or -1, to the setting.
    """

    apply: Callable[["Image", float], "Image"]
    setting: Callable[[float, int], float] = lambda level, sign: 0.0


def distort(image: "Image", magnitude: float, rng: np.random.Generator) -> "Image":
    """Return an image, grey or in colour, after two random operations.

    Parameters
    ----------
    magnitude : float
        Their mean strength, 9 of 10 in DeiT.
    """
    names = list(DISTORTIONS)
    for name in rng.choice(names, _LAYERS):
        if rng.random() >= _APPLIED:
            continue
        level = float(np.clip(rng.normal(magnitude, _SPREAD), 0, _STRONGEST)) / _STRONGEST
        sign = 1 if rng.random() < 0.5 else -1
        row = DISTORTIONS[str(name)]
        image = row.apply(image, row.setting(level, sign))
    return image


def _affine(image: "Image", matrix: tuple[float, ...]) -> "Image":
    from PIL.Image import Resampling, Transform

    fill = _FILL[image.mode]
    return image.transform(image.size, Transform.AFFINE, matrix, Resampling.BICUBIC, fillcolor=fill)


def _rotated(image: "Image", degrees: float) -> "Image":
    from PIL.Image import Resampling

    return image.rotate(degrees, Resampling.BICUBIC, fillcolor=_FILL[image.mode])


def _with_ops(name: str) -> Callable[["Image", float], "Image"]:
    """Return an operation of pillow's ImageOps that has no setting."""

    def apply(image: "Image", setting: float) -> "Image":
        from PIL import ImageOps

        changed: Image = getattr(ImageOps, name)(image)
        return changed

    return apply


def _enhanced(name: str) -> Callable[["Image", float], "Image"]:
    """Return one of pillow's ImageEnhance, at a factor; 1 changes nothing."""

    def apply(image: "Image", factor: float) -> "Image":
        from PIL import ImageEnhance

        changed: Image = getattr(ImageEnhance, name)(image).enhance(factor)
        return changed

    return apply


def _posterized(image: "Image", bits: float) -> "Image":
    """Keep so many high bits, from 0, which pillow's own operation refuses, to 8."""
    kept = 256 - 2 ** (8 - int(bits))
    return image.point([value & kept for value in range(256)] * len(image.getbands()))


def _solarized(image: "Image", threshold: float) -> "Image":
    from PIL import ImageOps

    return ImageOps.solarize(image, int(threshold))


def _brightened_darks(image: "Image", more: float) -> "Image":
    table = [min(255, value + int(more)) if value < _MIDDLE else value for value in range(256)]
    return image.point(table * len(image.getbands()))


def _factor(level: float, sign: int) -> float:
    return max(0.1, 1 + sign * 0.9 * level)


# timm's _RAND_INCREASING_TRANSFORMS, in its order; a level is its magnitude over 10.
DISTORTIONS: dict[str, Distortion] = {
    "auto_contrast": Distortion(_with_ops("autocontrast")),
    "equalize": Distortion(_with_ops("equalize")),
    "invert": Distortion(_with_ops("invert")),
    "rotate": Distortion(_rotated, lambda level, sign: sign * 30 * level),
    "posterize": Distortion(_posterized, lambda level, sign: 4 - int(4 * level)),
    "solarize": Distortion(_solarized, lambda level, sign: 256 - int(256 * level)),
    "solarize_add": Distortion(_brightened_darks, lambda level, sign: min(128, int(110 * level))),
    "color": Distortion(_enhanced("Color"), _factor),
    "contrast": Distortion(_enhanced("Contrast"), _factor),
    "brightness": Distortion(_enhanced("Brightness"), _factor),
    "sharpness": Distortion(_enhanced("Sharpness"), _factor),
    "shear_x": Distortion(
        lambda image, s: _affine(image, (1, s, 0, 0, 1, 0)),
        lambda level, sign: sign * 0.3 * level,
    ),
    "shear_y": Distortion(
        lambda image, s: _affine(image, (1, 0, 0, s, 1, 0)),
        lambda level, sign: sign * 0.3 * level,
    ),
    "translate_x": Distortion(
        lambda image, s: _affine(image, (1, 0, s * image.width, 0, 1, 0)),
        lambda level, sign: sign * 0.45 * level,
    ),
    "translate_y": Distortion(
        lambda image, s: _affine(image, (1, 0, 0, 0, 1, s * image.height)),
        lambda level, sign: sign * 0.45 * level,
    ),
}
