"""The encoders of the FNet paper: BERT with its attention kept, replaced or left out.

[leethorp2021fnet]_ section 3.2 and Table 5. Word, position and segment embeddings, LayerNorm and a
projection as in its code; blocks that norm after the sum, with the tanh form of GELU and a
LayerNorm epsilon of 1e-12. Pre-training adds a head for masked words and one for "is this the next
sentence". The authors' code scores words with the word vectors themselves, and so does this; the
counts of Table 5 come out only if that matrix is counted once more, and its three smallest-model
columns are those of BERT (tests/models/test_encoder.py has both counts).

What training starts from and drops, in f_net/layers.py and f_net/models.py of
github.com/google-research/google-research:

========================================= =========================================================
dropout 0.1                               after the embeddings' projection; after the feed-forward;
                                          on the weights of attention (BERT and hybrid)
no dropout                                after the mixing sublayer, attention included; inside the
                                          feed-forward; on the pooled state that is classified
N(0, 0.02²)                               embeddings, attention, feed-forward, pooler, heads, and
                                          learned mixing matrices; the biases of attention, of the
                                          first dense layer of a feed-forward and of the outputs
LeCun normal                              projection of the embeddings; random mixing matrices
0                                         all other biases
========================================= =========================================================

Its embedding of the padding token is trained like any other; here it is zero, as in the checkpoints
that Hugging Face distributes, unless `padding_id` is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fourierkernels.foundation.validation import check_integer
from fourierkernels.mixing.baselines import lecun_normal_
from fourierkernels.models.blocks import ACTIVATIONS, build_blocks
from fourierkernels.models.configs import Presets, block_config
from fourierkernels.models.inputs import check_beside, check_tokens
from fourierkernels.models.parameters import draw_again, initialise
from fourierkernels.models.residual import rate_or


@dataclass(frozen=True)
class EncoderConfig(Presets):
    """Hyperparameters of an :class:`Encoder`.

    Attributes
    ----------
    attention_layers : int
        Number of last layers that have softmax attention instead of the mixer.
    padding_id : int or None
        Token whose vector starts at zero. As an input it is never trained; where words are scored
        with the vectors (`tied_output`), it is trained as a score, as in Hugging Face's models.
    dropout, attention_dropout, mixing_dropout, feed_forward_dropout, output_dropout : float or None
        Probabilities of dropping a number of the embeddings and of what a feed-forward returns, a
        weight of attention, a number of what is mixed, one inside the feed-forward, and one of the
        pooled state that is classified; None takes `dropout`.
    tied_output : bool
        Whether masked words are scored with the word vectors themselves, instead of a matrix of
        its own.
    mixed_padding : bool
        Whether mixers that cannot leave padding out mix it, as the authors' do, without a warning.
    start_std : float
        Standard deviation of the first weights, 0.02 as in the authors' code.

    Examples
    --------
    >>> EncoderConfig.preset("fnet_hybrid_base").attention_layers
    2
    """

    dim: int
    hidden: int
    layers: int
    heads: int
    mixer: str = "fnet"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    attention_layers: int = 0
    vocabulary: int = 32_000
    length: int = 512
    segments: int = 4
    padding_id: int | None = 3
    activation: str = "gelu_tanh"
    norm_eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float | None = None
    mixing_dropout: float | None = 0.0
    feed_forward_dropout: float | None = 0.0
    output_dropout: float | None = 0.0
    tied_output: bool = True
    mixed_padding: bool = False
    start_std: float = 0.02


# Table 5; the number of heads is E/64, as in BERT and the compact models it follows.
_SIZES = {
    "large": EncoderConfig(dim=1024, hidden=4096, layers=24, heads=16),
    "base": EncoderConfig(dim=768, hidden=3072, layers=12, heads=12),
    "512x12": EncoderConfig(dim=512, hidden=2048, layers=12, heads=8),
    "512x8": EncoderConfig(dim=512, hidden=2048, layers=8, heads=8),
    "mini": EncoderConfig(dim=512, hidden=2048, layers=4, heads=8),
    "256x4": EncoderConfig(dim=256, hidden=1024, layers=4, heads=4),
    "micro": EncoderConfig(dim=256, hidden=1024, layers=2, heads=4),
    "128x2": EncoderConfig(dim=128, hidden=512, layers=2, heads=2),
}
_KINDS: dict[str, dict[str, Any]] = {
    "bert": {"mixer": "softmax"},
    "linear": {"mixer": "linear"},
    "fnet": {"mixer": "fnet"},
    "random": {"mixer": "random"},
    "ff_only": {"mixer": "none"},
    "fnet_hybrid": {"mixer": "fnet", "attention_layers": 2},
}
ENCODER_PRESETS = {
    f"{kind}_{size}": replace(config, **changes)
    for kind, changes in _KINDS.items()
    for size, config in _SIZES.items()
}
EncoderConfig.presets = ENCODER_PRESETS
encoder_config = EncoderConfig.preset


class Encoder(nn.Module):
    """Map token ids to states.

    Parameters
    ----------
    config : EncoderConfig
        For instance ``encoder_config("fnet_base")``.

    Examples
    --------
    >>> model = Encoder(encoder_config("fnet_128x2", vocabulary=50, length=8))
    >>> model(torch.zeros(2, 8, dtype=torch.long)).shape
    torch.Size([2, 8, 128])
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.dim, padding_idx=config.padding_id)
        self.positions = nn.Embedding(config.length, config.dim)
        self.segments = nn.Embedding(config.segments, config.dim)
        self.norm = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.projection = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(
            block_config(config, norm="post"),
            config.layers,
            attention_layers=config.attention_layers,
        )
        self.pooler = nn.Linear(config.dim, config.dim)
        initialise(self, std=config.start_std)
        lecun_normal_(self.projection.weight.data)
        draw_again(self, r"blocks\..*(widen|_projection)\.bias", std=0.02)

    def forward(
        self, tokens: Tensor, *, segments: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """Return states ``(B, N, E)``.

        Parameters
        ----------
        tokens, segments : Tensor
            Ids ``(B, N)``; all segments are 0 if None.
        padding : Tensor or None
            Boolean ``(B, N)``, True where tokens are ignored. Fourier and dense mixers cannot
            ignore them: they warn, read zeros with ``mixer_options={"zero_padding": True}``, or
            mix them with ``mixed_padding=True``.
        """
        config = self.config
        tokens = check_tokens(tokens, vocabulary=config.vocabulary, length=config.length)
        if segments is None:
            segments = torch.zeros_like(tokens)
        segments = check_beside("segments", segments, tokens, vocabulary=config.segments)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.segments(segments) + self.positions(places)  # (B, N, E)
        x = self.dropout(self.projection(self.norm(x)))
        for block in self.blocks:
            x = block(
                x, padding=padding if not config.mixed_padding or block.uses_padding else None
            )
        states: Tensor = x
        return states

    def pool(self, states: Tensor) -> Tensor:
        """Return tanh of a dense layer on the first token's state, ``(B, E)``."""
        return torch.tanh(self.pooler(states[:, 0]))


class PretrainingLogits(NamedTuple):
    """Logits of words ``(B, N, V)``, or of those at P places, and of the next sentence ``(B, 2)``.

    The second logit is that of a B that does not come next.
    """

    words: Tensor
    next_sentence: Tensor


class PretrainingEncoder(nn.Module):
    """An encoder with the two heads of [devlin2019bert]_.

    Parameters
    ----------
    config : EncoderConfig
        Configuration of the encoder.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.transform = nn.Linear(config.dim, config.dim)
        self.norm = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.output = nn.Linear(config.dim, config.vocabulary)
        self.next_sentence = nn.Linear(config.dim, 2)
        initialise(self, std=config.start_std)
        draw_again(self, r"(output|next_sentence)\.bias", std=0.02)
        self.encoder = Encoder(config)
        if config.tied_output:
            self.output.weight = self.encoder.words.weight

    def forward(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        padding: Tensor | None = None,
        places: Tensor | None = None,
    ) -> PretrainingLogits:
        """Return both logits.

        Parameters
        ----------
        places : Tensor or None
            Places ``(B, P)`` of the words that are scored; all N of them if None.
        """
        states = self.encoder(tokens, segments=segments, padding=padding)
        chosen = states if places is None else _at(states, places)  # (B, P, E)
        activation = ACTIVATIONS[self.encoder.config.activation]
        transformed = activation(self.transform(chosen))
        words = self.output(self.norm(transformed))
        return PretrainingLogits(words, self.next_sentence(self.encoder.pool(states)))


def _at(states: Tensor, places: Tensor) -> Tensor:
    """Return the states ``(B, P, E)`` at places ``(B, P)``."""
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))


class EncoderClassifier(nn.Module):
    """An encoder with a dense layer on the pooled state: the tasks of GLUE.

    Parameters
    ----------
    config : EncoderConfig
        Configuration of the encoder.
    classes : int
        Number of classes; 1 for regression.
    """

    def __init__(self, config: EncoderConfig, *, classes: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(rate_or(config.output_dropout, config.dropout))
        self.head = nn.Linear(config.dim, check_integer("classes", classes))
        initialise(self, std=config.start_std)
        draw_again(self, r"head\.bias", std=0.02)
        self.encoder = Encoder(config)

    def forward(
        self, tokens: Tensor, *, segments: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """Return logits ``(B, classes)``."""
        states = self.encoder(tokens, segments=segments, padding=padding)
        logits: Tensor = self.head(self.dropout(self.encoder.pool(states)))
        return logits
