"""The translation model of "Do You Really Need Attention?": an encoder-decoder with DFT mixing.

[chen_attention]_ section 4.3: the transformer of [vaswani2017attention]_, 6 + 6 layers, 512
features, feed-forward 2048, one vocabulary of about 35,000 tokens for both languages. The encoder
mixes by a two-dimensional DFT; the decoder by attention ("dft_encoder") or by the causally masked
DFT ("dft_both"); the decoder's reading of the encoder stays attention. With the embedding shared
by both sides and tied to the output these have 55.7 and 49.4 million parameters, the paper's 55 and
49. Dropout of 0.1 is on the embeddings and after each sublayer ("residual dropout", section 4.5)
and nowhere else; no code is published, and the start, Xavier-uniform with embeddings of N(0, 1/E),
is ours. Presets and sizes are in :mod:`fourierkernels.models.translation_sizes`.

Padding does not affect results. A DFT has a length, and the report transforms a batch at the length
of its batch, sentences of a class of lengths padded to the longest; whether padded places are then
masked, and what becomes of a sentence in another batch, it does not say. Here the length is a
function of the sentence: "own", the default, takes its own number of tokens, as the formulas of
section 3.2.1 do, which are of one sentence; a tuple of class ends such as
:data:`~fourierkernels.models.translation_sizes.LENGTH_CLASSES` is nearest to the report, and lets a
batch of one class go through in one piece; "fixed" always takes `length`, one piece for any batch,
but the n frequencies that a sentence of n << √L tokens keeps are then all nearly zero, and each
place gets about the sum of all. Places that are added hold zeros before each DFT (`zero_padding`)
and are neither returned nor read. Encoders that leave padding out, those of attention, need none of
this and are not regrouped. In the decoder L is fixed, and what follows a sentence reaches no
earlier token.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from fourierkernels.models.blocks import (
    BlockConfig,
    BlockState,
    build_layers,
    reader_options,
    run_blocks,
    select_rows,
)
from fourierkernels.models.configs import block_config, options_of, place_mixers
from fourierkernels.models.inputs import (
    check_no_empty_row,
    check_padded_at_end,
    check_same_batch,
    check_tokens,
)
from fourierkernels.models.parameters import initialise_uniformly
from fourierkernels.models.sequences import Group, check_source_lengths, group_sources, sinusoids
from fourierkernels.models.translation_sizes import TranslationConfig


class DecoderState(NamedTuple):
    """State of the decoder: that of each block, the source's padding, tokens seen.

    A decoder without a cache keeps the encoded source and the tokens themselves.
    """

    blocks: tuple[BlockState, ...]
    padding: Tensor
    seen: int
    reread: tuple[Tensor, ...] = ()

    def select(self, rows: Tensor) -> "DecoderState":
        """Return the state of other rows of the batch."""
        blocks = tuple(select_rows(block, rows) for block in self.blocks)
        reread = tuple(part.index_select(0, rows) for part in self.reread)
        return DecoderState(blocks, self.padding.index_select(0, rows), self.seen, reread)

    def reorder(self, rows: Tensor) -> "DecoderState":
        """Return the state of rows that take the place of others of the same source.

        Tensors of the source stay in place and need not be copied.
        """
        blocks = tuple(
            BlockState(select_rows(block._replace(memory=None), rows).mixer, block.memory)
            for block in self.blocks
        )
        reread = (*self.reread[:1], *(part.index_select(0, rows) for part in self.reread[1:]))
        return DecoderState(blocks, self.padding, self.seen, reread)


class TranslationModel(nn.Module):
    """Read a source, write a target token by token.

    Parameters
    ----------
    config : TranslationConfig
        For instance ``translation_config("dft_both")``.

    Attributes
    ----------
    cached : bool
        Whether decoding keeps what each layer needs of earlier tokens. A decoder whose outputs
        change with later tokens (softmax attention with ``mask="after"``) has nothing to keep: each
        step reads the whole beginning again, and its logits are the last of that pass. They are not
        those of a longer pass at that place, in which training sees later tokens.

    Examples
    --------
    >>> from fourierkernels.models.translation_sizes import translation_config
    >>> model = TranslationModel(translation_config("dft_both", size="tiny", vocabulary=20))
    >>> model(torch.ones(2, 5, dtype=torch.long), torch.ones(2, 7, dtype=torch.long)).shape
    torch.Size([2, 7, 20])
    """

    positions: Tensor
    output_bias: Tensor

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.config = config
        self.source_lengths = check_source_lengths(config.source_lengths, length=config.length)
        self.embedding = nn.Embedding(config.vocabulary, config.dim, padding_idx=config.padding_id)
        self.source_embedding = (
            None
            if config.source_vocabulary is None
            else nn.Embedding(config.source_vocabulary, config.dim, padding_idx=config.padding_id)
        )
        self.register_buffer("positions", sinusoids(config.length, config.dim), persistent=False)
        # Not trained; Marian's checkpoints have one.
        self.register_buffer("output_bias", torch.zeros(config.vocabulary))
        self.dropout = nn.Dropout(config.dropout)
        self.encoder, self.decoder = build_layers(_encoder(config)), build_layers(_decoder(config))
        self.cached = not any(block.sees_later for block in self.decoder)
        initialise_uniformly(self, embedding_std=config.dim**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits of the token after each of the target, ``(B, M, V)``.

        Parameters
        ----------
        source, target : Tensor
            Ids ``(B, N)`` and ``(B, M)``, padded at the end; the target begins with `start_id`.

        Raises
        ------
        TypeError, ValueError
            If they are no such ids, or a source holds nothing but padding, or a token after it.
        """
        memory = self.encode(source)
        check_same_batch("target", target, "source", source)
        return self._decode(target, memory, source == self.config.padding_id)

    def encode(self, source: Tensor) -> Tensor:
        """Return the states of the source, ``(B, N, E)``, the same in any batch."""
        config = self.config
        source = check_tokens(
            source, vocabulary=config.source_words, length=config.length, name="source"
        )
        if all(block.masks_padding for block in self.encoder):
            check_no_empty_row(source, config.padding_id)
            check_padded_at_end(source, config.padding_id)
            return run_blocks(
                self.encoder, self._embed_source(source), padding=source == config.padding_id
            )
        groups = group_sources(
            source, self.source_lengths, length=config.length, padding_id=config.padding_id
        )
        states = [self._encode_alike(group, source.shape[1]) for group in groups]
        order = torch.cat([group.rows for group in groups]).argsort()
        return torch.cat(states).index_select(0, order)  # (B, N, E)

    def start(self, source: Tensor) -> DecoderState:
        """Return the state of the decoder before the first target token."""
        memory, padding = self.encode(source), source == self.config.padding_id
        if not self.cached:
            return DecoderState((), padding, 0, (memory, source.new_zeros((len(source), 0))))
        blocks = tuple(block.start(memory) for block in self.decoder)  # type: ignore[operator]
        return DecoderState(blocks, padding, 0)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one target token ``(B, 1)`` more; return logits of the next, ``(B, V)``."""
        if not self.cached:
            memory, read = state.reread[0], torch.cat([state.reread[1], tokens], dim=1)
            logits = self._decode(read, memory, state.padding)[:, -1]
            return logits, state._replace(seen=state.seen + 1, reread=(memory, read))
        x, after = self._embed(self._checked(tokens, state.seen), first=state.seen), []
        for block, block_state in zip(self.decoder, state.blocks, strict=True):
            x, new = block.step(  # type: ignore[operator]
                x, block_state, memory_padding=state.padding, seen=state.seen
            )
            after.append(new)
        logits = linear(x[:, 0], self.embedding.weight, self.output_bias)  # (B, V)
        return logits, state._replace(blocks=tuple(after), seen=state.seen + 1)

    def _encode_alike(self, group: Group, width: int) -> Tensor:
        """Return the states of sources of one padded length, ``(b, width, E)``, padding zero."""
        x, filled = self._embed_source(group.tokens), group.tokens == self.config.padding_id
        x = run_blocks(self.encoder, x, padding=filled if group.padded else None)
        x = x.masked_fill(filled[..., None], 0.0)[:, :width]  # (b, at most width, E)
        return pad(x, (0, 0, 0, width - x.shape[1]))

    def _decode(self, target: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        target = self._checked(target, name="target")
        x, filled = self._embed(target), target == self.config.padding_id
        for block in self.decoder:
            padded = filled if block.sees_later else None  # later tokens reach no other block's x
            x = block(x, padding=padded, memory=memory, memory_padding=padding)
        return linear(x, self.embedding.weight, self.output_bias)  # (B, M, V)

    def _checked(self, tokens: Tensor, seen: int = 0, name: str = "tokens") -> Tensor:
        config = self.config
        return check_tokens(
            tokens, vocabulary=config.vocabulary, length=config.length - seen, name=name
        )

    def _embed(self, tokens: Tensor, *, first: int = 0) -> Tensor:
        return self._placed(self.embedding(tokens), first)

    def _embed_source(self, tokens: Tensor) -> Tensor:
        table = self.embedding if self.source_embedding is None else self.source_embedding
        return self._placed(table(tokens), 0)

    def _placed(self, states: Tensor, first: int) -> Tensor:
        """Return scaled embeddings with their positions, of which some are dropped."""
        scale = math.sqrt(self.config.dim) if self.config.scale_embedding else 1.0
        places = self.positions[first : first + states.shape[1]]
        embedded: Tensor = self.dropout(states * scale + places)
        return embedded


def _encoder(config: TranslationConfig) -> list[BlockConfig]:
    return place_mixers(
        block_config(config, mixer="softmax", mixer_options={}),
        config.mixer,
        config.mixer_options,
        layers=config.layers,
        attention_layers=config.attention_layers,
    )


def _decoder(config: TranslationConfig) -> list[BlockConfig]:
    options = config.reader_options
    if options is None:
        shared = options_of(config.reader, config.decoder_mixer, config.decoder_options)
        options = reader_options(shared)
    shared_by_all = block_config(
        config,
        mixer="softmax",
        mixer_options={},
        causal=True,
        reads_memory=config.reader,
        reader_options=options,
    )
    return place_mixers(
        shared_by_all,
        config.decoder_mixer,
        config.decoder_options,
        layers=config.decoder_layers,
        attention_layers=config.decoder_attention_layers,
    )
