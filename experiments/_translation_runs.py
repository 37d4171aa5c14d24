"""What the study of the translation report trains: its models, one run of one, and its numbers.

A run is a folder that the training command could have made, with two files of the study beside:
``translations-test.csv``, of the same sentences for all, and ``report.json``, what was measured.
"""

import contextlib
import csv
import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import BEST, SETUP, SUBWORDS
from fourierkernels.foundation.workers import one_thread
from fourierkernels.models import TranslationModel, load_model, save_model
from fourierkernels.studies import Setup, choose_teacher, setup, train
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.run_setup import load_setup, read_data
from fourierkernels.studies.translation.translation_measures import (
    bleu_rows,
    read_translations,
    translate_split,
    write_translations,
)

REPORT = "report.json"
SPLIT = "test"
PAIRS = 32  # of the test text, kept beside a checkpoint


@dataclass(frozen=True)
class Model:
    """A row of :data:`MODELS`.

    Attributes
    ----------
    placement : str
        A key of :data:`fourierkernels.models.TRANSLATION_PRESETS`.
    options : mapping
        Options of the placement.
    teacher : str or None
        The model whose run of the same seed it learns from beside the data.
    """

    placement: str
    options: Mapping[str, Any] = field(default_factory=dict)
    teacher: str | None = None

    @property
    def reference(self) -> str:
        """The model it is compared with: attention, or the same model without its teacher."""
        return "attention" if self.teacher is None else self.placement


_PLACEMENTS = (
    *("attention", "dft_encoder", "dft_decoder", "dft_both", "hard_gaussian_reader"),
    *("parametrised_both", "hard_gaussian_both", "fourier_encoder", "fourier", "dft_last2"),
)
MODELS = {
    **{name: Model(name) for name in _PLACEMENTS},
    # The last two are all the layers that a small decoder has: here one of them keeps attention.
    "dft_last1": Model("dft_last2", {"decoder_attention_layers": 1}),
    "dft_both_distilled": Model("dft_both", teacher="attention"),
}


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all models.

    Attributes
    ----------
    preset : str
        Size of the translation study.
    sentences : int
        Of the test text, evenly spread over its lengths, that are translated.
    recipe : mapping
        Changes to the recipe of the preset.
    """

    preset: str
    sentences: int
    recipe: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)  # hashable: its settings have a mapping
class Run:
    """One model from one seed."""

    model: str
    seed: int
    settings: Settings
    data: Path
    runs: Path

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.runs / f"{self.model}-{self.seed}"

    @property
    def key(self) -> str:
        """A text that no other run of the folder has."""
        return self.folder.name

    def __str__(self) -> str:
        return self.key

    @property
    def finished(self) -> bool:
        """Whether it has been trained and measured."""
        return (self.folder / REPORT).is_file()

    def setup(self) -> Setup:
        """Return what the training command is asked for."""
        row = MODELS[self.model]
        taught = None if row.teacher is None else replace(self, model=row.teacher)
        return setup(
            "translation",
            preset=self.settings.preset,
            mixer=ChosenMixer(row.placement, row.options),
            data=self.data,
            teacher=None if taught is None else choose_teacher(taught.folder),
            **self.settings.recipe,
            seed=self.seed,
        )


@one_thread()
def finish(run: Run) -> dict[str, Any]:
    """Train a run, or what is left of it, measure it, and return one row of a table.

    A run that is finished is read. Seconds are of the processor, and none are stated for a training
    that was interrupted.

    Raises
    ------
    ValueError
        If the folder holds a run of another setup.
    """
    path = run.folder / REPORT
    if not run.finished:
        resumed = (run.folder / SETUP).is_file()
        own = run.setup()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            train(own, run.folder, resume=resumed, cache=run.runs / "cache")
        found = _measured(run) | {"resumed": resumed}
        write_text(path, json.dumps(found, indent=2) + "\n")
    elif load_setup(run.folder)[0] != run.setup():
        raise ValueError(f"runs must be a folder of runs of these settings, got {run.folder}")
    facts = json.loads((run.folder / "results.json").read_text(encoding="utf-8"))["config"]
    found = json.loads(path.read_text(encoding="utf-8"))
    shown = ("parameters", "steps", "best_step", "words", "peak_mib")
    return {
        "model": run.model,
        "seed": run.seed,
        **{name: facts[name] for name in shown},
        "training_seconds": "" if found["resumed"] else facts["processor_seconds"],
        **found["numbers"],
    }


def keep(run: Run, folder: Path) -> None:
    """Write a run in half precision into a folder that ``translate`` and ``heads`` read.

    It has the weights, the subwords, what was asked for, without the place of the corpus, and some
    test sentences with their references, one per line, in source.txt and target.txt.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_model(load_model(run.folder / BEST).half(), folder / BEST)
    write_text(folder / SUBWORDS, (run.folder / SUBWORDS).read_text(encoding="utf-8"))
    facts = json.loads((run.folder / SETUP).read_text(encoding="utf-8"))
    write_text(folder / SETUP, json.dumps(facts | {"data": None}, indent=2) + "\n")
    rows = read_translations(run.folder, SPLIT)
    places = np.linspace(0, len(rows) - 1, min(PAIRS, len(rows))).round().astype(int)
    for name, side in (("source", "source"), ("target", "reference")):
        text = "".join(f"{rows[place][side]}\n" for place in places)
        write_text(folder / f"{name}.txt", text)


def _measured(run: Run) -> dict[str, Any]:
    """Translate the test sentences; return what was measured of them and of their tokens."""
    own = run.setup()
    data = read_data(own, cache=run.runs / "cache")
    model = load_model(run.folder / BEST)
    assert isinstance(model, TranslationModel)
    model = model.to(default_device()).eval()
    begun = time.process_time()
    sentences = translate_split(model, data, SPLIT, positions=run.settings.sentences)
    seconds = time.process_time() - begun
    write_translations(run.folder, SPLIT, sentences)
    with (run.folder / "results.csv").open(encoding="utf-8") as file:
        rows = {(row["split"], row["metric"]): float(row["value"]) for row in csv.DictReader(file)}
    tokens = ("perplexity", "token accuracy")
    return {
        "numbers": {
            **{
                f"{split} {name}": rows[split, name]
                for split in ("valid", SPLIT)
                for name in tokens
            },
            "sentences": len(sentences),
            "seconds_per_sentence": seconds / len(sentences),
            **{name: value for name, value, _ in bleu_rows(sentences)},
        },
        "counts": {name: count for name, _, count in bleu_rows(sentences)},
    }
