"""Fine-tuning of a pre-trained encoder, [leethorp2021fnet]_ section 4.1.2, on GLUE [wang2019glue]_.

A run of study masked gives the encoder, its subwords and the length of its sequences; the layer
that classifies is new. As in pre-training, all sequences have that one length.
:mod:`fourierkernels.studies.glue.presets` has the recipes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import CLASSES, IDS, PIECES, find_run, read_results
from fourierkernels.models import EncoderClassifier, PretrainingEncoder
from fourierkernels.models.saved import load_model, saved_class
from fourierkernels.studies.engine.classification import Classification
from fourierkernels.studies.engine.data_sets import DataSet, evenly_spread, find_row
from fourierkernels.studies.engine.epochs import Batch, Epochs, FeistelOrder
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe, check_shuffled
from fourierkernels.studies.engine.study import Measured, Objective, StartedStudy, Terms
from fourierkernels.studies.engine.teacher import start_files
from fourierkernels.studies.glue.glue_measures import MEASURES
from fourierkernels.studies.glue.labelled import GLUE, Encoded, LabelledTexts
from fourierkernels.studies.glue.presets import PRESETS, GluePreset
from fourierkernels.studies.masked import study as masked
from fourierkernels.studies.masked.pieces import PADDING, Pieces
from fourierkernels.studies.masked.presets import PRESETS as ENCODERS

LOSS = "loss"
_TEST = "test"
_BASE = {"preset": "bert_base"}  # of the encoders of table 4 that presets have
_LINES = 64  # of test.ids
_TOKENS = 8192  # measured at a time; no number depends on it


class GlueStudy(
    Classification[GluePreset, LabelledTexts, EncoderClassifier],
    StartedStudy[GluePreset, LabelledTexts, EncoderClassifier],
):
    """Classifiers of sentences and of pairs of them, measured as GLUE measures each task."""

    presets = PRESETS
    default = "sentences"
    terms = Terms("labels", "classes", "training rows", "rows", "a folder of GLUE's .tsv files")
    packages = ("sentencepiece",)
    experiment = "masked_small"
    labels = "labels"

    def mixers(self) -> list[str]:
        """Return those of the encoders that it begins with."""
        return masked.STUDY.mixers()

    def check_mixer(self, mixer: ChosenMixer) -> None:
        """Refuse options that the encoder does not have."""
        masked.STUDY.check_mixer(mixer)

    def data_sets(self) -> Mapping[str, DataSet[LabelledTexts]]:
        """Return the layouts of labelled texts."""
        return GLUE

    def read(
        self,
        preset: GluePreset,
        data: str | Path | None,
        *,
        cache: Path | None = None,
        start: Path | None = None,
    ) -> LabelledTexts:
        """Return the texts of a task as the subwords of a pre-trained run."""
        if start is None:
            raise ValueError(
                "start must be a run of study masked: --from RUN (fourierkernels train masked), "
                "got none"
            )
        named, (home, file) = self.named(preset, data), start_files(start)
        name, place = find_row(GLUE, named)
        return GLUE[name].open(
            place,
            preset.task,
            Pieces.load(home / PIECES),
            length=int(saved_class(file)[1]["length"]),
            start=file,
        )

    def build(
        self, preset: GluePreset, data: LabelledTexts, mixer: ChosenMixer
    ) -> EncoderClassifier:
        """Return the pre-trained encoder below a new layer.

        Raises
        ------
        ValueError
            If the encoder has another mixer, or was not pre-trained by study masked.
        """
        if data.start is None:
            raise ValueError(f"start must be a run of study masked, got none for {data.source}")
        trained = load_model(data.start)
        if not isinstance(trained, PretrainingEncoder):
            raise ValueError(
                f"start must be a run of study masked, got a {type(trained).__name__} in "
                f"{data.start}"
            )
        config = trained.encoder.config
        found = masked.HYBRID if config.attention_layers else config.mixer
        if found != mixer.name:
            raise ValueError(f"mixer must be that of the start, {found}, got {mixer.name!r}")
        model = EncoderClassifier(config, classes=data.outputs)
        model.encoder.load_state_dict(trained.encoder.state_dict())
        return model

    def batches(self, preset: GluePreset, data: LabelledTexts, recipe: Recipe) -> Epochs:
        """Return the training rows, in the order of the run."""
        check_shuffled(recipe, "labelled texts")
        rows = data.splits["train"]
        return Epochs(
            lambda members: rows.batch(members, data.length),
            examples=len(rows),
            steps=recipe.steps,
            batch=recipe.batch,
            order=FeistelOrder(len(rows), recipe.seed),
        )

    def logits(self, model: EncoderClassifier, batch: Batch) -> Tensor:
        """Return the logits of rows, ``(B, classes)``, or their scores, ``(B, 1)``."""
        device, tokens = model.head.weight.device, batch["tokens"]
        outputs: Tensor = model(
            tokens.to(device),
            segments=batch["segments"].to(device),
            padding=(tokens == PADDING).to(device),
        )
        return outputs

    def examples(
        self, preset: GluePreset, data: LabelledTexts, split: str, members: Sequence[int]
    ) -> Batch:
        """Return rows as one batch."""
        return data.splits[split].batch(members, data.length)

    def loss(self, model: EncoderClassifier, batch: Batch, smoothing: float) -> Tensor:
        """Return the mean cross-entropy, or squared error of a score."""
        return _losses(self.logits(model, batch), batch["labels"], smoothing).mean()

    def sums(
        self,
        model: EncoderClassifier,
        preset: GluePreset,
        data: LabelledTexts,
        split: str,
        members: Sequence[int],
    ) -> tuple[float, ...]:
        """Return the sum of the losses of rows, and how many classes are right."""
        rows = data.splits[split]
        outputs = self.outputs(model, rows, members, data.length)
        labels = rows.labels[list(members)]
        total = float(_losses(outputs, torch.from_numpy(labels)).sum())
        return total, float((_guesses(outputs) == labels).sum())

    def even_loss(self, data: LabelledTexts) -> float:
        """Return the loss of an even guess, or of the mean score."""
        labels = data.splits["train"].labels
        even = np.mean((labels - labels.mean()) ** 2) if data.scored else math.log(data.outputs)
        return max(float(even), 1e-6)

    def objective(self, preset: GluePreset, data: LabelledTexts, recipe: Recipe) -> Objective:
        """Return the loss and its validation, beside the accuracy where there are classes."""
        goal = super().objective(preset, data, recipe)
        if not data.scored:
            return goal

        def validate(model: EncoderClassifier, process: int, processes: int) -> tuple[float, ...]:
            return goal.validate(model, process, processes)[:2]

        return replace(goal, validate=validate, further=())

    @torch.no_grad()
    def outputs(
        self, model: EncoderClassifier, rows: Encoded, members: Sequence[int], length: int
    ) -> Tensor:
        """Return the outputs of some rows in float64."""
        size = max(_TOKENS // length, 1)
        outputs = [
            self.logits(model, rows.batch(members[first : first + size], length)).double().cpu()
            for first in range(0, len(members), size)
        ]
        return torch.cat(outputs) if outputs else torch.empty(0, 1, dtype=torch.float64)

    def measure(
        self,
        preset: GluePreset,
        data: LabelledTexts,
        mixer: str,
        model: EncoderClassifier,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return the measures of a task on what is held out and on GLUE's validation rows, "test".

        Parameters
        ----------
        positions : int, optional
            Rows of each split that are measured, evenly spread over the file; all by default.
        folder : Path, optional
            That of the run, into which are written what is predicted for rows without labels, as
            GLUE's server reads it, and the first rows of the first test file as numbers, for other
            commands.
        """
        if folder is not None:
            _write_ids(folder / IDS, data)
            for file, rows in data.unlabelled.items():
                outputs = self.outputs(model.eval(), rows, range(len(rows)), data.length)
                _write_predictions(folder / f"predicted_{file}", data, outputs)
        papers = positions is None and is_of_the_paper(data)
        paper = preset.published.get(mixer, {}) if papers else {}
        measured: list[Measured] = []
        for name, split in data.splits.items():
            if name.partition(",")[0] in splits:
                members = evenly_spread(len(split), positions)
                outputs = self.outputs(model.eval(), split, members, data.length)
                labels = split.labels[members]
                measured += _numbers(name, data, outputs, labels, paper.get(name))
        return measured

    def prepare(self, folder: Path, data: LabelledTexts) -> None:
        """Write the subwords and the classes of a run into its folder."""
        data.pieces.save(folder / PIECES)
        write_text(folder / CLASSES, "".join(f"{name}\n" for name in data.vocabulary.words))

    def check(self, folder: Path, data: LabelledTexts) -> None:
        """Refuse texts of other classes, or other subwords, than those of a run."""
        written = tuple((folder / CLASSES).read_text(encoding="utf-8").splitlines())
        if written != data.vocabulary.words:
            raise ValueError(
                f"data must have the {len(written)} classes of {folder / CLASSES}, "
                f"got {', '.join(data.vocabulary.words)} in {data.source}"
            )
        Pieces.load(folder / PIECES).vocabulary.check_same(data.pieces.vocabulary, folder)

    def facts(self, preset: GluePreset, data: LabelledTexts) -> Mapping[str, Any]:
        """Return what the numbers of a run also depend on."""
        return {
            "length": data.length,
            "broken_rows": data.broken,
            "rows_cut_off": {name: split.cut for name, split in data.splits.items()},
            "unlabelled": {name: len(rows) for name, rows in data.unlabelled.items()},
            "largest_class_of_test": _largest(data),
        }


STUDY = GlueStudy()


def is_of_the_paper(data: LabelledTexts) -> bool:
    """Return whether rows and encoder are those of table 4: all rows, a base model of C4.

    Whether that was trained as its preset says, the engine sees.
    """
    home = None if data.start is None else find_run(Path(data.start))
    if home is None or data.counts["train"] + data.counts["valid"] != data.task.rows:
        return False
    known = read_results(home)
    size = ENCODERS.get(str(known.get("preset")))
    if size is None or size.model != _BASE:
        return False
    spans = known.get("spans", {}).get("train", 0)
    return masked.is_paper_text(str(known.get("corpus")), spans, size)


def _losses(outputs: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return -log p of each class, or the squared error of each score, ``(B,)``."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] - labels.to(outputs.dtype)) ** 2
    return functional.cross_entropy(
        outputs, labels.long(), label_smoothing=smoothing, reduction="none"
    )


def _guesses(outputs: Tensor) -> Any:
    return (outputs[:, 0] if outputs.shape[1] == 1 else outputs.argmax(dim=1)).double().numpy()


def _numbers(
    name: str,
    data: LabelledTexts,
    outputs: Tensor,
    labels: NDArray[np.float64],
    paper: float | None,
) -> list[Measured]:
    guessed, (main, *_) = _guesses(outputs), data.task.measures
    loss = float(_losses(outputs, torch.from_numpy(labels)).mean())
    values = {measure: MEASURES[measure](guessed, labels) for measure in data.task.measures}
    return [
        Measured(name, measure, value, len(labels), paper if measure == main else None)
        for measure, value in (values | {LOSS: loss}).items()
    ]


def _largest(data: LabelledTexts) -> float | None:
    """Return the share of the most frequent class of the first file of validation rows."""
    if data.scored:
        return None
    labels = _first_test(data).labels
    return round(100 * float(np.bincount(labels.astype(int)).max() / len(labels)), 2)


def _write_ids(path: Path, data: LabelledTexts) -> None:
    split = _first_test(data)
    starts = [0, *split.ends[: _LINES - 1].tolist()]
    rows = (split.numbers[a:b].tolist() for a, b in zip(starts, split.ends.tolist(), strict=False))
    write_text(path, "".join(f"{' '.join(map(str, row))}\n" for row in rows))


def _first_test(data: LabelledTexts) -> Encoded:
    return next(split for name, split in data.splits.items() if name.startswith(_TEST))


def _write_predictions(path: Path, data: LabelledTexts, outputs: Tensor) -> None:
    words = data.vocabulary.words
    named = [f"{value:.3f}" if data.scored else words[int(value)] for value in _guesses(outputs)]
    lines = (f"{index}\t{name}\n" for index, name in enumerate(named))
    write_text(path, "index\tprediction\n" + "".join(lines))
