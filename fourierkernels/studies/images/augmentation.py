"""What is done to training images, one by one and in pairs.

Mixup and CutMix: images mixed in pairs, and the loss of labels that are shared likewise.

Hongyi Zhang, Moustapha Cisse, Yann N. Dauphin, David Lopez-Paz, "mixup: Beyond empirical risk
minimization" (ICLR 2018); Sangdoo Yun and others, "CutMix: Regularization strategy to train strong
classifiers with localizable features" (ICCV 2019). As in DeiT (``timm/data/mixup.py`` of
https://github.com/huggingface/pytorch-image-models, mode "batch"): all images of a group are mixed
with those of the group in reverse order, all with one share and one rectangle.

What is done to a training image: cut, flipped, distorted, partly erased.

The steps and their ranges are those of [touvron2021training]_, table 9, as timm draws them
(``timm/data/transforms.py``, ``auto_augment.py`` and ``random_erasing.py`` of
https://github.com/huggingface/pytorch-image-models, "timm" below). Each step draws from the
generator of its image, so that an image is the same in whatever process or batch it is made.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.studies.images.distortions import distort

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Blend:
    """How the images of a group are mixed with their partners.

    Attributes
    ----------
    share : float
        Share of the image itself, the rest being its partner's; of CutMix, that of the area.
    box : tuple of slice or None
        Rows and columns that come from the partner; None for mixup, and for no mixing at all.
    """

    share: float = 1.0
    box: tuple[slice, slice] | None = None

    def apply(
        self, image: NDArray[np.float32], partner: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return an image ``(C, H, W)`` mixed with its partner."""
        if self.box is None:
            share = np.float32(self.share)
            return share * image + (1 - share) * partner if self.share < 1 else image
        mixed = image.copy()
        mixed[:, *self.box] = partner[:, *self.box]
        return mixed


def draw_blend(side: int, mixup: float, cutmix: float, rng: np.random.Generator) -> Blend:
    """Return a mixing of images of `side` × `side` pixels.

    Parameters
    ----------
    mixup, cutmix : float
        Parameters α of Beta(α, α), from which the share is drawn; 0 leaves it out. If neither is
        0, each is chosen with probability 1/2.
    """
    if not mixup and not cutmix:
        return Blend()
    cut = bool(cutmix) and (not mixup or rng.random() < 0.5)
    alpha = cutmix if cut else mixup
    share = float(rng.beta(alpha, alpha))
    return _cut(side, share, rng) if cut else Blend(share)


def _cut(side: int, share: float, rng: np.random.Generator) -> Blend:
    """Return a square of area (1 - share) about a random centre, cut off at the border."""
    length = int(side * math.sqrt(1 - share))
    rows, columns = (
        slice(max(centre - length // 2, 0), min(centre + length // 2, side))
        for centre in rng.integers(side, size=2).tolist()
    )
    taken = (rows.stop - rows.start) * (columns.stop - columns.start)
    return Blend(1 - taken / side**2, (rows, columns))


def soft_targets(
    labels: Tensor, partners: Tensor, shares: Tensor, *, classes: int, smoothing: float
) -> Tensor:
    """Return probabilities of classes ``(B, K)``, a row's sum being one.

    Parameters
    ----------
    labels, partners : Tensor
        Classes of the images and of their partners, ``(B,)``.
    shares : Tensor
        Shares of the images themselves, ``(B,)``.
    smoothing : float
        Share of the probability that is spread evenly over all classes.

    Examples
    --------
    >>> one, other, share = torch.tensor([0]), torch.tensor([1]), torch.tensor([0.75])
    >>> soft_targets(one, other, share, classes=2, smoothing=0.0)
    tensor([[0.7500, 0.2500]])
    """
    own, theirs = (functional.one_hot(one, classes).to(shares) for one in (labels, partners))
    mixed = torch.lerp(theirs, own, shares[:, None])
    return (1 - smoothing) * mixed + smoothing / classes


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over images of -Σ_k t_k log p_k, both ``(B, K)``."""
    return -(targets * functional.log_softmax(logits, dim=-1)).sum(dim=-1).mean()


_RATIOS = (3 / 4, 4 / 3)  # of width to height of a random crop
_ERASED = (0.02, 1 / 3)  # share of an image
_ERASED_RATIOS = (0.3, 1 / 0.3)
_ATTEMPTS = 10  # to draw a rectangle that lies within the image


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images; by default nothing.

    Attributes
    ----------
    least_area : float or None
        A rectangle of this share of the image at least, of a ratio between 3/4 and 4/3, is cut out
        and resized; None reads the image as in validation.
    shift : int
        Most pixels by which an image is moved in either direction; black comes in.
    flip : float
        Probability of a reflection from left to right.
    distortion : float or None
        Magnitude of RandAugment, 0 to 10; None leaves it out.
    erase : float
        Probability that a rectangle is replaced by noise N(0, 1).
    mixup, cutmix : float
        Parameters of the beta distributions from which shares of two images are drawn, see
        :mod:`~fourierkernels.studies.images.augmentation`; 0 leaves it out.
    repeats : int
        Times that an image comes in an epoch, which then reads fewer images (repeated
        augmentation).
    group : int or None
        Images that are mixed among themselves, with one share; all of an update if None.
    """

    least_area: float | None = None
    shift: int = 0
    flip: float = 0.0
    distortion: float | None = None
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    repeats: int = 1
    group: int | None = None

    def __post_init__(self) -> None:
        for name in ("flip", "erase"):
            if not 0 <= check_number(name, getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        for name in ("mixup", "cutmix"):
            if check_number(name, getattr(self, name)) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if self.least_area is not None and not 0 < check_number("least_area", self.least_area) <= 1:
            raise ValueError(f"least_area must be in (0, 1], got {self.least_area}")
        if self.distortion is not None and not check_number("distortion", self.distortion) >= 0:
            raise ValueError(f"distortion must be at least 0, got {self.distortion}")
        check_integer("shift", self.shift, least=0)
        check_integer("repeats", self.repeats)
        if self.group is not None:
            check_integer("group", self.group)

    def moved(self, image: "Image", side: int, rng: np.random.Generator) -> "Image":
        """Return an image of `side` × `side` pixels after all steps but erasing."""
        if self.least_area is not None:
            image = _random_crop(image, side, self.least_area, rng)
        if self.shift:
            image = _shifted(image, *rng.integers(-self.shift, self.shift + 1, 2).tolist())
        if self.flip and rng.random() < self.flip:
            image = _mirrored(image)
        return image if self.distortion is None else distort(image, self.distortion, rng)

    def erased(self, pixels: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return normalised pixels ``(C, H, W)``, with probability `erase` a rectangle of noise."""
        if not self.erase or rng.random() >= self.erase:
            return pixels
        size = pixels.shape[-2:]
        box = _random_box(size, _ERASED, _ERASED_RATIOS, rng)
        if box is None:
            return pixels
        top, left, height, width = box
        found = pixels.copy()
        noise = rng.standard_normal((len(pixels), height, width), dtype=np.float32)
        found[:, top : top + height, left : left + width] = noise
        return found


def _random_crop(image: "Image", side: int, least: float, rng: np.random.Generator) -> "Image":
    """Return a random rectangle of an image, resized; the middle of it if none is found."""
    from PIL.Image import Resampling

    size = (image.height, image.width)
    top, left, height, width = _random_box(size, (least, 1.0), _RATIOS, rng) or _middle(*size)
    box = (left, top, left + width, top + height)
    return image.crop(box).resize((side, side), Resampling.BICUBIC)


def _random_box(
    size: tuple[int, ...],
    areas: tuple[float, float],
    ratios: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[int, int, int, int] | None:
    """Return top, left, height and width of a rectangle in an image; None if none was found.

    Parameters
    ----------
    size : (int, int)
        Height and width of the image.
    areas, ratios : (float, float)
        Least and largest share of its area, evenly drawn, and ratio of width to height, whose
        logarithm is.
    """
    height, width = size
    for _ in range(_ATTEMPTS):
        area = rng.uniform(*areas) * height * width
        ratio = math.exp(rng.uniform(math.log(ratios[0]), math.log(ratios[1])))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 1 <= across <= width and 1 <= down <= height:
            top = int(rng.integers(height - down + 1))
            return top, int(rng.integers(width - across + 1)), down, across
    return None


def _middle(height: int, width: int) -> tuple[int, int, int, int]:
    """Return the largest rectangle around the centre whose ratio a random crop may have."""
    down = min(height, max(round(width / _RATIOS[0]), 1))
    across = min(width, max(round(height * _RATIOS[1]), 1))
    return (height - down) // 2, (width - across) // 2, down, across


def _shifted(image: "Image", down: int, right: int) -> "Image":
    return image.crop((-right, -down, image.width - right, image.height - down))


def _mirrored(image: "Image") -> "Image":
    from PIL import ImageOps

    return ImageOps.mirror(image)
