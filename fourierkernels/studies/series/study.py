"""The time-series study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.3.

:mod:`fourierkernels.studies.series.presets` has its sizes, with the source of each detail,
and says where the paper's protocol looks at the test series; here they only take part in what is
named so, "best epoch of the test set".
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.run_folder import SERIES
from fourierkernels.mixing.registry import check_options, mixer_names
from fourierkernels.models import SeriesClassifier, series_config
from fourierkernels.studies.engine.checkpoints import last_checkpoint, read_curve
from fourierkernels.studies.engine.curve import OF_TEST
from fourierkernels.studies.engine.data_sets import find_row
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
from fourierkernels.studies.series.archives import ARCHIVES
from fourierkernels.studies.series.presets import ACCURACY, PRESETS, SeriesPreset
from fourierkernels.studies.series.series_data import (
    HELD_OUT,
    SeriesData,
    SeriesSplit,
)
from fourierkernels.studies.series.updates import SeriesUpdates, one_pass

CORRECT = "correct series"
LAST, BEST = f"{ACCURACY}, last update", f"{ACCURACY}, best epoch of the test set"
_TEST_ACCURACY = f"{OF_TEST}accuracy"
_BATCH = 64  # of a measurement; its results do not depend on it


def read(preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> SeriesData:
    """Return the series of a run, which are read anew each time and kept in memory.

    Raises
    ------
    ValueError
        If no folder is named, or it cannot be read.
    """
    if data is None:
        raise ValueError(
            "data must be a folder of .ts files: --data FOLDER (--help says where they are had, "
            "experiments/data_series.py fetches two problems), got none"
        )
    problem = preset.problem if isinstance(preset, SeriesPreset) else None
    name, place = find_row(ARCHIVES, data)
    return ARCHIVES[name].open(place, problem)


def build(
    preset: Preset, data: SeriesData, mixer: str, options: Mapping[str, Any]
) -> SeriesClassifier:
    """Return a model with random weights for the channels, classes and length of a problem.

    Mixers that cannot leave padding out get zeros in its place.
    """
    own = dict(preset.model)
    config = series_config(
        own.pop("preset"),
        **own,
        channels=data.channels,
        classes=len(data.classes),
        length=data.length,
        mixer=mixer,
        mixer_options=padded_options(preset, mixer, options),
    )
    return SeriesClassifier(config)


def batches(preset: Preset, data: SeriesData, recipe: Recipe) -> SeriesUpdates:
    """Return the training series, in the order of the run.

    Raises
    ------
    ValueError
        If the recipe asks for streams, which texts have.
    """
    check_shuffled(recipe, "series")
    return SeriesUpdates(
        data.splits["train"], steps=recipe.steps, batch=recipe.batch, seed=recipe.seed
    )


def objective(preset: Preset, data: SeriesData, recipe: Recipe) -> Objective:
    """Return the mean cross-entropy, and its validation beside the accuracy on both other splits.

    The accuracy on the test series is written into the curve and decides nothing.
    """

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return functional.cross_entropy(
            _logits(model, batch), batch["classes"], label_smoothing=recipe.label_smoothing
        )

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, ...]:
        held = data.splits["valid"]
        total, correct = _sums(model, held, part=(process, processes))
        _, of_test = _sums(model, data.splits["test"], part=(process, processes))
        share = len(range(process, len(held), processes))
        return total, share, correct, of_test * len(held) / len(data.splits["test"])

    further = ("accuracy", _TEST_ACCURACY)
    return Objective(loss, validate, math.log(len(data.classes)), further=further)


def measure(
    preset: Preset,
    data: SeriesData,
    mixer: str,
    model: nn.Module,
    *,
    splits: tuple[str, ...] = ("valid", "test"),
    positions: int | None = None,
    folder: Path | None = None,
) -> list[Measured]:
    """Return the accuracy of a trained model on each split, and of the run at other updates.

    Parameters
    ----------
    positions : int, optional
        Series of each split that are classified, evenly spread over the file; all by default.
    folder : Path, optional
        That of the run, whose curve has the accuracy of the last update, and the best one on the
        test series: the epoch that the published codes would have reported.
    """
    paper = preset.published.get(mixer, {}).get(ACCURACY) if positions is None else None
    rows = []
    for name in splits:
        split = data.splits[name]
        chosen = evenly_spread(len(split), positions)
        count = len(chosen)
        with torch.inference_mode():
            _, correct = _sums(model.eval(), split, members=chosen)
        published = paper if name == "test" else None
        rows.append(Measured(name, ACCURACY, 100 * correct / count, count, published))
        rows.append(Measured(name, CORRECT, correct, count))
    return rows if folder is None else [*rows, *_at_other_updates(folder, data, paper)]


def prepare(folder: Path, data: SeriesData) -> None:
    """Write classes, and what standardises the channels, into the folder of a run."""
    write_reading(folder / SERIES, _reading(data))


def check(folder: Path, data: SeriesData) -> None:
    """Refuse series of other classes or channels, or standardised in another way, than a run's."""
    check_reading(
        folder / SERIES, _reading(data), items="series", same=", by the same training series"
    )


def facts(preset: Preset, data: SeriesData) -> Mapping[str, Any]:
    """Return what the numbers of a run also depend on."""
    test = np.bincount(data.splits["test"].labels, minlength=len(data.classes))
    return {
        "channels": data.channels,
        "longest": data.length,
        "held_out": HELD_OUT,
        "missing_values": dict(data.missing),
        "series_cut_off": dict(data.cut),
        "largest_class_of_test": round(100 * float(test.max() / test.sum()), 2),
    }


STUDY = Study(
    title="Time series: the FourierFormer paper's table 3, ten problems of the UEA archive",
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
    terms=Terms("labels", "classes", "training series", "series"),
    data=lambda: ARCHIVES,
    experiment="series_small",
)


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    """Return the logits of a batch, which do not depend on the other series in it."""
    assert isinstance(model, SeriesClassifier)
    weight = model.projection.weight
    series = batch["series"].to(device=weight.device, dtype=weight.dtype)
    padding = batch["padding"].to(weight.device)
    if not all(block.masks_padding for block in model.blocks):  # their length is always the same
        more = model.config.length - series.shape[1]
        series = functional.pad(series, (0, 0, 0, more))
        padding = functional.pad(padding, (0, more), value=True)
    logits: Tensor = model(series, padding=padding if padding.any() else None)
    return logits


def _sums(
    model: nn.Module,
    split: SeriesSplit,
    *,
    members: list[int] | None = None,
    part: tuple[int, int] = (0, 1),
) -> tuple[float, int]:
    """Return the sum of -log p of the classes of some series, and how many are the most probable.

    Parameters
    ----------
    members : list of int, optional
        Which series; all by default.
    part : tuple of int
        Number of this process and of all processes, each of which has its share of them.
    """
    chosen = (list(range(len(split))) if members is None else members)[part[0] :: part[1]]
    total, correct = 0.0, 0
    for batch in one_pass(split, batch=_BATCH, members=chosen):
        logits = _logits(model, batch)
        classes = batch["classes"].to(logits.device)
        total += float(functional.cross_entropy(logits.double(), classes, reduction="sum"))
        correct += int((logits.argmax(dim=-1) == classes).sum())
    return total, correct


def _at_other_updates(folder: Path, data: SeriesData, paper: float | None) -> list[Measured]:
    """Return the accuracies on the test series at the last update and at the best one for them."""
    name = f"eval_{_TEST_ACCURACY}"
    history = read_curve(last_checkpoint(folder).folder)["log_history"]
    count = len(data.splits["test"])
    correct = [round(entry[name] * count) for entry in history if name in entry]
    if not correct:
        return []
    found = ((LAST, correct[-1], None), (BEST, max(correct), paper))
    return [Measured("test", metric, 100 * n / count, count, p) for metric, n, p in found]


def _reading(data: SeriesData) -> dict[str, Any]:
    return {
        "problem": data.corpus,
        "classes": list(data.classes),
        "length": data.length,
        "mean": data.mean.tolist(),
        "deviation": data.deviation.tolist(),
    }
