"""The language model of the FourierFormer paper: a causal transformer with adaptive softmax.

[nguyen2022fourierformer]_ section 4.1: 16 layers, 8 heads, feed-forward 2048; features 128 and
context 256 (small), or 256 and 384 (medium). From the code its authors published, not in the
paper: LayerNorm after the sum, ReLU, no biases in attention, one tied embedding scaled by √E, and
the cutoffs 20,000, 40,000 and 200,000 of WikiText-103's 267,735 words.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax

from fourierkernels.models.blocks import (
    BlockConfig,
    BlockState,
    build_blocks,
    check_tokens,
    choose_preset,
    initialise,
    run_blocks,
    sinusoids,
)
from fourierkernels.validation import check_choice, check_integer

POSITIONS = ("sinusoidal", "from_the_end", "learned")


@dataclass(frozen=True)
class LanguageConfig:
    """Sizes and habits of a :class:`LanguageModel`.

    Attributes
    ----------
    cutoffs : tuple of int
        Ends of the bands of words, most frequent first; () for one plain softmax.
    divisor : int
        Band i has dim / divisor^i features ([baevski2019adaptive]_); 1 in the paper's models.
    positions : {"sinusoidal", "from_the_end", "learned"}
        "from_the_end" gives the last token position 0, as the published code does. Every position
        then changes when the sequence grows, so there is no step-by-step decoding.
    final_norm : bool
        A LayerNorm after the last block, for blocks that norm first.
    """

    vocabulary: int
    dim: int
    layers: int
    heads: int
    hidden: int
    length: int
    mixer: str = "fourier"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    cutoffs: tuple[int, ...] = ()
    divisor: int = 1
    positions: str = "sinusoidal"
    norm: str = "post"
    activation: str = "relu"
    dropout: float = 0.1
    attention_bias: bool = False
    output_bias: bool = True
    scale_embedding: bool = True
    final_norm: bool = False


_WIKITEXT: dict[str, Any] = {"vocabulary": 267_735, "cutoffs": (20_000, 40_000, 200_000)}
_GPT2: dict[str, Any] = {
    "mixer": "softmax",
    "positions": "learned",
    "norm": "pre",
    "activation": "gelu_tanh",
    "attention_bias": True,
    "output_bias": False,
    "scale_embedding": False,
    "final_norm": True,
}
LANGUAGE_PRESETS = {
    "small": LanguageConfig(dim=128, layers=16, heads=8, hidden=2048, length=256, **_WIKITEXT),
    "medium": LanguageConfig(dim=256, layers=16, heads=8, hidden=2048, length=384, **_WIKITEXT),
    "gpt2": LanguageConfig(
        vocabulary=50_257, dim=768, layers=12, heads=12, hidden=3072, length=1024, **_GPT2
    ),
}


class AdaptiveEmbedding(nn.Module):
    """Word vectors in bands of decreasing frequency and, if asked for, decreasing size.

    Source: [baevski2019adaptive]_.

    Parameters
    ----------
    ends : tuple of int
        Ends of the bands; the last is the vocabulary.
    """

    def __init__(self, ends: tuple[int, ...], dim: int, *, divisor: int = 1) -> None:
        super().__init__()
        self.bounds = list(pairwise((0, *ends)))
        if any(low >= high for low, high in self.bounds):
            raise ValueError(f"cutoffs must increase from 1 to the vocabulary, got {ends}")
        sizes = [dim // divisor**band for band in range(len(ends))]
        if min(sizes) < 1:
            raise ValueError(f"divisor must leave each band a feature, got {divisor}")
        self.bands = nn.ModuleList(
            nn.Embedding(high - low, size)
            for (low, high), size in zip(self.bounds, sizes, strict=True)
        )
        self.projections = nn.ModuleList(
            nn.Identity() if size == dim else nn.Linear(size, dim, bias=False) for size in sizes
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors ``(B, N, E)`` of token ids ``(B, N)``."""
        parts = []
        for (low, high), band, projection in zip(
            self.bounds, self.bands, self.projections, strict=True
        ):
            inside = ((tokens >= low) & (tokens < high))[..., None]
            vectors = projection(band((tokens - low).clamp(0, high - low - 1)))
            parts.append(torch.where(inside, vectors, 0.0))
        return torch.stack(parts).sum(dim=0)

    def logits(self, hidden: Tensor, band: int) -> Tensor:
        """Return the products of hidden states ``(..., E)`` with the vectors of one band."""
        projection = self.projections[band]
        if isinstance(projection, nn.Linear):
            hidden = linear(hidden, projection.weight.mT)
        weight = self.bands[band].weight
        assert isinstance(weight, Tensor)
        return linear(hidden, weight)


class AdaptiveSoftmax(nn.Module):
    """Probabilities of words: of the band, times of the word in its band; tied to the embedding.

    Band 0 is in the head together with one logit for each other band.
    """

    bias: nn.ParameterList | None

    def __init__(self, bounds: list[tuple[int, int]], dim: int, *, bias: bool) -> None:
        super().__init__()
        self.bounds = bounds
        self.clusters = nn.Linear(dim, len(bounds) - 1, bias=bias) if len(bounds) > 1 else None
        self.bias = (
            nn.ParameterList(torch.zeros(high - low) for low, high in bounds) if bias else None
        )

    def forward(self, hidden: Tensor, embedding: AdaptiveEmbedding) -> Tensor:
        """Return log-probabilities of all words, ``(..., V)``."""
        head = self._head(hidden, embedding)
        first = self.bounds[0][1]
        bands = [head[..., :first]]
        for band in range(1, len(self.bounds)):
            inside = log_softmax(self._band(hidden, embedding, band), dim=-1)
            bands.append(head[..., first + band - 1, None] + inside)
        return torch.cat(bands, dim=-1)

    def nll(self, hidden: Tensor, targets: Tensor, embedding: AdaptiveEmbedding) -> Tensor:
        """Return -log p of targets ``(n,)`` from states ``(n, E)``; rare bands only where used."""
        head = self._head(hidden, embedding)
        first = self.bounds[0][1]
        found = head.gather(-1, targets.clamp(max=first - 1)[:, None])[:, 0]
        for band, (low, high) in enumerate(self.bounds[1:], start=1):
            rows = ((targets >= low) & (targets < high)).nonzero()[:, 0]
            inside = log_softmax(self._band(hidden[rows], embedding, band), dim=-1)
            word = inside.gather(-1, (targets[rows] - low)[:, None])[:, 0]
            found = found.index_copy(0, rows, head[rows, first + band - 1] + word)
        return -found

    def _head(self, hidden: Tensor, embedding: AdaptiveEmbedding) -> Tensor:
        logits = self._band(hidden, embedding, 0)
        if self.clusters is not None:
            logits = torch.cat([logits, self.clusters(hidden)], dim=-1)
        return log_softmax(logits, dim=-1)

    def _band(self, hidden: Tensor, embedding: AdaptiveEmbedding, band: int) -> Tensor:
        logits = embedding.logits(hidden, band)
        return logits if self.bias is None else logits + self.bias[band]


class LanguageModel(nn.Module):
    """Predict each token from those before it.

    Parameters
    ----------
    config : LanguageConfig
        For instance ``language_config("small", mixer="fourier")``.

    Examples
    --------
    >>> sizes = {"vocabulary": 50, "dim": 8, "layers": 1, "hidden": 16, "cutoffs": (10,)}
    >>> model = LanguageModel(language_config("small", **sizes))
    >>> tokens = torch.zeros(2, 6, dtype=torch.long)
    >>> model(tokens[:, :-1], tokens[:, 1:]).shape
    torch.Size([2, 5])
    """

    positions: Tensor

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config = config
        ends = (*config.cutoffs, check_integer("vocabulary", config.vocabulary))
        self.embedding = AdaptiveEmbedding(ends, config.dim, divisor=config.divisor)
        self._add_positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(_block(config), config.layers)
        self.final_norm = nn.LayerNorm(config.dim) if config.final_norm else nn.Identity()
        self.softmax = AdaptiveSoftmax(self.embedding.bounds, config.dim, bias=config.output_bias)
        initialise(self)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return -log p of each target given the tokens up to its place, ``(B, N)``."""
        hidden = self.states(tokens)
        flat = self.softmax.nll(hidden.flatten(0, 1), targets.flatten(), self.embedding)
        return flat.view_as(targets)

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """Return log p of every next word, ``(B, N, V)``."""
        scores: Tensor = self.softmax(self.states(tokens), self.embedding)
        return scores

    def states(self, tokens: Tensor) -> Tensor:
        """Return the states ``(B, N, E)`` before the softmax."""
        check_tokens(tokens, vocabulary=self.config.vocabulary, length=self.config.length)
        x = run_blocks(self.blocks, self._embed(tokens, first=0))
        normed: Tensor = self.final_norm(x)
        return normed

    def start(self) -> tuple[list[BlockState], int]:
        """Return the state before the first token.

        Raises
        ------
        ValueError
            If positions are counted from the end.
        """
        if self.config.positions == "from_the_end":
            raise ValueError(
                "positions must not change as the sequence grows to decode step by step, "
                "got 'from_the_end'"
            )
        return [BlockState(None, None) for _ in self.blocks], 0

    def step(
        self, tokens: Tensor, state: tuple[list[BlockState], int]
    ) -> tuple[Tensor, tuple[list[BlockState], int]]:
        """Read one more token ``(B, 1)`` and return log p of the next word, ``(B, V)``."""
        blocks, seen = state
        if seen >= self.config.length:
            raise ValueError(f"tokens must be at most length = {self.config.length} long")
        check_tokens(tokens, vocabulary=self.config.vocabulary, length=1)
        x, after = self._embed(tokens, first=seen), []
        for block, own in zip(self.blocks, blocks, strict=True):
            x, own = block.step(x, own)  # type: ignore[operator]
            after.append(own)
        scores: Tensor = self.softmax(self.final_norm(x), self.embedding)
        return scores[:, 0], (after, seen + 1)

    def _embed(self, tokens: Tensor, *, first: int) -> Tensor:
        scale = math.sqrt(self.config.dim) if self.config.scale_embedding else 1.0
        places = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        if self.config.positions == "from_the_end":
            places = places.flip(0)
        embedded: Tensor = self.dropout(self.embedding(tokens) * scale + self.positions[places])
        return embedded

    def _add_positions(self, config: LanguageConfig) -> None:
        if check_choice("positions", config.positions, list(POSITIONS)) == "learned":
            self.positions = nn.Parameter(0.02 * torch.randn(config.length, config.dim))
        else:
            table = sinusoids(config.length, config.dim)
            self.register_buffer("positions", table, persistent=False)


def language_config(preset: str, **changes: Any) -> LanguageConfig:
    """Return a preset of :data:`LANGUAGE_PRESETS`, with changes.

    Examples
    --------
    >>> language_config("medium", mixer="softmax").length
    384
    """
    return choose_preset(preset, LANGUAGE_PRESETS, **changes)


def _block(config: LanguageConfig) -> BlockConfig:
    return BlockConfig(
        dim=config.dim,
        hidden=config.hidden,
        heads=config.heads,
        length=config.length,
        mixer=config.mixer,
        mixer_options=config.mixer_options,
        causal=True,
        norm=config.norm,
        activation=config.activation,
        dropout=config.dropout,
        attention_bias=config.attention_bias,
    )
