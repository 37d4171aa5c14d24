"""The translation study of "Do You Really Need Attention?", [chen_attention]_ sections 4 and 5.

:mod:`fourierkernels.studies.translation.presets` has its sizes, with the source of each
detail, and :mod:`fourierkernels.studies.translation.translation_measures` what is measured.
Subwords and BLEU need packages that other studies do not: they are loaded when a corpus is read.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from fourierkernels.foundation.run_folder import SUBWORDS, read_results
from fourierkernels.models import (
    TRANSLATION_PRESETS,
    TranslationModel,
    translation_config,
    translation_loss,
)
from fourierkernels.studies.engine.objective import Objective, Scored
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.engine.study import Preset, Study, Updates
from fourierkernels.studies.translation.bleu import check_sacrebleu, signature
from fourierkernels.studies.translation.classes import BatchRule, padded_length
from fourierkernels.studies.translation.presets import PRESETS
from fourierkernels.studies.translation.translation_measures import (
    BEAM,
    LENGTH_PENALTY,
    measure,
    validation_sums,
)

if TYPE_CHECKING:
    from fourierkernels.studies.engine.data_sets import DataSet
    from fourierkernels.studies.translation.pair_files import PairFiles
    from fourierkernels.studies.translation.pairs import PairSource

# What a run may change of a placement; all else is of the preset or of the data.
_OPTIONS = (
    *("mixer_options", "decoder_options", "attention_layers", "decoder_attention_layers"),
    *("reader", "reader_options", "source_lengths"),
)


def read(preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> "PairFiles":
    """Return the pairs of a run.

    Raises
    ------
    ValueError
        If no folder is named, or it cannot be read.
    ImportError
        If tokenizers or sacrebleu is missing.
    """
    check_sacrebleu()  # before a training whose end needs it
    if data is None:
        raise ValueError(
            "data must be a folder of sentences and their translations: --data FOLDER (--help "
            "says where corpora are had, experiments/data_bitext.py fetches a small one), got none"
        )
    from fourierkernels.studies.translation.corpora import SIZE, read_bitext

    return read_bitext(data, size=preset.most_words or SIZE, folder=cache)


def build(
    preset: Preset, data: "PairFiles", mixer: str, options: Mapping[str, Any]
) -> TranslationModel:
    """Return a model with random weights for the subwords of a corpus.

    Sources are padded to the end of their length class, as section 4.1 has them, in any batch. A
    reader of fixed weights advances by the ratio of the lengths in the corpus.
    """
    changes: dict[str, Any] = dict(preset.model)
    size, length = changes.pop("size"), changes["length"]
    placed = TRANSLATION_PRESETS[mixer]
    for name, value in (dict(preset.mixer_options.get(mixer, {})) | dict(options)).items():
        own = getattr(placed, name)
        changes[name] = {**own, **value} if isinstance(own, Mapping) else _frozen(value)
    changes.setdefault("source_lengths", _class_ends(length))
    if changes.get("reader", placed.reader) == "hard_gaussian":
        own = changes.get("reader_options", placed.reader_options) or {}
        changes["reader_options"] = {"ratio": round(data.length_ratio, 4), **own}
    return TranslationModel(
        translation_config(mixer, size=size, vocabulary=len(data.vocabulary), **changes)
    )


def check_options(mixer: str, options: Mapping[str, Any]) -> None:
    """Refuse options that are no choices of a placement.

    Raises
    ------
    TypeError
        If one is not; the message lists those that are.
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            raise TypeError(
                f"option of placement {mixer} must be one of {', '.join(sorted(_OPTIONS))}, "
                f"got {name!r}"
            )
        if name.endswith("_options") and not isinstance(value, Mapping):
            raise TypeError(f"{name} must be names and values in braces, got {value!r}")


def batches(preset: Preset, data: "PairFiles", recipe: Recipe) -> Updates:
    """Return the training batches, in the order of the run."""
    from fourierkernels.studies.translation.updates import PairUpdates

    return PairUpdates(
        data, steps=recipe.steps, batch=recipe.batch, rule=_rule(preset), seed=recipe.seed
    )


def objective(preset: Preset, data: "PairFiles", recipe: Recipe) -> Objective:
    """Return the mean smoothed loss per target token, and its validation, which is not smoothed."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(model, TranslationModel)
        sums = translation_loss(
            model, batch["source"], batch["target"], smoothing=recipe.label_smoothing
        )
        return sums.smoothed / batch["tokens"].sum()

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, ...]:
        assert isinstance(model, TranslationModel)
        return validation_sums(model, data, "valid", rule=_rule(preset), part=(process, processes))

    return Objective(loss, validate, math.log(len(data.vocabulary)), further=("accuracy",))


def scores(model: nn.Module, batch: Batch) -> Scored:
    """Return the logits after each token of a target but those after its end, ``(n, V)``."""
    assert isinstance(model, TranslationModel)
    words = batch["target"][:, 1:]
    kept = words != model.config.padding_id
    logits = model(batch["source"], batch["target"][:, :-1])
    return Scored(logits[kept], words[kept], batch["tokens"].sum())


def prepare(folder: Path, data: "PairFiles") -> None:
    """Write the subwords of a run into its folder."""
    data.bpe.save(folder / SUBWORDS)


def check(folder: Path, data: "PairFiles") -> None:
    """Refuse a corpus of other subwords or, where a run has ended, languages than those of it."""
    from fourierkernels.studies.translation.bpe import Bpe

    Bpe.load(folder / SUBWORDS).vocabulary.check_same(data.vocabulary, folder)
    known = read_results(folder).get("languages", data.languages)
    if known != data.languages:
        raise ValueError(
            f"data must be from {' to '.join(known)}, as those of {folder}, "
            f"got {' to '.join(data.languages)}"
        )


def facts(preset: Preset, data: "PairFiles") -> Mapping[str, Any]:
    """Return what the numbers of a run also depend on."""
    return {
        "languages": list(data.languages),
        "pairs": data.pairs,
        "budget": preset.budget,
        "sentences_measured": preset.positions,
        "beam": BEAM,
        "length_penalty": LENGTH_PENALTY,
        "bleu": signature(),
    }


def _corpora() -> "Mapping[str, DataSet[PairSource]]":
    from fourierkernels.studies.translation.corpora import BITEXTS

    return BITEXTS


STUDY = Study(
    title='Translation: "Do You Really Need Attention?", tables 2 and 3',
    presets=PRESETS,
    mixers=lambda: list(TRANSLATION_PRESETS),
    read=read,
    build=build,
    batches=batches,
    objective=objective,
    measure=measure,
    facts=facts,
    check_options=check_options,
    prepare=prepare,
    check=check,
    scores=scores,
    packages=("tokenizers", "sacrebleu"),
    data=_corpora,
    experiment="translation_report",
)


def _rule(preset: Preset) -> BatchRule:
    return BatchRule() if preset.budget is None else BatchRule(budget=preset.budget)


def _class_ends(length: int) -> tuple[int, ...]:
    """Return the lengths to which sources are padded, marks included."""
    return tuple(sorted({padded_length(n) for n in range(length)} & set(range(length + 1))))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
