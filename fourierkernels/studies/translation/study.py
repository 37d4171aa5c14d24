"""The translation study of "Do You Really Need Attention?", [chen_attention]_ sections 4 and 5.

:mod:`fourierkernels.studies.translation.presets` has its sizes, with the source of each
detail, and :mod:`fourierkernels.studies.translation.translation_measures` what is measured.
Subwords and BLEU need packages that other studies do not: they are loaded when a corpus is read.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fourierkernels.foundation.run_folder import SUBWORDS, read_results
from fourierkernels.models import (
    TRANSLATION_PRESETS,
    TranslationModel,
    translation_config,
    translation_loss,
)
from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.study import (
    Measured,
    Objective,
    PairedStudy,
    Predictions,
    TaughtStudy,
    Terms,
)
from fourierkernels.studies.translation.bleu import check_sacrebleu, signature
from fourierkernels.studies.translation.classes import ENDS, BatchRule, padded_length
from fourierkernels.studies.translation.presets import PRESETS, TranslationPreset
from fourierkernels.studies.translation.translation_measures import numbers_of, validation_sums

if TYPE_CHECKING:
    from fourierkernels.studies.engine.data_sets import DataSet
    from fourierkernels.studies.translation.pair_files import PairFiles
    from fourierkernels.studies.translation.pairs import PairSource

# What a run may change of a placement; all else is of the preset or of the data.
_OPTIONS = (
    *("mixer_options", "decoder_options", "attention_layers", "decoder_attention_layers"),
    *("reader", "reader_options", "source_lengths", "hidden"),
)


class TranslationStudy(
    TaughtStudy[TranslationPreset, "PairFiles", TranslationModel],
    PairedStudy[TranslationPreset, "PairFiles", TranslationModel],
):
    """Models that translate sentences, measured by BLEU and by their guesses of the next token."""

    presets = PRESETS
    uncounted = "translations"
    terms = Terms(place="a folder of sentences and their translations")
    packages = ("tokenizers", "sacrebleu")
    experiment = "translation_report"

    def mixers(self) -> list[str]:
        """Return the placements: which sublayers have which mixer."""
        return list(TRANSLATION_PRESETS)

    def check_mixer(self, mixer: ChosenMixer) -> None:
        """Refuse options that are no choices of a placement.

        Raises
        ------
        TypeError
            If one is not; the message lists those that are.
        """
        for name, value in mixer.options.items():
            if name not in _OPTIONS:
                raise TypeError(
                    f"option of placement {mixer.name} must be one of "
                    f"{', '.join(sorted(_OPTIONS))}, got {name!r}"
                )
            if name.endswith("_options") and not isinstance(value, Mapping):
                raise TypeError(f"{name} must be names and values in braces, got {value!r}")

    def data_sets(self) -> "Mapping[str, DataSet[PairSource]]":
        """Return the corpora of two languages."""
        from fourierkernels.studies.translation.corpora import BITEXTS

        return BITEXTS

    def read(
        self,
        preset: TranslationPreset,
        data: str | Path | None,
        *,
        cache: Path | None = None,
        pair: str | None = None,
    ) -> "PairFiles":
        """Return the pairs of a run."""
        check_sacrebleu()  # before a training whose end needs it
        named = self.named(preset, data)
        from fourierkernels.studies.translation.corpora import read_bitext

        return read_bitext(
            named,
            pair=pair,
            size=preset.most_words,
            longest=preset.longest,
            difference=preset.difference,
            shared=preset.shared,
            folder=cache,
        )

    def build(
        self, preset: TranslationPreset, data: "PairFiles", mixer: ChosenMixer
    ) -> TranslationModel:
        """Return a model with random weights for the subwords of a corpus.

        Sources are padded to the end of their length class, as section 4.1 has them, in any batch.
        A reader of fixed weights advances by the ratio of the lengths in the corpus.
        """
        changes: dict[str, Any] = dict(preset.model)
        size, length = changes.pop("size"), changes["length"]
        placed = TRANSLATION_PRESETS[mixer.name]
        for name, value in mixer.over(preset).options.items():
            default = getattr(placed, name)
            changes[name] = {**default, **value} if isinstance(default, Mapping) else _frozen(value)
        changes["source_vocabulary"] = None if preset.shared else len(data.vocabulary)
        changes.setdefault("source_lengths", _class_ends(length))
        if changes.get("reader", placed.reader) == "hard_gaussian":
            given = changes.get("reader_options", placed.reader_options) or {}
            changes["reader_options"] = {"ratio": round(data.length_ratio, 4), **given}
        return TranslationModel(
            translation_config(mixer.name, size=size, vocabulary=data.outputs, **changes)
        )

    def batches(self, preset: TranslationPreset, data: "PairFiles", recipe: Recipe) -> Epochs:
        """Return the training batches, in the order of the run."""
        from fourierkernels.studies.translation.batches import PairUpdates

        return PairUpdates(
            data,
            steps=recipe.steps,
            batch=recipe.batch,
            rule=BatchRule(preset.budget, preset.offset),
            seed=recipe.seed,
        )

    def objective(self, preset: TranslationPreset, data: "PairFiles", recipe: Recipe) -> Objective:
        """Return the mean smoothed loss per target token, and its validation without smoothing."""
        words, smoothing = data.outputs, recipe.label_smoothing
        if preset.smooths_others:
            smoothing *= words / (words - 1)  # its share of the right word, taken back

        def loss(model: TranslationModel, batch: Batch) -> Tensor:
            sums = translation_loss(model, batch["source"], batch["target"], smoothing=smoothing)
            return sums.smoothed / batch["tokens"].sum()

        def validate(model: TranslationModel, process: int, processes: int) -> tuple[float, ...]:
            rule = BatchRule(preset.budget, preset.offset)
            return validation_sums(model, data, "valid", rule=rule, part=(process, processes))

        return Objective(loss, validate, math.log(words), further=("accuracy",))

    def scores(self, model: TranslationModel, batch: Batch) -> Predictions:
        """Return the logits after each token of a target but those after its end, ``(n, V)``."""
        words = batch["target"][:, 1:]
        kept = words != model.config.padding_id
        logits = model(batch["source"], batch["target"][:, :-1])
        return Predictions(logits[kept], words[kept], batch["tokens"].sum())

    def measure(
        self,
        preset: TranslationPreset,
        data: "PairFiles",
        mixer: str,
        model: TranslationModel,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return perplexity, accuracy and BLEU of a trained model on each split.

        Parameters
        ----------
        positions : int, optional
            Sentences of each split that are translated, evenly spread over its lengths; all by
            default.
        folder : Path, optional
            Where the translations are left, ``translations-SPLIT.csv``.
        """
        papers = (data.corpus, *data.languages) == preset.published_on
        published = preset.published.get(mixer, {}) if papers and positions is None else {}
        return [
            Measured(
                split, metric, value, count, published.get(metric) if split == "test" else None
            )
            for split in splits
            for metric, value, count in numbers_of(
                model, data, split, positions=positions, folder=folder, search=preset.search
            )
        ]

    def measuring(self, preset: TranslationPreset, data: "PairFiles") -> float:
        """Return the tokens whose probabilities are measured, per token of a validation."""
        return (data.counts["valid"] + data.counts["test"]) / data.counts["valid"]

    def prepare(self, folder: Path, data: "PairFiles") -> None:
        """Write the subwords of a run into its folder, and what its pairs are on the terminal."""
        data.bpe.save(folder / SUBWORDS)
        sys.stderr.write("".join(f"{line}\n" for line in remarks(data)))
        sys.stderr.flush()

    def check(self, folder: Path, data: "PairFiles") -> None:
        """Refuse other subwords or, where a run has ended, languages than those of a run."""
        from fourierkernels.studies.translation.bpe import Bpe

        Bpe.load(folder / SUBWORDS).vocabulary.check_same(data.vocabulary, folder)
        known = read_results(folder).get("languages", data.languages)
        if known != data.languages:
            raise ValueError(
                f"data must be from {' to '.join(known)}, as those of {folder}, "
                f"got {' to '.join(data.languages)}"
            )

    def facts(self, preset: TranslationPreset, data: "PairFiles") -> Mapping[str, Any]:
        """Return what the numbers of a run also depend on."""
        return {
            "languages": list(data.languages),
            "pairs": data.pairs,
            "pairs_left_out": {split: dict(counts) for split, counts in data.dropped.items()},
            "held_out_pairs_in_another_split": data.crossing,
            "held_out_copies_of_training_pairs": dict(data.copied),
            "pairs_longer_than_the_model_reads": data.longer(preset.model["length"] - ENDS),
            "budget": preset.budget,
            "sentences_measured": preset.positions,
            "beam": preset.search.beam,
            "length_penalty": preset.search.length_penalty,
            "divisor": preset.search.divisor,
            "bleu": signature(),
        }


STUDY = TranslationStudy()


def remarks(data: "PairFiles") -> Iterator[str]:
    """Yield what was left out of a corpus, what its splits share, and what is unknown in them.

    Copies of training pairs among the held-out ones are told and do not stop a run: published test
    sets have some, and to learn a text by heart is a test of a model; but no number of such pairs
    measures translation.
    """
    yield data.table()
    unknown = (f"{data.unknown[split]:,} of {n:,} ({split})" for split, n in data.counts.items())
    yield f"unknown subwords: {', '.join(unknown)}"
    if data.crossing:
        yield (
            f"{data.crossing:,} held-out pairs have a sentence in another split, but for numbers "
            "and capitals"
        )
    for split, copies in data.copied.items():
        if copies:
            yield (
                f"warning: {copies:,} of {data.pairs[split]:,} pairs of the {split} text are exact "
                "copies of training pairs"
            )


def _class_ends(length: int) -> tuple[int, ...]:
    """Return the lengths to which sources are padded, marks included."""
    return tuple(sorted({padded_length(n) for n in range(length)} & set(range(length + 1))))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
