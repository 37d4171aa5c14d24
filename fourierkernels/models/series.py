"""A classifier of multivariate time series: the UEA experiments of the FourierFormer paper.

[nguyen2022fourierformer]_ (conference version) section 4.3 follows [zerveas2021transformer]_: each
time step is projected to a token, positions are learned. Here LayerNorm stands in its place and the
states of valid steps are averaged; that framework has batch normalisation and concatenates them.
Its dropout (github.com/gzerveas/mvts_transformer, src/models/ts_transformer.py) is here as there:
0.1 after the positions, on the weights of attention, after each sublayer, inside the feed-forward
and before the classifier. Its dense layers start as PyTorch draws them, ours at N(0, 0.02²).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.models.blocks import build_blocks, run_blocks
from fourierkernels.models.inputs import check_features, check_length, check_padding
from fourierkernels.models.parameters import initialise
from fourierkernels.models.presets import block_config, choose_preset
from fourierkernels.models.residual import own_rate
from fourierkernels.models.sequences import mean_over_valid


@dataclass(frozen=True)
class SeriesConfig:
    """Hyperparameters of a :class:`SeriesClassifier`; `channels` is the series' dimension.

    Attributes
    ----------
    dropout, attention_dropout, feed_forward_dropout, output_dropout : float or None
        Probabilities of dropping a number of the embedded steps and of what a sublayer returns, a
        weight of attention, a number inside the feed-forward, and one of the last states; None
        takes `dropout`.
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


SERIES_PRESETS = {
    "small": SeriesConfig(),  # JapaneseVowels: 12 channels, 29 steps, 9 speakers
    "zerveas": SeriesConfig(dim=128, hidden=256, layers=3, heads=16),
}


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
        self.projection = nn.Linear(config.channels, config.dim)
        self.positions = nn.Parameter(0.02 * torch.randn(config.length, config.dim))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(block_config(config), config.layers)
        self.final_norm = nn.LayerNorm(config.dim)
        self.output_dropout = nn.Dropout(own_rate(config.output_dropout, config.dropout))
        self.head = nn.Linear(config.dim, config.classes)
        initialise(self)
        nn.init.xavier_uniform_(self.projection.weight)  # inputs are standardised, not embedded

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
        x = self.dropout(self.projection(series) + self.positions[:n])
        states = self.output_dropout(self.final_norm(run_blocks(self.blocks, x, padding=padding)))
        logits: Tensor = self.head(mean_over_valid(states, padding))
        return logits


def series_config(preset: str, **changes: Any) -> SeriesConfig:
    """Return a preset of :data:`SERIES_PRESETS`, with changes.

    Examples
    --------
    >>> series_config("zerveas").layers
    3
    """
    return choose_preset(preset, SERIES_PRESETS, **changes)
