"""The Long-Range Arena in the FNet paper, [leethorp2021fnet]_ section 4.2, [tay2021long]_.

:mod:`fourierkernels.studies.lra.presets` has its sizes, with the source of each detail.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.run_folder import ARENA as ARENA_FILE
from fourierkernels.models import ArenaClassifier, arena_config
from fourierkernels.models.lra import ArenaConfig
from fourierkernels.studies.engine.classification import (
    Classification,
    Examples,
    logistic_regression,
)
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.data_sets import DataSet, evenly_spread
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.study import Measured, Terms
from fourierkernels.studies.lra.examples import (
    FIRST,
    SECOND,
    ArenaData,
    ArenaSplit,
    Labels,
    Tokens,
    collate,
)
from fourierkernels.studies.lra.presets import ACCURACY, PRESETS, PUBLISHED_COUNTS, ArenaPreset
from fourierkernels.studies.lra.sets import ARENA_SETS, read_arena

LOW, HIGH, LOSS = f"{ACCURACY}, low", f"{ACCURACY}, high", "cross-entropy"
MOST_READ = 20_000  # training examples that a baseline reads, evenly spread


class ArenaStudy(Classification[ArenaPreset, ArenaData, ArenaClassifier]):
    """Classifiers of long sequences, measured by their accuracy."""

    presets = PRESETS
    default = "listops_small"
    terms = Terms("labels", "classes", "training sequences", "sequences")
    called = "the arena"
    experiment = "lra_small"
    description = ARENA_FILE
    at_a_time = 32
    baseline_metric = "accuracy"

    def data_sets(self) -> Mapping[str, DataSet[ArenaData]]:
        """Return the arena's data sets."""
        return ARENA_SETS

    def read(
        self, preset: ArenaPreset, data: str | Path | None, *, cache: Path | None = None
    ) -> ArenaData:
        """Return the examples of a run, which have to be of the task and size of the preset."""
        arena, length = read_arena(self.named(preset, data)), _config(preset).length
        if arena.task != preset.task:
            raise ValueError(
                f"data must be of the task {preset.task}, got {arena.task} in {arena.source}"
            )
        if arena.side is not None and arena.side**2 != length:
            raise ValueError(
                f"data must have images of {length} pixels, which this preset reads, "
                f"got {arena.side} x {arena.side} in {arena.source}"
            )
        return arena

    def build(self, preset: ArenaPreset, data: ArenaData, mixer: ChosenMixer) -> ArenaClassifier:
        """Return a model with random weights for the tokens and the classes of a data set.

        Mixers that cannot leave padding out get zeros in its place.
        """
        config = replace(
            _config(preset),
            vocabulary=data.tokens,
            classes=len(data.vocabulary),
            pairs=data.pairs,
            mixer=mixer.name,
            mixer_options=mixer.over(preset).padded().options,
        )
        return ArenaClassifier(config)

    def logits(self, model: ArenaClassifier, batch: Batch) -> Tensor:
        """Return the logits of a batch, which do not depend on the other sequences in it.

        Mixers that mask padding read as many tokens as the longest of the batch; all others always
        as many as the model can, for a transform over another number of tokens is another one.
        """
        device = model.words.weight.device
        tokens = [batch[name].to(device) for name in (FIRST, SECOND) if name in batch]
        if not all(block.masks_padding for block in model.blocks):
            tokens = [functional.pad(t, (0, model.config.length - t.shape[1])) for t in tokens]
        logits: Tensor = model(*tokens)
        return logits

    def examples(
        self, preset: ArenaPreset, data: ArenaData, split: str, members: Sequence[int]
    ) -> Batch:
        """Return sequences as one batch."""
        return collate(data.splits[split], members, length=_config(preset).length)

    def measure(
        self,
        preset: ArenaPreset,
        data: ArenaData,
        mixer: str,
        model: ArenaClassifier,
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
        from scipy.stats import binomtest  # slow to import

        paper = preset.published.get(mixer, {}).get(ACCURACY)
        rows = []
        for name in splits:
            members = evenly_spread(data.counts[name], positions)
            count = len(members)
            total, correct = self.sums(model.eval(), preset, data, name, members)
            low, high = binomtest(int(correct), count).proportion_ci(method="wilson")
            whole = name == "test" and positions is None and _is_published(preset, data)
            rows += [
                Measured(name, ACCURACY, 100 * correct / count, count, paper if whole else None),
                Measured(name, LOW, 100 * low, count),
                Measured(name, HIGH, 100 * high, count),
                Measured(name, LOSS, total / count, count),
            ]
        return rows

    def baselines(self, preset: ArenaPreset, data: ArenaData) -> list[Baseline]:
        """Return what a logistic regression gets on counts of tokens, and on pixels of images."""
        length = _config(preset).length
        most = {"train": MOST_READ}
        splits = {
            name: _read_at_once(split, evenly_spread(len(split), most.get(name)), length)
            for name, split in data.splits.items()
        }
        rules: dict[str, Callable[[_Read], NDArray[np.float64]]] = {
            "bag of tokens": partial(token_counts, tokens=data.tokens)
        }
        if data.side is not None:
            rules["pixels"] = _values
        return [
            logistic_regression(
                name, {part: Examples(rule(own), own.classes) for part, own in splits.items()}
            )
            for name, rule in rules.items()
        ]

    def facts(self, preset: ArenaPreset, data: ArenaData) -> Mapping[str, Any]:
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

    def reading(self, data: ArenaData) -> Mapping[str, Any]:
        """Return task, tokens and classes."""
        return {
            "task": data.task,
            "tokens": data.tokens,
            "classes": list(data.vocabulary),
            "side": data.side,
        }


STUDY = ArenaStudy()


class _Read(NamedTuple):
    """Sides of examples, each ``(n, length)`` with 0 behind the end, and classes ``(n,)``."""

    sides: list[Tokens]
    classes: Labels


def _read_at_once(split: ArenaSplit, members: Sequence[int], length: int) -> _Read:
    batch = {
        name: values.numpy() for name, values in collate(split, members, length=length).items()
    }
    return _Read([batch[name] for name in (FIRST, SECOND) if name in batch], batch["classes"])


def token_counts(read: _Read, tokens: int) -> NDArray[np.float64]:
    """Return how often each token but padding occurs in each side of examples."""
    counts = [
        np.array([np.bincount(row, minlength=tokens)[1:] for row in side]) for side in read.sides
    ]
    return np.concatenate(counts, axis=1).astype(np.float64)


def _values(read: _Read) -> NDArray[np.float64]:
    return np.concatenate(read.sides, axis=1).astype(np.float64)


def _is_published(preset: ArenaPreset, data: ArenaData) -> bool:
    """Whether the data have the size of the set that the published numbers are of."""
    name = preset.model["preset"]
    return (data.counts["train"], data.counts["test"]) == PUBLISHED_COUNTS[name]


def _config(preset: ArenaPreset) -> ArenaConfig:
    sizes = dict(preset.model)
    return arena_config(sizes.pop("preset"), **sizes)
