"""The Long-Range Arena in the FNet paper, [leethorp2021fnet]_ section 4.2, [tay2021long]_.

:mod:`fourierkernels.studies.lra.presets` has its sizes, with the source of each detail.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.run_folder import ARENA as ARENA_FILE
from fourierkernels.models import ArenaClassifier, arena_config
from fourierkernels.models.lra import ArenaConfig
from fourierkernels.studies.engine.classification import Classification
from fourierkernels.studies.engine.data_sets import DataSet, evenly_spread
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.study import Measured, Terms, padded_options
from fourierkernels.studies.lra.examples import FIRST, SECOND, ArenaData, collate
from fourierkernels.studies.lra.presets import ACCURACY, PRESETS, PUBLISHED_COUNTS, ArenaPreset
from fourierkernels.studies.lra.sets import ARENA_SETS, read_arena

LOW, HIGH, LOSS = f"{ACCURACY}, low", f"{ACCURACY}, high", "cross-entropy"


class ArenaStudy(Classification[ArenaPreset, ArenaData, ArenaClassifier]):
    """Classifiers of long sequences, measured by their accuracy."""

    presets = PRESETS
    default = "listops_small"
    terms = Terms("labels", "classes", "training sequences", "sequences")
    called = "the arena"
    experiment = "lra_small"
    description = ARENA_FILE
    at_a_time = 32

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

    def build(
        self, preset: ArenaPreset, data: ArenaData, mixer: str, options: Mapping[str, Any]
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


def _is_published(preset: ArenaPreset, data: ArenaData) -> bool:
    """Whether the data have the size of the set that the published numbers are of."""
    name = preset.model["preset"]
    return (data.counts["train"], data.counts["test"]) == PUBLISHED_COUNTS[name]


def _config(preset: ArenaPreset, **changes: Any) -> ArenaConfig:
    sizes = dict(preset.model)
    return arena_config(sizes.pop("preset"), **sizes, **changes)
