"""The image classifier of the FourierFormer paper: DeiT-tiny with any token mixer.

[touvron2021training]_: patches of 16 × 16 pixels, a class token (and, distilled, a token for the
teacher), learned positions, blocks that norm first. [nguyen2022fourierformer]_ section 4.2: 12
layers, 192 features. Its text says 4 heads; DeiT-tiny and the code its authors published have 3.

Both codes (github.com/facebookresearch/deit, main.py and models.py, and imagenet/ of
minhtannguyen/FourierFormer_NeurIPS) drop nothing but whole sublayers: stochastic depth that rises
from 0 to 0.1. Dense layers, class token and positions start at N(0, 0.02²), biases at 0, the
patches as PyTorch draws a convolution.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.models.blocks import build_blocks, run_blocks
from fourierkernels.models.configs import Presets, block_config
from fourierkernels.models.inputs import check_features
from fourierkernels.models.parameters import initialise


@dataclass(frozen=True)
class VisionConfig(Presets):
    """Hyperparameters of a :class:`VisionTransformer`; `image` and `patch` are in pixels.

    Attributes
    ----------
    dropout, attention_dropout, feed_forward_dropout : float or None
        Probabilities of dropping a number of the embedded patches and of what a sublayer returns,
        a weight of attention, and a number inside the feed-forward; None takes `dropout`.
    drop_path : float
        Probability of leaving a sublayer of the last block out for a whole image.
    std : float
        Deviation of initial weights of dense layers, of the class token and of positions.

    Examples
    --------
    >>> VisionConfig.preset("deit_tiny").tokens
    197
    """

    image: int = 224
    patch: int = 16
    channels: int = 3
    classes: int = 1000
    dim: int = 192
    layers: int = 12
    heads: int = 3
    hidden: int = 768
    mixer: str = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    distilled: bool = False
    norm_eps: float = 1e-6
    dropout: float = 0.0
    attention_dropout: float | None = None
    feed_forward_dropout: float | None = None
    drop_path: float = 0.1
    std: float = 0.02

    @property
    def tokens(self) -> int:
        """Number of patches and of the tokens in front of them."""
        if self.image % self.patch:
            raise ValueError(f"patch must divide image = {self.image}, got {self.patch}")
        return int((self.image // self.patch) ** 2) + 1 + self.distilled


_FOURIER: dict[str, Any] = {"mixer": "fourier", "mixer_options": {"radius": 1.0}}
VisionConfig.presets = {
    "deit_tiny": VisionConfig(),
    "deit_tiny_distilled": VisionConfig(distilled=True),
    "deit_tiny_fourier": VisionConfig(**_FOURIER),
    "deit_tiny_4_heads": VisionConfig(heads=4),
    "deit_small": VisionConfig(dim=384, heads=6, hidden=1536),
    "deit_base": VisionConfig(dim=768, heads=12, hidden=3072),
}
vision_config = VisionConfig.preset


class VisionTransformer(nn.Module):
    """Classify images.

    Parameters
    ----------
    config : VisionConfig
        For instance ``vision_config("deit_tiny", mixer="fnet")``.

    Examples
    --------
    >>> sizes = {"image": 8, "patch": 4, "dim": 8, "layers": 1, "heads": 2, "classes": 5}
    >>> model = VisionTransformer(vision_config("deit_tiny", **sizes))
    >>> model(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 5])
    """

    without_decay = ("prefix", "positions")  # no_weight_decay in models.py of both codes

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        prefix, std = 1 + config.distilled, config.std  # a class token, and a teacher's
        self.patches = nn.Conv2d(config.channels, config.dim, config.patch, stride=config.patch)
        self.prefix = nn.Parameter(
            config.std * torch.randn(1, prefix, config.dim)
        )  # class, teacher
        self.positions = nn.Parameter(std * torch.randn(1, config.tokens, config.dim))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(
            block_config(config, length=config.tokens, norm="pre", activation="gelu"), config.layers
        )
        self.final_norm = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.heads = nn.ModuleList(nn.Linear(config.dim, config.classes) for _ in range(prefix))
        initialise(self, std=std)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, classes)``: of the class token, or the mean of both heads."""
        return torch.stack(self.head_logits(images)).mean(dim=0)

    def head_logits(self, images: Tensor) -> list[Tensor]:
        """Return the logits of each head: class and, distilled, teacher, which training needs."""
        states = self.states(images)
        return [head(states[:, i]) for i, head in enumerate(self.heads)]

    def states(self, images: Tensor) -> Tensor:
        """Return the last states ``(B, tokens, E)`` of images ``(B, channels, image, image)``."""
        size = self.config.image
        check_features("images", images, (None, self.config.channels, size, size))
        patches = self.patches(images).flatten(2).transpose(1, 2)  # (B, patches, E)
        x = torch.cat([self.prefix.expand(images.shape[0], -1, -1), patches], dim=1)
        x = run_blocks(self.blocks, self.dropout(x + self.positions))
        normed: Tensor = self.final_norm(x)
        return normed
