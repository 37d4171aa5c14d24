"""What the contract of studies needs of each: small data, a short run, and what is its own."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import image_runs
import ninth_study
import tiny_arena
import tiny_control
import tiny_documents
import tiny_series
import torch
import training_runs
import translation_runs
from torch import Tensor, nn

from fourierkernels.mixing.registry import mixer_names
from fourierkernels.studies import registry
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.paper_table import PaperTable
from fourierkernels.studies.engine.reproduce_command import all_tables
from fourierkernels.studies.engine.reproduction import reproduce
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.masked.measurement import Measurement, predictions
from fourierkernels.studies.registry import STUDIES, StudyRow


@dataclass(frozen=True)
class Case:
    """A study in small.

    Attributes
    ----------
    run : callable
        From a folder to write data in and that of token files to a run of a second or two.
    left : tuple of str
        Files of a run that a resumed one leaves as well, besides those of every study.
    examples : callable
        From the data to how many examples an epoch has.
    mixers : tuple of str
        For which the outputs of an example are compared alone and in a batch.
    items : str
        What is not read as streams, in the message that says so; "" if it can be.
    small : dict
        What makes a model of any preset small; what else it is made of stays.
    alone : callable or None
        From a model and the data to its outputs for a batch, and for its third example alone; None
        for classifications, whose logits are compared, and for studies with tests of their own.
    """

    run: Callable[[Path, Path], Setup]
    left: tuple[str, ...]
    examples: Callable[[Any], int]
    mixers: tuple[str, ...] = ("softmax", "fourier")
    items: str = ""
    small: dict[str, Any] = field(default_factory=dict)
    alone: Callable[[nn.Module, Any], tuple[Tensor, Tensor]] | None = None


def _of_split(data: Any) -> int:
    return int(data.counts["train"])


def _images(folder: Path, cache: Path) -> Setup:
    registry.STUDIES["images"].presets["mini"] = image_runs.mini()
    return image_runs.mini_run()


def _control(folder: Path, cache: Path) -> Setup:
    ENVIRONMENTS["glider"] = tiny_control.GLIDER
    episodes = tiny_control.episodes(60)
    return tiny_control.control_run(tiny_control.write_pickle(folder, episodes), "softmax")


def _series(folder: Path, cache: Path) -> Setup:
    """With batch norm, whose statistics are part of the state."""
    presets = registry.STUDIES["series"].presets
    model = {"preset": "zerveas", "dim": 16, "layers": 1, "heads": 2, "hidden": 16}
    recipe = replace(presets["tiny"].recipe, optimiser="radam")
    presets["normed"] = replace(presets["tiny"], model=model, recipe=recipe)
    return tiny_series.series_run(tiny_series.write_problem(folder), "softmax", preset="normed")


def _arena(folder: Path, cache: Path) -> Setup:
    """With features that are drawn anew."""
    performer = ChosenMixer("performer", {"features": 8, "redraw": 2})
    return tiny_arena.arena_run(tiny_arena.listops(folder), performer)


def _glue(folder: Path, cache: Path) -> Setup:
    start = tiny_documents.masked_run(tiny_documents.write_documents(folder / "documents"))
    tiny_documents.train_tiny(start, folder / "start", cache)
    return tiny_documents.glue_run(tiny_documents.write_task(folder / "task"), folder / "start")


def _translation(folder: Path, cache: Path) -> Setup:
    registry.STUDIES["translation"].presets["mini"] = translation_runs.mini()
    return translation_runs.mini_run(translation_runs.write_corpus(folder))


def _masked(model: nn.Module, data: Any) -> tuple[Tensor, Tensor]:
    (batch,) = Measurement(data, "test", wrong="other_document").batches(1000)

    def outputs(rows: Batch) -> Tensor:
        logits = predictions(model, rows)
        return torch.cat([logits.words.flatten(1), logits.next_sentence], dim=1)

    return outputs(batch), outputs({name: rows[2:3] for name, rows in batch.items()})


def _language(model: nn.Module, data: Any) -> tuple[Tensor, Tensor]:
    rows = torch.tensor(data.tokens("test")[:256].astype(int)).view(8, 32)
    return model.log_probabilities(rows), model.log_probabilities(rows[2:3])


_FEW = {"dim": 32, "layers": 1, "heads": 2, "hidden": 32}
CASES = {
    "language": Case(
        lambda folder, cache: training_runs.short_run(training_runs.write_texts(folder / "texts")),
        ("vocabulary.txt", "test.ids"),
        lambda data: (len(data.tokens("train")) - 1) // 32 // 4 * 4,
        small=_FEW | {"length": 32},
        alone=_language,
    ),
    "translation": Case(
        _translation,
        ("bpe.json", "translations-test.csv"),
        lambda data: data.pairs["train"],
        mixers=(),
        small=_FEW | {"decoder_layers": 1, "length": 32},
    ),
    "images": Case(
        _images,
        ("classes.txt", "preprocessor_config.json"),
        _of_split,
        small=_FEW | {"image": 8, "patch": 2},
    ),
    "series": Case(
        _series,
        ("series.json",),
        _of_split,
        ("fourier", "fnet", "random"),
        items="series",
        small=_FEW,
    ),
    "control": Case(
        _control,
        ("control.json",),
        _of_split,
        mixers=(),
        items="episodes",
        small={"dim": 32, "layers": 1, "heads": 2},
    ),
    "masked": Case(
        lambda folder, cache: tiny_documents.masked_run(tiny_documents.write_documents(folder)),
        ("spiece.model", "test.ids"),
        lambda data: data.spans["train"],
        ("softmax", "fnet", "fnet_hybrid", "random", "none", "fourier"),
        items="masked sequences",
        small=_FEW | {"length": 64},
        alone=_masked,
    ),
    "glue": Case(
        _glue,
        ("classes.txt", "spiece.model", "test.ids"),
        _of_split,
        ("fnet",),
        items="labelled texts",
    ),
    "lra": Case(
        _arena,
        ("arena.json",),
        _of_split,
        tuple(mixer_names(causal=False)),
        items="the arena",
        small=_FEW | {"length": 64},
    ),
    "ninth": Case(
        lambda folder, cache: setup("ninth", data=ninth_study.write_bits(folder)),
        ("reading.json",),
        _of_split,
        items="bits",
    ),
}
NINTH = StudyRow("Bits: a study from outside", "ninth_study")


def add_ninth() -> None:
    """Add the study from outside to the table."""
    STUDIES.rows["ninth"] = NINTH


def ninth_table(data: Path, **changes: Any) -> PaperTable:
    """Return the table of the study from outside over two seeds."""
    add_ninth()
    table = all_tables()["ninth"]
    assert isinstance(table, PaperTable)
    return replace(table.located(data), seeds=(1, 2), **changes)


def reproduce_and_die(data: Path, output: Path) -> None:
    """Reproduce that table, and die in the second network when its ninth update is being saved."""
    from fourierkernels.studies.engine import trainer as engine

    torch.set_num_threads(1)
    whole, seen = engine.write_tensors, set[Path]()

    def counted(file: Path, *given: Any) -> None:
        whole(file, *given)
        seen.add(file.parents[1])
        if len(seen) == 2 and "checkpoint-9" in str(file.parent):
            os.kill(os.getpid(), signal.SIGKILL)

    engine.write_tensors = counted  # type: ignore[attr-defined]
    reproduce("ninth", ninth_table(data), output)
