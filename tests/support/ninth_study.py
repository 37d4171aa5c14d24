"""A ninth study, from outside the package: whether a row of bits has more ones than zeros."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.models import ArenaClassifier, arena_config
from fourierkernels.studies.engine.classification import Classification
from fourierkernels.studies.engine.contenders import Contender
from fourierkernels.studies.engine.data_sets import DataSet, evenly_spread, find_row
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.recipe import Preset, Recipe
from fourierkernels.studies.engine.study import Measured, Terms

ACCURACY = "accuracy (%)"


@dataclass(frozen=True)
class Bits:
    """Rows of bits by split, ``(n, length)``, and the SHA-256 of all."""

    corpus: str
    source: str
    digest: str
    splits: Mapping[str, NDArray[np.int64]]
    vocabulary: tuple[str, ...] = ("zeros", "ones")

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self.splits.items()}


def open_bits(folder: Path) -> Bits:
    """Return the rows of bits.txt: two thirds to train on, a sixth each to validate and test."""
    text = (folder / "bits.txt").read_text(encoding="utf-8")
    rows = text.split()
    if not rows or set(text) - set("01\n") or len({len(row) for row in rows}) != 1:
        raise ValueError(f"{folder / 'bits.txt'} must have rows of equally many bits, got others")
    bits = np.array([[int(bit) for bit in row] for row in rows])
    train, valid, test = np.split(bits, [len(bits) * 4 // 6, len(bits) * 5 // 6])
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Bits("bits", str(folder), digest, {"train": train, "valid": valid, "test": test})


BIT_SETS = {
    "bits": DataSet(
        title="rows of bits",
        source="your own",
        layout="bits.txt, a row on each line",
        recognises=lambda folder: (folder / "bits.txt").is_file(),
        open=open_bits,
    )
}
PRESETS = {
    "tiny": Preset(
        summary="1 layer of 16 features: a second",
        model={"preset": "listops", "dim": 16, "hidden": 16, "layers": 1, "heads": 2},
        recipe=Recipe(
            steps=12, batch=8, learning_rate=5e-3, evaluate_every=6, save_every=3, log_every=1
        ),
    )
}


class NinthStudy(Classification[Preset, Bits, ArenaClassifier]):
    presets = PRESETS
    terms = Terms("labels", "classes", "training rows", "rows", "a folder of bits")
    called = "bits"

    def data_sets(self) -> Mapping[str, DataSet[Bits]]:
        return BIT_SETS

    def read(self, preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> Bits:
        name, place = find_row(BIT_SETS, self.named(preset, data))
        return BIT_SETS[name].open(place)

    def build(self, preset: Preset, data: Bits, mixer: ChosenMixer) -> ArenaClassifier:
        sizes = {**preset.model, "dropout": 0.0, "attention_dropout": None}
        config = arena_config(
            sizes.pop("preset"),
            **sizes,
            length=data.splits["train"].shape[1],
            vocabulary=3,
            classes=2,
            mixer=mixer.name,
            mixer_options=mixer.over(preset).padded().options,
        )
        return ArenaClassifier(config)

    def logits(self, model: ArenaClassifier, batch: Batch) -> Tensor:
        logits: Tensor = model(batch["tokens"].to(model.words.weight.device))
        return logits

    def examples(self, preset: Preset, data: Bits, split: str, members: Sequence[int]) -> Batch:
        rows = data.splits[split][list(members)]
        classes = (2 * rows.sum(axis=1) > rows.shape[1]).astype(np.int64)
        return {"tokens": torch.from_numpy(rows + 1), "classes": torch.from_numpy(classes)}

    def measure(
        self,
        preset: Preset,
        data: Bits,
        mixer: str,
        model: ArenaClassifier,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        rows = []
        for name in splits:
            members = evenly_spread(data.counts[name], positions)
            _, correct = self.sums(model.eval(), preset, data, name, members)
            rows.append(Measured(name, ACCURACY, 100 * correct / len(members), len(members)))
        return rows

    def reading(self, data: Bits) -> Mapping[str, Any]:
        return {"length": data.splits["train"].shape[1]}


STUDY = NinthStudy()
COMPARISONS = {
    "bits-1": PaperTable(
        file="bits_1",
        shows="Rows of bits at two rates",
        source="nobody, table 1",
        problems=(Problem("bits", "ninth", "tiny", "bits", file="bits.txt"),),
        contenders=(Contender("softmax", "softmax"), Contender("none", "none")),
        metrics=(f"test {ACCURACY}",),
        rates=(5e-3, 1e-3),
    )
}


def write_bits(folder: Path, rows: int = 72) -> Path:
    """Write random rows of nine bits."""
    folder.mkdir(parents=True, exist_ok=True)
    bits = np.random.default_rng(0).integers(0, 2, (rows, 9))
    text = "".join("".join(map(str, row)) + "\n" for row in bits.tolist())
    (folder / "bits.txt").write_text(text, encoding="utf-8")
    return folder
