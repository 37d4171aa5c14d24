"""Sizes and recipes of masked pre-training, [leethorp2021fnet]_ section 4.1.1.

The presets "base" and "large" follow the paper and, where it leaves a detail open, the code that
its authors published, folder ``f_net`` of https://github.com/google-research/google-research
(below "F"):

===================== =========================================== ================================
detail                value                                       source
===================== =========================================== ================================
sizes                 12 layers of 768 features, or 24 of 1,024   Table 5
model                 :mod:`fourierkernels.models.encoder`        paper, F ``models.py``
corpus                C4                                          section 4.1.1
vocabulary            32,000 subwords of SentencePiece, from a    section 4.1.1; the number from
                      million sentences                           the counts of Table 5
optimiser             Adam, betas 0.9 and 0.999, epsilon 1e-6,    F ``run_pretraining.py``
                      weight decay 0.01 apart from the gradient
                      (AdamW)
rates                 1e-4 after a warm-up of 10,000, then        F ``configs/pretraining.py``
                      linearly to 0; 1e-3 in "base_high_rate"     section 4.1.3: the better of the
                      and "large_high_rate"                       base rates 1e-3 and 1e-4
updates, batch        1,000,000 of 256 sequences                  section 4.1; F has 64, for GPUs
length                512, marks included                         F ``configs/base.py``
masks                 15 %, of which 80 % [MASK], 10 % another    F ``configs/pretraining.py``
                      subword, 10 % as it was
segments              whole lines, divided at one of them         F ``input_pipeline.py``
loss                  mean over masked words, plus mean over      F ``run_pretraining.py``
                      pairs
clip                  none                                        F ``configs/pretraining.py``
===================== =========================================== ================================

Not as there:

- The paper says next-sentence prediction and refers to BERT, which draws a wrong next segment from
  another document. F, whose comment names the same task, lets the segments change places instead.
  "base" and "large" do what the paper says, "base_swapped" what F does.
- Wrong next segments from another document are drawn so that lengths and line ends do not tell them
  from right ones (:mod:`fourierkernels.studies.masked.segments`); the paper does not say how.
- F draws pages and pairs without a seed, and measures on training pages. Here maskings follow from
  seeds, and measurements are on pages that are not trained on.
- F leaves out two consecutive lines that do not fit into a sequence; here such lines are cut.
- ``<unk>`` is never drawn in place of a masked word.
- The padding vector is zero and is not trained, as in the checkpoints of transformers.

"mini", "tiny" and "small" are ours: small models for small texts, one recipe for all mixers. They
begin
with weights of N(0, 0.1²): for hundreds of updates, models of so few features stay at the
frequencies of subwords with 0.02. The 150 subwords of "tiny" are hardly more than the characters of
the text, so that a few thousand masked places are enough to learn from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fourierkernels.studies.engine.recipe import Preset, Recipe, as_sharp_as_softmax

LOSS, WORD_LOSS, WORD_ACCURACY = "loss", "masked loss", "masked accuracy (%)"
PAIR_LOSS, PAIR_ACCURACY = "next-segment loss", "next-segment accuracy (%)"
METRICS = (LOSS, WORD_LOSS, PAIR_LOSS, WORD_ACCURACY, PAIR_ACCURACY)


@dataclass(frozen=True)
class MaskedPreset(Preset):
    """A preset of masked pre-training.

    Attributes
    ----------
    most_words : int
        Subwords.
    wrong : {"other_document", "swapped"}
        What the second segment is where it is not what comes next.
    """

    most_words: int = 32_000
    wrong: str = "other_document"


# Table 2: total, masked and next-sentence loss in nats, and both accuracies as printed.
TABLE_2 = {
    "base": {
        "softmax": (1.76, 1.48, 0.28, 0.68, 0.86),
        "linear": (2.12, 1.78, 0.35, 0.62, 0.83),
        "fnet": (2.45, 2.06, 0.40, 0.58, 0.80),
        "random": (5.02, 4.48, 0.55, 0.26, 0.70),
        "none": (7.54, 6.85, 0.69, 0.13, 0.50),
        "fnet_hybrid": (2.13, 1.79, 0.34, 0.63, 0.84),
    },
    "large": {
        "softmax": (1.49, 1.23, 0.25, 0.72, 0.88),
        "linear": (1.91, 1.60, 0.31, 0.65, 0.85),
        "fnet": (2.11, 1.75, 0.36, 0.63, 0.82),
    },
}
HIGH_RATE = 1e-3
_PAPER = Recipe(
    steps=1_000_000,
    batch=256,
    learning_rate=1e-4,
    schedule="linear",
    warmup=10_000,
    optimiser="adamw",
    epsilon=1e-6,
    weight_decay=0.01,
    evaluate_every=2_000,
    save_every=2_000,
    log_every=200,
)


def _published(size: str) -> dict[str, Mapping[str, float]]:
    scales = (1.0, 1.0, 1.0, 100.0, 100.0)
    return {
        mixer: {
            name: round(scale * value, 2)
            for name, scale, value in zip(METRICS, scales, row, strict=True)
        }
        for mixer, row in TABLE_2[size].items()
    }


def _paper(size: str, summary: str, dim: int, heads: int) -> MaskedPreset:
    return MaskedPreset(
        summary=summary,
        model={"preset": f"bert_{size}"},
        recipe=_PAPER,
        mixer_options=as_sharp_as_softmax(dim, heads),
        positions=6_400,
        published=_published(size),
    )


def _at_high_rate(preset: MaskedPreset, name: str) -> MaskedPreset:
    """Return a preset at the second base rate of section 4.1.3, of which the better one counts."""
    return replace(
        preset,
        summary=f"as {name}, at the paper's other base rate, {HIGH_RATE:g}",
        recipe=replace(preset.recipe, learning_rate=HIGH_RATE),
    )


def _small(summary: str, sizes: dict[str, int], words: int, recipe: Recipe) -> MaskedPreset:
    return MaskedPreset(
        summary=summary,
        model={"preset": "bert_128x2", "start_std": 0.1, **sizes},
        recipe=recipe,
        mixer_options=as_sharp_as_softmax(sizes["dim"], sizes["heads"]),
        data="python-documents",
        most_words=words,
        positions=400,
    )


_TINY = replace(
    _PAPER,
    steps=2_500,
    batch=16,
    learning_rate=4e-3,
    warmup=250,
    clip=1.0,
    evaluate_every=500,
    save_every=500,
    log_every=50,
)
_BASE = _paper("base", "the paper's base models: 12 layers, 768 features, C4", 768, 12)
_LARGE = _paper("large", "the paper's large models: 24 layers, 1,024 features, C4", 1024, 16)
PRESETS: dict[str, MaskedPreset] = {
    "tiny": _small(
        "2 layers of 64 features, length 64, 150 subwords: a minute or two on one core",
        {"dim": 64, "hidden": 256, "layers": 2, "heads": 4, "length": 64},
        150,
        _TINY,
    ),
    "mini": _small(
        "1 layer of 32 features, else as tiny: half a minute on one core",
        {"dim": 32, "hidden": 128, "layers": 1, "heads": 2, "length": 64},
        150,
        _TINY,
    ),
    "small": _small(
        "4 layers of 128 features, length 128, 4,000 subwords: half an hour on one core",
        {"dim": 128, "hidden": 512, "layers": 4, "heads": 4, "length": 128},
        4_000,
        replace(_TINY, learning_rate=2e-3, steps=5_000, warmup=500),
    ),
    "recall": replace(
        _small(
            "2 layers of 64 features, length 36, drawn documents: two minutes on one core",
            {"dim": 64, "hidden": 256, "layers": 2, "heads": 4, "length": 36},
            150,
            replace(_TINY, batch=32),
        ),
        data="drawn-documents",
        positions=1_000,
    ),
    "base": _BASE,
    "base_swapped": replace(
        _BASE,
        summary="as base, the segments changing places, as in the code of its authors",
        wrong="swapped",
    ),
    "base_high_rate": _at_high_rate(_BASE, "base"),
    **{
        f"{dim}x{layers}": replace(
            _BASE,
            summary=f"one of the paper's sizes, table 5: {layers} layers, {dim} features, C4",
            model={"preset": f"bert_{size}"},
            mixer_options=as_sharp_as_softmax(dim, dim // 64),
            published={},
        )
        for size, dim, layers in (
            ("512x12", 512, 12),
            ("512x8", 512, 8),
            ("mini", 512, 4),
            ("256x4", 256, 4),
            ("micro", 256, 2),
            ("128x2", 128, 2),
        )
    },
    "large": _LARGE,
    "large_high_rate": _at_high_rate(_LARGE, "large"),
}
HOURS = {  # of one core for a run with softmax, by timed passes
    "large": 890_000,
    "base": 250_000,
    "512x12": 120_000,
    "512x8": 80_000,
    "512x4": 44_000,
    "256x4": 18_000,
    "256x2": 11_000,
    "128x2": 5_000,
}
