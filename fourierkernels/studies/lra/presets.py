r"""Sizes of the Long-Range Arena study, with the source of each detail.

[leethorp2021fnet]_ section 4.2 and table 6 train in the code of [tay2021long]_. C is that code,
https://github.com/google-research/long-range-arena, folder ``lra_benchmarks``; C1 is its first
version, 6d5e5ca of October 2020, which is the one before the FNet paper, and C2 the present one. P
is appendix A of [tay2021long]_.

====================== =========================================== ================================
detail                 here                                        source
====================== =========================================== ================================
sizes                  ``models/lra.py``                           C1 ``configs``; C2's are other:
                                                                   ListOps 4 layers, 1,024 hidden,
                                                                   not shared; pixels 128 features,
                                                                   8 heads; Pathfinder 4 layers of
                                                                   32 features
the same, Path-X       1 layer of 32 features, 2 heads             C1 and C2 ``pathfinder128``
the same, text         6 layers, 512 features, 8 heads, 2,048      P, which [leethorp2021fnet]_,
                       hidden                                      footnote 8, puts before C
the same, "text_code"  4 layers, 256 features, 4 heads, 1,024      C1 and C2
                       hidden
length                 2,000; 4,000; 4,000; 1,024; 1,024; 16,384   C1, P; C's text has 1,000
optimiser              Adam, β 0.9, 0.98, ε 1e-9, decoupled decay  C ``*/train.py`` (flax's Adam)
rate, ListOps, text,   0.05 min(1, t/w) / √max(t, w), w 1,000 for  C1 ``configs``, ``train_utils``;
retrieval              ListOps, 8,000 for the others               ListOps' ``train.py`` passes no w
decay                  0.1 for these three, else 0                 C1 ``configs``
updates                5,000; 20,000; 5,000                        C1 ``configs``; P
batch                  32; 32; 32; 256; 512; 64                    C1 ``configs``
rate of images         5e-4, Pathfinder and Path-X 1e-3, cosine    C1 ``configs``
                       after one epoch, 200 epochs
clipped                at norm 1 for Path-X alone                  C1 ``pathfinder128``
====================== =========================================== ================================

"Where possible, we prioritize configurations described in the paper with only two exceptions",
[leethorp2021fnet]_ footnote 8, which are the number of layers for images and the rate for
Pathfinder: so the numbers of its table 6 stand beside "text" and not beside "text_code". For the
other tasks C stands here where P differs from it: P has the rate 0.5 for retrieval; 3 layers, 4
heads, 64 features, 128 hidden and the rate 0.01 for images; 4 layers, 8 heads and the rate 0.01 for
Pathfinder.

Not as there:

- Weights of norms and biases do not decay.
- The cosine ends at the last update of 200 epochs; C's, an epoch earlier in its course.
- Of IMDb's training reviews a tenth is held out and chooses the update; C validates by the test
  reviews ("because IMDb doesn't have val set"), and the published numbers are the best of several
  runs for text and retrieval ([leethorp2021fnet]_ section 4.2).
- Bytes, pixels and operations have the token 0 for padding alone. In C black pixels have it, and
  attention leaves them out.
- Padding is left out by mixers that can, and set to zero before the others, whose length is always
  the longest: C sets nothing to zero.
- The head of retrieval has one hidden layer on (a, b, a - b, ab), as in P; C's has two, on (a, b).
- Fourier attention is not in these papers; its initial R is that at which it begins as sharp as
  softmax does.

Presets ending in "small", and "tiny", are ours; each says its data.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from fourierkernels.studies.engine.recipe import Preset, Recipe, as_sharp_as_softmax
from fourierkernels.studies.lra.drawn import DRAWN

ACCURACY = "accuracy (%)"
_BASE_RATE = 0.05
_EPOCHS = 200
_DIVERGED = 100.0  # times an even guess


@dataclass(frozen=True)
class ArenaPreset(Preset):
    """A preset of the study.

    Attributes
    ----------
    task : str
        That of its data.
    """

    task: str = "listops"


# [leethorp2021fnet]_ table 6, accuracy in percent; None where it says FAIL.
TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
PAPER: dict[str, tuple[float | None, ...]] = {
    "softmax": (36.06, 61.54, 59.67, 41.51, 80.38, None),
    "linear": (33.75, 53.35, 58.95, 41.04, 83.69, None),
    "fnet": (35.33, 65.11, 59.61, 38.67, 77.80, None),
}
# The table of C's README, "as of 8th November 2020": the Performer is not in the FNet paper's.
ARENA = {"performer": (18.01, 65.40, 53.82, 42.77, 77.05, None)}
# Training and test examples of the published sets, to know them by: C; those of text without the
# reviews that are held out here. Those of retrieval are in the descriptions of the sets that later
# papers repeat, as in the appendix of arXiv:2405.06147; C does not state them.
PUBLISHED_COUNTS = {
    "listops": (96_000, 2_000),
    "text": (22_500, 25_000),
    "retrieval": (147_086, 17_437),
    "image": (45_000, 10_000),
    "pathfinder": (160_000, 20_000),
    "pathx": (160_000, 20_000),
}


def _of_text(steps: int, warmup: int, every: int) -> Recipe:
    """Return the recipe of the tasks that are read as text."""
    return Recipe(
        steps=steps,
        batch=32,
        learning_rate=_BASE_RATE / math.sqrt(warmup),
        schedule="inverse_root",
        warmup=warmup,
        optimiser="adamw",
        betas=(0.9, 0.98),
        epsilon=1e-9,
        weight_decay=0.1,
        evaluate_every=every,
        save_every=every,
        log_every=min(every, 100),
        divergence=_DIVERGED,
    )


def _of_pixels(examples: int, batch: int, rate: float, clip: float | None = None) -> Recipe:
    """Return the recipe of the image tasks."""
    epoch = examples // batch
    return Recipe(
        steps=_EPOCHS * epoch,
        batch=batch,
        learning_rate=rate,
        schedule="cosine",
        warmup=epoch,
        optimiser="adamw",
        betas=(0.9, 0.98),
        epsilon=1e-9,
        clip=clip,
        evaluate_every=epoch,
        save_every=epoch,
        log_every=min(epoch, 100),
        divergence=_DIVERGED,
    )


# P, as for ListOps; the layers do not share their parameters.
_TEXT_OF_P = {"dim": 512, "hidden": 2048, "layers": 6, "heads": 8}
_OWN: Mapping[str, int] = {}  # sizes of the model's preset


def _published(
    name: str, task: str, summary: str, recipe: Recipe, size: int, sizes: Mapping[str, int] = _OWN
) -> ArenaPreset:
    place = TASKS.index(name)
    numbers = {mixer: row[place] for mixer, row in (PAPER | ARENA).items()}
    return ArenaPreset(
        summary=summary,
        model={"preset": name, **sizes},
        recipe=recipe,
        mixer_options=as_sharp_as_softmax(size, 1),
        published={
            mixer: {ACCURACY: value} for mixer, value in numbers.items() if value is not None
        },
        task=task,
    )


class _Sizes(TypedDict):
    """Sizes of a small classifier."""

    dim: int
    layers: int
    heads: int
    hidden: int


_SMALL = _Sizes(dim=64, hidden=128, layers=2, heads=4)
_SMALLER = _Sizes(dim=32, hidden=64, layers=2, heads=2)
_TINY = _Sizes(dim=32, hidden=64, layers=1, heads=2)


def _small(
    summary: str,
    task: str,
    data: str | None,
    length: int,
    recipe: Recipe,
    *,
    model: str | None = None,
    sizes: _Sizes = _SMALL,
) -> ArenaPreset:
    """Return a small model of ours; short sequences need fewer random features."""
    shared = {"dropout": 0.0, "attention_dropout": None, "share_layers": False}
    sharp = as_sharp_as_softmax(sizes["dim"], sizes["heads"])
    return ArenaPreset(
        summary=summary,
        model={"preset": model or task, "length": length, **sizes, **shared},
        recipe=recipe,
        mixer_options={**sharp, "performer": {"features": 64}},
        data=data,
        task=task,
    )


def _recipe(steps: int, batch: int = 32, rate: float = 1e-3) -> Recipe:
    """Return one recipe for all small presets."""
    return Recipe(
        steps=steps,
        batch=batch,
        learning_rate=rate,
        schedule="cosine",
        warmup=steps // 10,
        optimiser="adamw",
        betas=(0.9, 0.98),
        clip=1.0,
        evaluate_every=max(steps // 8, 1),
        save_every=max(steps // 8, 1),
        log_every=max(steps // 20, 1),
        divergence=_DIVERGED,
    )


PRESETS: dict[str, ArenaPreset] = {
    "listops": _published(
        "listops",
        "listops",
        "2,000 tokens; 6 shared layers of 512 features, 5,000 updates",
        _of_text(5_000, 1_000, 250),
        64,
    ),
    "text": _published(
        "text",
        "text",
        "4,000 bytes; 6 layers of 512 features, 20,000 updates",
        _of_text(20_000, 8_000, 500),
        64,
        _TEXT_OF_P,
    ),
    "retrieval": _published(
        "retrieval",
        "retrieval",
        "pairs of 4,000 bytes; 4 layers of 128 features, 5,000 updates",
        _of_text(5_000, 8_000, 250),
        32,
    ),
    "image": _published(
        "image",
        "image",
        "1,024 pixels; 1 layer of 32 features, 200 epochs",
        _of_pixels(45_000, 256, 5e-4),
        32,
    ),
    "pathfinder": _published(
        "pathfinder",
        "pathfinder",
        "1,024 pixels; 1 layer of 128 features, 200 epochs",
        _of_pixels(160_000, 512, 1e-3),
        32,
    ),
    "pathx": _published(
        "pathx",
        "pathfinder",
        "16,384 pixels; 1 layer of 32 features, 200 epochs",
        _of_pixels(160_000, 64, 1e-3, clip=1.0),
        16,
    ),
    "tiny": _small(
        "listops_small; 1 layer of 32 features, 300 updates, seconds on one core",
        "listops",
        "listops_small",
        64,
        _recipe(300, rate=4e-3),
        sizes=_TINY,
    ),
    "text_tiny": _small(
        "python_bytes; the first 128 bytes, 1 layer of 32 features, 80 updates",
        "text",
        "python_bytes",
        128,
        _recipe(80, rate=4e-3),
        sizes=_TINY,
    ),
    "image_tiny": _small(
        "digit_pixels; 64 pixels, 1 layer of 32 features, 300 updates",
        "image",
        "digit_pixels",
        64,
        _recipe(300, rate=4e-3),
        sizes=_TINY,
    ),
    "listops_small": _small(
        "listops_small; 2 layers of 64 features, 1,000 updates, a minute or two on one core",
        "listops",
        "listops_small",
        64,
        _recipe(1000, rate=2e-3),
    ),
    "text_small": _small(
        "python_bytes; 256 bytes, 2 layers of 64 features, 200 updates",
        "text",
        "python_bytes",
        256,
        _recipe(200),
    ),
    "image_small": _small(
        "digit_pixels; 64 pixels, 2 layers of 64 features, 800 updates",
        "image",
        "digit_pixels",
        64,
        _recipe(800),
    ),
    "pathfinder_small": _small(
        "contours; 256 pixels, 2 layers of 64 features, 400 updates",
        "pathfinder",
        "contours",
        256,
        _recipe(400),
    ),
}
PRESETS |= {
    name: _small(
        f"{name}; {task.length} tokens, 2 layers of 32 features, 800 updates",
        name.partition("_")[0],
        name,
        task.length,
        _recipe(800, rate=4e-3),
        model="listops",
        sizes=_SMALLER,
    )
    for name, task in DRAWN.items()
}
PRESETS["text_code"] = replace(
    PRESETS["text"],
    summary="as text, with the 4 layers of 256 features of the arena's code",
    model={"preset": "text"},
    published={},
)
PRESETS["retrieval_small"] = _small(
    "any pairs; 128 bytes of each, 2 layers of 64 features, 300 updates",
    "retrieval",
    None,
    128,
    _recipe(300),
)
