"""The block of which all models are made: token mixer, optional reader of a memory, feed-forward.

Each is a sublayer in a residual connection (:mod:`fourierkernels.models.residual`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.mixing import MIXERS, TokenMixer, create_mixer
from fourierkernels.mixing.mixer import ReadingMixer, State
from fourierkernels.models.residual import Residual, check_rate, rate_or

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
NO_OPTIONS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class BlockConfig:
    """Hyperparameters of a block.

    Attributes
    ----------
    dim, hidden : int
        Features E of a token, and of the feed-forward in between.
    heads : int
        Heads of attention.
    length : int or None
        Longest sequence, for mixers that need to know it.
    mixer : str
        A key of :data:`fourierkernels.mixing.MIXERS`; "none" leaves the sublayer out.
    mixer_options : mapping
        Options of that mixer.
    causal : bool
        Tokens see earlier tokens only.
    reads_memory : str or None
        The mixer that reads another sequence, if any: a kind of attention (cross-attention), or
        one of fixed weights.
    reader_options : mapping or None
        Its options; None for those of a mixer of the same name, without its causal mask.
    norm : {"pre", "post"}
        Place of the norms.
    norm_kind : {"layer", "batch"}
        LayerNorm, or batch normalisation over the tokens that are no padding.
    attention_bias : bool
        Whether the projections of attention have biases.
    dropout : float
        Probability of dropping a number of what a sublayer returns.
    mixing_dropout, feed_forward_dropout, attention_dropout : float or None
        The same for what the mixing sublayer returns, between the dense layers of the feed-forward,
        and for the weights of attention, where a mixer has such. None takes `dropout`.
    drop_path : float
        Probability of leaving a sublayer of the last block out, for a whole sequence of the batch;
        it rises linearly from 0 in the first block.
    """

    dim: int
    hidden: int
    heads: int = 1
    length: int | None = None
    mixer: str = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    causal: bool = False
    reads_memory: str | None = None
    norm: str = "post"
    norm_eps: float = 1e-5
    activation: str = "relu"
    dropout: float = 0.1
    mixing_dropout: float | None = None
    feed_forward_dropout: float | None = 0.0
    attention_dropout: float | None = 0.0
    drop_path: float = 0.0
    attention_bias: bool = True
    reader_options: Mapping[str, Any] | None = None
    norm_kind: str = "layer"


class BlockState(NamedTuple):
    """State of a block while decoding: of its mixer, and of the memory that it reads."""

    mixer: State | None
    memory: State | None


class FeedForward(nn.Module):
    """Two dense layers with an activation between them, token by token."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        # The name and not the function: a row may be a lambda, which cannot be pickled.
        self.activation = check_choice("activation", config.activation, list(ACTIVATIONS))
        self.widen = nn.Linear(config.dim, config.hidden)
        self.dropout = nn.Dropout(rate_or(config.feed_forward_dropout, config.dropout))
        self.narrow = nn.Linear(config.hidden, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, N, E)``."""
        between = ACTIVATIONS[self.activation](self.widen(x))
        mapped: Tensor = self.narrow(self.dropout(between))
        return mapped


class Block(nn.Module):
    """One layer of a model.

    Parameters
    ----------
    config : BlockConfig
        Hyperparameters.

    Raises
    ------
    ValueError
        If the mixer is unknown, or cannot be causal where it must be.
    """

    mixer: TokenMixer | None
    reader: ReadingMixer | None

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.mixer = None if config.mixer == "none" else _create_mixer(config, config.mixer)
        self.reader = _create_reader(config)
        mixing = rate_or(config.mixing_dropout, config.dropout)
        self.around_mixer = None if self.mixer is None else _residual(config, mixing)
        self.around_reader = None if self.reader is None else _residual(config, mixing)
        self.feed_forward = FeedForward(config)
        self.around_feed_forward = _residual(config, config.dropout)

    def forward(
        self,
        x: Tensor,
        *,
        padding: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
    ) -> Tensor:
        """Map tokens ``(B, N, E)``; the memory is ``(B, M, E)``, True in a padding is ignored."""
        if self.mixer is not None and self.around_mixer is not None:
            inner = self.around_mixer.enter(x, padding)
            x = self.around_mixer.leave(x, self.mixer(inner, padding=padding), padding)
        if self.reader is not None and memory is not None:
            x = self._read(x, self.reader.memory(memory), memory_padding, padding)
        return self._feed(x, padding)

    def start(self, memory: Tensor | None = None) -> BlockState:
        """Return the state before the first token; keys and values of the memory are kept."""
        if self.reader is None or memory is None:
            return BlockState(None, None)
        return BlockState(None, self.reader.memory(memory))

    def prefill(self, x: Tensor) -> tuple[Tensor, BlockState]:
        """Map the first tokens ``(B, N, E)`` of a block without a memory, and return the state."""
        mixer_state = None
        if self.mixer is not None and self.around_mixer is not None:
            change, mixer_state = self.mixer.prefill(self.around_mixer.enter(x))
            x = self.around_mixer.leave(x, change)
        return self._feed(x), BlockState(mixer_state, None)

    def step(
        self,
        x: Tensor,
        state: BlockState,
        *,
        memory_padding: Tensor | None = None,
        seen: int = 0,
    ) -> tuple[Tensor, BlockState]:
        """Map one more token ``(B, 1, E)``: what `forward` returns for it, from the state.

        Parameters
        ----------
        seen : int
            Tokens before it, which a reader of fixed weights has to know.
        """
        mixer_state = state.mixer
        if self.mixer is not None and self.around_mixer is not None:
            change, mixer_state = self.mixer.step(self.around_mixer.enter(x), state.mixer)
            x = self.around_mixer.leave(x, change)
        if state.memory is not None:
            x = self._read(x, state.memory, memory_padding, first=seen)
        return self._feed(x), BlockState(mixer_state, state.memory)

    @property
    def sees_later(self) -> bool:
        """Whether earlier outputs of its mixer change with later tokens."""
        return self.mixer is not None and self.mixer.sees_later

    @property
    def masks_padding(self) -> bool:
        """Whether padded tokens reach no others."""
        return self.mixer is None or self.mixer.masks_padding

    @property
    def uses_padding(self) -> bool:
        """Whether its mixer leaves padded tokens out or sets them to zero."""
        return self.masks_padding or (self.mixer is not None and self.mixer.zero_padding)

    def _read(
        self,
        x: Tensor,
        memory: State,
        memory_padding: Tensor | None,
        padding: Tensor | None = None,
        *,
        first: int = 0,
    ) -> Tensor:
        if self.reader is None or self.around_reader is None:
            raise ValueError("memory must be None for a block without a reader, got one")
        inner = self.around_reader.enter(x, padding)
        change = self.reader.read(inner, memory, padding=memory_padding, first=first)
        return self.around_reader.leave(x, change, padding)

    def _feed(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        inner = self.around_feed_forward.enter(x, padding)
        return self.around_feed_forward.leave(x, self.feed_forward(inner), padding)


def build_blocks(config: BlockConfig, layers: int, *, attention_layers: int = 0) -> nn.ModuleList:
    """Return `layers` blocks, the last `attention_layers` of them with softmax attention.

    The hybrid of [leethorp2021fnet]_ section 4.1 has two such layers.
    """
    check_integer("layers", layers)
    kept = check_attention_layers(attention_layers, layers)
    attention = replace(config, mixer="softmax", mixer_options=NO_OPTIONS)
    return build_layers([config] * (layers - kept) + [attention] * kept)


def build_layers(kinds: Sequence[BlockConfig]) -> nn.ModuleList:
    """Return one block for each configuration, with rising rates of dropping its sublayers."""
    rises = [check_rate("drop_path", kind.drop_path) / max(1, len(kinds) - 1) for kind in kinds]
    return nn.ModuleList(
        Block(replace(kind, drop_path=i * rise))
        for i, (kind, rise) in enumerate(zip(kinds, rises, strict=True))
    )


def check_attention_layers(attention_layers: int, layers: int) -> int:
    """Return how many layers keep attention, at most all.

    Raises
    ------
    ValueError, TypeError
        If it is another number.
    """
    if not 0 <= check_integer("attention_layers", attention_layers, least=0) <= layers:
        raise ValueError(f"attention_layers must be at most {layers}, got {attention_layers}")
    return attention_layers


def select_rows(state: BlockState, rows: Tensor) -> BlockState:
    """Return the state of other rows of the batch, as a beam search reorders them."""
    return BlockState(*(_rows(part, rows) for part in state))


def _rows(part: State | None, rows: Tensor) -> State | None:
    return None if part is None else tuple(tensor.index_select(0, rows) for tensor in part)


def _residual(config: BlockConfig, dropout: float) -> Residual:
    return Residual(
        config.dim,
        norm=config.norm,
        eps=config.norm_eps,
        dropout=dropout,
        drop_path=config.drop_path,
        kind=config.norm_kind,
    )


def _create_mixer(config: BlockConfig, name: str) -> TokenMixer:
    options: dict[str, Any] = dict(config.mixer_options)
    if name in MIXERS and MIXERS[name].has_bias:
        options = {"bias": config.attention_bias, **options}
    if name in MIXERS and MIXERS[name].drops_weights:
        options = {"dropout": rate_or(config.attention_dropout, config.dropout), **options}
    return create_mixer(
        name,
        dim=config.dim,
        length=config.length,
        heads=config.heads,
        causal=config.causal,
        **options,
    )


def _create_reader(config: BlockConfig) -> ReadingMixer | None:
    if config.reads_memory is None:
        return None
    known = [name for name, row in MIXERS.items() if row.reads_memory]
    name = check_choice("reads_memory", config.reads_memory, known)
    options = config.reader_options
    if options is None:
        options = reader_options(config.mixer_options) if name == config.mixer else NO_OPTIONS
    plain = replace(config, causal=False, length=None, mixer_options=options)
    return _create_mixer(plain, name)  # type: ignore[return-value]  # its row says that it reads


def reader_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a causal mixer's options for a reader, which sees all of its memory."""
    return {name: option for name, option in options.items() if name != "mask"}


def run_blocks(blocks: Iterable[nn.Module], x: Tensor, **options: Tensor | None) -> Tensor:
    """Return the tokens after all blocks."""
    for block in blocks:
        x = block(x, **options)
    return x
