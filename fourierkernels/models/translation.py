"""The translation model of "Do You Really Need Attention?": an encoder-decoder with DFT mixing.

[chen_attention]_ section 4.3: the transformer of [vaswani2017attention]_, 6 + 6 layers, 512
features, feed-forward 2048, one vocabulary of about 35,000 tokens for both languages. The encoder
mixes by a two-dimensional DFT; the decoder by attention ("dft_encoder") or by the causally masked
DFT ("dft_both"); the decoder's reading of the encoder stays attention. With the embedding shared
by both sides and tied to the output these have 55.7 and 49.4 million parameters, the paper's 55 and
49. Dropout of 0.1 is on the embeddings and after each sublayer ("residual dropout", section 4.5)
and nowhere else; no code is published, and the start, Xavier-uniform with embeddings of N(0, 1/E),
is ours.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from fourierkernels.models.blocks import (
    BlockConfig,
    BlockState,
    build_blocks,
    run_blocks,
    select_rows,
)
from fourierkernels.models.inputs import check_same_batch, check_tokens
from fourierkernels.models.parameters import initialise_uniformly
from fourierkernels.models.presets import block_config, choose_preset
from fourierkernels.models.sequences import sinusoids


@dataclass(frozen=True)
class TranslationConfig:
    """Hyperparameters of a :class:`TranslationModel`.

    Attributes
    ----------
    mixer, decoder_mixer : str
        Mixers of the encoder and, causal, of the decoder.
    reader : str
        The attention with which the decoder reads the encoder.
    length : int
        Longest source and target; the fixed L of the causal DFT.
    start_id, end_id, padding_id : int
        Tokens that begin, end and fill a sentence.
    """

    vocabulary: int = 35_000
    dim: int = 512
    hidden: int = 2048
    layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    length: int = 128
    mixer: str = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    decoder_mixer: str = "softmax"
    decoder_options: Mapping[str, Any] = field(default_factory=dict)
    reader: str = "softmax"
    activation: str = "relu"
    scale_embedding: bool = True
    dropout: float = 0.1
    start_id: int = 1
    end_id: int = 2
    padding_id: int = 0


# Padding is zeroed before a DFT: sentences of a batch differ in length.
_DFT: dict[str, Any] = {"mixer": "dft", "mixer_options": {"zero_padding": True}}
TRANSLATION_PRESETS = {
    "attention": TranslationConfig(),
    "dft_encoder": TranslationConfig(**_DFT),
    "dft_both": TranslationConfig(**_DFT, decoder_mixer="causal_dft"),
    "fourier": TranslationConfig(mixer="fourier", decoder_mixer="fourier", reader="fourier"),
}


class DecoderState(NamedTuple):
    """What the decoder remembers: each block's state, the source's padding, tokens seen."""

    blocks: tuple[BlockState, ...]
    padding: Tensor
    seen: int

    def select(self, rows: Tensor) -> "DecoderState":
        """Return the state of other rows of the batch."""
        blocks = tuple(select_rows(block, rows) for block in self.blocks)
        return DecoderState(blocks, self.padding.index_select(0, rows), self.seen)


class TranslationModel(nn.Module):
    """Read a source, write a target token by token.

    Parameters
    ----------
    config : TranslationConfig
        For instance ``translation_config("dft_both")``.

    Examples
    --------
    >>> sizes = {"vocabulary": 20, "dim": 8, "hidden": 16, "layers": 1, "decoder_layers": 1}
    >>> model = TranslationModel(translation_config("dft_both", heads=2, **sizes))
    >>> model(torch.ones(2, 5, dtype=torch.long), torch.ones(2, 7, dtype=torch.long)).shape
    torch.Size([2, 7, 20])
    """

    positions: Tensor
    output_bias: Tensor

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim, padding_idx=config.padding_id)
        self.register_buffer("positions", sinusoids(config.length, config.dim), persistent=False)
        # Not trained; Marian's checkpoints have one.
        self.register_buffer("output_bias", torch.zeros(config.vocabulary))
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = build_blocks(block_config(config), config.layers)
        self.decoder = build_blocks(_decoder(config), config.decoder_layers)
        initialise_uniformly(self, embedding_std=config.dim**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits of the token after each of the target, ``(B, M, V)``.

        Parameters
        ----------
        source, target : Tensor
            Ids ``(B, N)`` and ``(B, M)``; the target begins with `start_id`.
        """
        memory, x = self.encode(source), self._embed(target, name="target")
        check_same_batch("target", target, "source", source)
        padding = source == self.config.padding_id
        x = run_blocks(self.decoder, x, memory=memory, memory_padding=padding)
        return linear(x, self.embedding.weight, self.output_bias)

    def encode(self, source: Tensor) -> Tensor:
        """Return the states of the source, ``(B, N, E)``."""
        x = self._embed(source, name="source")
        return run_blocks(self.encoder, x, padding=source == self.config.padding_id)

    def start(self, source: Tensor) -> DecoderState:
        """Return the state of the decoder before the first target token."""
        memory = self.encode(source)
        blocks = tuple(block.start(memory) for block in self.decoder)  # type: ignore[operator]
        return DecoderState(blocks, source == self.config.padding_id, 0)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one target token ``(B, 1)`` more; return logits of the next, ``(B, V)``."""
        x, after = self._embed(tokens, first=state.seen), []
        for block, own in zip(self.decoder, state.blocks, strict=True):
            x, new = block.step(x, own, memory_padding=state.padding)  # type: ignore[operator]
            after.append(new)
        logits = linear(x[:, 0], self.embedding.weight, self.output_bias)
        return logits, DecoderState(tuple(after), state.padding, state.seen + 1)

    def _embed(self, tokens: Tensor, *, first: int = 0, name: str = "tokens") -> Tensor:
        config = self.config
        tokens = check_tokens(
            tokens, vocabulary=config.vocabulary, length=config.length - first, name=name
        )
        scale = math.sqrt(config.dim) if config.scale_embedding else 1.0
        places = self.positions[first : first + tokens.shape[1]]
        embedded: Tensor = self.dropout(self.embedding(tokens) * scale + places)
        return embedded


def translation_config(preset: str, **changes: Any) -> TranslationConfig:
    """Return a preset of :data:`TRANSLATION_PRESETS`, with changes.

    Examples
    --------
    >>> translation_config("dft_both").decoder_mixer
    'causal_dft'
    """
    return choose_preset(preset, TRANSLATION_PRESETS, **changes)


def _decoder(config: TranslationConfig) -> BlockConfig:
    return block_config(
        config,
        mixer=config.decoder_mixer,
        mixer_options=config.decoder_options,
        causal=True,
        reads_memory=config.reader,
    )
