"""The classifiers of the Long Range Arena, a benchmark of speed and accuracy in the FNet paper.

[tay2021long]_ and the configurations its authors published (ListOps, byte-level text, retrieval,
pixels of CIFAR-10, Pathfinder, Path-X); [leethorp2021fnet]_ section 4.2. Blocks norm first; the
state of a class token, or the mean, passes a hidden layer; retrieval compares two documents by the
features (a, b, a - b, ab). The published Pathfinder configurations project attention to half the
features; here it keeps them all, and pixels take the 4 heads of its transformer_base.

In that code (github.com/google-research/long-range-arena, lra_benchmarks/models) dropout is after
the embedding, on the weights of attention, after attention, and inside and after the feed-forward;
its configurations for the two image tasks set the rates, the others keep 0.1. Embeddings start at
N(0, 1), attention and feed-forward Xavier-uniform, the classifier LeCun-normal, learned positions
at N(0, 0.02²); biases at N(0, 1e-12), here 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.mixing.baselines import lecun_normal_
from fourierkernels.models.blocks import build_blocks, run_blocks
from fourierkernels.models.configs import Presets, block_config
from fourierkernels.models.inputs import check_same_batch, check_tokens
from fourierkernels.models.parameters import initialise_uniformly
from fourierkernels.models.sequences import mean_over_valid, sinusoids


@dataclass(frozen=True)
class ArenaConfig(Presets):
    """Hyperparameters of an :class:`ArenaClassifier`.

    Attributes
    ----------
    length : int
        Longest input, without the class token.
    pooling : {"class", "mean"}
        State that is classified.
    pairs : bool
        Whether the input is two documents.
    share_layers : bool
        Whether all layers share their parameters, as in the published ListOps configuration.
    padding_id : int
        Token that mixers ignore if they can.
    dropout, attention_dropout, feed_forward_dropout : float or None
        Probabilities of dropping a number of the embedding and of what a sublayer returns, a
        weight of attention, and a number inside the feed-forward; None takes `dropout`.

    Examples
    --------
    >>> ArenaConfig.preset("text").length
    4000
    """

    vocabulary: int
    classes: int
    length: int
    dim: int
    hidden: int
    layers: int
    heads: int
    mixer: str = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    pooling: str = "class"
    pairs: bool = False
    share_layers: bool = False
    learned_positions: bool = False
    dropout: float = 0.1
    attention_dropout: float | None = None
    feed_forward_dropout: float | None = None
    padding_id: int = 0


ArenaConfig.presets = {
    "listops": ArenaConfig(
        18, 10, 2000, dim=512, hidden=2048, layers=6, heads=8, share_layers=True
    ),
    "text": ArenaConfig(257, 2, 4000, dim=256, hidden=1024, layers=4, heads=4),
    "retrieval": ArenaConfig(257, 2, 4000, dim=128, hidden=512, layers=4, heads=4, pairs=True),
    "image": ArenaConfig(
        257,
        10,
        1024,
        dim=32,
        hidden=64,
        layers=1,
        heads=1,
        learned_positions=True,
        dropout=0.3,
        attention_dropout=0.2,
    ),
    "pathfinder": ArenaConfig(
        257,
        2,
        1024,
        dim=128,
        hidden=128,
        layers=1,
        heads=4,
        pooling="mean",
        dropout=0.2,
        attention_dropout=0.1,
    ),
    "pathx": ArenaConfig(
        257,
        2,
        16_384,
        dim=32,
        hidden=32,
        layers=1,
        heads=2,
        pooling="mean",
        learned_positions=True,
    ),
}
arena_config = ArenaConfig.preset


class ArenaClassifier(nn.Module):
    """Classify long sequences of tokens, or pairs of them.

    Parameters
    ----------
    config : ArenaConfig
        For instance ``arena_config("text", mixer="fnet")``.

    Examples
    --------
    >>> model = ArenaClassifier(arena_config("image", mixer="fnet"))
    >>> model(torch.ones(2, 1024, dtype=torch.long)).shape
    torch.Size([2, 10])
    """

    positions: Tensor

    def __init__(self, config: ArenaConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.dim)
        if config.pooling == "class":  # without one, two processes would wait for its gradient
            self.front = nn.Parameter(torch.zeros(1, 1, config.dim))
        places = sinusoids(config.length + 1, config.dim)
        if config.learned_positions:
            self.positions = nn.Parameter(0.02 * torch.randn_like(places))
        else:
            self.register_buffer("positions", places, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(
            block_config(
                config,
                length=config.length + 1,
                norm="pre",
                activation="gelu_tanh",
                attention_bias=False,
            ),
            1 if config.share_layers else config.layers,
        )
        self.final_norm = nn.LayerNorm(config.dim)
        self.hidden = nn.Linear(config.dim * (4 if config.pairs else 1), config.hidden)
        self.head = nn.Linear(config.hidden, config.classes)
        initialise_uniformly(self, embedding_std=1.0)
        for layer in (self.hidden, self.head):
            lecun_normal_(layer.weight.data)

    def forward(self, tokens: Tensor, other: Tensor | None = None) -> Tensor:
        """Return logits ``(B, classes)`` of tokens ``(B, N)``, or of two documents."""
        if self.config.pairs == (other is None):
            rule = "given" if self.config.pairs else "None"
            raise ValueError(f"other must be {rule} for this task, got {type(other).__name__}")
        features = self.pool(tokens)
        if other is not None:
            second = self.pool(other)
            check_same_batch("other", other, "tokens", tokens)
            features = torch.cat([features, second, features - second, features * second], dim=-1)
        logits: Tensor = self.head(functional.relu(self.hidden(features)))
        return logits

    def pool(self, tokens: Tensor) -> Tensor:
        """Return one state for each sequence, ``(B, E)``."""
        tokens = check_tokens(tokens, vocabulary=self.config.vocabulary, length=self.config.length)
        x, padding = self.words(tokens), tokens == self.config.padding_id  # (B, N, E), (B, N)
        if self.config.pooling == "class":
            x = torch.cat([self.front.expand(len(x), -1, -1), x], dim=1)  # (B, 1 + N, E)
            padding = functional.pad(padding, (1, 0))
        x = self.dropout(x + self.positions[: x.shape[1]])
        times = self.config.layers if self.config.share_layers else 1
        x = run_blocks(list(self.blocks) * times, x, padding=padding)
        states: Tensor = self.final_norm(x)
        if self.config.pooling == "class":
            return states[:, 0]
        return mean_over_valid(states, padding)
