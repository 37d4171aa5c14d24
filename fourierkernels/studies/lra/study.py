"""The Long-Range Arena in the FNet paper, [leethorp2021fnet]_ section 4.2, [tay2021long]_.

:mod:`fourierkernels.studies.lra.presets` has its sizes, with the source of each detail.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.run_folder import ARENA as ARENA_FILE
from fourierkernels.mixing.registry import check_options, mixer_names
from fourierkernels.models import ArenaClassifier, arena_config
from fourierkernels.models.lra import ArenaConfig
from fourierkernels.studies.engine.objective import Objective
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.engine.sequences import (
    check_reading,
    check_shuffled,
    evenly_spread,
    padded_options,
    write_reading,
)
from fourierkernels.studies.engine.study import Measured, Preset, Study, Terms
from fourierkernels.studies.lra.examples import ArenaData, ArenaSplit
from fourierkernels.studies.lra.presets import (
    ACCURACY,
    PRESETS,
    PUBLISHED_COUNTS,
    ArenaPreset,
)
from fourierkernels.studies.lra.sets import ARENA_SETS, read_arena
from fourierkernels.studies.lra.updates import FIRST, SECOND, ArenaUpdates, one_pass

LOW, HIGH, LOSS = f"{ACCURACY}, low", f"{ACCURACY}, high", "cross-entropy"
_BATCH = 32  # of a measurement; its results do not depend on it
_NORMAL = 1.959963984540054  # quantile of the interval's 95 %


def read(preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> ArenaData:
    """Return the examples of a run.

    Raises
    ------
    ValueError
        If no folder is named for a preset that needs one, it cannot be read, is of another task, or
        its images have another size than the preset's model reads.
    """
    named = preset.data if data is None else data
    if named is None:
        raise ValueError(
            "data must be a folder for this preset: --data FOLDER (--help says where they are "
            "had), got none"
        )
    found, task, length = read_arena(named), _task(preset), _config(preset).length
    if found.task != task:
        raise ValueError(f"data must be of the task {task}, got {found.task} in {found.source}")
    if found.side is not None and found.side**2 != length:
        raise ValueError(
            f"data must have images of {length} pixels, which this preset reads, "
            f"got {found.side} x {found.side} in {found.source}"
        )
    return found


def build(
    preset: Preset, data: ArenaData, mixer: str, options: Mapping[str, Any]
) -> ArenaClassifier:
    """Return a model with random weights for the tokens and the classes of a data set.

    Mixers that cannot leave padding out get zeros in its place.
    """
    config = _config(
        preset,
        vocabulary=data.tokens,
        classes=len(data.vocabulary),
        pairs=data.pairs,
        mixer=mixer,
        mixer_options=padded_options(preset, mixer, options),
    )
    return ArenaClassifier(config)


def batches(preset: Preset, data: ArenaData, recipe: Recipe) -> ArenaUpdates:
    """Return the training sequences, in the order of the run.

    Raises
    ------
    ValueError
        If the recipe asks for streams, which texts have.
    """
    check_shuffled(recipe, "the arena")
    return ArenaUpdates(
        data.splits["train"],
        length=_config(preset).length,
        steps=recipe.steps,
        batch=recipe.batch,
        seed=recipe.seed,
    )


def objective(preset: Preset, data: ArenaData, recipe: Recipe) -> Objective:
    """Return the mean cross-entropy, and its validation beside the accuracy."""
    split = data.splits["valid"]

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch)
        classes = batch["classes"].to(logits.device)
        return functional.cross_entropy(logits, classes, label_smoothing=recipe.label_smoothing)

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, ...]:
        chosen = list(range(len(split)))[process::processes]
        total, correct = _sums(model, split, chosen)
        return total, len(chosen), correct

    return Objective(loss, validate, math.log(len(data.vocabulary)), further=("accuracy",))


def measure(
    preset: Preset,
    data: ArenaData,
    mixer: str,
    model: nn.Module,
    *,
    splits: tuple[str, ...] = ("valid", "test"),
    positions: int | None = None,
    folder: Path | None = None,
) -> list[Measured]:
    """Return the accuracy of a trained model with a 95 % interval, and its loss, on each split.

    Parameters
    ----------
    positions : int, optional
        Sequences of each split that are classified, evenly spread; all by default.
    """
    paper = preset.published.get(mixer, {}).get(ACCURACY)
    rows = []
    for name in splits:
        split = data.splits[name]
        chosen = evenly_spread(len(split), positions)
        count = len(chosen)
        total, correct = _sums(model.eval(), split, chosen)
        low, high = wilson(correct, count)
        whole = name == "test" and positions is None and _is_published(preset, data)
        rows += [
            Measured(name, ACCURACY, 100 * correct / count, count, paper if whole else None),
            Measured(name, LOW, 100 * low, count),
            Measured(name, HIGH, 100 * high, count),
            Measured(name, LOSS, total / count, count),
        ]
    return rows


def prepare(folder: Path, data: ArenaData) -> None:
    """Write task, tokens and classes into the folder of a run."""
    write_reading(folder / ARENA_FILE, _reading(data))


def check(folder: Path, data: ArenaData) -> None:
    """Refuse sequences of another task, or with other tokens or classes, than those of a run."""
    check_reading(folder / ARENA_FILE, _reading(data), items="sequences")


def facts(preset: Preset, data: ArenaData) -> Mapping[str, Any]:
    """Return what the numbers of a run also depend on."""
    test, length = data.splits["test"], _config(preset).length
    largest = np.bincount(test.labels, minlength=len(data.vocabulary)).max()
    return {
        "task": data.task,
        "length": length,
        "sequences_cut_off": data.longer(length),
        "left_out": data.left_out,
        "chance_loss": math.log(len(data.vocabulary)),
        "largest_class_of_test": round(100 * float(largest) / len(test), 2),
    }


STUDY = Study(
    title="Long-Range Arena: the FNet paper's table 6",
    presets=PRESETS,
    mixers=lambda: mixer_names(causal=False),
    read=read,
    build=build,
    batches=batches,
    objective=objective,
    measure=measure,
    facts=facts,
    check_options=check_options,
    prepare=prepare,
    check=check,
    default="listops_small",
    terms=Terms("labels", "classes", "training sequences", "sequences"),
    data=lambda: ARENA_SETS,
    experiment="lra_small",
)


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """Return the logits of a batch, which do not depend on the other sequences in it.

    Mixers that mask padding read as many tokens as the longest of the batch; all others always as
    many as the model can, for a transform over another number of tokens is another transform.
    """
    assert isinstance(model, ArenaClassifier)
    device = model.words.weight.device
    given = [batch[name].to(device) for name in (FIRST, SECOND) if name in batch]
    if not all(block.masks_padding for block in model.blocks):
        given = [functional.pad(own, (0, model.config.length - own.shape[1])) for own in given]
    logits: Tensor = model(*given)
    return logits


def wilson(correct: int, count: int) -> tuple[float, float]:
    """Return the interval of Wilson for a probability, at 95 %.

    Examples
    --------
    >>> [round(bound, 3) for bound in wilson(5, 10)]
    [0.237, 0.763]
    """
    share, extra = correct / count, _NORMAL**2 / count
    centre = (share + extra / 2) / (1 + extra)
    reach = math.sqrt(extra * share * (1 - share) + extra**2 / 4) / (1 + extra)
    return max(centre - reach, 0.0), min(centre + reach, 1.0)


def _sums(model: nn.Module, split: ArenaSplit, members: list[int]) -> tuple[float, int]:
    """Return the sum of -log p of the classes of some sequences, and how many are right."""
    total, correct = 0.0, 0
    assert isinstance(model, ArenaClassifier)
    with torch.no_grad():
        for batch in one_pass(split, length=model.config.length, batch=_BATCH, members=members):
            logits = logits_of(model, batch)
            classes = batch["classes"].to(logits.device)
            total += float(functional.cross_entropy(logits.double(), classes, reduction="sum"))
            correct += int((logits.argmax(dim=-1) == classes).sum())
    return total, correct


def _is_published(preset: Preset, data: ArenaData) -> bool:
    """Whether the data have the size of the set that the published numbers are of."""
    name = preset.model["preset"]
    return (data.counts["train"], data.counts["test"]) == PUBLISHED_COUNTS[name]


def _task(preset: Preset) -> str:
    assert isinstance(preset, ArenaPreset)
    return preset.task


def _config(preset: Preset, **changes: Any) -> ArenaConfig:
    own = dict(preset.model)
    return arena_config(own.pop("preset"), **own, **changes)


def _reading(data: ArenaData) -> dict[str, Any]:
    return {
        "task": data.task,
        "tokens": data.tokens,
        "classes": list(data.vocabulary),
        "side": data.side,
    }
