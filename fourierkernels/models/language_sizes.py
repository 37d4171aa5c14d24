"""Sizes and dropout of the language models.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fourierkernels.models.presets import choose_preset


@dataclass(frozen=True)
class LanguageConfig:
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


def language_config(preset: str, **changes: Any) -> LanguageConfig:
    """Return a preset of :data:`LANGUAGE_PRESETS`, with changes.

    Examples
    --------
    >>> language_config("medium", mixer="softmax").length
    384
    """
    return choose_preset(preset, LANGUAGE_PRESETS, **changes)
