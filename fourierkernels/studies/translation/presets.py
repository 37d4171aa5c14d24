"""Sizes and recipes of the translation study, [chen_attention]_ sections 4.1 to 4.5.

No code of the report is published. Where it is silent, "base" and "big" follow the paper whose
transformer it takes, [vaswani2017attention]_ ("VSP" below), and then choices of ours:

===================== ============================================= ==============================
detail                value                                         source
===================== ============================================= ==============================
layers, features      6 + 6, 512, feed-forward 2,048                report, section 4.3
heads                 8                                             VSP, table 3
big                   1,024 features, feed-forward 4,096, 16 heads, VSP, table 3
                      dropout 0.3
vocabulary            35,000 subwords of both languages together    report, section 4.1
pairs                 at most 50 subwords a side, which differ by   report, section 4.1
                      at most 20; ten classes of source lengths
splits                8-1-1, a tenth of the documents each          report, section 4.1;
                                                                    documents: ours
batch                 B pairs of a class with (L + 20) B = 15,000   report, section 4.4
update                four such batches, one on each of four GPUs   report, section 4.2
updates               50 epochs; 1,081.4 updates an epoch by the    report, section 4.3
                      report's table 1
optimiser             Adam, betas 0.9, 0.98, epsilon 1e-9           report, section 4.5;
                                                                    VSP, section 5.3
rates                 E^-0.5 min(s^-0.5, s 4,000^-1.5) at update s  "similar" in the report,
                                                                    section 4.5; VSP, equation 3
dropout               0.1, after the embeddings and the sublayers   report, section 4.5
label smoothing       0.1                                           report, section 4.5
beam                  4                                             report, section 5.2
length penalty        0.6                                           VSP, section 6.1
BLEU                  sacrebleu's; its words, its smoothing         ours
padding               sources to the end of their class             report, section 4.1
longest               128 tokens, which is the L of the causal DFT  ours
model that is kept    the best validation loss, every epoch         ours
gradient's norm       not clipped                                   ours
start                 Xavier-uniform, embeddings N(0, 1/E)          ours
===================== ============================================= ==============================

"iwslt" is what fairseq documents for IWSLT'14, line by line (commit 3d262bb of
https://github.com/facebookresearch/fairseq; R is ``examples/translation/README.md``, P
``examples/translation/prepare-iwslt14.sh``):

===================== ============================================= ==============================
detail                value                                         source
===================== ============================================= ==============================
layers, features      6 + 6, 512, feed-forward 1,024, 4 heads       R line 125; ``models/
                                                                    transformer/
                                                                    transformer_legacy.py``,
                                                                    lines 227 to 236
norms, activation     after the sums; ReLU                          same file, 175, 182, 189
embeddings            one table for the sources, one for the        R lines 115 to 118 (without
                      targets and the output                        ``--joined-dictionary``), 125
optimiser             Adam, betas 0.9, 0.98, epsilon 1e-8, whose    R 126; ``optim/adam.py``, 30,
                      decay 1e-4 is decoupled (AdamW) and of all    48 to 50 and 229 to 232;
                      parameters                                    R 128
rates                 u/4,000 of 5e-4 after u updates, then         R 127; ``optim/lr_scheduler/
                      5e-4 (4,000/u)^0.5                            inverse_square_root_schedule
                                                                    .py``, 59 to 84
gradient's norm       not clipped                                   R 126
dropout               0.3, after the embeddings and the sublayers   R 128; legacy file, 187, 188
label smoothing       0.1, over the other words alone               R 129; ``criterions/
                                                                    label_smoothed_cross_entropy
                                                                    .py``, 49 and 50
batch                 at most 4,096 tokens                          R 130
sentences             lower case, at most 175 words, 1.5 times as   P lines 65 to 68
                      many on one side; no other filter
validation, test      every 23rd pair; five sets, kept whole        P lines 88 to 98
longest               1,024 tokens, marks included                  ``models/transformer/
                                                                    transformer_config.py``
beam                  5, scores divided by the length; at most 200  R 143;
                      subwords                                      ``sequence_generator.py``, 26
                                                                    to 31, 675 and 676
BLEU                  of tokens without smoothing ("tokenised       R 143; ``fairseq_cli/
                      BLEU"), beside sacrebleu's                    generate.py``, 350 to 362
===================== ============================================= ==============================

Not as there: the words are not those of Moses' tokenizer; 10,000 subwords in all and not 10,000
merges; "4,096 tokens" are those of the sources, marks included, of sentences of one length class;
sources begin with a mark; the features of the positions are in 256 frequencies of 10,000^(-i/256),
there of 10,000^(-i/255); all dense layers start Xavier-uniform; the search goes on while a
translation can still win; the model that is kept has the best validation loss, there the best BLEU;
the number of updates is ours, as R names none. The published numbers are those of table 5 of
[nguyen2022fourierformer]_, which names no recipe; fairseq documents none.

"tiny", "little" and "small" are ours, too: small models of the same make
whose runs take minutes ("tiny" and "little", measured) and hours on a CPU; all are measured on some
of the sentences alone. In the minutes of "little" a corpus of 41,000 pairs is read about once, so
it does without dropout, takes small batches and many updates, and lets the rate fall to zero.
"""

from dataclasses import dataclass, field, replace

from fourierkernels.studies.engine.recipe import Preset, Recipe, as_sharp_as_softmax
from fourierkernels.studies.translation.classes import BUDGET, ENDS, OFFSET
from fourierkernels.studies.translation.pairs import LengthRule
from fourierkernels.studies.translation.text_translation import Search

TOKENISED, BREVITY = "tokenised BLEU", "brevity penalty"
_LONGEST = 1_024  # of fairseq's models
SIZE = 35_000  # of the vocabulary, [chen_attention]_ section 4.1


@dataclass(frozen=True)
class TranslationPreset(Preset):
    """A preset of the translation study.

    Attributes
    ----------
    most_words : int
        Largest number of subwords, of both languages together.
    budget, offset : int
        What the pairs of a batch may count, see
        :class:`~fourierkernels.studies.translation.classes.BatchRule`.
    longest, difference : int
        Of training pairs, see :class:`~fourierkernels.studies.translation.pairs.LengthRule`.
    shared : bool
        Whether both languages have one vocabulary and one table of embeddings.
    smooths_others : bool
        Whether label smoothing spreads probability over the other words alone.
    search : Search
        How translations are searched for.
    published_on : tuple of str
        Name of the reader, source and target of the corpus of the published numbers.
    """

    most_words: int = SIZE
    budget: int = BUDGET
    offset: int = OFFSET
    longest: int = LengthRule.longest
    difference: int = LengthRule.difference
    shared: bool = True
    smooths_others: bool = False
    search: Search = field(default_factory=Search)
    published_on: tuple[str, str, str] = ("wmt", "en", "it")


_ONE_LAYER = {"size": "tiny", "layers": 1, "decoder_layers": 1}
_SHARP = as_sharp_as_softmax(64, 4)["fourier"]  # of one layer
_PARTS = 4  # batches of an update, for four processes or for accumulation
_EPOCH = 1_081  # updates
_WARMUP = 4_000

# Of the report's test sentences, in percent. Its table 3, whose 27.2 is the mean over classes of
# table 2, does not say of what kind its other two numbers are.
# fmt: off
_ROWS = {  # BLEU, BLEU-1, BLEU-4
    " 0-5":              (2.3589, 3.0645, 2.0586),
    " 6-10":             (7.5047, 10.064, 6.1947),
    " 11-15":            (17.0454, 22.7739, 13.7944),
    " 16-20":            (23.9982, 31.8099, 19.3028),
    " 21-25":            (28.5155, 37.2931, 22.9952),
    " 26-30":            (32.2692, 42.0169, 25.9455),
    " 31-35":            (35.2254, 45.7253, 28.2285),
    " 36-40":            (37.2576, 48.3839, 29.6873),
    " 41-45":            (38.366, 49.9175, 30.3478),
    " 46-50":            (38.6439, 50.3814, 30.3498),
    ", mean of classes": (27.2218, 35.6272, 21.8271),
}
# fmt: on
_TABLE_2 = {
    f"{score}{place}": row[column]
    for column, score in enumerate(("BLEU", "BLEU-1", "BLEU-4"))
    for place, row in _ROWS.items()
}


def _report(dim: int) -> Recipe:
    """Return the report's recipe for a model of so many features."""
    return Recipe(
        steps=50 * _EPOCH,
        batch=_PARTS,
        learning_rate=(dim * _WARMUP) ** -0.5,
        schedule="inverse_root",
        warmup=_WARMUP,
        betas=(0.9, 0.98),
        epsilon=1e-9,
        label_smoothing=0.1,
        evaluate_every=_EPOCH,
        save_every=_EPOCH,
        log_every=100,
    )


# For a small model, with one batch an update and clipped gradients.
_SMALL = Recipe(
    steps=600,
    batch=1,
    learning_rate=4e-3,
    schedule="inverse_root",
    warmup=150,
    betas=(0.9, 0.98),
    epsilon=1e-9,
    label_smoothing=0.1,
    clip=1.0,
    evaluate_every=200,
    save_every=200,
    log_every=20,
)


PRESETS = {
    "tiny": TranslationPreset(
        summary="2 + 2 layers, 64 features, 2,000 subwords: a few minutes on one core",
        model={"size": "tiny", "length": 64},
        recipe=_SMALL,
        most_words=2_000,
        positions=200,
        budget=2_000,
    ),
    "little": TranslationPreset(
        summary="2 + 2 layers, 96 features, 2,000 subwords, many small updates: the book's study",
        model={"size": "tiny", "dim": 96, "hidden": 256, "length": 64, "dropout": 0.0},
        recipe=replace(
            _SMALL,
            steps=5_000,
            learning_rate=3e-3,
            schedule="linear",
            warmup=200,
            evaluate_every=2_500,
            save_every=1_250,
            log_every=50,
        ),
        most_words=2_000,
        positions=1_000,
        budget=800,
    ),
    "drawn": TranslationPreset(
        summary="drawn sentences; 1 + 1 layers, 64 features, 600 updates: seconds on one core",
        model={**_ONE_LAYER, "length": 16, "dropout": 0.0},
        recipe=replace(_SMALL, schedule="linear", warmup=60, label_smoothing=0.0),
        mixer_options={
            "fourier": {"mixer_options": _SHARP, "decoder_options": _SHARP},
            "fourier_encoder": {"mixer_options": _SHARP},
        },
        data="drawn",
        most_words=200,
        positions=200,
        budget=2_000,
    ),
    "small": TranslationPreset(
        summary="3 + 3 layers, 256 features, 8,000 subwords: hours on a CPU, see --plan",
        model={"size": "small", "length": 128},
        recipe=replace(
            _SMALL,
            steps=2_000,
            learning_rate=1.5e-3,
            warmup=400,
            evaluate_every=500,
            save_every=500,
            log_every=50,
        ),
        most_words=8_000,
        positions=1_000,
        budget=3_000,
    ),
    "iwslt": TranslationPreset(
        summary="6 + 6 layers, 512 features, feed-forward 1,024, 10,000 subwords: fairseq's IWSLT",
        model={"size": "iwslt", "length": _LONGEST},
        recipe=Recipe(
            steps=50_000,
            batch=1,
            learning_rate=5e-4,
            schedule="fairseq",
            warmup=4_000,
            optimiser="adamw",
            betas=(0.9, 0.98),
            weight_decay=1e-4,
            decaying="all",
            label_smoothing=0.1,
            evaluate_every=1_000,
            save_every=1_000,
            log_every=100,
        ),
        most_words=10_000,
        budget=4_096,
        offset=ENDS,
        longest=_LONGEST - ENDS,
        difference=_LONGEST - ENDS,
        shared=False,
        smooths_others=True,
        search=Search(beam=5, length_penalty=1.0, divisor="length", longest=200),
        published={
            "attention": {TOKENISED: 34.42},
            "fourier": {TOKENISED: 34.68},
        },
        published_on=("iwslt14", "de", "en"),
    ),
    "base": TranslationPreset(
        summary="the report's models: 6 + 6 layers, 512 features, 35,000 subwords, 50 epochs",
        model={"size": "base", "length": 128},
        recipe=_report(512),
        most_words=35_000,
        budget=15_000,
        published={
            "attention": {"BLEU, mean of classes": 28.1},
            "dft_encoder": _TABLE_2,
        },
    ),
    "big": TranslationPreset(
        summary="the report's big transformer: 6 + 6 layers, 1,024 features, 35,000 subwords",
        model={"size": "big", "length": 128},
        recipe=_report(1024),
        most_words=35_000,
        budget=15_000,
        published={"attention": {"BLEU, mean of classes": 30.1}},
    ),
}
PRESETS["scored"] = replace(
    PRESETS["drawn"],
    summary="drawn sentences, of which all 1,000 are translated: a minute on one core",
    positions=1_000,
)
