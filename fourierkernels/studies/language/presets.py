"""Sizes and recipes of the language study, [nguyen2022fourierformer]_ section 4.1.

The presets "small" and "medium" follow the code that its authors published
(https://github.com/minhtannguyen/FourierFormer_NeurIPS, folder ``wikitext103/lmtool-fwms``, below
"FF"), which is lmtool-fwp (https://github.com/IDSIA/lmtool-fwp, below "lmtool") with one attention
more, and this in turn Transformer-XL (https://github.com/kimiyoung/transformer-xl):

===================== =========================================== ================================
detail                value                                       source
===================== =========================================== ================================
layers, heads         16, 8 of 16 (small) or 32 (medium) features FF ``README.md``
feed-forward          2,048, ReLU                                 FF ``README.md``; lmtool
                                                                  ``utils/model_utils.py``
context               256 (small), 384 (medium)                   FF ``README.md``
dropout               0.1: after the sum of word and position,    lmtool ``model_main.py``,
                      the attention, the ReLU, the feed-forward   ``utils/model_utils.py``
                      and the last layer
on attention weights  0                                           FF ``README.md``, dropatt
LayerNorm             after the sum, eps 1e-5                     lmtool ``train.py``, pre_lnorm
biases of attention   none                                        lmtool ``model_main.py``
positions             sinusoids, sines before cosines, counted    lmtool ``model_main.py``,
                      from the end                                pos_seq
word vectors          times √E, tied to the softmax, all of E     lmtool ``model_main.py``,
                      features (div_val 1)                        ``train.py``
softmax               adaptive, cutoffs 20,000, 40,000, 200,000,  lmtool ``train.py``,
                      with biases                                 ``utils/proj_adaptive_softmax.py``
initial parameters    weights N(0, 0.02²), biases 0, LayerNorm    lmtool ``train.py``,
                      weights N(1, 0.02²)                         weights_init
φ, R                  x⁴; one trained scalar R per layer, 2 at    FF ``src/mem_transformer.py``,
                      the start, trained itself and not its       paramR; paper, appendix C.1
                      logarithm
denominator           plus 1e-6                                   FF ``src/mem_transformer.py``
optimiser             Adam, rate 2.5e-4, betas 0.9, 0.999         FF ``README.md``; lmtool
                                                                  ``train.py``
rates                 warm-up 2,000, then a cosine that began at  lmtool ``train.py``
                      the first update, whose own rate is the
                      largest
updates, batch        500,000, 96 (small); 400,000, 56 (medium)   FF ``README.md``
clip                  0.25                                        lmtool ``train.py``
segments              as many streams as a batch has sequences,   lmtool ``data_utils.py``,
                      cut in their order                          LMOrderedIterator
validation            every 4,000 updates, the best model is kept lmtool ``train.py``
seed                  1111                                        FF ``README.md``
perplexity            sliding window, last position alone, but    lmtool
                      all of the first window                     ``eval_sliding_window.py``; paper
===================== =========================================== ================================

Left open by both, and chosen here: nothing of the model or recipe. Not as there: the validation
during training reads the text as one stream, theirs as ten.

The presets "mini", "tiny", "recall", "little" and "twin" are ours: small models of the same make
for small texts, but for three things. They add nothing to the denominator: with 1e-6 the rows of an
attention map no longer sum to one where the density of the keys is small, and vanish where it is
below 1e-6. They begin with weights of N(0, 1/E): with 0.02² they stay at the frequencies of words
for hundreds of steps. Queries and keys are then of unit size, which in the paper's small models
have 0.02 √128 = 0.23, so R = 0.5 here begins as sharp as the paper's 2 does there.
"""

from dataclasses import dataclass, replace
from typing import Any

from fourierkernels.studies.engine.recipe import Preset, Recipe


@dataclass(frozen=True)
class LanguagePreset(Preset):
    """A preset of the language study.

    Attributes
    ----------
    most_words : int or None
        Largest vocabulary; the corpus's own if None.
    """

    most_words: int | None = None


_PAPER = Recipe(
    steps=500_000,
    batch=96,
    learning_rate=2.5e-4,
    schedule="transformer_xl",
    warmup=2_000,
    clip=0.25,
    order="streams",
    evaluate_every=4_000,
    save_every=4_000,
    log_every=200,
    seed=1111,
)
_AS_THERE = {"positions": "from_the_end"}
_OURS = {**_AS_THERE, "start": "unit"}
_FOURIER: dict[str, dict[str, Any]] = {
    "fourier": {"power": 4, "radius": 0.5, "radius_shape": "scalar"}
}
_PAPER_FOURIER = {
    "fourier": {
        "power": 4,
        "radius": 2.0,
        "radius_shape": "scalar",
        "radius_parameter": "direct",
        "eps": 1e-6,
    }
}


def _small_preset(summary: str, sizes: dict[str, int], *, batch: int = 16) -> LanguagePreset:
    """Return a model of ours that is trained in seconds or minutes, by one recipe."""
    return LanguagePreset(
        summary=summary,
        model={"preset": "small", "length": 32, **sizes, **_OURS},
        recipe=Recipe(
            steps=400,
            batch=batch,
            learning_rate=4e-3,
            schedule="cosine",
            warmup=40,
            clip=0.25,
            evaluate_every=100,
            save_every=100,
            log_every=20,
        ),
        mixer_options=_FOURIER,
        data="python",
        most_words=2_000,
        positions=2_000,
    )


PRESETS = {
    "mini": _small_preset(
        "1 layer of 2 heads of 16 features, context 32: seconds on two cores",
        {"dim": 32, "layers": 1, "heads": 2, "hidden": 128},
    ),
    "tiny": _small_preset(
        "2 layers of 4 heads of 16 features, context 32: half a minute on two cores",
        {"dim": 64, "layers": 2, "heads": 4, "hidden": 256},
    ),
    "recall": replace(
        _small_preset(
            "a drawn text of names and values, else as tiny: a minute on two cores",
            {"dim": 64, "layers": 2, "heads": 4, "hidden": 256},
            batch=32,
        ),
        data="recall",
    ),
    "little": _small_preset(
        "4 layers of 8 heads of 16 features, context 32: two minutes on two cores",
        {"dim": 128, "layers": 4, "heads": 8, "hidden": 512},
    ),
    "twin": LanguagePreset(
        summary="6 layers of 8 heads of 16 features, context 256: an hour or so on one core",
        model={"preset": "small", "dim": 128, "layers": 6, "heads": 8, "hidden": 256} | _OURS,
        recipe=Recipe(
            steps=2_000,
            batch=8,
            learning_rate=2e-3,
            schedule="cosine",
            warmup=200,
            clip=0.25,
            evaluate_every=500,
            save_every=500,
            log_every=50,
        ),
        mixer_options=_FOURIER,
        data="python",
        most_words=8_000,
        positions=1_000,
    ),
    "small": LanguagePreset(
        summary="the paper's small models: 16 layers, 128 features, context 256",
        model={"preset": "small"} | _AS_THERE,
        recipe=_PAPER,
        mixer_options=_PAPER_FOURIER,
        published={
            "softmax": {"valid": 33.15, "test": 34.29},
            "fourier": {"valid": 31.86, "test": 32.85},
        },
    ),
    "medium": LanguagePreset(
        summary="the paper's medium models: 16 layers, 256 features, context 384",
        model={"preset": "medium"} | _AS_THERE,
        recipe=replace(_PAPER, steps=400_000, batch=56),
        mixer_options=_PAPER_FOURIER,
        published={
            "softmax": {"valid": 27.90, "test": 29.60},
            "fourier": {"valid": 26.51, "test": 28.01},
        },
    ),
}
