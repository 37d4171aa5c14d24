"""The time-series study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.3.

:mod:`fourierkernels.studies.series.presets` has its sizes, with the source of each detail,
and says where the paper's protocol looks at the test series; here they only take part in what is
named so, "best epoch of the test set".
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.run_folder import SERIES
from fourierkernels.models import SeriesClassifier, series_config
from fourierkernels.studies.engine.checkpoints import OF_TEST, last_checkpoint, read_curve
from fourierkernels.studies.engine.classification import (
    Classification,
    Examples,
    logistic_regression,
)
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.data_sets import DataSet, evenly_spread, find_row
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.study import Measured, Terms
from fourierkernels.studies.series.presets import ACCURACY, PRESETS, SeriesPreset
from fourierkernels.studies.series.problems import PROBLEMS
from fourierkernels.studies.series.series_data import ARCHIVES, HELD_OUT, SeriesData, SeriesSplit

CORRECT = "correct series"
LAST, BEST = f"{ACCURACY}, last update", f"{ACCURACY}, best epoch of the test set"
_TEST_ACCURACY = f"{OF_TEST}accuracy"


class SeriesStudy(Classification[SeriesPreset, SeriesData, SeriesClassifier]):
    """Classifiers of multivariate time series, measured by their accuracy."""

    presets = PRESETS
    terms = Terms("labels", "classes", "training series", "series", "a folder of .ts files")
    called = "series"
    experiment = "series_small"
    description, normalises = SERIES, True
    further = ("accuracy", _TEST_ACCURACY)
    baseline_metric = "accuracy"

    def data_sets(self) -> Mapping[str, DataSet[SeriesData]]:
        """Return the archives."""
        return ARCHIVES

    def read(
        self, preset: SeriesPreset, data: str | Path | None, *, cache: Path | None = None
    ) -> SeriesData:
        """Return the series of a run, which are read anew each time and kept in memory."""
        name, place = find_row(ARCHIVES, self.named(preset, data))
        return ARCHIVES[name].open(place, preset.problem)

    def build(self, preset: SeriesPreset, data: SeriesData, mixer: ChosenMixer) -> SeriesClassifier:
        """Return a model with random weights for the channels, classes and length of a problem.

        Mixers that cannot leave padding out get zeros in its place.
        """
        sizes = dict(preset.model)
        config = series_config(
            sizes.pop("preset"),
            **sizes,
            channels=data.channels,
            classes=len(data.classes),
            length=data.length,
            mixer=mixer.name,
            mixer_options=mixer.over(preset).padded().options,
        )
        return SeriesClassifier(config)

    def logits(self, model: SeriesClassifier, batch: Batch) -> Tensor:
        """Return the logits of series; mixers that cannot leave padding out read one length."""
        weight = model.projection.weight
        series = batch["series"].to(device=weight.device, dtype=weight.dtype)
        padding = batch["padding"].to(weight.device)
        if not all(block.masks_padding for block in model.blocks):
            more = model.config.length - series.shape[1]
            series = functional.pad(series, (0, 0, 0, more))
            padding = functional.pad(padding, (0, more), value=True)
        logits: Tensor = model(series, padding=padding if padding.any() else None)
        return logits

    def examples(
        self, preset: SeriesPreset, data: SeriesData, split: str, members: Sequence[int]
    ) -> Batch:
        """Return series as one batch, see :func:`collate`."""
        return collate(data.splits[split], members)

    def validate(
        self,
        preset: SeriesPreset,
        data: SeriesData,
        model: SeriesClassifier,
        process: int,
        processes: int,
    ) -> tuple[float, ...]:
        """Add the accuracy on the test series, which is written into the curve and decides nothing.

        It is scaled to as many series as are validated on, by which the engine divides it.
        """
        total, count, correct = super().validate(preset, data, model, process, processes)
        tested = range(process, data.counts["test"], processes)
        _, of_test = self.sums(model, preset, data, "test", tested)
        return total, count, correct, of_test * data.counts["valid"] / data.counts["test"]

    def measure(
        self,
        preset: SeriesPreset,
        data: SeriesData,
        mixer: str,
        model: SeriesClassifier,
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
            That of the run, whose curve has the accuracy of the last update, and the best one on
            the test series: the epoch that the published codes would have reported.
        """
        whole = positions is None and _is_whole(preset, data)
        paper = preset.published.get(mixer, {}).get(ACCURACY) if whole else None
        rows = []
        for name in splits:
            members = evenly_spread(data.counts[name], positions)
            count = len(members)
            _, correct = self.sums(model.eval(), preset, data, name, members)
            published = paper if name == "test" else None
            rows.append(Measured(name, ACCURACY, 100 * correct / count, count, published))
            rows.append(Measured(name, CORRECT, correct, count))
        return rows if folder is None else [*rows, *_at_other_updates(folder, data, paper)]

    def baselines(self, preset: SeriesPreset, data: SeriesData) -> list[Baseline]:
        """Return what a logistic regression gets on mean and deviation of each channel."""
        splits = {}
        for name, split in data.splits.items():
            series = [split.series(place) for place in range(len(split))]
            moments = [
                np.concatenate([values.mean(axis=0), values.std(axis=0)]) for values in series
            ]
            splits[name] = Examples(np.array(moments, dtype=np.float64), split.labels)
        return [logistic_regression("means and deviations", splits)]

    def facts(self, preset: SeriesPreset, data: SeriesData) -> Mapping[str, Any]:
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

    def reading(self, data: SeriesData) -> Mapping[str, Any]:
        """Return classes, and what standardises the channels."""
        return {
            "problem": data.corpus,
            "classes": list(data.classes),
            "length": data.length,
            "mean": data.mean.tolist(),
            "deviation": data.deviation.tolist(),
        }


STUDY = SeriesStudy()


def collate(split: SeriesSplit, members: Sequence[int]) -> Batch:
    """Return series as one batch, with zeros behind those that are shorter than the longest.

    Returns
    -------
    dict
        "series" ``(B, N, channels)``, "padding" ``(B, N)``, True behind the end, and "classes"
        ``(B,)``.
    """
    chosen = [split.series(place) for place in members]
    lengths = np.array([len(steps) for steps in chosen])
    series = np.zeros((len(chosen), lengths.max(), split.values.shape[1]), dtype=np.float32)
    for row, steps in zip(series, chosen, strict=True):
        row[: len(steps)] = steps
    padding: Tensor = torch.arange(series.shape[1]) >= torch.from_numpy(lengths)[:, None]
    labels = torch.from_numpy(split.labels[list(members)])
    return {"series": torch.from_numpy(series), "padding": padding, "classes": labels}


def _is_whole(preset: SeriesPreset, data: SeriesData) -> bool:
    """Return whether the data are all series of the preset's problem, by their numbers."""
    known, counts = PROBLEMS.get(preset.problem or ""), data.counts
    found = counts["train"] + counts["valid"], counts["test"], data.channels, len(data.classes)
    return known is not None and found == astuple(known)


def _at_other_updates(folder: Path, data: SeriesData, paper: float | None) -> list[Measured]:
    """Return the accuracies on the test series at the last update and at the best one for them."""
    name = f"eval_{_TEST_ACCURACY}"
    history = read_curve(last_checkpoint(folder).folder)["log_history"]
    count = len(data.splits["test"])
    correct = [round(entry[name] * count) for entry in history if name in entry]
    if not correct:
        return []
    rows = ((LAST, correct[-1], None), (BEST, max(correct), paper))
    return [Measured("test", metric, 100 * n / count, count, p) for metric, n, p in rows]
