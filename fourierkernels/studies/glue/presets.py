"""Recipes of fine-tuning on GLUE, [leethorp2021fnet]_ section 4.1.2.

A preset for each task. The paper has "the same settings as in" [devlin2019bert]_, whose section 4.1
has batch 32, three epochs and the best of the rates 5e-5, 4e-5, 3e-5 and 2e-5, and whose appendix
A.3 recommends 5e-5, 3e-5 and 2e-5. The paper tries each rate three times (Base) or six (Large) and
reports the best of all, without early stopping. The code of its authors (folder ``f_net`` of https://github.com/google-research/google-research,
``configs/classification.py`` and ``run_classifier.py``) has batch 64, rate 1e-5, three epochs, a
warm-up of a tenth and then a linear fall to 0, Adam with weight decay 0.01 and epsilon 1e-6, and
cuts longer texts off. Here: batch 32, rate 3e-5, the rest as in the code.

Not as there: a twentieth of the training rows is held out and chooses the update that is kept, so
that GLUE's validation rows, on which the table is measured, decide nothing; one trial per run.

"sentences" and "pairs" read other texts in the layout of SST-2 and RTE, for small models.
"""

from dataclasses import dataclass, replace

from fourierkernels.studies.engine.recipe import Preset, Recipe
from fourierkernels.studies.glue.drawn import TEXTS
from fourierkernels.studies.glue.glue_measures import COLUMNS, TABLE_4
from fourierkernels.studies.glue.labelled import HELD_OUT
from fourierkernels.studies.glue.tasks import TASKS, Task

_EPOCHS, _BATCH = 3, 32
_VALIDATED = 10


@dataclass(frozen=True)
class GluePreset(Preset):
    """A preset of fine-tuning.

    Attributes
    ----------
    task : str
        A key of :data:`~fourierkernels.studies.glue.tasks.TASKS`.
    """

    task: str = "sentences"


def _recipe(steps: int, rate: float) -> Recipe:
    every = max(steps // _VALIDATED, 1)
    return Recipe(
        steps=steps,
        batch=_BATCH,
        learning_rate=rate,
        schedule="linear",
        warmup=steps // 10,
        optimiser="adamw",
        epsilon=1e-6,
        weight_decay=0.01,
        evaluate_every=every,
        save_every=every,
        log_every=max(every // 5, 1),
        divergence=20.0,
    )


def _published(name: str) -> dict[str, dict[str, float]]:
    """Return the numbers of the base models by mixer, and by the suffix of the file."""
    found: dict[str, dict[str, float]] = {}
    for mixer, row in TABLE_4["base"].items():
        for column, value in zip(COLUMNS, row, strict=True):
            task, _, suffix = column.partition(", ")
            if task == name and value == value:
                found.setdefault(mixer, {})[f"test, {suffix}" if suffix else "test"] = value
    return found


def _paper(name: str, task: Task) -> GluePreset:
    steps = round(_EPOCHS * task.rows * (1 - 1 / HELD_OUT) / _BATCH)
    return GluePreset(
        summary=f"{task.folder}: {task.title}",
        model={},
        recipe=_recipe(steps, 3e-5),
        published=_published(name),
        task=name,
    )


def _small(name: str, task: Task) -> GluePreset:
    return GluePreset(
        summary=f"{task.title}; 300 updates, for small models",
        model={},
        recipe=replace(_recipe(300, 1e-3), clip=1.0),
        task=name,
        data="drawn-lines" if name in TEXTS else None,
    )


PRESETS: dict[str, GluePreset] = {
    name: _paper(name, task) if task.rows else _small(name, task) for name, task in TASKS.items()
}
