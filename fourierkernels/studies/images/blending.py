"""Mixup and CutMix: images mixed in pairs, and the loss of labels that are shared likewise.

Hongyi Zhang, Moustapha Cisse, Yann N. Dauphin, David Lopez-Paz, "mixup: Beyond empirical risk
minimization" (ICLR 2018); Sangdoo Yun and others, "CutMix: Regularization strategy to train strong
classifiers with localizable features" (ICCV 2019). As in DeiT (``timm/data/mixup.py`` of
https://github.com/huggingface/pytorch-image-models, mode "batch"): all images of a group are mixed
with those of the group in reverse order, all with one share and one rectangle.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


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
