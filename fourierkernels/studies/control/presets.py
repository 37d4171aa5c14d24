"""Sizes and recipes of the control study, [nguyen2022fourierformer]_ section 4.4, table 4.

The paper follows "the architecture and training configuration from" [wu2022flowformer]_, whose
code, folder ``Flowformer_RL`` of https://github.com/thuml/Flowformer (below "F"), is that of
[chen2021decision]_, folder ``gym`` of https://github.com/kzl/decision-transformer (below "C"), with
another attention and four options. The paper's own code for these tasks is not published.

========================= ================= ================== ====================================
detail                    preset "paper"    preset "chen"      source
========================= ================= ================== ====================================
layers, features, heads   3, 256, 4         3, 128, 1          F ``scripts/flowformer.sh``; C
                                                               ``experiment.py``
rate                      1e-3              1e-4               the same
feed-forward, activation  1,024, ReLU       512, ReLU          ``experiment.py`` of both
context K                 20                20                 the same
dropout                   0.1, also of      the same           the same (``dropout``: embedded
                          attention                            tokens, sublayers, attention)
batch, updates            64, 100,000       the same           the same
optimiser, decay          AdamW, 1e-4       the same           the same
warm-up                   10,000 updates,   the same           the same
                          then constant
gradient's norm           at most 0.25      the same           ``training/seq_trainer.py``
returns divided by        1,000             the same           ``experiment.py``
returns asked for         Hopper 3,600 and 1,800, HalfCheetah  the same
                          12,000 and 6,000, Walker 5,000 and
                          2,500
episodes played           100 per target    the same           the same
windows                   an episode in proportion to its      C ``experiment.py``; F draws all
                          length, its first step evenly        windows evenly, which is the same
score                     100 (R - random) / (expert - random) [fu2020d4rl]_; F ``trainer.py``
========================= ================= ================== ====================================

Left open by the paper, and chosen here: the initial R, at which Fourier attention begins as sharp
as softmax does, l √D R²/3 = 1 with D features of a head; which of the two targets the table has;
the seeds. Not as there:

- F and C train on all episodes and report the last update. Here a tenth is held out to choose the
  update by the error of its actions, and a tenth to measure it.
- F and C decay all parameters, here biases, norms and radii do not.
- F pads windows on the right in training and on the left in playing; here, as in C, always left.
- D4RL's episodes are played in gymnasium's version 4, which has the robots, observations and
  rewards of version 2, in which they were recorded, but on today's MuJoCo in place of MuJoCo 2.0.

The presets "tiny", "small" and "drawn" are ours; they read any data set, and without one the
generated, or the drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from fourierkernels.studies.engine.recipe import Preset, Recipe, as_sharp_as_softmax

_DIVERGED = 100.0  # times the error of the mean action, which is small where actions vary little


@dataclass(frozen=True)
class ControlPreset(Preset):
    """A preset of the control study.

    Attributes
    ----------
    episodes : int
        Episodes that are played for each return asked for.
    """

    episodes: int = 20


# Table 4: softmax and Fourier attention, normalised returns.
PAPER = {
    "halfcheetah-medium-expert": (91.03, 92.27),
    "hopper-medium-expert": (110.30, 111.10),
    "walker2d-medium-expert": (108.70, 108.90),
    "halfcheetah-medium-replay": (35.31, 38.47),
    "hopper-medium-replay": (85.61, 89.70),
    "walker2d-medium-replay": (66.11, 63.19),
    "halfcheetah-medium": (42.28, 42.38),
    "hopper-medium": (61.47, 64.77),
    "walker2d-medium": (68.68, 70.42),
}
VERSION = "-v2"  # of the data, in F's download_d4rl_datasets.py


def _published() -> dict[str, dict[str, float]]:
    return {
        mixer: {f"{name}{VERSION}": row[column] for name, row in PAPER.items()}
        for column, mixer in enumerate(("softmax", "fourier"))
    }


class _Sizes(TypedDict):
    """Sizes of a decision transformer."""

    dim: int
    layers: int
    heads: int
    context: NotRequired[int]
    dropout: NotRequired[float]


def _as_in_code(
    sizes: _Sizes, rate: float, summary: str, published: Mapping[str, Mapping[str, float]]
) -> ControlPreset:
    """Return a preset of the published codes, which differ in size and rate."""
    return ControlPreset(
        summary=summary,
        model={**sizes, "context": 20},
        recipe=Recipe(
            steps=100_000,
            batch=64,
            learning_rate=rate,
            warmup=10_000,
            optimiser="adamw",
            weight_decay=1e-4,
            clip=0.25,
            evaluate_every=10_000,
            save_every=10_000,
            log_every=1_000,
            divergence=_DIVERGED,
        ),
        mixer_options=as_sharp_as_softmax(sizes["dim"], sizes["heads"]),
        episodes=100,
        published=published,
    )


def _small(
    summary: str,
    sizes: _Sizes,
    steps: int,
    rate: float,
    *,
    batch: int = 32,
    data: str = "generated",
    episodes: int = 20,
) -> ControlPreset:
    """Return a small model of ours, by one recipe."""
    return ControlPreset(
        summary=summary,
        model=sizes,
        recipe=Recipe(
            steps=steps,
            batch=batch,
            learning_rate=rate,
            schedule="cosine",
            warmup=steps // 10,
            optimiser="adamw",
            weight_decay=1e-4,
            clip=0.25,
            evaluate_every=steps // 10,
            save_every=steps // 10,
            log_every=steps // 20,
            divergence=_DIVERGED,
        ),
        mixer_options=as_sharp_as_softmax(sizes["dim"], sizes["heads"]),
        data=data,
        episodes=episodes,
    )


PRESETS: dict[str, ControlPreset] = {
    "tiny": _small(
        "1 layer, 32 features, 10 steps, 500 updates: a minute or so on one core",
        {"dim": 32, "layers": 1, "heads": 2, "context": 10},
        steps=500,
        rate=3e-3,
    ),
    "small": _small(
        "2 layers, 64 features, 20 steps, 1,000 updates: some minutes on one core",
        {"dim": 64, "layers": 2, "heads": 4, "context": 20},
        steps=1_000,
        rate=1e-3,
    ),
    "drawn": _small(
        "2 layers, 64 features, 12 steps, 1,000 updates on levers: a minute on one core",
        {"dim": 64, "layers": 2, "heads": 4, "context": 12, "dropout": 0.0},
        steps=1_000,
        rate=4e-3,
        data="levers",
        batch=64,
        episodes=100,
    ),
    "paper": _as_in_code(
        {"dim": 256, "layers": 3, "heads": 4},
        1e-3,
        "3 layers, 256 features, 4 heads, as the script that the paper follows",
        published=_published(),
    ),
    "chen": _as_in_code(
        {"dim": 128, "layers": 3, "heads": 1},
        1e-4,
        "3 layers, 128 features, 1 head, as the decision transformer's authors",
        published={},
    ),
}
