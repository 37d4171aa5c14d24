"""A classifier of multivariate time series: the UEA experiments of the FourierFormer paper.

[nguyen2022fourierformer]_ (conference version) section 4.3 takes its settings from two papers whose
code is published: [zerveas2021transformer]_ (github.com/gzerveas/mvts_transformer, file
src/models/ts_transformer.py, preset "zerveas") and [wu2022flowformer]_ (github.com/thuml/Flowformer
in Flowformer_TimeSeries, preset "flowformer"). In both, each step is projected to a token and
multiplied by √E, positions are learned and norms stand after the sums. Dropout of 0.1 is after the
positions, on the weights of attention, after each sublayer, inside the feed-forward and before the
classifier, which reads the GELUs of all states side by side, zero where a series has ended. They
differ here:

=================== ============================================ =================================
detail              "zerveas"                                    "flowformer"
=================== ============================================ =================================
norm                batch normalisation                          LayerNorm, and one more at the end
dense layers        as PyTorch draws them                        as PyTorch draws them
query, key, value   Xavier-uniform of the three together, bias 0 as PyTorch draws them
=================== ============================================ =================================

Batch normalisation counts padded steps there and leaves them out here, and so does attention, which
in Flowformer's code reads them. The preset "small" is ours: LayerNorm in front of each sublayer and
at the end, dense layers from N(0, 0.02²), and the mean of the states of the valid steps is
classified.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.validation import check_choice
from fourierkernels.models.blocks import ACTIVATIONS, build_blocks, run_blocks
from fourierkernels.models.configs import Presets, block_config
from fourierkernels.models.inputs import check_features, check_length, check_padding
from fourierkernels.models.parameters import initialise
from fourierkernels.models.residual import rate_or
from fourierkernels.models.sequences import mean_over_valid


@dataclass(frozen=True)
class SeriesConfig(Presets):
    """Hyperparameters of a :class:`SeriesClassifier`; `channels` is the series' dimension.

    Attributes
    ----------
    length : int
        Longest series, in steps.
    norm : {"pre", "post"}
        Place of the norms.
    norm_kind : {"layer", "batch"}
        LayerNorm, or batch normalisation over the valid steps of a batch.
    final_norm : bool
        Whether a LayerNorm follows the last block.
    scale_projection : bool
        Whether the projected steps are multiplied by √E.
    final_activation : bool
        Whether the last states pass the activation.
    pooling : {"mean", "concatenate"}
        What is classified: the mean over the valid steps, or all `length` states side by side, zero
        where the series has ended.
    start : {"bert", "pytorch", "multihead"}
        Initial parameters: N(0, 0.02²); PyTorch's own; those and ``nn.MultiheadAttention``'s.
    dropout, attention_dropout, feed_forward_dropout, output_dropout : float or None
        Probabilities of dropping a number of the embedded steps and of what a sublayer returns, a
        weight of attention, a number inside the feed-forward, and one of the last states; None
        takes `dropout`.

    Examples
    --------
    >>> SeriesConfig.preset("zerveas").layers
    3
    """

    channels: int = 12
    classes: int = 9
    length: int = 29
    dim: int = 64
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    mixer: str = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    norm: str = "pre"
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float | None = None
    feed_forward_dropout: float | None = None
    output_dropout: float | None = None
    norm_kind: str = "layer"
    final_norm: bool = True
    scale_projection: bool = False
    final_activation: bool = False
    pooling: str = "mean"
    start: str = "bert"


POOLINGS = ("mean", "concatenate")
_PUBLISHED: dict[str, Any] = {
    "norm": "post",
    "scale_projection": True,
    "final_activation": True,
    "pooling": "concatenate",
}
SeriesConfig.presets = {
    "small": SeriesConfig(),  # JapaneseVowels: 12 channels, 29 steps, 9 speakers
    "zerveas": SeriesConfig(
        dim=128,
        hidden=256,
        layers=3,
        heads=16,
        norm_kind="batch",
        final_norm=False,
        start="multihead",
        **_PUBLISHED,
    ),
    "flowformer": SeriesConfig(
        dim=512, hidden=2048, layers=2, heads=8, start="pytorch", **_PUBLISHED
    ),
}
series_config = SeriesConfig.preset


class SeriesClassifier(nn.Module):
    """Classify series of at most `length` steps.

    Parameters
    ----------
    config : SeriesConfig
        For instance ``series_config("small", channels=3, classes=2, length=50)``.

    Examples
    --------
    >>> model = SeriesClassifier(series_config("small", channels=3, classes=2))
    >>> model(torch.zeros(4, 20, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(self, config: SeriesConfig) -> None:
        super().__init__()
        self.config = config
        joined = check_choice("pooling", config.pooling, list(POOLINGS)) == "concatenate"
        self.projection = nn.Linear(config.channels, config.dim)
        self.positions = nn.Parameter(0.02 * torch.randn(config.length, config.dim))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(block_config(config), config.layers)
        self.final_norm = nn.LayerNorm(config.dim) if config.final_norm else nn.Identity()
        self.output_dropout = nn.Dropout(rate_or(config.output_dropout, config.dropout))
        self.head = nn.Linear(config.dim * (config.length if joined else 1), config.classes)
        STARTS[check_choice("start", config.start, list(STARTS))](self)

    def forward(self, series: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return logits ``(B, classes)``.

        Parameters
        ----------
        series : Tensor
            ``(B, N, channels)``.
        padding : Tensor or None
            Boolean ``(B, N)``, True where the series has ended.
        """
        check_features("series", series, (None, None, self.config.channels))
        n = check_length("series", series.shape[1], self.config.length)
        check_padding(padding, (len(series), n))
        scale = math.sqrt(self.config.dim) if self.config.scale_projection else 1.0
        x = self.dropout(self.projection(series) * scale + self.positions[:n])  # (B, N, E)
        states = self.final_norm(run_blocks(self.blocks, x, padding=padding))
        if self.config.final_activation:
            states = ACTIVATIONS[self.config.activation](states)
        logits: Tensor = self.head(self._pooled(self.output_dropout(states), padding))
        return logits

    def _pooled(self, states: Tensor, padding: Tensor | None) -> Tensor:
        """Return what is classified of the states ``(B, N, E)``: one row for each series."""
        if self.config.pooling == "mean":
            return mean_over_valid(states, padding)
        if padding is not None:
            states = states.masked_fill(padding[..., None], 0.0)
        ended = self.config.length - states.shape[1]
        return functional.pad(states, (0, 0, 0, ended)).flatten(start_dim=1)  # (B, length E)


def _as_bert(model: SeriesClassifier) -> None:
    initialise(model)
    nn.init.xavier_uniform_(model.projection.weight)  # inputs are standardised, not embedded


def _as_pytorch(model: SeriesClassifier) -> None:
    nn.init.uniform_(model.positions, -0.02, 0.02)


def _as_multihead(model: SeriesClassifier) -> None:
    """Start attention as ``nn.MultiheadAttention``, whose first three layers are one matrix."""
    _as_pytorch(model)
    bound = math.sqrt(6 / (4 * model.config.dim))
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and name.endswith("_projection"):
            if not name.endswith("output_projection"):
                nn.init.uniform_(layer.weight, -bound, bound)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


STARTS: dict[str, Callable[[SeriesClassifier], None]] = {
    "bert": _as_bert,
    "pytorch": _as_pytorch,
    "multihead": _as_multihead,
}
