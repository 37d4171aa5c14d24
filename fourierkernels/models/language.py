"""The language model of the FourierFormer paper: a causal transformer with adaptive softmax.

[nguyen2022fourierformer]_ section 4.1: 16 layers, 8 heads, feed-forward 2048; features 128 and
context 256 (small), or 256 and 384 (medium). From the code its authors published, not in the
paper: LayerNorm after the sum, ReLU, no biases in attention, one tied embedding scaled by √E, and
the cutoffs 20,000, 40,000 and 200,000 of WikiText-103's 267,735 words.

What training starts from and drops. That code is github.com/minhtannguyen/FourierFormer_NeurIPS,
wikitext103/lmtool-fwms/src (mem_transformer.py, train.py), which continues IDSIA's lmtool-fwp and
kimiyoung's transformer-xl; the other column is GPT-2 as Hugging Face's GPT2LMHeadModel trains it.

============================== ============================== =====================================
place                          "small", "medium"              "gpt2"
============================== ============================== =====================================
embedding and position, summed dropout 0.1                    dropout 0.1
weights of attention           0 (``--dropatt 0.0``)          dropout 0.1
after attention, after the     dropout 0.1                    dropout 0.1
feed-forward
inside the feed-forward        dropout 0.1                    none
before the softmax             dropout 0.1                    none
embeddings, dense layers       N(0, 0.02²), biases 0          N(0, 0.02²), biases 0
output of a sublayer           as all dense layers            N(0, 0.02²/2L), L layers
vectors of other sizes         projected by N(0, 0.01²)       –
LayerNorm                      N(1, 0.02²), bias 0            1, bias 0
============================== ============================== =====================================
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.models.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from fourierkernels.models.blocks import BlockState, build_blocks, run_blocks
from fourierkernels.models.configs import Presets, block_config
from fourierkernels.models.inputs import check_beside, check_tokens
from fourierkernels.models.parameters import draw_again, initialise
from fourierkernels.models.residual import rate_or
from fourierkernels.models.sequences import sinusoids


@dataclass(frozen=True)
class LanguageConfig(Presets):
    """Hyperparameters of a :class:`LanguageModel`.

    Attributes
    ----------
    cutoffs : tuple of int
        Ends of the bands of words, most frequent first; () for one plain softmax.
    divisor : int
        Band i has dim / divisor^i features ([baevski2019adaptive]_); 1 in the paper's models.
    positions : {"sinusoidal", "from_the_end", "learned"}
        "from_the_end" gives the last token position 0, as the published code does. Every position
        then changes as the sequence grows, which rules out step-by-step decoding.
    dropout, attention_dropout, feed_forward_dropout, output_dropout : float or None
        Probabilities of dropping a number of the embedding and of what a sublayer returns, a
        weight of attention, a number inside the feed-forward, and one before the softmax; None
        takes `dropout`.
    final_norm : bool
        A LayerNorm after the last block, for blocks that norm first.
    start : {"transformer_xl", "gpt2", "unit"}
        How parameters are drawn, a key of :data:`STARTS`. "unit", dense layers and embeddings from
        N(0, 1/E), is ours, for small models: with 0.02 they stay at the frequencies of words for
        hundreds of steps.

    Examples
    --------
    >>> LanguageConfig.preset("medium", mixer="softmax").length
    384
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
    attention_dropout: float | None = 0.0
    feed_forward_dropout: float | None = None
    output_dropout: float | None = None
    attention_bias: bool = False
    output_bias: bool = True
    scale_embedding: bool = True
    final_norm: bool = False
    start: str = "transformer_xl"


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
    "attention_dropout": None,
    "feed_forward_dropout": 0.0,
    "output_dropout": 0.0,
    "start": "gpt2",
}
LANGUAGE_PRESETS = {
    "small": LanguageConfig(dim=128, layers=16, heads=8, hidden=2048, length=256, **_WIKITEXT),
    "medium": LanguageConfig(dim=256, layers=16, heads=8, hidden=2048, length=384, **_WIKITEXT),
    "gpt2": LanguageConfig(
        vocabulary=50_257, dim=768, layers=12, heads=12, hidden=3072, length=1024, **_GPT2
    ),
}
LanguageConfig.presets = LANGUAGE_PRESETS
language_config = LanguageConfig.preset


POSITIONS = ("sinusoidal", "from_the_end", "learned")


def _as_transformer_xl(model: nn.Module) -> None:
    initialise(model, norm_std=0.02)
    for projection in model.embedding.projections:  # type: ignore[union-attr]
        if isinstance(projection, nn.Linear):
            nn.init.normal_(projection.weight, std=0.01)


def _as_gpt2(model: nn.Module) -> None:
    initialise(model)
    layers = len(model.blocks)  # type: ignore[arg-type]
    outputs = r"blocks\.\d+\.(mixer\.output_projection|feed_forward\.narrow)\.weight"
    draw_again(model, outputs, std=0.02 / math.sqrt(2 * layers))


def _unit(model: nn.Module) -> None:
    """N(0, 1/E): queries and keys begin of unit size, whatever the width."""
    initialise(model, std=float(model.config.dim) ** -0.5)  # type: ignore[arg-type]


STARTS: dict[str, Callable[[nn.Module], None]] = {
    "transformer_xl": _as_transformer_xl,
    "gpt2": _as_gpt2,
    "unit": _unit,
}


class LanguageModel(nn.Module):
    """Predict each token from those before it.

    Parameters
    ----------
    config : LanguageConfig
        For instance ``language_config("small", mixer="fourier")``.

    Examples
    --------
    >>> from fourierkernels.models import language_config
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
        self.blocks = build_blocks(block_config(config, causal=True), config.layers)
        self.final_norm = nn.LayerNorm(config.dim) if config.final_norm else nn.Identity()
        self.output_dropout = nn.Dropout(rate_or(config.output_dropout, config.dropout))
        self.softmax = AdaptiveSoftmax(self.embedding.bounds, config.dim, bias=config.output_bias)
        STARTS[check_choice("start", config.start, list(STARTS))](self)

    def forward(self, tokens: Tensor, targets: Tensor, *, ignore_index: int = -100) -> Tensor:
        """Return -log p of each target given the tokens up to its place, ``(B, N)``.

        Parameters
        ----------
        tokens, targets : Tensor
            Ids ``(B, N)``: the target at a place is the token after it.
        ignore_index : int
            Targets of this id count for nothing: 0 is returned there, without a gradient. A mean
            is the sum over the number of all others.

        Raises
        ------
        ValueError, TypeError
            If either is no ids of the vocabulary, or their shapes differ. On a GPU, where values
            are not read, the loss of a target outside the vocabulary is NaN.
        """
        hidden = self.states(tokens)  # (B, N, E)
        size = self.config.vocabulary
        targets = check_beside("targets", targets, tokens, vocabulary=size, ignored=ignore_index)
        skipped = targets == ignore_index
        known = targets.masked_fill(skipped, 0).flatten()
        flat = self.softmax.nll(hidden.flatten(0, 1), known, self.embedding)  # (B N,)
        return flat.view_as(targets).masked_fill(skipped, 0.0)

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """Return log p of every next word, ``(B, N, V)``."""
        scores: Tensor = self.softmax(self.states(tokens), self.embedding)
        return scores

    def states(self, tokens: Tensor) -> Tensor:
        """Return the states ``(B, N, E)`` before the softmax."""
        tokens = check_tokens(tokens, vocabulary=self.config.vocabulary, length=self.config.length)
        x = run_blocks(self.blocks, self._embed(tokens, first=0))  # (B, N, E)
        normed: Tensor = self.output_dropout(self.final_norm(x))
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
                "positions must not change as the sequence grows if it is decoded step by step, "
                "got 'from_the_end'"
            )
        return [BlockState(None, None) for _ in self.blocks], 0

    def prefill(self, tokens: Tensor) -> tuple[Tensor, tuple[list[BlockState], int]]:
        """Read the first tokens ``(B, N)`` at once; return what N steps return.

        Log p of the next word, ``(B, V)``, and the state.

        Raises
        ------
        ValueError, TypeError
            As for :meth:`start` and :meth:`states`.
        """
        after, _ = self.start()
        tokens = check_tokens(tokens, vocabulary=self.config.vocabulary, length=self.config.length)
        x = self._embed(tokens, first=0)
        for i, block in enumerate(self.blocks):
            x, after[i] = block.prefill(x)  # type: ignore[operator]
        return self._next(x[:, -1]), (after, tokens.shape[1])

    def step(
        self, tokens: Tensor, state: tuple[list[BlockState], int]
    ) -> tuple[Tensor, tuple[list[BlockState], int]]:
        """Read one more token ``(B, 1)`` and return log p of the next word, ``(B, V)``."""
        blocks, seen = state
        if seen >= self.config.length:
            raise ValueError(
                f"tokens must be at most length = {self.config.length} long, got {seen + 1}"
            )
        tokens = check_tokens(tokens, vocabulary=self.config.vocabulary, length=1)
        x, after = self._embed(tokens, first=seen), []
        for block, block_state in zip(self.blocks, blocks, strict=True):
            x, block_state = block.step(x, block_state)  # type: ignore[operator]
            after.append(block_state)
        return self._next(x[:, 0]), (after, seen + 1)

    def _next(self, x: Tensor) -> Tensor:
        """Return log p of the word after a last state ``(B, E)``."""
        scores: Tensor = self.softmax(self.output_dropout(self.final_norm(x)), self.embedding)
        return scores

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
