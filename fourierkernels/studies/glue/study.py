"""Fine-tuning of a pre-trained encoder, [leethorp2021fnet]_ section 4.1.2, on GLUE [wang2019glue]_.

A run of study masked gives the encoder, its subwords and the length of its sequences; the layer
that classifies is new. As in pre-training, all sequences have that one length.
:mod:`fourierkernels.studies.glue.presets` has the recipes.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import CLASSES, IDS, PIECES
from fourierkernels.models import EncoderClassifier, PretrainingEncoder
from fourierkernels.models.saved import load_model, saved_class
from fourierkernels.studies.engine.data_sets import find_row
from fourierkernels.studies.engine.objective import Objective
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.engine.sequences import check_shuffled, evenly_spread
from fourierkernels.studies.engine.start import start_files
from fourierkernels.studies.engine.study import Measured, Preset, Study, Terms
from fourierkernels.studies.glue.glue_measures import MEASURES
from fourierkernels.studies.glue.labelled import Encoded, LabelledTexts, LabelledUpdates
from fourierkernels.studies.glue.presets import PRESETS, GluePreset
from fourierkernels.studies.glue.sets import GLUE
from fourierkernels.studies.masked import study as masked
from fourierkernels.studies.masked.pieces import PADDING, Pieces

LOSS = "loss"
_TEST = "test"
_LINES = 64  # of test.ids
_TOKENS = 8192  # measured at a time; no number depends on it


def read(
    preset: Preset,
    data: str | Path | None,
    *,
    cache: Path | None = None,
    start: Path | None = None,
) -> LabelledTexts:
    """Return the texts of a task as the subwords of a pre-trained run.

    Raises
    ------
    ValueError
        If no folder or no run is named, or one of them cannot be read.
    """
    assert isinstance(preset, GluePreset)
    if start is None:
        raise ValueError(
            "start must be a run of study masked: --from RUN (fourierkernels train masked), "
            "got none"
        )
    if data is None:
        raise ValueError(
            "data must be a folder of GLUE's .tsv files: --data FOLDER (--help says where they are "
            "had), got none"
        )
    home, file = start_files(start)
    name, place = find_row(GLUE, data)
    return GLUE[name].open(
        place,
        preset.task,
        Pieces.load(home / PIECES),
        length=int(saved_class(file)[1]["length"]),
        start=file,
    )


def build(
    preset: Preset, data: LabelledTexts, mixer: str, options: Mapping[str, Any]
) -> EncoderClassifier:
    """Return the pre-trained encoder below a new layer.

    Raises
    ------
    ValueError
        If the encoder has another mixer, or was not pre-trained by study masked.
    """
    assert data.start is not None
    trained = load_model(data.start)
    if not isinstance(trained, PretrainingEncoder):
        raise ValueError(
            f"start must be a run of study masked, got a {type(trained).__name__} in {data.start}"
        )
    config = trained.encoder.config
    found = masked.HYBRID if config.attention_layers else config.mixer
    if found != mixer:
        raise ValueError(f"mixer must be that of the start, {found}, got {mixer!r}")
    model = EncoderClassifier(config, classes=data.outputs)
    model.encoder.load_state_dict(trained.encoder.state_dict())
    return model


def batches(preset: Preset, data: LabelledTexts, recipe: Recipe) -> LabelledUpdates:
    """Return the training rows, in the order of the run.

    Raises
    ------
    ValueError
        If the recipe asks for streams.
    """
    check_shuffled(recipe, "labelled texts")
    return LabelledUpdates(data, steps=recipe.steps, batch=recipe.batch, seed=recipe.seed)


def objective(preset: Preset, data: LabelledTexts, recipe: Recipe) -> Objective:
    """Return the mean cross-entropy, or squared error of a score, and its validation."""
    held, scored = data.splits["valid"], data.task.labels == ()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return _losses(_outputs(model, batch), batch["labels"], recipe.label_smoothing).mean()

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, ...]:
        outputs = _all_outputs(model, held, data.length, (process, processes))
        labels = torch.from_numpy(held.labels[process::processes])
        total, right = float(_losses(outputs, labels).sum()), _guesses(outputs) == labels.numpy()
        return total, len(labels), *(() if scored else (float(right.sum()),))

    labels = data.splits["train"].labels
    even = float(np.mean((labels - labels.mean()) ** 2)) if scored else math.log(data.outputs)
    return Objective(loss, validate, max(even, 1e-6), further=() if scored else ("accuracy",))


def measure(
    preset: Preset,
    data: LabelledTexts,
    mixer: str,
    model: nn.Module,
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
        That of the run, into which are written what is predicted for rows without labels, as GLUE's
        server reads it, and the first rows of the first test file as numbers, for other commands.
    """
    if folder is not None:
        _write_ids(folder / IDS, data)
        for file, asked in data.unlabelled.items():
            _write_predictions(folder / f"predicted_{file}", data, model.eval(), asked)
    paper = preset.published.get(mixer, {}) if positions is None else {}
    rows: list[Measured] = []
    for name, split in data.splits.items():
        if name.partition(",")[0] in splits:
            rows += _measured(name, split, data, model.eval(), positions, paper.get(name))
    return rows


def prepare(folder: Path, data: LabelledTexts) -> None:
    """Write the subwords and the classes of a run into its folder."""
    data.pieces.save(folder / PIECES)
    write_text(folder / CLASSES, "".join(f"{name}\n" for name in data.vocabulary.words))


def check(folder: Path, data: LabelledTexts) -> None:
    """Refuse texts of other classes, or other subwords, than those of a run."""
    written = tuple((folder / CLASSES).read_text(encoding="utf-8").splitlines())
    if written != data.vocabulary.words:
        raise ValueError(
            f"data must have the {len(written)} classes of {folder / CLASSES}, "
            f"got {', '.join(data.vocabulary.words)} in {data.source}"
        )
    Pieces.load(folder / PIECES).vocabulary.check_same(data.pieces.vocabulary, folder)


def facts(preset: Preset, data: LabelledTexts) -> Mapping[str, Any]:
    """Return what the numbers of a run also depend on."""
    return {
        "length": data.length,
        "broken_rows": data.broken,
        "rows_cut_off": {name: split.cut for name, split in data.splits.items()},
        "unlabelled": {name: len(rows) for name, rows in data.unlabelled.items()},
        "largest_class_of_test": _largest(data),
    }


STUDY = Study(
    title="Fine-tuning on GLUE: the FNet paper's table 4",
    presets=PRESETS,
    mixers=masked.mixers,
    read=read,
    build=build,
    batches=batches,
    objective=objective,
    measure=measure,
    facts=facts,
    check_options=masked.check_options,
    prepare=prepare,
    check=check,
    packages=("sentencepiece",),
    default="sentences",
    terms=Terms("labels", "classes", "training rows", "rows"),
    data=lambda: GLUE,
    experiment="masked_small",
    starts=True,
)


def _outputs(model: nn.Module, batch: Batch) -> Tensor:
    assert isinstance(model, EncoderClassifier)
    device, tokens = model.head.weight.device, batch["tokens"]
    outputs: Tensor = model(
        tokens.to(device),
        segments=batch["segments"].to(device),
        padding=(tokens == PADDING).to(device),
    )
    return outputs


def _losses(outputs: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return -log p of each class, or the squared error of each score, ``(B,)``."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] - labels.to(outputs.dtype)) ** 2
    return functional.cross_entropy(
        outputs, labels.long(), label_smoothing=smoothing, reduction="none"
    )


def _guesses(outputs: Tensor) -> Any:
    return (outputs[:, 0] if outputs.shape[1] == 1 else outputs.argmax(dim=1)).double().numpy()


@torch.no_grad()
def _all_outputs(
    model: nn.Module, rows: Encoded, length: int, part: tuple[int, int] = (0, 1)
) -> Tensor:
    """Return the outputs of a file's sequences, or of the share of a process, in float64."""
    members, size = range(part[0], len(rows), part[1]), max(_TOKENS // length, 1)
    found = [
        _outputs(model, rows.batch(members[first : first + size], length)).double().cpu()
        for first in range(0, len(members), size)
    ]
    return torch.cat(found) if found else torch.empty(0, 1, dtype=torch.float64)


def _measured(
    name: str,
    split: Encoded,
    data: LabelledTexts,
    model: nn.Module,
    most: int | None,
    paper: float | None,
) -> list[Measured]:
    own = split.of(np.array(evenly_spread(len(split), most), dtype=np.int64))
    count = len(own)
    outputs = _all_outputs(model, own, data.length)
    guessed, (main, *_) = _guesses(outputs), data.task.measures
    loss = float(_losses(outputs, torch.from_numpy(own.labels)).mean())
    values = {measure: MEASURES[measure](guessed, own.labels) for measure in data.task.measures}
    return [
        Measured(name, measure, value, count, paper if measure == main else None)
        for measure, value in (values | {LOSS: loss}).items()
    ]


def _largest(data: LabelledTexts) -> float | None:
    """Return the share of the most frequent class of the first file of validation rows."""
    if data.task.labels == ():
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


def _write_predictions(path: Path, data: LabelledTexts, model: nn.Module, rows: Encoded) -> None:
    guessed = _guesses(_all_outputs(model, rows, data.length))
    scored, words = data.task.labels == (), data.vocabulary.words
    named = [f"{value:.3f}" if scored else words[int(value)] for value in guessed]
    lines = (f"{index}\t{name}\n" for index, name in enumerate(named))
    write_text(path, "index\tprediction\n" + "".join(lines))
